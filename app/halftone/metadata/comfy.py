"""ComfyUI's graph of nodes, as it stands in a picture, read as parameters where it is the plain one: a model, two prompts, an
empty picture, one KSampler, a decoder. It is untrusted.

https://docs.comfy.org has the form: node -> {"class_type": its kind, "inputs": name -> value, or [node, output] of another one}.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from halftone.contract.wording import Words
from halftone.metadata.reading import Parameters, whole_signs

Node = Mapping[str, Any]

_SHOWS: Final = ("SaveImage", "PreviewImage", "SaveAnimatedWEBP")
_DECODES: Final = ("VAEDecode", "VAEDecodeTiled")
_EMPTY: Final = ("EmptyLatentImage", "EmptySD3LatentImage")
_LOADS: Final = {"CheckpointLoaderSimple": "ckpt_name", "UNETLoader": "unet_name", "UnetLoaderGGUF": "unet_name"}
_SAMPLES: Final = "KSampler"
_ENCODES: Final = "CLIPTextEncode"
_NOTHING: Final = "ConditioningZeroOut"
"""Of models that read no negative prompt."""
_MOST: Final = 64
"""Nodes in a chain."""
_LARGEST: Final = 2**64
"""ComfyUI's seeds end there."""
_EMBEDDING: Final = re.compile(r"\bembedding:(?=\S)")


class NotPlainError(Exception):
    """Says in a part of a sentence what is not plain."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.words = words


def parameters_of(graph: str) -> Parameters:
    """Of the JSON in the text chunk "prompt". Raises NotPlainError."""
    try:
        nodes = json.loads(graph)
    except (ValueError, RecursionError) as error:
        raise NotPlainError(Words("its text is damaged")) from error
    return _Graph(nodes if isinstance(nodes, dict) else {}).parameters()


class _Graph:
    def __init__(self, nodes: dict[str, Any]) -> None:
        self._nodes = nodes

    def parameters(self) -> Parameters:
        decoder = self._decoder()
        sampler = self._linked(decoder, "samples", (_SAMPLES,))
        canvas = self._linked(sampler, "latent_image", _EMPTY)
        if _number(sampler, "denoise", 1) != 1:
            raise NotPlainError(Words("it draws over another picture"))
        model, loras = self._model(sampler)
        prompt, negative = (self._prompt(sampler, name) for name in ("positive", "negative"))
        fields = {
            "Steps": _number(sampler, "steps"),
            "Sampler": _text(sampler, "sampler_name"),
            "Schedule type": _text(sampler, "scheduler"),
            "CFG scale": _number(sampler, "cfg"),
            "Seed": _number(sampler, "seed"),
            "Size": f"{_number(canvas, 'width')}x{_number(canvas, 'height')}",
            "Model": _text(model, _LOADS[_kind(model)]),
            "VAE": self._vae(decoder),
            "Clip skip": self._clip_skip(sampler),
            "Batch size": None if (several := _number(canvas, "batch_size", 1)) == 1 else several,
        }
        told = {name: str(value) for name, value in fields.items() if value is not None}
        return Parameters(prompt=" ".join((prompt, *loras)), negative=negative, fields=told)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _decoder(self) -> Node:
        """That of the picture which was saved; there is only one."""
        shown = [node for node in self._nodes.values() if _kind(node) in _SHOWS]
        found = {id(node): node for node in (self._linked(one, "images", _DECODES) for one in shown)}
        if len(found) != 1:
            raise NotPlainError(Words("it saves several pictures") if found else Words("no node saves its picture"))
        return next(iter(found.values()))

    def _linked(self, node: Node, name: str, kinds: tuple[str, ...]) -> Node:
        """The node that an input comes from, which has to be of one of the kinds."""
        found = self._behind(node, name)
        if found is None or _kind(found) not in kinds:
            raise NotPlainError(
                Words("it has the node {0}", (_kind(found),))
                if found is not None
                else Words("the node {0} has no {1}", (_kind(node), name))
            )
        return found

    def _behind(self, node: Node, name: str) -> Node | None:
        link = _inputs(node).get(name)
        return self._nodes.get(str(cast("Any", link)[0])) if isinstance(link, list) and link else None

    def _chain(self, node: Node, name: str, through: str) -> tuple[list[Node], Node]:
        """(the nodes of the kind `through` between, what they begin with)."""
        between: list[Node] = []
        found = self._behind(node, name)
        while found is not None and _kind(found) == through and len(between) < _MOST:
            between.append(found)
            found = self._behind(found, name)
        if found is None:
            raise NotPlainError(Words("the node {0} has no {1}", (_kind(node), name)))
        return between, found

    # --- what they say ------------------------------------------------------------------------------------------------

    def _model(self, sampler: Node) -> tuple[Node, list[str]]:
        """The loader, and the LoRAs behind it as A1111 writes them, in the order in which they are added."""
        between, model = self._chain(sampler, "model", "LoraLoader")
        if _kind(model) not in _LOADS:
            raise NotPlainError(Words("it has the node {0}", (_kind(model),)))
        return model, [_lora(node) for node in reversed(between)]

    def _prompt(self, sampler: Node, name: str) -> str:
        node = self._linked(
            sampler, name, ("CLIPTextEncode", "ConditioningZeroOut") if name == "negative" else ("CLIPTextEncode",)
        )
        return "" if _kind(node) == "ConditioningZeroOut" else _EMBEDDING.sub("", _text(node, "text"))

    def _clip_skip(self, sampler: Node) -> int | None:
        encoder = self._linked(sampler, "positive", (_ENCODES,))
        _, first = self._chain(encoder, "clip", "LoraLoader")
        return abs(int(_number(first, "stop_at_clip_layer"))) if _kind(first) == "CLIPSetLastLayer" else None

    def _vae(self, decoder: Node) -> str | None:
        own = self._behind(decoder, "vae")
        return _text(own, "vae_name") if own is not None and _kind(own) == "VAELoader" else None


def _kind(node: object) -> str:
    """As it stands in a sentence, however it was written."""
    kind = cast("dict[str, Any]", node).get("class_type") if isinstance(node, dict) else None
    return kind[:48] if isinstance(kind, str) and kind.isprintable() else "?"


def _inputs(node: Node) -> Node:
    found = node.get("inputs")
    return cast("Node", found) if isinstance(found, dict) else {}


def _text(node: Node, name: str) -> str:
    found = _inputs(node).get(name)
    if not isinstance(found, str):
        raise NotPlainError(Words("{0} of the node {1} comes from another one", (name, _kind(node))))
    return whole_signs(found).strip()


def _number(node: Node, name: str, usual: int | None = None) -> int | float:
    found = _inputs(node).get(name, usual)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise NotPlainError(Words("{0} of the node {1} comes from another one", (name, _kind(node))))
    if not abs(found) <= _LARGEST:
        raise NotPlainError(Words("{0} of the node {1} is not a number that it can be", (name, _kind(node))))
    return found


def _lora(node: Node) -> str:
    """Only one weight can be told, which has to be both."""
    model, words = (_number(node, f"strength_{part}", 1) for part in ("model", "clip"))
    if model != words:
        raise NotPlainError(Words("it has a LoRA with two strengths"))
    name = re.sub(r"\.safetensors$", "", _text(node, "lora_name").replace("\\", "/").rpartition("/")[2])
    return f"<lora:{name}:{model:g}>"
