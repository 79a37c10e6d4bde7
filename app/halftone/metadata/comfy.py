"""Reads ComfyUI's graph of nodes in a picture as parameters: back from the saved picture, over its sampler, to the model and the
prompts. Nodes on that way that are not understood are named. It is untrusted.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from halftone.contract.wording import Words
from halftone.metadata.comfy_graph import EMPTY, LARGEST, MOST, Graph, Node, NotPlainError, Place, inputs_of, kind_of
from halftone.metadata.comfy_sampling import Sampling, sampling_of
from halftone.metadata.comfy_workflow import is_workflow, prompt_form
from halftone.metadata.parameters import EMPTY_NEGATIVE
from halftone.metadata.reading import SYNTAX, Parameters, whole_signs

PROGRAM: Final = "ComfyUI"
STRANGE: Final = "ComfyUI nodes"
"""The field that names nodes which are not understood."""
_SAVES: Final = ("SaveImage", "SaveAnimatedWEBP", "SaveAnimatedPNG", "SaveImageWebsocket", "Image Save")
_PREVIEWS: Final = "PreviewImage"
_SHOWN: Final = ("images", "image")
"""Inputs of nodes that save or show a picture."""
_DECODES: Final = ("VAEDecode", "VAEDecodeTiled")
_ENCODES_PICTURE: Final = ("VAEEncode", "VAEEncodeTiled", "VAEEncodeForInpaint", "SetLatentNoiseMask")
_SAMPLES: Final = ("KSampler", "KSamplerAdvanced", "SamplerCustom", "SamplerCustomAdvanced", "KSampler (Efficient)")
_ALL_IN_ONE: Final = "Efficient Loader"
"""Model, one LoRA, both prompts and the size in one node."""
_FILES: Final = ("ckpt_name", "unet_name", "model_name", "gguf_name", "model_path")
"""Inputs of a loader that name the model's file."""
_ENCODES: Final[dict[str, tuple[str, ...]]] = {
    "CLIPTextEncode": ("text",),
    "CLIPTextEncodeFlux": ("t5xxl", "clip_l"),
    "CLIPTextEncodeSDXL": ("text_g", "text_l"),
    "CLIPTextEncodeSDXLRefiner": ("text",),
    "CLIPTextEncodeSD3": ("t5xxl", "clip_g", "clip_l"),
    "CLIPTextEncodeHunyuanDiT": ("mt5xl", "bert"),
    "CLIPTextEncodeLumina2": ("user_prompt",),
    "BNK_CLIPTextEncodeAdvanced": ("text",),
    "TextEncodeQwenImageEdit": ("prompt",),
    "TextEncodeQwenImageEditPlus": ("prompt",),
    "TextEncodeHunyuanVideo_ImageToVideo": ("prompt",),
}
"""Kinds that encode a prompt -> the inputs with its text, the one that counts first."""
_WITH_MORE: Final = (
    "CLIPTextEncodeLumina2", "TextEncodeQwenImageEdit", "TextEncodeQwenImageEditPlus", "TextEncodeHunyuanVideo_ImageToVideo",
)  # fmt: skip
"""Those that encode something else beside it."""
_SKIPS: Final = "CLIPSetLastLayer"
_NOTHING: Final = "ConditioningZeroOut"
"""Of models that read no negative prompt."""
_LORA: Final = "LoraLoader"
_MODEL_LORA: Final = "LoraLoaderModelOnly"
_LORAS: Final = (_LORA, _MODEL_LORA)
_POWER_LORAS: Final = "Power Lora Loader (rgthree)"
_NEGATIVE: Final = {_ALL_IN_ONE: 2, "KSampler (Efficient)": 2}
"""Kinds -> the output with the negative prompt; 1 of all others with two prompts."""
_MODEL: Final = re.compile(r"\.(?:safetensors|ckpt|sft|gguf|pth?)$", re.IGNORECASE)
_BACK: Final = ("samples", "pixels", "image", "images", "latent", "latent_image")
"""Inputs behind which the picture was before."""
_PICTURES: Final = ("images", "image", "pixels", "samples", "latent", "destination", "source", "image1", "image2")
_CONDITIONS: Final = ("conditioning", "positive", "conditioning_1", "conditioning_to")
_FLUX_SHIFT: Final = (1.15, 0.5)
"""The largest and the least shift of FLUX.1, which its own files have too."""
_INTERPOLATES: Final = ("LatentUpscaleBy", "LatentUpscale", "ImageScaleBy", "ImageScale")
_WAYS: Final = {
    (True, "lanczos"): "Lanczos", (True, "nearest-exact"): "Nearest", (False, "bilinear"): "Latent",
    (False, "nearest-exact"): "Latent (nearest-exact)", (False, "bicubic"): "Latent (bicubic)",
}  # fmt: skip
"""(of pixels, the way in ComfyUI) -> A1111's upscaler."""
_DRAWS: Final = re.compile("sde|ancestral|lcm|seeds|ddpm|sa_solver")
"""In the names of samplers that add noise at their steps."""
_AGAIN: Final = {"Sampler": "sampler", "Schedule type": "schedule type", "CFG scale": "CFG Scale", "Seed": "seed"}
"""Fields of a sampler -> what A1111 calls them for a second pass."""
_GRAIN: Final = 16
"""Pixels by which sizes differ for rounding."""


