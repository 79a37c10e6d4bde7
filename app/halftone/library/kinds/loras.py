"""LoRAs and their relatives (LoHa, LoKr, DoRA, OFT …): the kind of a file, and the families that fit its layers' widths."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from halftone.library.families import known_families as of
from halftone.library.kinds.marks import Shapes

_KINDS: Final[tuple[tuple[str, str], ...]] = (
    (r"hada_[wt][12](?:_[ab])?", "LoHa"),
    (r"lokr_(?:w[12](?:_[ab])?|t2)", "LoKr"),
    (r"(?:oft_blocks|oft_diag|oft_R(?:\.[^.\n]+)?(?:\.weight)?)", "OFT"),
    (r"oft_r(?:\.[^.\n]+)?", "OFT (old peft)"),
    (r"boft_[Rs](?:\.[^.\n]+)?(?:\.weight)?", "BOFT (peft)"),
    (r"vera_lambda_[bd](?:\.[^.\n]+)?(?:\.weight)?", "VeRA"),
    (r"[ab][12]\.weight", "GLoRA"),
    (r"lora(?:_(?:down|up|mid|[AB])(?:\.[^.\n]+)?|\.(?:down|up)|_linear_layer\.(?:down|up))\.weight", "LoRA"),
    (r"lora_embedding_[AB](?:\.[^.\n]+)?", "LoRA"),
    (r"(?:diff|diff_b|set_weight|w_norm|b_norm)", "differences"),
    (r"(?:on_input|ia3_l(?:\.[^.\n]+)?)", "IA3"),
    (r"(?:dora_scale|lora_magnitude_vector(?:\.[^.\n]+)?(?:\.weight)?)", "DoRA"),
    (r"(?:alpha|rescale|bias)", ""),
)  # fmt: skip
"""What follows the dot after a layer's path, and the kind that it is of."""
_UNDERSCORED: Final = r"(?:_lora|(?<=_lora[12]))\.(?:down|up)\.weight"
"""Those that follow an underscore, or a number of XLabs."""
_ENDS: Final = re.compile(rf"(?:\.(?:{'|'.join(f'({end})' for end, _ in _KINDS)})|{_UNDERSCORED})$", re.MULTILINE)
_WORDS: Final = (
    "lora",
    "hada_",
    "lokr_",
    "oft_",
    "ia3_l",
    "vera_lambda",
    ".a1.weight",
    ".diff\n",
    ".diff_b",
    ".set_weight",
    "w_norm",
    "b_norm",
    "on_input",
)
"""A file without any of these holds nothing of these kinds; that rules out most files."""
_DOWN: Final = ("lora_down", "lora_A", "lora.down", "lora_linear_layer.down", "down", "hada_w1_b")
_UP: Final = ("lora_up", "lora_B", "lora.up", "lora_linear_layer.up", "up", "hada_w1_a")
_PATHS: Final = 4096
"""Paths of layers whose place is remembered: LoRAs of one model name the same ones."""
_CORE: Final = re.compile(r"lora_mid|hada_t[12]|lokr_t2")
"""Tensors of a convolution with more than two factors."""
_ALONE: Final = (
    "LoHa", "LoKr", "OFT", "GLoRA", "LoRA", "IA3", "OFT (old peft)", "BOFT (peft)", "VeRA", "differences"
)  # fmt: skip
"""In the order in which they name a file with several; DoRA only goes with another."""

_PREFIX: Final = re.compile(
    r"(?:(?:unet|transformer)\.(?=base_model))?(?:base_model\.model\.|lycoris_)?"
    r"(?:model\.diffusion_model\.|diffusion_model\.|transformer\.(?=\w*(?:block|layer|refiner))|unet\.|dit\.|"
    r"(?:lora|oft|boft|lokr|loha)_(?:unet|transformer|prior_unet)_|lora_unet__?)?"
)
_TEXT: Final = re.compile(
    r"(?:base_model\.model\.)?(?:(?:lora_|oft_)?te(\d?)_|lora_prior_te_|text_encoder(?:_(\d))?\.|"
    r"(?:text_encoders\.)?(clip_[lgh]|t5xxl)\.(?:transformer\.)?|text_encoders?\.|(?=text_model\.))"
)
_ENCODERS: Final = {"clip_l": 1, "clip_h": 1, "clip_g": 2, "t5xxl": 3}
"""Numbers of the text encoders that ComfyUI calls by name."""


