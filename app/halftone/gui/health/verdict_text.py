"""The verdict of a finished check in words: its state, a title, and what it means."""

import math
from collections.abc import Sequence
from typing import Literal

from halftone.contract.facts import CheckReport, LayerPeak
from halftone.contract.plan import Plan
from halftone.contract.vocabulary import FLOAT_LIMITS, DType
from halftone.contract.wording import Words
from halftone.gui.charts.headroom_chart_text import part_name, type_name
from halftone.gui.health import health_text
from halftone.gui.i18n import catalogue, listed, say, sentences, tr
from halftone.gui.kit import figures
from halftone.health.explain import finding_words
from halftone.health.headroom import log2_peak, over_in_float16, part_key
from halftone.health.judge import clipped, cut_off, damaged_lora, innermost, over_and_tight, why_broken
from halftone.health.reports.report_sentences import size_words

State = Literal["unchecked", "checking", "ok", "tight", "overflows", "cured", "broken", "failed", "stopped", "stale", "missing"]

_WRONG = ("underflow", "saturated-output", "inexact-output", "flat-output", "tight")
"""Findings whose pictures are finite: wrong, but not black because of a bad number."""


def state_of(report: CheckReport, stale_reason: Words | None) -> State:
    if stale_reason:
        return "stale"
    if report.verdict == "broken":
        return "broken"
    if report.applied and report.verdict in ("fixable", "tight"):
        return "cured"
    if cut_off(report) is not None:
        return "tight"
    verdicts: dict[str, State] = {"healthy": "ok", "tight": "tight", "fixable": "overflows"}
    return verdicts[report.verdict]


def checked_words(report: CheckReport) -> str:
    depth = tr("quick check") if report.depth == "quick" else tr("thorough check")
    where = health_text.here(report.device)
    when = figures.moment(report.checked_at)
    words = tr("Checked {0} {1} · {2}, {3}", when, where, depth, figures.duration(report.seconds))
    words += " · " + size_words(report, catalogue()) if report.sizes else ""
    if not report.made_up:
        return words
    names = {
        "picture": tr("picture"),
        "mask": tr("mask"),
        "control picture": tr("control picture"),
        "reference picture": tr("reference picture"),
        "video": tr("video"),
    }
    return words + " · " + tr("synthetic inputs: {0}", ", ".join(names.get(name, name) for name in report.made_up))


def verdict_words(report: CheckReport, state: State, stale_reason: Words | None) -> tuple[str, str]:
    """Title and text of the verdict."""
    title, text = _verdict(report, state, stale_reason)
    finding = clipped(report)
    if finding is None or state not in ("overflows", "cured"):
        return title, text
    return tr("{0}; weights sit at the FP16 limit", title), sentences(text, *map(say, finding_words(finding)))


def _verdict(report: CheckReport, state: State, stale_reason: Words | None) -> tuple[str, str]:
    name, where = type_name(report.precision), health_text.here(report.device)
    if state == "stale":
        earlier = tr("Showing the last check.")
        return tr("Changed since the last check"), sentences(say(stale_reason), earlier)
    if state == "ok":
        return tr("Healthy in {0} {1}", name, where), _ok_text(report)
    if state == "tight" and (finding := cut_off(report)) is not None:
        clipped_words = map(say, finding_words(finding))
        if report.verdict == "tight":
            return tr("Works in {0}, with little headroom", name), sentences(_tight_text(report), *clipped_words)
        return tr("{0}; weights sit at the FP16 limit", tr("Works in {0}", name)), sentences(*clipped_words)
    if state == "tight":
        return tr("Works in {0}, with little headroom", name), _tight_text(report)
    if state == "broken":
        return _broken_title(report), _broken_text(report)
    if state == "cured":
        return tr("Cured: no layer overflows"), _cured_text(report)
    title = tr("{0} turns some pictures black {1}", name, where)
    if report.findings and all(one.code in _WRONG for one in report.findings):
        title = tr("{0} gives wrong pictures {1}", name, where)
    return title, _overflow_text(report)


def rooms_of(layers: Sequence[LayerPeak], dtype: DType) -> list[float]:
    limit = math.log2(FLOAT_LIMITS[dtype])
    return [limit - log2_peak(layer.peak) for layer in layers]