def parameters_of(graph: str, size: tuple[int, int] | None = None) -> Parameters:
    """Read the JSON in the text chunk "prompt" or "workflow". size: the picture's, which tells it from others that the same
    graph saves. Raises NotPlainError.
    """
    try:
        found = json.loads(graph)
    except (ValueError, RecursionError) as error:
        raise NotPlainError(Words("its text is damaged")) from error
    nodes = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    nodes = prompt_form(nodes) if is_workflow(nodes) else nodes
    ways = {id(way.last): way for way in (_Way(nodes, shown) for shown in _saved(nodes))}
    if not ways:
        raise NotPlainError(Words("it saves no picture"))
    if len(ways) == 1:
        return next(iter(ways.values())).parameters()
    if len(ways) > MOST:
        raise NotPlainError(Words("it saves several pictures"))
    fitting = [said for way in ways.values() if _fits(said := way.parameters(), size)]
    if len(fitting) != 1:
        raise NotPlainError(Words("it saves several pictures"))
    return fitting[0]


def _saved(nodes: dict[str, Any]) -> list[Node]:
    """The nodes that save a picture; where none is known, those that have one and give nothing; else those that show one."""
    having = {name: node for name, node in nodes.items() if any(isinstance(inputs_of(node).get(one), list) for one in _SHOWN)}
    taken = {str(link[0]) for node in nodes.values() for link in inputs_of(node).values() if isinstance(link, list) and link}
    saving = [node for node in having.values() if kind_of(node) in _SAVES]
    ends = [node for name, node in having.items() if name not in taken and kind_of(node) != _PREVIEWS]
    return saving or ends or [node for node in having.values() if kind_of(node) == _PREVIEWS]


def _fits(said: Parameters, size: tuple[int, int] | None) -> bool:
    """Whether a picture of this size can be the one that is described."""
    edges = said.fields.get("Hires resize", said.fields.get("Size", "")).split("x")
    scale = float(said.fields.get("Hires upscale", 1))
    return (
        size is not None
        and len(edges) == len(size)
        and all(abs(float(edge) * scale - own) < _GRAIN for edge, own in zip(edges, size, strict=True))
    )


class _Said(NamedTuple):
    """A prompt. guidance: of models that learnt it. encoder: the node that has the text; None where nothing is encoded."""

    text: str
    guidance: int | float | None = None
    encoder: Node | None = None