class Layer(msgspec.Struct):
    """One changed layer. text: number of its text encoder (from 1), 0 for the denoiser. inward, outward: its widths, 0: unknown;
    rank: 0 likewise; kernel: of a convolution.
    """

    path: str
    text: int = 0
    inward: int = 0
    outward: int = 0
    rank: int = 0
    kernel: int = 1


class LoraFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """kind: "LoRA", "LoCon", "LoHa", "LoKr", "OFT", "GLoRA", "IA3", "differences". rank: smallest and largest, 0 for none.
    families: those that fit its shapes, best first; () for unknown. parts: "denoiser", "text encoder".
    """

    kind: str
    dora: bool = False
    rank: tuple[int, int] = (0, 0)
    families: tuple[str, ...] = ()
    base: str = ""
    parts: tuple[str, ...] = ()
    layers: int = 0
    alias: str = ""
    """The name that kohya's scripts gave it, which A1111 writes in prompts instead of the file's."""


class Fit(msgspec.Struct, frozen=True):
    """A layer that only LoRAs of these families have: its path (parts joined by _), its widths where they matter."""

    families: str | tuple[str, ...]
    path: str
    inward: int | None = None
    outward: int | None = None
    base: str = ""
    text: int = 0


_TRANSFORMER: Final = r"^transformer_blocks_\d+_"
_ATTENTION: Final = r"^(?:down|up|input|output|mid|middle)_block\w*_attn2_(?:processor_)?to_[kv]$"
_WAN: Final = r"^blocks_\d+_(?:self_attn|cross_attn)_[qkvo]$|^blocks_\d+_attn[12]_to_[qkv]$"
_PIXART: Final = (of.PIXART_SIGMA.name, of.PIXART_ALPHA.name)