def _ok_text(report: CheckReport) -> str:
    rooms = [room for room in rooms_of(report.layers, report.precision) if math.isfinite(room)]
    if not rooms:
        return tr("No NaN.")
    least = figures.bits(min(rooms))
    words = tr("No NaN, and at least {0} of headroom in every layer.", least)
    return sentences(words, _in_float16(report))


def _in_float16(report: CheckReport) -> str:
    """How many layers would overflow in FP16, by the measured peaks; "" where that is not known."""
    over = over_in_float16(report)
    if over is None:
        return ""
    if over == 0:
        return tr("In FP16, no layer would overflow.")
    return tr("In FP16, {1} layers would overflow.", over, figures.group(over), one="In FP16, 1 layer would overflow.")


def _tight_text(report: CheckReport) -> str:
    places = [(layer.component, layer.module) for layer in report.layers]
    _, count = over_and_tight(places, rooms_of(report.layers, report.precision))
    words = say(Words("{0} layers are close to the limit.", (count,), one="1 layer is close to the limit."))
    return sentences(words, tr("Halftone watches them; a cure adds headroom."))


def _broken_title(report: CheckReport) -> str:
    return {
        "file": tr("The model file is damaged"),
        "lora": tr("The LoRA {0} is damaged", damaged_lora(report)),
        "float32": tr("NaN even in FP32"),
        "no-cure": tr("No cure passed the check"),
        "no-cure-known": tr("The check found no cure"),
    }[why_broken(report)]


def _broken_text(report: CheckReport) -> str:
    why = why_broken(report)
    if why in ("no-cure", "no-cure-known"):
        found = finding_words(report.findings[0])[0].text(catalogue()) if report.findings else ""
        return sentences(found, tr("Check again in BF16 or FP32."))
    if why == "float32":
        return sentences(tr("Usually the file or VAE is damaged."), tr("Download it again."))
    damaged = [one for one in report.findings if one.code == "weights-nonfinite" and ("lora" in one.facts) == (why == "lora")]
    if why == "lora":
        return sentences(*(words.text(catalogue()) for words in finding_words(damaged[0])))
    names = [f"{one.component}.{one.module}" for one in damaged]
    where = tr("NaN in {0}.", _few(names)) if names else ""
    return sentences(where, tr("No setting can fix that."), tr("Download it again."))


def _few(names: Sequence[str]) -> str:
    shown = listed(*names[:2])
    return shown if len(names) <= 2 else tr("{0} and {1} more tensors", shown, len(names) - 2)


def _cure_sentence(plan: Plan) -> str:
    if plan.rescale and not plan.upcast:
        return tr("Rescaling fixes that.")
    if plan.upcast:
        count = health_text.upcast_blocks(plan)
        return tr("The cure runs {0} parts in FP32.", count, one="The cure runs 1 part in FP32.")
    return tr("A cure is ready.") if not plan.is_plain else ""


def over_layers(report: CheckReport) -> list[LayerPeak]:
    """List the layers over the limit without the blocks around them, which the findings name too."""
    limit = FLOAT_LIMITS[report.precision]
    over = [layer for layer in report.layers if not layer.peak <= limit]
    inside = innermost([(layer.component, layer.module) for layer in over], [layer.peak for layer in over])
    return [layer for layer, counts in zip(over, inside, strict=True) if counts]


def _overflow_text(report: CheckReport) -> str:
    over = over_layers(report)
    name = type_name(report.precision)
    if not over:
        first = report.findings[0] if report.findings else None
        what = tr("{0}.", health_text.finding_title(first)) if first is not None else ""
        return sentences(what, _cure_sentence(report.plan))
    places = list(dict.fromkeys(part_name(part_key(layer.component, layer.module)) for layer in over))
    where = health_text.listed(places)
    words = tr(
        "{1} layers of the {2} exceed the {3} range.",
        len(over),
        figures.group(len(over)),
        where,
        name,
        one="1 layer of the {2} exceeds the {3} range.",
    )
    return sentences(words, _cure_sentence(report.plan))


def _cured_text(report: CheckReport) -> str:
    plan = report.plan
    if plan.upcast:
        count = health_text.upcast_blocks(plan)
        done = tr("{0} parts run in FP32.", count, one="1 part runs in FP32.")
    elif plan.rescale:
        done = tr("{0} layers are rescaled in memory.", health_text.rescaled_layers(plan))
    else:
        done = tr("The stored cure is used for every picture.")
    return done + " " + tr("The file is unchanged.")
