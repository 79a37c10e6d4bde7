"""Compares the configuration of a part with its weights, and denoiser with VAE; nothing is built."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from halftone.contract.echoes import echo
from halftone.contract.wording import Words
from halftone.library.files.folder import Part
from halftone.library.files.header import TensorInfo

_LARGEST: Final = 2**31
"""Above every number in the configuration of a part; the bases of rotary positions reach 10^7."""
_CELLS: Final = ("sample_size", "sample_height", "sample_width")
"""Latent cells of an edge, for which a transformer computes a table of positions when it is built."""
_MOST_CELLS: Final = 1024
"""Twice those of 4096 pixels."""
_COUNTED: Final = ("encoder.block", "text_model.encoder.layers")
"""Lists of layers of a text encoder where a file holds more than it."""
_LAYERS: Final[Mapping[str, tuple[str, ...]]] = {
    "num_hidden_layers": ("layers", "layer", "block"),
    "num_layers": ("transformer_blocks", "joint_transformer_blocks", "blocks", "block", "layers"),
    "n_layers": ("layers",),
    "num_single_layers": ("single_transformer_blocks",),
    "num_single_dit_layers": ("single_transformer_blocks",),
    "num_mmdit_layers": ("joint_transformer_blocks",),
}
"""Number in a configuration -> last names of the list of layers that it counts."""
_WORDS: Final = r"(?:.*\.)?(?:token_embedding|embed_tokens|shared|word_embeddings)\.weight"
_EDGES: Final[tuple[tuple[str, re.Pattern[str], int], ...]] = tuple(
    (field, re.compile(pattern), axis)
    for field, pattern, axis in (
        ("vocab_size", _WORDS, 0),
        ("hidden_size", _WORDS, 1),
        ("d_model", _WORDS, 1),
        ("max_position_embeddings", r"(?:.*\.)?position_embedding\.weight", 0),
        ("in_channels", r"conv_in\.weight", 1),
        ("out_channels", r"conv_out\.weight", 0),
        ("latent_channels", r"decoder\.conv_in\.weight", 1),
        ("cross_attention_dim", r".*\.attn2\.to_k\.weight", 1),
    )
)
"""(number in a configuration, tensors whose edge it is, which edge)."""
SHORTEST: Final = 3
"""Tokens that a tokenizer reads at least: the start mark, one of the prompt, the end mark."""
_NUMBER: Final = (int, float)
_SCHEDULE: Final[Mapping[str, tuple[type | tuple[type, ...], float, float]]] = {
    "num_train_timesteps": (int, 2, 1_000_000),
    "beta_start": (_NUMBER, 0, 1),
    "beta_end": (_NUMBER, 0, 1),
    "steps_offset": (int, 0, 1000),
    "solver_order": (int, 1, 3),
    "shift": (_NUMBER, 1e-3, 1000),
    "flow_shift": (_NUMBER, 1e-3, 1000),
    "base_shift": (_NUMBER, -100, 100),
    "max_shift": (_NUMBER, -100, 100),
    "base_image_seq_len": (int, 1, 10**9),
    "max_image_seq_len": (int, 1, 10**9),
    "sigma_min": (_NUMBER, 0, 10**6),
    "sigma_max": (_NUMBER, 0, 10**6),
    "rho": (_NUMBER, 1e-3, 1000),
    "original_inference_steps": (int, 1, 1_000_000),
    "timestep_scaling": (_NUMBER, 1e-6, 10**6),
}
"""Number in a scheduler's configuration -> (kinds, least, most) that it can be."""
_FOREIGN: Final = ("adapter_config.json",)
"""Files beside the weights that make the libraries read others."""


def config_fault(part: Part) -> Words | None:
    """Say what is wrong in the part's configuration, as the end of a sentence; None where nothing is.

    Only what headers prove: the rest is compared when the part is built without memory.
    """
    name = part.name.rstrip("0123456789_")
    if name.endswith("tokenizer"):
        return _length_fault(part)
    if name.endswith("scheduler"):
        wrong = ((field, value) for field in _SCHEDULE if (value := part.config.get(field)) is not None)
        wrong = ((field, value) for field, value in wrong if not _in_schedule(value, *_SCHEDULE[field]))
        template = "{0}/scheduler_config.json says {1} {2}, which no scheduler can have"
        return next((Words(template, (part.name, field, shown(value))) for field, value in wrong), None)
    if not part.files:
        return None
    return next(filter(None, (_elsewhere(part), *_impossible(part), *_differences(part, part.tensors))), None)


def _in_schedule(value: object, kinds: type | tuple[type, ...], low: float, high: float) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool) and low <= cast("float", value) <= high


def _length_fault(part: Part) -> Words | None:
    """A tokenizer reads at least one token between its marks. No length, or one without end, is left to the text encoder."""
    for field in ("model_max_length", "max_len"):
        value = part.config.get(field)
        if value is not None and (not isinstance(value, int | float) or isinstance(value, bool) or value < SHORTEST):
            return Words(
                "{0}/tokenizer_config.json says {1} {2}, which has no place for a word", (part.name, field, shown(value))
            )
    return None