class _Way:
    """The way back from one saved picture. last: its sampler."""

    def __init__(self, nodes: dict[str, Any], shown: Node) -> None:
        self._graph = Graph(nodes)
        self._note = self._graph.note
        self._sized: list[Node] = []
        self._second: tuple[Sampling, str] | None = None
        """The sampler that went over the picture of the first, and what it is then: "Hires" or "Refiner"."""
        self._words: Sequence[Node] | None = None
        """What the prompt's text encoder comes from; None where nothing is encoded."""
        self._decoder, self.last = self._to_sampler(shown)

    def parameters(self) -> Parameters:
        """Read what the nodes on the way say. Raises NotPlainError."""
        last = self.last
        first, hires = self._passes(last)
        end = sampling_of(self._graph, last).span[1]
        said = sampling_of(self._graph, first)
        if end < 1:
            self._note(last)  # it stops before the end
        if self._graph.value(first, "add_noise") in ("disable", False):
            self._note(first)
        prompt = self._prompt(said.positive)
        guided = said.negative is not None and said.fields.get("CFG scale") != 1
        negative = _Said("") if said.negative is None else self._prompt(said.negative, counts=guided)
        self._words, others = (self._behind_words(one.encoder) for one in (prompt, negative))
        if guided and self._words is not None and others is not None:
            self._note_one_sided(self._words, others)
        name, loras, changes = self._model(said.model)
        canvas = self._canvas(said)
        self._note_sizes(canvas.get("Size"))
        fields = {
            **said.fields,
            **canvas,
            "Model": name,
            "VAE": self._vae(self._decoder),
            "Clip skip": self._clip_skip(self._words or ()),
            "Distilled CFG Scale": prompt.guidance,
            EMPTY_NEGATIVE: "True" if guided and negative.encoder is not None and not negative.text else None,
            **changes,
            **hires,
            **self._otherwise(
                said,
                {"prompt": prompt.text, "negative prompt": negative.text, "checkpoint": name, "LoRAs": " ".join(loras)},
            ),
            "Version": PROGRAM,
            SYNTAX: PROGRAM,  # beside weights, BREAK and where long prompts are cut differ
            STRANGE: ", ".join(self._graph.strange),
        }
        told = {name: _shown(value) for name, value in fields.items() if value not in (None, "")}
        return Parameters(prompt=" ".join((prompt.text, *loras)), negative=negative.text, fields=told)

    # --- from the saved picture to its samplers -----------------------------------------------------------------------

    def _to_sampler(self, node: Node) -> tuple[Node | None, Node]:
        """Walk back over what was done to the picture after it was sampled."""
        decoder: Node | None = None
        for _ in range(MOST):
            ways = [to for name in _PICTURES if (to := self._graph.behind(node, name)) is not None]
            if not ways:
                break
            node = next((to for to in ways if self._is_sampled(to, MOST)), ways[0])
            if kind_of(node) in _SAMPLES:
                return decoder, node
            if kind_of(node) in _DECODES:
                decoder = decoder or node
            else:
                self._note(node)
        raise NotPlainError(Words("it has the node {0}", (kind_of(node),)))

    def _is_sampled(self, node: Node, left: int) -> bool:
        """Whether a picture comes from a sampler. left: nodes that may be between."""
        if kind_of(node) in _SAMPLES or left == 0:
            return left > 0
        ways = [to for name in _PICTURES if (to := self._graph.behind(node, name)) is not None]
        return any(self._is_sampled(to, (left - 1) // len(ways)) for to in ways)

    def _passes(self, last: Node, left: int = MOST) -> tuple[Node, dict[str, Any]]:
        """(the sampler that began, the fields of Hires. fix where another one went over its picture). left: samplers that may be
        before. Raises NotPlainError.
        """
        if left == 0:
            raise NotPlainError(Words("it has more than {0} samplers in a row", (MOST,)))
        node = self._graph.behind(last, "latent_image")
        scale: Any = None
        upscaler = ""
        for _ in range(MOST):
            if node is None or kind_of(node).startswith("LoadImage") or _is_empty(node):
                return last, {}
            if kind_of(node) in _SAMPLES:
                break
            if kind_of(node) in _INTERPOLATES and upscaler in ("", *_WAYS.values()):
                upscaler = self._interpolated(node)
            match kind_of(node):
                case "LatentUpscaleBy" | "ImageScaleBy" if not isinstance(scale, str):
                    scale = (scale or 1) * self._graph.number(node, "scale_by")
                case "ImageUpscaleWithModel":
                    upscaler = _stem(self._graph.text(self._graph.needed(node, "upscale_model"), "model_name"))
                    scale = _enlarged(scale, upscaler)
                case "LatentUpscale" | "ImageScale" if scale is None:
                    scale = f"{self._graph.number(node, 'width')}x{self._graph.number(node, 'height')}"
                case "VAEEncode" | "VAEEncodeTiled" | "VAEDecode" | "VAEDecodeTiled":
                    pass
                case _:
                    self._note(node)
            node = self._graph.behind(node, *_BACK)
        else:
            return last, {}
        assert node is not None
        second = sampling_of(self._graph, last)
        if second.span[0] > 0 and scale is None:
            self._second = second, "Refiner"
            return node, self._refined(node, last, second)
        first, before = self._passes(node, left - 1)
        if before:
            self._note(last)
            return first, before
        self._second = second, "Hires"
        return first, {
            "Hires resize" if isinstance(scale, str) else "Hires upscale": 1 if scale is None else scale or None,
            "Hires steps": _computed(second),
            "Hires upscaler": upscaler or "Latent",
            "Denoising strength": second.denoise,
        }

    def _interpolated(self, node: Node) -> str:
        """What A1111 calls the way in which a node enlarges; one that it lacks is noted."""
        pixels = kind_of(node).startswith("Image")
        method = self._graph.value(node, "upscale_method")
        found = _WAYS.get((pixels, method)) if isinstance(method, str) else None
        if found is None and method is not None:
            self._note(node)
        return found or ("Lanczos" if pixels else "Latent")

    def _otherwise(self, first: Sampling, told: Mapping[str, Any]) -> dict[str, Any]:
        """What the second sampler is given that the first is not, by A1111's names where it has one. told: of the first."""
        if self._second is None:
            return {}
        second, start = self._second
        name, loras, _ = self._model(second.model)
        negative = None if second.negative is None else self._prompt(second.negative, counts=second.fields.get("CFG scale") != 1)
        values = {
            **{f"{start} {word}": second.fields.get(field) for field, word in _AGAIN.items()},
            f"{start} prompt": self._prompt(second.positive).text,
            f"{start} negative prompt": "" if negative is None else negative.text,
            f"{start} checkpoint": name,
            f"{start} LoRAs": " ".join(loras),
        }
        before = {f"{start} {word}": first.fields.get(field) for field, word in _AGAIN.items()}
        before |= {f"{start} {word}": value for word, value in told.items()}
        own = {"Hires": (), "Refiner": ("Refiner checkpoint", "Refiner LoRAs")}[start]
        if start == "Refiner" and not _DRAWS.search(str(second.fields.get("Sampler"))):
            own = (*own, "Refiner seed")  # its sampler draws no noise
        return {name: value for name, value in values.items() if value != before[name] and name not in own}

    def _refined(self, node: Node, last: Node, second: Sampling) -> dict[str, Any]:
        """Two samplers that share one row of steps: the refiner of SDXL. Any that does not continue the other's is noted."""
        first = sampling_of(self._graph, node)
        apart = first.fields.get("Steps") != second.fields.get("Steps") or first.span[1] != second.span[0]
        if apart or self._graph.value(last, "add_noise") in ("enable", True):
            self._note(last)
        if self._graph.value(node, "return_with_leftover_noise") in ("disable", False):
            self._note(node)
        name = self._model(second.model)[0]
        return {} if name == self._model(first.model)[0] else {"Refiner": name, "Refiner switch at": round(first.span[1], 4)}

    def _canvas(self, said: Sampling) -> dict[str, Any]:
        """The size, and how much of a start picture was kept."""
        node = said.latent
        for _ in range(MOST):
            if node is None or kind_of(node).startswith("LoadImage") or _is_empty(node):
                break
            if kind_of(node) not in _ENCODES_PICTURE:
                self._note(node)
            node = self._graph.behind(node, *_BACK[:-1])
        if node is None or not _is_empty(node):
            return {
                "Start picture": None if node is None else self._graph.text(node, "image"),
                "Denoising strength": said.denoise,
            }
        several = self._graph.known(node, "batch_size", 1)
        before = "empty_latent_" if kind_of(node) == _ALL_IN_ONE else ""
        wide, high = (self._graph.known(node, before + name) for name in ("width", "height"))
        size = None if wide is None or high is None else f"{wide}x{high}"
        begun = {} if said.denoise == 1 else {"Denoising strength": said.denoise}
        return {"Size": size, "Batch size": None if several == 1 else several, **begun}

    # --- the model and the prompts ------------------------------------------------------------------------------------

    def _model(self, node: Node) -> tuple[str | None, list[str], dict[str, Any]]:
        """(the model's file, its LoRAs as A1111 writes them, in order, what else changes it)."""
        loras: list[str] = []
        changes: dict[str, Any] = {}
        alone = [one for one in self._words or () if kind_of(one) == _LORA]
        for _ in range(MOST):
            alone = [one for one in alone if one is not node]
            for name in _FILES:
                if isinstance(self._graph.value(node, name), str):
                    if self._graph.value(node, "weight_dtype") not in (None, "default"):
                        self._note(node)
                    loras[:0] = self._own_lora(node)
                    loras += [_tag(self._graph.text(one, "lora_name"), self._strength(one, "clip"), 0) for one in reversed(alone)]
                    return self._graph.text(node, name), loras, changes
            behind = self._graph.behind(node, "model")
            if behind is None:
                self._note(node)
                return _only_file(node), loras, changes
            loras[:0] = self._loras(node, changes)
            node = behind
        raise NotPlainError(Words("it has the node {0}", (kind_of(node),)))

    def _loras(self, node: Node, changes: dict[str, Any]) -> list[str]:
        match kind_of(node):
            case kind if kind in _LORAS:
                return [self._lora(node)]
            case kind if kind == _POWER_LORAS:
                rows = [row for name, row in inputs_of(node).items() if name.startswith("lora_") and isinstance(row, dict)]
                told = [(str(row["lora"]), _strengths(row)) for row in rows if row.get("on") and row.get("lora")]
                return [_tag(name, *(weights if self._changes_words(node) else (0, weights[-1]))) for name, weights in told]
            case "KSampler (Efficient)":
                pass  # its model goes through it
            case "ModelSamplingSD3" | "ModelSamplingAuraFlow":
                changes["Shift"] = self._graph.number(node, "shift")
            case "ModelSamplingFlux" if (
                self._graph.value(node, "max_shift"),
                self._graph.value(node, "base_shift"),
            ) == _FLUX_SHIFT:
                pass
            case "ModelSamplingDiscrete":
                changes["Prediction type"] = self._graph.text(node, "sampling")
                changes["Noise Schedule"] = "Zero Terminal SNR" if self._graph.value(node, "zsnr") is True else None
            case "RescaleCFG":
                changes["CFG rescale"] = self._graph.number(node, "multiplier")
            case "FreeU" | "FreeU_V2":
                changes["FreeU version"] = "V2" if kind_of(node) == "FreeU_V2" else "V1"
                changes |= {f"freeu_{name}": self._graph.number(node, name) for name in ("b1", "b2", "s1", "s2")}
            case "SkipLayerGuidanceSD3" | "SkipLayerGuidanceDiT" if not self._graph.value(node, "rescaling_scale"):
                changes |= self._skipped(node)
            case "PerturbedAttentionGuidance":
                changes["pagi_scale"] = self._graph.number(node, "scale")
            case _:
                self._note(node)
        return []

    def _skipped(self, node: Node) -> dict[str, Any]:
        """Skip-layer guidance, and the layers that it leaves out."""
        name = "layers" if kind_of(node) == "SkipLayerGuidanceSD3" else "double_layers"
        layers = [int(number) for number in re.findall(r"\d{1,4}", self._graph.text(node, name))]
        return {
            "Skip layer guidance scale": self._graph.number(node, "scale"),
            "Skip layer guidance start": self._graph.number(node, "start_percent", 0.01),
            "Skip layer guidance stop": self._graph.number(node, "end_percent", 0.15),
            "Options": json.dumps({"skip_guidance_layers": layers}),
        }

    def _own_lora(self, node: Node) -> list[str]:
        """That of a loader which has one."""
        name = self._graph.value(node, "lora_name")
        if kind_of(node) != _ALL_IN_ONE or not isinstance(name, str) or name == "None":
            return []
        model, words = (self._graph.known(node, f"lora_{part}_strength", 1) for part in ("model", "clip"))
        return [_tag(name, *((model,) if words == model else (words, model)))]

    def _lora(self, node: Node) -> str:
        """A LoRA in A1111's words; there the weight of the text encoder stands first."""
        name = self._graph.text(node, "lora_name")
        model = self._strength(node, "model")
        words = self._strength(node, "clip") if self._changes_words(node) else 0
        return _tag(name, *((model,) if words == model else (words, model)))

    def _strength(self, node: Node, of: str) -> int | float:
        return self._graph.number(node, f"strength_{of}", 1)

    def _changes_words(self, node: Node) -> bool:
        """Whether a loader changes the text encoder of the prompt, not the model alone."""
        return kind_of(node) != _MODEL_LORA and (self._words is None or any(node is one for one in self._words))

    def _prompt(self, place: Place, *, counts: bool = True) -> _Said:
        """counts: whether the picture differs with the prompt."""
        guidance: int | float | None = None
        node, slot = place
        for _ in range(MOST):
            kind = kind_of(node)
            if kind == _NOTHING:
                if counts:
                    self._note(node)  # zeros are not the encoding of an empty prompt
                return _Said("", guidance)
            if kind in _ENCODES:
                if kind == "CLIPTextEncodeFlux":
                    guidance = guidance or self._graph.number(node, "guidance")
                return _Said(self._encoded(node), guidance, node)
            if kind == "FluxGuidance":
                guidance = guidance or self._graph.number(node, "guidance")
            elif kind not in _NEGATIVE:
                self._note(node)
            if kind == _ALL_IN_ONE:
                text = self._graph.text(node, "negative" if slot == _NEGATIVE[kind] else "positive")
                return _Said(text, guidance, node)
            names = ("negative",) if slot == _NEGATIVE.get(kind, 1) and "negative" in inputs_of(node) else _CONDITIONS
            behind = next((to for name in names if (to := self._graph.place(node, name)) is not None), None)
            if behind is None and not any(isinstance(value, str) for value in inputs_of(node).values()):
                return _Said("", guidance)  # pictures alone guide it
            if behind is None:
                break
            node, slot = behind
        raise NotPlainError(Words("it has the node {0}", (kind_of(node),)))

    def _encoded(self, node: Node) -> str:
        """The text of an encoder; a second one that differs is named."""
        texts = [self._graph.text(node, name) for name in _ENCODES[kind_of(node)] if name in inputs_of(node)]
        if not texts:
            raise NotPlainError(Words("the node {0} has no {1}", (kind_of(node), "text")))
        if len(set(texts)) > 1 or kind_of(node) in _WITH_MORE:
            self._note(node)
        if kind_of(node) == "CLIPTextEncodeSDXL":
            self._sized.append(node)
        return next(filter(None, texts), "")

    def _note_sizes(self, size: str | None) -> None:
        """Note encoders that are given another size than the picture's, or a crop."""
        for node in self._sized:
            given = inputs_of(node)
            edges = tuple(
                f"{self._graph.value(node, f'{of}width')}x{self._graph.value(node, f'{of}height')}" for of in ("", "target_")
            )
            cut = any(self._graph.value(node, name) for name in ("crop_w", "crop_h"))
            if cut or ("width" in given and set(edges) != {size}):
                self._note(node)

    def _behind_words(self, encoder: Node | None) -> Sequence[Node] | None:
        """The encoder of a prompt, and what its text encoder comes from, the nearest first."""
        found: list[Node] = []
        while encoder is not None and len(found) < MOST:
            if found and "clip" in inputs_of(encoder) and kind_of(encoder) not in (*_LORAS, _POWER_LORAS, _SKIPS):
                self._note(encoder)
            found.append(encoder)
            encoder = self._graph.behind(encoder, "clip")
        return found or None

    def _note_one_sided(self, words: Sequence[Node], others: Sequence[Node]) -> None:
        """Note what changes the text encoder for one of the two prompts alone: here it is one for both."""
        kinds = (_LORA,) if (self._clip_skip(words) or 1) == (self._clip_skip(others) or 1) else (_LORA, _SKIPS)
        for row, other in ((words, others), (others, words)):
            for node in row:
                if kind_of(node) in kinds and not any(node is one for one in other):
                    self._note(node)

    def _clip_skip(self, words: Sequence[Node]) -> int | None:
        """How many layers of the text encoder are left out, as A1111 counts."""
        for node in words:
            name = {_ALL_IN_ONE: "clip_skip", _SKIPS: "stop_at_clip_layer"}.get(kind_of(node))
            if name is not None:
                return abs(int(self._graph.number(node, name, -1)))
        return None

    def _vae(self, decoder: Node | None) -> str | None:
        vae = None if decoder is None else self._graph.behind(decoder, "vae")
        name = self._graph.value(vae, "vae_name") if vae is not None else None
        return name if isinstance(name, str) and name != "Baked VAE" else None


def _computed(said: Sampling) -> int | None:
    """How many steps a sampler computes, which may be a part of a row."""
    steps, (begin, end) = said.fields.get("Steps"), said.span
    return round(steps * (end - begin)) if isinstance(steps, int | float) else None


def _is_empty(node: Node) -> bool:
    return EMPTY.fullmatch(kind_of(node)) is not None or kind_of(node) == _ALL_IN_ONE


def _only_file(node: Node) -> str | None:
    """The model of a loader that is not known, where it names one file."""
    files = [value for value in inputs_of(node).values() if isinstance(value, str) and _MODEL.search(value)]
    return whole_signs(files[0]) if len(files) == 1 else None


def _shown(value: Any) -> str:
    """A value as a field has it."""
    whole = isinstance(value, float) and value.is_integer()
    return whole_signs(str(int(value) if whole else value))


def _enlarged(scale: Any, upscaler: str) -> Any:
    """The scale with that of an upscale model, which only its name says; 0 where that is not known."""
    if isinstance(scale, str):
        return scale
    factor = re.search(r"(?<![a-z0-9])(?:([2-8])x|x([2-8]))(?![0-9])", upscaler.casefold())
    return 0 if factor is None else (1 if scale is None else scale) * int(factor[1] or factor[2])


def _stem(name: str) -> str:
    return re.sub(r"\.(safetensors|pt|pth|ckpt|sft)$", "", name.replace("\\", "/").rpartition("/")[2])


def _strengths(row: dict[str, Any]) -> tuple[object, ...]:
    """As a tag has them; "strengthTwo" is that of the text encoder, where the node shows two."""
    rest, words = row.get("strength"), row.get("strengthTwo")
    return (rest,) if words in (None, rest) else (words, rest)


def _tag(name: str, *weights: object) -> str:
    numbers = (weight if isinstance(weight, int | float) and abs(weight) <= LARGEST else 1 for weight in weights)
    return f"<lora:{_stem(whole_signs(name))}:{':'.join(f'{number:g}' for number in numbers)}>"
