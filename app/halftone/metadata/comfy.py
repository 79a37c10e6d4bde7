"""Reads ComfyUI's graph of nodes in a picture as parameters: back from the saved picture, over its sampler, to the model and the
prompts. Nodes on that way that are not understood are named. It is untrusted.

Form (https://docs.comfy.org): node -> {"class_type": its kind, "inputs": name -> value, or [node, output] of another one}.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from halftone.contract.wording import Words
from halftone.metadata.reading import Parameters, whole_signs

Node = Mapping[str, Any]

PROGRAM: Final = "ComfyUI"
STRANGE: Final = "ComfyUI nodes"
"""The field that names nodes which are not understood."""
_SHOWS: Final = ("SaveImage", "PreviewImage", "SaveAnimatedWEBP", "SaveAnimatedPNG", "SaveImageWebsocket", "Image Save")
_PREVIEWS: Final = "PreviewImage"
_DECODES: Final = ("VAEDecode", "VAEDecodeTiled")
_SAMPLES: Final = ("KSampler", "KSamplerAdvanced", "SamplerCustom", "SamplerCustomAdvanced")
_FILES: Final = ("ckpt_name", "unet_name", "model_name", "gguf_name")
"""Inputs of a loader that name the model's file."""
_ENCODES: Final[dict[str, tuple[str, ...]]] = {
    "CLIPTextEncode": ("text",),
    "CLIPTextEncodeFlux": ("t5xxl", "clip_l"),
    "CLIPTextEncodeSDXL": ("text_g", "text_l"),
    "CLIPTextEncodeSDXLRefiner": ("text",),
    "CLIPTextEncodeSD3": ("t5xxl", "clip_g", "clip_l"),
    "CLIPTextEncodeHunyuanDiT": ("mt5xl", "bert"),
    "BNK_CLIPTextEncodeAdvanced": ("text",),
}
"""Kinds that encode a prompt -> the inputs with its text, the one that counts first."""
_NOTHING: Final = "ConditioningZeroOut"
"""Of models that read no negative prompt."""
_LORAS: Final = ("LoraLoader", "LoraLoaderModelOnly")
_POWER_LORAS: Final = "Power Lora Loader (rgthree)"
_PASSES: Final = ("Reroute", "Reroute (rgthree)")
_LITERALS: Final[dict[str, str]] = {
    "PrimitiveInt": "value", "PrimitiveFloat": "value", "PrimitiveString": "value", "PrimitiveStringMultiline": "value",
    "PrimitiveBoolean": "value", "INTConstant": "value", "FloatConstant": "value", "StringConstant": "string",
    "StringConstantMultiline": "string", "Seed (rgthree)": "seed", "Seed Everywhere": "seed", "CR Seed": "seed",
    "easy seed": "seed", "Text Multiline": "text", "String Literal": "string", "JWInteger": "value", "JWFloat": "value",
    "ttN text": "text", "ttN int": "int", "ttN float": "float", "Int Literal": "int", "Float Literal": "float",
}  # fmt: skip
"""Kinds whose output is one of their inputs."""
_EMPTY: Final = re.compile(r"Empty\w*Latent\w*")
_SCHEDULES: Final = {
    "KarrasScheduler": "karras", "ExponentialScheduler": "exponential", "PolyexponentialScheduler": "polyexponential",
    "AlignYourStepsScheduler": "align_your_steps", "SDTurboScheduler": "turbo", "BetaSamplingScheduler": "beta",
}  # fmt: skip
_MOST: Final = 64
"""Nodes in a chain."""
_ALL: Final = 10_000
"""More steps than there are: ComfyUI's own default for the end."""
_LARGEST: Final = 2**64
"""The end of ComfyUI's seeds."""
_EMBEDDING: Final = re.compile(r"\bembedding:(?=\S)")