def _elsewhere(part: Part) -> Words | None:
    """Whether the libraries would read other weights than these, or need a package for them."""
    folder = part.files[0][0].parent
    found = next((name for name in _FOREIGN if (folder / name).exists()), None)
    if found is not None or part.config.get("transformers_weights") is not None:
        return Words("{0}/{1} names other weights than those beside it", (part.name, found or "config.json"))
    if (quantised := part.config.get("quantization_config")) is None:
        return None
    method = cast("dict[str, object]", quantised).get("quant_method") if isinstance(quantised, dict) else None
    by = shown(method) if method else Words("another program")
    return Words("{0} is quantised by {1}, which Halftone cannot read in a folder", (part.name, by))


def _impossible(part: Part) -> Iterator[Words]:
    for name, value in _numbers(part.config):
        many = part.name.startswith("transformer") and name in _CELLS and value > _MOST_CELLS
        if many or abs(value) > _LARGEST or (value < 0 and name in {*_LAYERS, *(field for field, _, _ in _EDGES)}):
            yield Words("{0}/config.json says {1} {2}, which no model has", (part.name, shown(name), shown(value)))


def _numbers(config: Mapping[str, object], depth: int = 0) -> Iterator[tuple[str, int | float]]:
    """Every number of the configuration and of those inside it, with its name."""
    for name, value in config.items():
        items: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
        yield from ((name, item) for item in items if isinstance(item, int | float))
        if isinstance(value, dict) and depth < 3:
            yield from _numbers(cast("dict[str, object]", value), depth + 1)


def _differences(part: Part, known: Sequence[TensorInfo]) -> Iterator[Words | None]:
    lists = _lists(tensor.name for tensor in known)
    for field, ends in _LAYERS.items():
        yield _difference(part, field, _layers(lists, ends))
    for field, pattern, axis in _EDGES:
        if field not in part.config:
            continue
        edges = {tensor.shape[axis] for tensor in known if len(tensor.shape) > axis and pattern.fullmatch(tensor.name)}
        yield _difference(part, field, edges.pop() if len(edges) == 1 else None)


def _lists(names: Iterable[str]) -> dict[str, int]:
    """Every list of modules that lies in no other, and how many it holds."""
    found: dict[str, int] = {}
    for name in names:
        words = name.split(".")
        at = next((index for index, word in enumerate(words) if word.isdecimal()), 0)
        if at and len(words[at]) < 10:
            start = ".".join(words[:at])
            found[start] = max(found.get(start, 0), int(words[at]) + 1)
    return found


def _layers(lists: Mapping[str, int], ends: tuple[str, ...]) -> int | None:
    """Number of layers of the one list whose name ends so; None where there is none, or several."""
    found = {start: count for start, count in lists.items() if start.rpartition(".")[2] in ends}
    wanted = next((found[start] for start in _COUNTED if start in found), None)
    return wanted if wanted is not None else found.popitem()[1] if len(found) == 1 else None


def _difference(part: Part, field: str, held: int | None) -> Words | None:
    said = part.config.get(field)
    if held is None or said is None or isinstance(said, list | dict) or said == held:
        return None
    return Words("{0}/config.json says {1} {2}, its weights have {3}", (part.name, field, shown(said), f"{held:,}"))


def shown(value: object) -> str:
    """A value from an untrusted file, harmless and short."""
    if not isinstance(value, int) or isinstance(value, bool):
        return echo(str(value), 60)
    return f"{value:,}" if abs(value) < 10**15 else f"{'-' if value < 0 else ''}10^{math.log10(abs(value)):.0f}"


_BOTH: Final = ("out_channels", "in_channels")
_GIVES: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "UNet2DConditionModel": (("out_channels",), 1),
    "SD3Transformer2DModel": (_BOTH, 1),
    "FluxTransformer2DModel": (_BOTH, 4),
    "ChromaTransformer2DModel": (_BOTH, 4),
    "QwenImageTransformer2DModel": (("out_channels",), 1),
    "PixArtTransformer2DModel": (("in_channels",), 1),
    "SanaTransformer2DModel": (("in_channels",), 1),
    "AuraFlowTransformer2DModel": (_BOTH, 1),
    "Lumina2Transformer2DModel": (_BOTH, 1),
    "CogView4Transformer2DModel": (_BOTH, 1),
    "ZImageTransformer2DModel": (("in_channels",), 1),
    "HunyuanDiT2DModel": (("in_channels",), 1),
}
"""Class -> entries for the numbers that it outputs per place, the first that is set; how many of them are one channel."""


def misfit(parts: Mapping[str, Part]) -> Words | None:
    """Why the VAE cannot decode the denoiser's output, as the end of a sentence; None where it can, or where nothing tells."""
    denoiser, vae = parts.get("unet") or parts.get("transformer"), parts.get("vae")
    if denoiser is None or vae is None:
        return None
    fields, places = _GIVES.get(str(denoiser.config.get("_class_name")), ((), 1))
    gives = next((value for name in fields if isinstance(value := denoiser.config.get(name), int)), None)
    takes = vae.config.get("latent_channels", vae.config.get("z_dim"))
    if gives is None or not isinstance(takes, int) or gives == takes * places:
        return None
    return Words("its VAE takes {0} channels, its denoiser gives {1}", (str(takes), str(gives // places)))