FITS: Final[tuple[Fit, ...]] = (
    Fit(of.CHROMA.name, r"^distilled_guidance_layer"),
    Fit(of.FLUX2.name, r"^single_transformer_blocks_\d+_attn_to_qkv_mlp_proj$|^double_stream_modulation"),
    Fit(of.FLUX2.name, r"^transformer_blocks_\d+_ff(?:_context)?_linear_in$"),
    Fit(of.FLUX2.name, r"^(?:single|double)_blocks_", 6144, base="FLUX.2 dev"),
    Fit(of.FLUX2.name, r"^(?:single|double)_blocks_", 4096, base="FLUX.2 klein 9B"),
    Fit(of.FLUX2.name, r"^single_blocks_\d+_linear1$", 3072, 27648, base="FLUX.2 klein 4B"),
    Fit(of.FLUX2.name, r"^double_blocks_\d+_(?:img|txt)_mlp_0$", 3072, 18432, base="FLUX.2 klein 4B"),
    Fit(of.HUNYUAN_VIDEO.name, r"^double_blocks_(?:19_|\d+_(?:img|txt)_(?:mlp_fc|mod_linear))"),
    Fit(of.HUNYUAN_VIDEO.name, r"^single_blocks_(?:3[89]_|\d+_modulation_linear)"),
    Fit(of.AURA_FLOW.name, r"^(?:joint_transformer_blocks|double_layers)_"),
    Fit(of.FLUX.name, r"^(?:double_blocks|single_blocks)_"),
    Fit(of.FLUX.name, r"^single_transformer_blocks_"),
    Fit(of.QWEN_IMAGE.name, _TRANSFORMER + r"(?:img|txt)_(?:mlp|mod)"),
    Fit(of.QWEN_IMAGE.name, r"^transformer_blocks_(?:19|[2-5]\d)_attn_(?:to|add)_[qkv]", 3072),
    Fit(of.SD3.name, r"^joint_blocks_", 1536),
    Fit(of.SD3.name, r"^joint_blocks_", 2432, base="SD 3.5 large"),
    Fit(of.SD3.name, r"^joint_blocks_"),
    Fit(of.SD3.name, _TRANSFORMER + r"attn_", 1536),
    Fit(of.SD3.name, _TRANSFORMER + r"attn_", 2432, base="SD 3.5 large"),
    Fit(of.FLUX.name, _TRANSFORMER + r"attn_", 3072),
    Fit(of.MOCHI.name, _TRANSFORMER + r"attn1_add_[kqv]_proj"),
    Fit(of.SANA.name, _TRANSFORMER + r"(?:attn[12]_|ff_conv)", 2240),
    Fit(of.SANA.name, _TRANSFORMER + r"ff_conv"),
    Fit(of.LTX.name, _TRANSFORMER + r"attn2_to_[qkv]", 2048),
    Fit(of.LTX.name, _TRANSFORMER + r"attn2_to_[qkv]", 4096),
    Fit(_PIXART, _TRANSFORMER + r"attn[12]_", 1152),
    Fit(of.COGVIEW4.name, _TRANSFORMER + r"attn1_", 4096),
    Fit(of.COGVIEW3.name, _TRANSFORMER + r"attn1_", 2560),
    Fit(of.COGVIDEO.name, _TRANSFORMER + r"attn1_", 1920),
    Fit(of.COGVIDEO.name, _TRANSFORMER + r"attn1_", 3072),
    Fit(of.HUNYUAN_DIT.name, r"^blocks_\d+_attn[12]_", 1408),
    Fit(of.WAN.name, _WAN, 1536, base="Wan 1.3B"),
    Fit(of.WAN.name, _WAN, 5120, base="Wan 14B"),
    Fit(of.WAN.name, _WAN, 3072, base="Wan 2.2 5B"),
    Fit(of.Z_IMAGE.name, r"^layers_\d+_(?:attention_|feed_forward_)", 3840),
    Fit(of.LUMINA2.name, r"^layers_\d+_(?:attention_|attn_|feed_forward_)", 2304),
    Fit(of.HIDREAM.name, r"^double_stream_blocks_"),
    Fit(of.KANDINSKY5.name, r"^visual_transformer_blocks_"),
    Fit(of.COSMOS.name, r"^blocks_\d+_(?:self|cross)_attn_[qkv]_proj$"),
    Fit(of.KREA2.name, r"^txtfusion_|^blocks_\d+_attn_w[qkvo]$|^text_fusion_"),
    Fit(of.CASCADE.name, r"^(?:down|up)_blocks_\d+_\d+_attention_"),
    Fit((of.SDXL.name, of.KOLORS.name), _ATTENTION, 2048),
    Fit(of.REFINER.name, _ATTENTION, 1280),
    Fit(of.SD1.name, _ATTENTION, 768),
    Fit(of.SD2.name, _ATTENTION, 1024),
    Fit(of.SDXL.name, "", 1280, text=2),
    Fit(of.SDXL.name, r"^(?:down|up|input|output|mid|middle)_block\w*_transformer_blocks_[1-9]_"),
    Fit((of.SD1.name, of.SD2.name), r"^(?:down_blocks_0_attentions|input_blocks_[12]_1_|up_blocks_3_attentions)"),
    Fit(of.SD2.name, "", 1024, text=1),
    Fit((of.SD1.name, of.SDXL.name), "", 768, text=1),
)
"""The first that fits holds."""