class NotPlainError(Exception):
    """Names why a graph cannot be read, in a part of a sentence."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.words = words


class _Sampling(NamedTuple):
    """What one sampler says, and the nodes that it is given. start: the share of the way that it leaves out."""

    fields: dict[str, Any]
    model: Node
    positive: Node
    negative: Node | None
    latent: Node | None
    denoise: float


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
        self._strange: dict[str, None] = {}

    def parameters(self) -> Parameters:
        decoder, last = self._last_sampler()
        first, hires = self._passes(last)
        if _kind(last) == "KSamplerAdvanced" and self._number(last, "end_at_step", _ALL) < self._number(last, "steps"):
            self._note(last)  # it stops before the end
        said = self._sampling(first)
        prompt, guidance = self._prompt(said.positive)
        negative = "" if said.negative is None else self._prompt(said.negative)[0]
        name, loras, changes = self._model(said.model)
        fields = {
            **said.fields,
            **self._canvas(said),
            "Model": name,
            "VAE": self._vae(decoder),
            "Clip skip": self._clip_skip(said.positive),
            "Distilled CFG Scale": guidance,
            **changes,
            **hires,
            "Version": PROGRAM,
            STRANGE: ", ".join(self._strange),
        }
        told = {name: whole_signs(str(value)) for name, value in fields.items() if value not in (None, "")}
        return Parameters(prompt=" ".join((prompt, *loras)), negative=negative, fields=told)

    # --- from the saved picture to its samplers -----------------------------------------------------------------------

    def _last_sampler(self) -> tuple[Node | None, Node]:
        """(the decoder, the sampler) of the saved picture."""
        shown = [node for node in self._nodes.values() if _kind(node) in _SHOWS and self._behind(node, "images") is not None]
        saved = [node for node in shown if _kind(node) != _PREVIEWS] or shown
        found = {id(sampler): (decoder, sampler) for decoder, sampler in map(self._to_sampler, saved)}
        if len(found) != 1:
            raise NotPlainError(Words("it saves several pictures") if found else Words("it saves no picture"))
        return next(iter(found.values()))

    def _to_sampler(self, node: Node) -> tuple[Node | None, Node]:
        """Walk back over what was done to the picture after it was sampled."""
        decoder: Node | None = None
        names = ("images", "image", "pixels", "samples", "latent")
        for _ in range(_MOST):
            found = next((to for one in names if (to := self._behind(node, one)) is not None), None)
            if found is None:
                raise NotPlainError(Words("it has the node {0}", (_kind(node),)))
            node = found
            if _kind(node) in _SAMPLES:
                return decoder, node
            if _kind(node) in _DECODES:
                decoder = decoder or node
            else:
                self._note(node)
        raise NotPlainError(Words("it has the node {0}", (_kind(node),)))

    def _passes(self, last: Node) -> tuple[Node, dict[str, Any]]:
        """(the sampler that began, the fields of Hires. fix where another one went over its picture)."""
        node = self._behind(last, "latent_image")
        scale: Any = None
        upscaler = "Latent"
        for _ in range(_MOST):
            if node is None or _kind(node).startswith("LoadImage") or _EMPTY.fullmatch(_kind(node)):
                return last, {}
            if _kind(node) in _SAMPLES:
                break
            match _kind(node):
                case "LatentUpscaleBy" | "ImageScaleBy" if not isinstance(scale, str):
                    scale = (scale or 1) * self._number(node, "scale_by")
                case "ImageUpscaleWithModel":
                    upscaler = _stem(self._text(self._needed(node, "upscale_model"), "model_name"))
                    scale = _enlarged(scale, upscaler)
                case "LatentUpscale" | "ImageScale" if scale is None:
                    scale = f"{self._number(node, 'width')}x{self._number(node, 'height')}"
                case "VAEEncode" | "VAEEncodeTiled" | "VAEDecode" | "VAEDecodeTiled":
                    pass
                case _:
                    self._note(node)
            names = ("samples", "pixels", "image", "images", "latent", "latent_image")
            node = next((to for name in names if (to := self._behind(node, name)) is not None), None)
        else:
            return last, {}
        assert node is not None
        second = self._sampling(last)
        if _kind(last) == "KSamplerAdvanced" and scale is None:
            return node, self._refined(node, second)
        first, before = self._passes(node)
        if before:
            self._note(last)
            return first, before
        return first, {
            "Hires resize" if isinstance(scale, str) else "Hires upscale": 1 if scale is None else scale or None,
            "Hires steps": second.fields.get("Steps"),
            "Hires upscaler": upscaler,
            "Denoising strength": second.denoise,
        }

    def _refined(self, first: Node, second: _Sampling) -> dict[str, Any]:
        """Two samplers that share one row of steps: the refiner of SDXL."""
        steps = self._number(first, "steps")
        at = self._number(first, "end_at_step", _ALL)
        name = self._model(second.model)[0]
        same = name == self._model(self._sampling(first).model)[0]
        return {} if same else {"Refiner": name, "Refiner switch at": round(min(at / steps, 1), 4) if steps else None}

    # --- samplers -----------------------------------------------------------------------------------------------------

    def _sampling(self, node: Node) -> _Sampling:
        if _kind(node) == "SamplerCustomAdvanced":
            return self._guided(node)
        return self._custom(node) if _kind(node) == "SamplerCustom" else self._plain(node)

    def _plain(self, node: Node) -> _Sampling:
        advanced = _kind(node) == "KSamplerAdvanced"
        steps = self._number(node, "steps")
        start = self._number(node, "start_at_step", 0) if advanced else 0
        fields = {
            "Steps": steps,
            "Sampler": self._text(node, "sampler_name"),
            "Schedule type": self._text(node, "scheduler"),
            "CFG scale": self._number(node, "cfg"),
            "Seed": self._number(node, "noise_seed" if advanced else "seed"),
        }
        left = 1 - min(start / steps, 1) if steps else 1
        return self._with_nodes(node, node, fields, left if advanced else self._number(node, "denoise", 1))

    def _custom(self, node: Node) -> _Sampling:
        fields, denoise = self._schedule(self._needed(node, "sigmas"))
        fields |= {
            "Sampler": self._sampler_name(self._needed(node, "sampler")),
            "CFG scale": self._number(node, "cfg"),
            "Seed": self._number(node, "noise_seed"),
        }
        return self._with_nodes(node, node, fields, denoise)

    def _guided(self, node: Node) -> _Sampling:
        guider = self._needed(node, "guider")
        if _kind(guider) not in ("CFGGuider", "BasicGuider"):
            self._note(guider)
        fields, denoise = self._schedule(self._needed(node, "sigmas"))
        fields |= {
            "Sampler": self._sampler_name(self._needed(node, "sampler")),
            "CFG scale": self._number(guider, "cfg", 1),
            "Seed": self._number(self._needed(node, "noise"), "noise_seed"),
        }
        return self._with_nodes(node, guider, fields, denoise)

    def _with_nodes(self, node: Node, guider: Node, fields: dict[str, Any], denoise: float) -> _Sampling:
        one = "conditioning" if _kind(guider) == "BasicGuider" else "positive"
        return _Sampling(
            fields,
            self._needed(guider, "model"),
            self._needed(guider, one),
            self._behind(guider, "negative"),
            self._behind(node, "latent_image"),
            denoise,
        )

    def _schedule(self, sigmas: Node) -> tuple[dict[str, Any], float]:
        """(steps and schedule, denoising strength) of a node that makes sigmas."""
        kind = _kind(sigmas)
        if kind != "BasicScheduler" and kind not in _SCHEDULES:
            raise NotPlainError(Words("it has the node {0}", (kind,)))
        name = self._text(sigmas, "scheduler") if kind == "BasicScheduler" else _SCHEDULES[kind]
        return {"Steps": self._number(sigmas, "steps"), "Schedule type": name}, self._number(sigmas, "denoise", 1)

    def _sampler_name(self, node: Node) -> str:
        if _kind(node) == "KSamplerSelect":
            return self._text(node, "sampler_name")
        raise NotPlainError(Words("it has the node {0}", (_kind(node),)))

    def _canvas(self, said: _Sampling) -> dict[str, Any]:
        """The size, and how much of a start picture was kept."""
        node = said.latent
        if node is not None and _EMPTY.fullmatch(_kind(node)):
            several = self._number(node, "batch_size", 1)
            size = f"{self._number(node, 'width')}x{self._number(node, 'height')}"
            begun = {} if said.denoise == 1 else {"Denoising strength": said.denoise}
            return {"Size": size, "Batch size": None if several == 1 else several, **begun}
        start: Node | None = node
        for _ in range(_MOST):
            if start is None or _kind(start).startswith("LoadImage"):
                break
            if _kind(start) not in ("VAEEncode", "VAEEncodeTiled", "VAEEncodeForInpaint", "SetLatentNoiseMask", *_PASSES):
                self._note(start)
            names = ("samples", "pixels", "image", "images", "latent")
            start = next((to for name in names if (to := self._behind(start, name)) is not None), None)
        name = "?" if start is None else self._text(start, "image")
        return {"Start picture": name, "Denoising strength": said.denoise}

    # --- the model and the prompts ------------------------------------------------------------------------------------

    def _model(self, node: Node) -> tuple[str, list[str], dict[str, Any]]:
        """(the model's file, its LoRAs as A1111 writes them, in order, what else changes it)."""
        loras: list[str] = []
        changes: dict[str, Any] = {}
        for _ in range(_MOST):
            for name in _FILES:
                if isinstance(_inputs(node).get(name), str):
                    return self._text(node, name), loras, changes
            loras[:0] = self._loras(node, changes)
            behind = self._behind(node, "model")
            if behind is None:
                break
            node = behind
        raise NotPlainError(Words("it has the node {0}", (_kind(node),)))

    def _loras(self, node: Node, changes: dict[str, Any]) -> list[str]:
        match _kind(node):
            case kind if kind in _LORAS:
                return [self._lora(node, changes)]
            case kind if kind == _POWER_LORAS:
                rows = [row for name, row in _inputs(node).items() if name.startswith("lora_") and isinstance(row, dict)]
                return [_tag(str(row.get("lora")), row.get("strength")) for row in rows if row.get("on") and row.get("lora")]
            case "ModelSamplingSD3" | "ModelSamplingAuraFlow":
                changes["Shift"] = self._number(node, "shift")
            case "RescaleCFG":
                changes["CFG rescale"] = self._number(node, "multiplier")
            case _:
                self._note(node)
        return []

    def _lora(self, node: Node, changes: dict[str, Any]) -> str:
        """A LoRA in A1111's words; a weight of its own for the text encoder is named beside it."""
        name = self._text(node, "lora_name")
        model = self._number(node, "strength_model", 1)
        words = self._number(node, "strength_clip", 1) if _kind(node) == "LoraLoader" else model
        if words != model:
            changes[f"LoRA {_stem(name)} in the text encoder"] = f"{words:g}"
        return _tag(name, model)

    def _prompt(self, node: Node) -> tuple[str, int | float | None]:
        """(the text, the guidance of models that learnt it)."""
        guidance: int | float | None = None
        for _ in range(_MOST):
            kind = _kind(node)
            if kind == _NOTHING:
                return "", guidance
            if kind in _ENCODES:
                if kind == "CLIPTextEncodeFlux":
                    guidance = guidance or self._number(node, "guidance")
                return self._encoded(node), guidance
            if kind == "FluxGuidance":
                guidance = guidance or self._number(node, "guidance")
            else:
                self._note(node)
            names = ("conditioning", "positive", "conditioning_1", "conditioning_to")
            behind = next((to for name in names if (to := self._behind(node, name)) is not None), None)
            if behind is None:
                break
            node = behind
        raise NotPlainError(Words("it has the node {0}", (_kind(node),)))

    def _encoded(self, node: Node) -> str:
        """The text of an encoder; a second one that differs is named."""
        texts = [self._text(node, name) for name in _ENCODES[_kind(node)] if name in _inputs(node)]
        if not texts:
            raise NotPlainError(Words("the node {0} has no {1}", (_kind(node), "text")))
        if len(set(texts)) > 1:
            self._note(node)
        return _EMBEDDING.sub("", next(filter(None, texts), ""))

    def _clip_skip(self, node: Node) -> int | None:
        """Look behind the prompt, over LoRAs, for what leaves out layers of the text encoder."""
        found: Node | None = node
        for _ in range(_MOST):
            if found is None:
                return None
            if _kind(found) == "CLIPSetLastLayer":
                return abs(int(self._number(found, "stop_at_clip_layer")))
            names = ("clip",) if self._behind(found, "clip") is not None else ("conditioning", "positive", "conditioning_1")
            found = next((to for name in names if (to := self._behind(found, name)) is not None), None)
        return None

    def _vae(self, decoder: Node | None) -> str | None:
        vae = None if decoder is None else self._behind(decoder, "vae")
        return self._text(vae, "vae_name") if vae is not None and _kind(vae) == "VAELoader" else None

    # --- values -------------------------------------------------------------------------------------------------------

    def _note(self, node: Node) -> None:
        if _kind(node) not in _PASSES:
            self._strange[_kind(node)] = None

    def _behind(self, node: Node, name: str) -> Node | None:
        """The node of an input, over those that only pass it on."""
        found: Any = node
        for _ in range(_MOST):
            link = _inputs(found).get(name)
            found = self._nodes.get(str(cast("Any", link)[0])) if isinstance(link, list) and link else None
            if found is None or _kind(found) not in _PASSES:
                return found
            name = next(iter(_inputs(found)), "")
        return None

    def _needed(self, node: Node, name: str) -> Node:
        found = self._behind(node, name)
        if found is None:
            raise NotPlainError(Words("the node {0} has no {1}", (_kind(node), name)))
        return found

    def _value(self, node: Node, name: str) -> Any:
        """An input, or what another node that only holds a value gives to it."""
        value = _inputs(node).get(name)
        if not isinstance(value, list):
            return value
        behind = self._behind(node, name)
        for _ in range(_MOST):
            if behind is None or _kind(behind) not in _LITERALS:
                break
            inner = _LITERALS[_kind(behind)]
            value = _inputs(behind).get(inner)
            if not isinstance(value, list):
                return value
            behind = self._behind(behind, inner)
        return None

    def _text(self, node: Node, name: str) -> str:
        found = self._value(node, name)
        if not isinstance(found, str):
            raise NotPlainError(Words("{0} of the node {1} comes from another node", (name, _kind(node))))
        return whole_signs(found).strip()

    def _number(self, node: Node, name: str, usual: int | None = None) -> int | float:
        found = self._value(node, name)
        if found is None and name not in _inputs(node):
            if usual is None:
                raise NotPlainError(Words("the node {0} has no {1}", (_kind(node), name)))
            return usual
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise NotPlainError(Words("{0} of the node {1} comes from another node", (name, _kind(node))))
        if not abs(found) <= _LARGEST:
            raise NotPlainError(Words("{0} of the node {1} is out of range", (name, _kind(node))))
        return found


def _kind(node: object) -> str:
    """A node's kind, safe in a sentence."""
    kind = cast("dict[str, Any]", node).get("class_type") if isinstance(node, dict) else None
    return kind[:48] if isinstance(kind, str) and kind.isprintable() else "?"


def _inputs(node: Any) -> Node:
    found = cast("dict[str, Any]", node).get("inputs") if isinstance(node, dict) else None
    return cast("Node", found) if isinstance(found, dict) else {}


def _enlarged(scale: Any, upscaler: str) -> Any:
    """The scale with that of an upscale model, which only its name says; 0 where that is not known."""
    if isinstance(scale, str):
        return scale
    factor = re.search(r"(?<![a-z0-9])(?:([2-8])x|x([2-8]))(?![0-9])", upscaler.casefold())
    return 0 if factor is None else (1 if scale is None else scale) * int(factor[1] or factor[2])


def _stem(name: str) -> str:
    return re.sub(r"\.(safetensors|pt|pth|ckpt|sft)$", "", name.replace("\\", "/").rpartition("/")[2])


def _tag(name: str, weight: object) -> str:
    number = weight if isinstance(weight, int | float) and abs(weight) <= _LARGEST else 1
    return f"<lora:{_stem(whole_signs(name))}:{number:g}>"
