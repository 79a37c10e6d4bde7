"""The chart in words: its summary for people who cannot see it, the sentence of one layer, and the labels it paints."""

import math

from halftone.contract.vocabulary import DTYPE_NAMES, FLOAT_LIMITS, DType
from halftone.contract.wording import Words
from halftone.gui.i18n import listed, say, tr
from halftone.gui.kit import figures
from halftone.health.headroom import ChartData, Layer, Part, part_key, part_names, room_bits, room_state


def type_name(dtype: str) -> str:
    return {**DTYPE_NAMES}.get(dtype, dtype)


def limit_text(dtype: DType) -> str:
    """FP16 limit 65 504"""
    limit = FLOAT_LIMITS[dtype]
    value = figures.group(int(limit)) if limit < 1e9 else figures.power(128)
    return tr("{0} limit {1}", type_name(dtype), value)


def reach_text(dtype: DType) -> str:
    """Why the chart ends so far below what this type, or the others, hold."""
    if dtype == "float16":
        return tr("BF16 and FP32 reach {0}. BF16 keeps 8 bits, FP16 11.", figures.power(128))
    bits = {"bfloat16": 8, "float32": 24}.get(dtype)
    if bits is None:
        return ""
    own = type_name(dtype)
    return tr("{0} reaches {1} and keeps {2} bits (FP16: 11).", own, figures.power(128), bits)


def room_text(layer: Layer, dtype: DType, *, after: bool) -> str:
    """The headroom of one layer in the type it runs in."""
    exp, own = (layer.exp_after, layer.dtype_after) if after else (layer.exp, dtype)
    if exp == -math.inf:
        return tr("not measured") if after and layer.peak else tr("all zeros")
    return figures.bits(room_bits(exp, own))


def layer_title(layer: Layer) -> str:
    return f"{layer.component}.{layer.module}" if layer.module else layer.component


def layer_sentence(layer: Layer, dtype: DType, *, after: bool) -> str:
    """One layer, spoken."""
    peak = layer.peak_after if after else layer.peak
    own = layer.dtype_after if after else dtype
    state = room_state(layer.exp_after if after else layer.exp, own)
    word = {"over": tr("overflows"), "tight": tr("tight"), "fine": tr("fine")}[state]
    return tr(
        "{0}, peak {1}, headroom {2} in {3}, {4}",
        layer_title(layer),
        figures.peak(peak),
        room_text(layer, dtype, after=after),
        type_name(own),
        word,
    )


def summary(data: ChartData, *, after: bool) -> str:
    """The whole chart in one sentence."""
    layers = data.layers
    if not layers:
        return tr("Not measured yet.")
    highest = max(layers, key=lambda layer: layer.exp_after if after else layer.exp)
    peak = figures.peak(highest.peak_after if after else highest.peak)
    over = [layer for layer in layers if state_of(layer, data.dtype, after=after) == "over"]
    tight = sum(1 for layer in layers if state_of(layer, data.dtype, after=after) == "tight")
    name = type_name(data.dtype)
    places = list(dict.fromkeys(part_name(part_key(layer.component, layer.module)) for layer in over))
    return tr(
        "{0} layers, {1} above the {2} limit, {3}; highest {4}",
        figures.group(len(layers)),
        figures.group(len(over)),
        name,
        tr("in {0}", listed(*places)) if over else tr("{0} tight", tight),
        peak,
    )


def state_of(layer: Layer, dtype: DType, *, after: bool) -> str:
    return room_state(layer.exp_after, layer.dtype_after) if after else room_state(layer.exp, dtype)


def cure_label(part: Part, dtype: DType) -> str:
    """What the cure does in this part, under its dashed boxes."""
    changed = [layer for layer in part.layers if layer.changed]
    wider = sum(1 for layer in changed if layer.dtype_after != dtype)
    if wider:
        return tr("cure: {0} layers in FP32", wider, one="cure: 1 layer in FP32")
    return tr("cure: {0} layers rescaled", len(changed), one="cure: 1 layer rescaled") if changed else ""


def part_name(key: str) -> str:
    """Plain name of a part in the language in force."""
    return tr(part_names(key)[0])


def part_count(count: int) -> str:
    return say(Words("{0} layers", (count,), one="1 layer"))