_SAID: Final[tuple[tuple[str, str], ...]] = (
    (r"sdxl.*refiner|xl-v1-refiner", of.REFINER.name),
    (r"sdxl|stable-diffusion-xl|pony|illustrious|noobai", of.SDXL.name),
    (r"sd_?v?1|sd 1|stable-diffusion-v1", of.SD1.name),
    (r"sd_?v?2|sd 2|stable-diffusion-v2", of.SD2.name),
    (r"sd_?3|stable-diffusion-3", of.SD3.name),
    (r"flux-?_?\.?2", of.FLUX2.name),
    (r"chroma", of.CHROMA.name),
    (r"flux", of.FLUX.name),
    (r"qwen", of.QWEN_IMAGE.name),
    (r"z-?_?image", of.Z_IMAGE.name),
    (r"lumina", of.LUMINA2.name),
    (r"wan", of.WAN.name),
    (r"kolors", of.KOLORS.name),
    (r"hunyuan_?-?video", of.HUNYUAN_VIDEO.name),
    (r"pixart-?_?sigma", of.PIXART_SIGMA.name),
    (r"pixart", of.PIXART_ALPHA.name),
    (r"sana", of.SANA.name),
)
_SAYS: Final = ("ss_base_model_version", "modelspec.architecture", "baseModel", "base_model")


def lora_facts(shapes: Shapes, metadata: Mapping[str, str]) -> LoraFacts | None:
    """The kind of LoRA of these tensors; None where most of them are of none."""
    layers, kinds = _grouped(shapes)
    if kinds <= {"", "DoRA"} or sum(len(ends) for ends in layers.values()) * 2 < len(shapes):
        return None
    found = [_layer(path, ends) for path, ends in layers.items()]
    ranks = [layer.rank for layer in found if layer.rank]
    fit = _fitting(found)
    parts = {"denoiser" if layer.text == 0 else "text encoder" for layer in found}
    kind = next(kind for kind in _ALONE if kind in kinds)
    return LoraFacts(
        kind="LoCon" if kind == "LoRA" and any(layer.kernel > 1 for layer in found) else kind,
        dora="DoRA" in kinds,
        rank=(min(ranks), max(ranks)) if ranks else (0, 0),
        families=_families(fit, metadata),
        base=fit.base if fit else "",
        parts=tuple(sorted(parts)),
        layers=len(found),
        alias=metadata.get("ss_output_name", "").strip(),
    )


def _grouped(shapes: Shapes) -> tuple[dict[str, dict[str, tuple[int, ...]]], set[str]]:
    """(path of a layer -> how its tensors' names end -> shape, kinds that the ends are of). One search over all names, a line
    each: files have thousands of tensors.
    """
    layers: dict[str, dict[str, tuple[int, ...]]] = {}
    kinds: set[str] = set()
    lines = "\n".join(shapes) + "\n"
    if not any(word in lines for word in _WORDS):
        return layers, kinds
    for match in _ENDS.finditer(lines):
        begin = lines.rfind("\n", 0, match.start()) + 1
        if (shape := shapes.get(lines[begin : match.end()])) is not None:
            kinds.add(_KINDS[match.lastindex - 1][1] if match.lastindex else "LoRA")
            layers.setdefault(lines[begin : match.start()], {})[match[0]] = shape
    return layers, kinds


def sized_layers(shapes: Shapes) -> list[Layer]:
    """The layers whose tensors tell their widths."""
    layers, _ = _grouped(shapes)
    return [_layer(path, ends) for path, ends in layers.items() if not any(_CORE.search(end) for end in ends)]


def _named(fit: Fit) -> tuple[str, ...]:
    return (fit.families,) if isinstance(fit.families, str) else fit.families


