"""Reads ComfyUI's graph of nodes in a picture as parameters where it is the plain one: a model, two prompts, an empty picture,
one KSampler, a decoder. It is untrusted.

Form (https://docs.comfy.org): node -> {"class_type": its kind, "inputs": name -> value, or [node, output] of another one}.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from halftone.contract.wording import Words
from halftone.metadata.reading import Parameters, whole_signs

Node = Mapping[str, Any]

PROGRAM: Final = "ComfyUI"
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
"""The end of ComfyUI's seeds."""
_EMBEDDING: Final = re.compile(r"\bembedding:(?=\S)")


class NotPlainError(Exception):
    """Names what is not plain, in a part of a sentence."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.words = words


def parameters_of(graph: str) -> Parameters:
    """Read the JSON in the text chunk "prompt". Raises NotPlainError."""
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
            raise NotPlainError(Words("it uses image to image"))
        model, loras = self._model(sampler)
        _, clip = self._chain(self._linked(sampler, "positive", (_ENCODES,)), "clip", "LoraLoader")
        vae = self._behind(decoder, "vae")
        prompt, negative = (self._prompt(sampler, name) for name in ("positive", "negative"))
        fields = {
            "Steps": _number(sampler, "steps"),
            "Sampler": _text(sampler, "sampler_name"),
            "Schedule type": _text(sampler, "scheduler"),
            "CFG scale": _number(sampler, "cfg"),
            "Seed": _number(sampler, "seed"),
            "Size": f"{_number(canvas, 'width')}x{_number(canvas, 'height')}",
            "Model": _text(model, _LOADS[_kind(model)]),
            "VAE": _text(vae, "vae_name") if vae is not None and _kind(vae) == "VAELoader" else None,
            "Clip skip": abs(int(_number(clip, "stop_at_clip_layer"))) if _kind(clip) == "CLIPSetLastLayer" else None,
            "Version": PROGRAM,
            "Batch size": None if (several := _number(canvas, "batch_size", 1)) == 1 else several,
        }
        told = {name: str(value) for name, value in fields.items() if value is not None}
        return Parameters(prompt=" ".join((prompt, *loras)), negative=negative, fields=told)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _decoder(self) -> Node:
        """The only decoder of the saved pictures."""
        shown = [node for node in self._nodes.values() if _kind(node) in _SHOWS]
        found = {id(node): node for node in (self._linked(one, "images", _DECODES) for one in shown)}
        if len(found) != 1:
            raise NotPlainError(Words("it saves several pictures") if found else Words("it saves no picture"))
        return next(iter(found.values()))

    def _linked(self, node: Node, name: str, kinds: tuple[str, ...]) -> Node:
        """The node of an input, which must be of one of the kinds."""
        found = self._behind(node, name)
        if found is None:
            raise NotPlainError(Words("the node {0} has no {1}", (_kind(node), name)))
        if _kind(found) not in kinds:
            raise NotPlainError(Words("it has the node {0}", (_kind(found),)))
        return found

    def _behind(self, node: Node, name: str) -> Node | None:
        link = _inputs(node).get(name)
        return self._nodes.get(str(cast("Any", link)[0])) if isinstance(link, list) and link else None

    def _chain(self, node: Node, name: str, through: str) -> tuple[list[Node], Node]:
        """(the nodes of the kind `through` between, the first node)."""
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
        """The loader, and its LoRAs as A1111 writes them, in order."""
        between, model = self._chain(sampler, "model", "LoraLoader")
        if _kind(model) not in _LOADS:
            raise NotPlainError(Words("it has the node {0}", (_kind(model),)))
        return model, [_lora(node) for node in reversed(between)]

    def _prompt(self, sampler: Node, name: str) -> str:
        node = self._linked(sampler, name, (_ENCODES, _NOTHING) if name == "negative" else (_ENCODES,))
        return "" if _kind(node) == _NOTHING else _EMBEDDING.sub("", _text(node, "text"))


def _kind(node: object) -> str:
    """A node's kind, safe in a sentence."""
    kind = cast("dict[str, Any]", node).get("class_type") if isinstance(node, dict) else None
    return kind[:48] if isinstance(kind, str) and kind.isprintable() else "?"


def _inputs(node: Node) -> Node:
    found = node.get("inputs")
    return cast("Node", found) if isinstance(found, dict) else {}


def _text(node: Node, name: str) -> str:
    found = _inputs(node).get(name)
    if not isinstance(found, str):
        raise NotPlainError(Words("{0} of the node {1} comes from another node", (name, _kind(node))))
    return whole_signs(found).strip()


def _number(node: Node, name: str, usual: int | None = None) -> int | float:
    found = _inputs(node).get(name, usual)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise NotPlainError(Words("{0} of the node {1} comes from another node", (name, _kind(node))))
    if not abs(found) <= _LARGEST:
        raise NotPlainError(Words("{0} of the node {1} is out of range", (name, _kind(node))))
    return found


def _lora(node: Node) -> str:
    """A LoRA in A1111's words, whose one weight has to be both of the node's."""
    model, words = (_number(node, f"strength_{part}", 1) for part in ("model", "clip"))
    if model != words:
        raise NotPlainError(Words("it has a LoRA with two strengths"))
    name = re.sub(r"\.safetensors$", "", _text(node, "lora_name").replace("\\", "/").rpartition("/")[2])
    return f"<lora:{name}:{model:g}>"