def _families(fit: Fit | None, metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The file's own statement counts where the shapes leave a choice, and nowhere else."""
    fitting = () if fit is None else _named(fit)
    if len(fitting) == 1:
        return fitting
    words = " ".join(metadata.get(key, "") for key in _SAYS).lower()
    said = next((family for pattern, family in _SAID if re.search(pattern, words)), None)
    if said is None or (fitting and said not in fitting):
        return fitting
    return (said,)


def _fitting(layers: Iterable[Layer]) -> Fit | None:
    """One search a fit over all paths of its width, a line each: files have thousands of layers."""
    paths: dict[tuple[int, int, int], list[str]] = {}
    for layer in layers:
        paths.setdefault((layer.text, layer.inward, layer.outward), []).append(layer.path)
    lines: dict[tuple[int, int | None, int | None], str] = {}
    for fit in FITS:
        widths = fit.text, fit.inward, fit.outward
        if widths not in lines:
            lines[widths] = "\n".join(path for found, some in paths.items() if _are(found, fit) for path in some)
        if lines[widths] and re.search(fit.path, lines[widths], re.MULTILINE):
            return fit
    return None


def has_widths_of(family: str, layers: Iterable[Layer]) -> bool:
    """Whether one of the layers has a width by which LoRAs for the family are known; True where none is."""
    found = list(layers)
    fits = [fit for fit in FITS if fit.inward is not None and family in _named(fit)]
    return not fits or any(_has(layer, fit) and re.search(fit.path, layer.path) for fit in fits for layer in found)


def _has(layer: Layer, fit: Fit) -> bool:
    return _are((layer.text, layer.inward, layer.outward), fit)


def _are(widths: tuple[int, int, int], fit: Fit) -> bool:
    text, inward, outward = widths
    return fit.text == text and fit.inward in (None, inward) and fit.outward in (None, outward)


@lru_cache(_PATHS)
def place_of(path: str) -> tuple[int, str]:
    """(0 for the denoiser, 1, 2 … for a text encoder; the path of the layer there, parts joined by _)."""
    text = _TEXT.match(path)
    rest = path[text.end() :] if text else _PREFIX.sub("", path, count=1)
    number = _ENCODERS.get(text[3]) or int(text[1] or text[2] or "1") if text else 0
    return number, rest.replace(".", "_").replace("_processor_to_", "_to_")


def _layer(path: str, ends: Mapping[str, tuple[int, ...]]) -> Layer:
    text, rest = place_of(path)
    layer = Layer(rest, text)
    small = {_short(end): shape for end, shape in ends.items() if shape}
    _low_rank(layer, small)
    factors: list[tuple[int, int]] = []
    for name in ("lokr_w1", "lokr_w2"):  # a Kronecker product has the products of their edges; each may be of low rank
        whole, first, second = small.get(name, ()), small.get(f"{name}_a", ()), small.get(f"{name}_b", ())
        if len(whole) >= 2:
            factors.append((whole[0], whole[1]))
        elif len(first) >= 2 and len(second) >= 2:
            factors.append((first[0], second[1]))
            layer.rank = second[0]
    if len(factors) == 2:
        layer.outward, layer.inward = (one * other for one, other in zip(*factors, strict=True))
    if all(len(small.get(name, ())) >= 2 for name in ("a1", "a2", "b1", "b2")):
        _generalised(layer, small)
    for name in ("oft_blocks", "oft_diag"):
        if len(shape := small.get(name, ())) >= 3:
            layer.outward = shape[-3] * shape[-2]
    for name in ("diff", "set_weight"):
        if len(shape := small.get(name, ())) >= 2:
            layer.outward, layer.inward = shape[0], shape[1]
    return layer


def _generalised(layer: Layer, ends: Mapping[str, tuple[int, ...]]) -> None:
    first = is_first_form(ends["a1"])
    layer.rank, layer.inward = sorted(ends["a1"][:2])
    layer.outward = ends["b2" if first else "b1"][0]


def is_first_form(shape: Sequence[int]) -> bool:
    """Whether LyCORIS wrote a GLoRA before it swapped the names of its factors. shape: of a1, which leads into the rank then."""
    return shape[0] < shape[1]


@lru_cache(256)
def _short(end: str) -> str:
    return end.lstrip("._").replace(".weight", "").replace(".default", "")


def _low_rank(layer: Layer, ends: Mapping[str, tuple[int, ...]]) -> None:
    for down in _DOWN:
        if (shape := ends.get(down)) is not None and len(shape) >= 2:
            layer.rank, layer.inward = shape[0], shape[1]
            layer.kernel = max((layer.kernel, *shape[2:]))
    for up in _UP:
        if (shape := ends.get(up)) is not None and len(shape) >= 2:
            layer.outward, layer.rank = shape[0], shape[1]
    if len(middle := ends.get("lora_mid", ())) > 2:
        layer.kernel = max(middle[2:])
