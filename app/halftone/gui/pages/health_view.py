"""What the Health page shows, decided from facts alone: one verdict, its four figures, findings and cures. No widget in here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from halftone.contract.facts import CheckReport, DeviceFacts, Finding, LayerPeak, ModelFacts
from halftone.contract.messages import Examine
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Extras
from halftone.contract.words import FLOAT_LIMITS, TIGHT_BITS, DType
from halftone.gui import picture_details, reasons, text
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.pages import health_words
from halftone.gui.state import Ended, Job
from halftone.gui.widgets import figures
from halftone.gui.widgets.headroom_chart_words import part_name, type_name
from halftone.health.explain import finding_words
from halftone.health.headroom import Layer, build, log2_peak, part_key, room_bits
from halftone.health.judge import damaged_lora, innermost, over_and_tight, why_broken

State = Literal["unchecked", "checking", "ok", "tight", "overflows", "cured", "broken", "failed", "stopped", "stale", "missing"]

CARDS: dict[str, tuple[str, str, str]] = {
    "unchecked": ("unknown", "circle-dashed", "unknown"),
    "stale": ("unknown", "circle-dashed", "unknown"),
    "checking": ("info", "activity", "accent-text"),
    "ok": ("ok", "circle-check", "ok"),
    "cured": ("ok", "bandage", "ok"),
    "tight": ("warn", "triangle-alert", "warn"),
    "overflows": ("danger", "octagon-alert", "danger"),
    "broken": ("danger", "octagon-x", "danger"),
    "failed": ("danger", "octagon-x", "danger"),
    "stopped": ("unknown", "circle-dashed", "unknown"),
    "missing": ("danger", "octagon-x", "danger"),
}
"""Card style, icon and colour of each state."""

_WRONG = ("underflow", "saturated-output", "inexact-output", "flat-output", "tight")
"""Findings whose pictures are finite: wrong, but not black because of a bad number."""


@dataclass(frozen=True, slots=True)
class Figure:
    value: str
    caption: str
    tone: str = "text"


@dataclass(frozen=True, slots=True)
class Fine:
    """The last row of the findings: everything else. tightest: its component and module."""

    component: str
    module: str
    peak: float
    room: float
    everything: bool


@dataclass(frozen=True, slots=True)
class HealthView:
    """checked: the line in the header. share: how much of the running check is done."""

    state: State
    title: str
    text: str
    figures: tuple[Figure, ...] = ()
    checked: str = ""
    dtype: DType = "float16"
    layers: tuple[LayerPeak, ...] = ()
    findings: tuple[Finding, ...] = ()
    fine: Fine | None = None
    cures: tuple[Cure, ...] = ()
    plan: Plan | None = None
    applied: bool = False
    share: float = 1.0
    report: CheckReport | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A running check. share: 0 to 1 of the layers; left: seconds, None while there is no estimate."""

    job: Job
    share: float
    left: float | None


def offered(cures: Sequence[Cure]) -> tuple[Cure, ...]:
    """Cures as the list shows them: those that can be chosen first, in the order of the check; doing nothing is none."""
    real = [cure for cure in cures if cure.kind != "none"]
    return (*(cure for cure in real if not cure.refusal), *(cure for cure in real if cure.refusal))


def suggested(view: HealthView) -> int | None:
    """Index of the cure that is selected at first."""
    if view.applied:
        return next((index for index, cure in enumerate(view.cures) if health_words.same_plan(cure.plan, view.plan)), None)
    marked = next((index for index, cure in enumerate(view.cures) if cure.suggested and not cure.refusal), None)
    return marked if marked is not None else next((index for index, cure in enumerate(view.cures) if not cure.refusal), None)


def of_model_missing(words: tuple[str, str]) -> HealthView:
    return HealthView("missing", words[0], words[1])


def of_unchecked(device: DeviceFacts | None) -> HealthView:
    title = tr("Not checked {0} yet", health_words.here(device))
    text = tr(
        "A check runs every part of the model once and names the layers whose numbers are too large. Settings stay as they are."
    )
    return HealthView("unchecked", title, text)


def of_progress(progress: Progress, dtype: DType, before: HealthView, measured: tuple[Figure, ...]) -> HealthView:
    """While a check runs. A check that follows a cure keeps the findings in sight. measured: figures of the layers so far."""
    job = progress.job
    command = job.command
    curing = isinstance(command, Examine) and command.plan is not None
    phase = phase_words(job)
    if not job.running:
        title = tr("The check waits for its turn")
    elif job.stopping:
        title = tr("Stopping the check")
    else:
        title = tr("Checking the cure") if curing else tr("Checking {0}", job.title) if job.title else tr("Checking")
    if curing:
        keep = before
        return HealthView(
            "checking",
            title,
            phase,
            (),
            before.checked,
            keep.dtype,
            keep.layers,
            keep.findings,
            keep.fine,
            keep.cures,
            keep.plan,
            keep.applied,
        )
    return HealthView(
        "checking", title, phase, measured, "", dtype, job.layers, job.findings, None, (), None, share=progress.share
    )


def phase_words(job: Job) -> str:
    """What the check does at this moment, with the highest value so far."""
    names = {
        "load": tr("Reading the model"),
        "scan": tr("Scanning the file"),
        "range": tr("Measuring each layer in FP32"),
        "target": tr("Running in half precision"),
        "plan": tr("Looking for the cheapest cure"),
        "verify": tr("Trying the cure"),
        "measure": tr("Measuring what the cure costs"),
        "encode": tr("Reading the prompt"),
        "denoise": tr("Denoising"),
        "decode": tr("Decoding the picture"),
    }
    phase = names.get(job.phase or "", tr("Starting"))
    detail = picture_details.cure_name(job.detail) or text.component_name(job.detail)
    if job.phase == "plan" and job.done:
        detail = tr("1 attempt") if job.done == 1 else tr("{0} attempts", figures.group(job.done))
    words = [tr("{0}: {1}.", phase, detail) if detail else tr("{0}.", phase)]
    if job.layers:
        top = max(layer.peak for layer in job.layers)
        limit = FLOAT_LIMITS["float16"]
        fits = tr("which fits in FP16") if top <= limit else tr("{0} the FP16 limit", figures.times(top / limit))
        words.append(tr("Highest value so far {0}, {1}.", figures.peak(top), fits))
    return sentences(*words)


def of_failed(ended: Ended, dtype: DType) -> HealthView:
    """M9: the check stopped; what it had measured stays."""
    job = ended.job
    if ended.outcome == "cancelled":
        title = tr("The check was stopped")
        words = tr("Not finished: everything measured until then stays visible.")
    else:
        title = tr("The check stopped")
        what = text.error_sentence(ended.error) if ended.error is not None else ""
        words = sentences(what, tr("Everything finished so far is kept."))
    report = ended.report if isinstance(ended.report, CheckReport) else None
    layers = report.layers if report is not None else job.layers
    findings = report.findings if report is not None else job.findings
    return HealthView(
        "stopped" if ended.outcome == "cancelled" else "failed",
        title,
        words,
        figures_of(layers, dtype),
        tr("Not finished"),
        dtype,
        layers,
        findings,
        _fine(layers, findings, dtype) if layers else None,
    )


def of_report(report: CheckReport, stale_reason: str | None) -> HealthView:
    """A finished check, or an old one that a changed fact made stale."""
    state = _state(report, stale_reason)
    title, words = _verdict(report, state, stale_reason)
    return HealthView(
        state,
        title,
        words,
        figures_of(report.layers, report.precision, cured=report.plan if state == "cured" else None),
        _checked(report),
        report.precision,
        report.layers,
        report.findings,
        None if state == "broken" else _fine(report.layers, report.findings, report.precision),
        () if state == "broken" and why_broken(report) != "no-cure" else offered(report.cures),
        None if report.plan.is_plain or state == "broken" else report.plan,
        report.applied,
        report=report,
    )


def _state(report: CheckReport, stale_reason: str | None) -> State:
    if stale_reason:
        return "stale"
    if report.verdict == "broken":
        return "broken"
    if report.applied and report.verdict in ("fixable", "tight"):
        return "cured"
    verdicts: dict[str, State] = {"healthy": "ok", "tight": "tight", "fixable": "overflows"}
    return verdicts[report.verdict]


def _checked(report: CheckReport) -> str:
    depth = tr("quick check") if report.depth == "quick" else tr("thorough check")
    where = health_words.here(report.device)
    when = figures.moment(report.checked_at)
    return tr("Checked {0} {1} · {2}, {3}", when, where, depth, figures.duration(report.seconds))


def _verdict(report: CheckReport, state: State, stale_reason: str | None) -> tuple[str, str]:
    name, where = type_name(report.precision), health_words.here(report.device)
    if state == "stale":
        earlier = tr("What you see is from the earlier check.")
        return tr("Not checked {0} since a change", where), sentences(reasons.reason(stale_reason or ""), earlier)
    if state == "ok":
        return tr("This model is healthy in {0} {1}", name, where), _ok_text(report)
    if state == "tight":
        return tr("Works in {0}, with little room", name), _tight_text(report)
    if state == "broken":
        return _broken_title(report), _broken_text(report)
    if state == "cured":
        return tr("Cured: no layer overflows any more"), _cured_text(report)
    title = tr("In {0}, this model turns some pictures black {1}", name, where)
    if report.findings and all(one.code in _WRONG for one in report.findings):
        title = tr("In {0}, this model makes wrong pictures {1}", name, where)
    return title, _overflow_text(report)


def _rooms(layers: Sequence[LayerPeak], dtype: DType) -> list[float]:
    limit = math.log2(FLOAT_LIMITS[dtype])
    return [limit - log2_peak(layer.peak) for layer in layers]


def _ok_text(report: CheckReport) -> str:
    rooms = [room for room in _rooms(report.layers, report.precision) if math.isfinite(room)]
    if not rooms:
        return tr("No bad number appeared.")
    least = figures.bits(min(rooms))
    return tr("Every layer keeps at least {0} of room, and no bad number appeared.", least)


def _tight_text(report: CheckReport) -> str:
    places = [(layer.component, layer.module) for layer in report.layers]
    _, count = over_and_tight(places, _rooms(report.layers, report.precision))
    words = (
        tr("1 layer comes close to the limit.") if count == 1 else tr("{0} layers come close to the limit.", figures.group(count))
    )
    return sentences(words, tr("Halftone watches while pictures are made, and a cure gives more room."))


def _broken_title(report: CheckReport) -> str:
    return {
        "file": tr("This model file is damaged"),
        "lora": tr("The LoRA {0} is damaged", damaged_lora(report)),
        "float32": tr("This model gives bad numbers in FP32"),
        "no-cure": tr("No cure passed the check"),
        "no-cure-known": tr("The check found no cure"),
    }[why_broken(report)]


def _broken_text(report: CheckReport) -> str:
    why = why_broken(report)
    if why in ("no-cure", "no-cure-known"):
        found = finding_words(report.findings[0])[0].text(tr) if report.findings else ""
        return sentences(found, tr("Another precision may hold: check again in BF16 or FP32."))
    if why == "float32":
        return tr("Nothing reaches further than FP32. This usually means a damaged file or VAE: download the file again.")
    damaged = [one for one in report.findings if one.code == "weights-nonfinite" and ("lora" in one.facts) == (why == "lora")]
    if why == "lora":
        return sentences(*(words.text(tr) for words in finding_words(damaged[0])))
    names = [f"{one.component}.{one.module}" for one in damaged]
    where = tr("The file holds numbers that are not numbers in {0}.", _few(names)) if names else ""
    return sentences(where, tr("No setting can cure that: download the file again."))


def _few(names: Sequence[str]) -> str:
    shown = listed(*names[:2])
    return shown if len(names) <= 2 else tr("{0} and {1} more tensors", shown, len(names) - 2)


def _cure_sentence(plan: Plan) -> str:
    if plan.rescale and not plan.upcast:
        return tr("An exact rescaling cures that.")
    if plan.upcast:
        count = health_words.upcast_blocks(plan)
        return tr("The cure runs 1 part in FP32.") if count == 1 else tr("The cure runs {0} parts in FP32.", count)
    return tr("A cure is ready.") if not plan.is_plain else ""


def over_layers(report: CheckReport) -> list[LayerPeak]:
    """Without the blocks around them: the findings name these, too."""
    limit = FLOAT_LIMITS[report.precision]
    over = [layer for layer in report.layers if not layer.peak <= limit]
    inside = innermost([(layer.component, layer.module) for layer in over])
    return [layer for layer, counts in zip(over, inside, strict=True) if counts]


def _overflow_text(report: CheckReport) -> str:
    over = over_layers(report)
    name = type_name(report.precision)
    if not over:
        first = report.findings[0] if report.findings else None
        what = tr("{0}.", health_words.finding_title(first)) if first is not None else ""
        return sentences(what, _cure_sentence(report.plan))
    places = list(dict.fromkeys(part_name(part_key(layer.component, layer.module)) for layer in over))
    where = health_words.listed(places)
    if len(over) == 1:
        words = tr("1 layer of the {0} makes numbers larger than {1} can hold.", where, name)
    else:
        words = tr("{0} layers of the {1} make numbers larger than {2} can hold.", figures.group(len(over)), where, name)
    return sentences(words, _cure_sentence(report.plan))


def _cured_text(report: CheckReport) -> str:
    plan = report.plan
    if plan.upcast:
        count = health_words.upcast_blocks(plan)
        done = tr("1 part runs in FP32.") if count == 1 else tr("{0} parts run in FP32.", count)
    elif plan.rescale:
        done = tr("{0} layers are rescaled in memory by powers of two.", health_words.rescaled_layers(plan))
    else:
        done = tr("The stored cure is used for every picture.")
    return done + " " + tr("The file is not changed.")


def figures_of(layers: Sequence[LayerPeak], dtype: DType, *, cured: Plan | None = None) -> tuple[Figure, ...]:
    """Four figures, all from the layers that were measured; with a cure, of the peaks under it."""
    if not layers:
        return ()
    data = build(layers, dtype, plan=cured)
    rooms = [room_bits(one.exp_after, one.dtype_after) if cured else room_bits(one.exp, dtype) for one in data.layers]
    states = ["over" if room < 0 else "tight" if room < TIGHT_BITS else "fine" for room in rooms]
    places = [(one.component, one.module) for one in data.layers]
    over, tight = over_and_tight(places, rooms)
    top = max(one.exp_after if cured else one.exp for one in data.layers)
    limit = math.log2(FLOAT_LIMITS[dtype])
    share = tr("highest peak, {0} limit", figures.times(2 ** (top - limit))) if limit < top < math.inf else tr("highest peak")
    parts = {part_key(one.component, one.module) for one in data.layers}
    bad = {part_key(one.component, one.module) for one, state in zip(data.layers, states, strict=True) if state != "fine"}
    count = figures.group(len(layers))
    if over or cured:
        first = Figure(tr("{0} of {1}", figures.group(over), count), tr("layers overflow"), "danger" if over else "ok")
    else:
        first = Figure(tr("{0} of {1}", figures.group(tight), count), tr("layers tight"), "warn" if tight else "text")
    tone = "danger" if over else "warn" if min(rooms) < TIGHT_BITS else "ok"
    last = Figure(tr("{0} of {1}", len(bad), len(parts)), tr("parts tight") if cured else tr("parts affected"))
    return (
        first,
        Figure(figures.peak(2**top if top < math.inf else math.inf), share),
        Figure(figures.bits(min(rooms)), tr("of room"), tone),
        last,
    )


def layers_after(view: HealthView) -> dict[tuple[str, str], Layer]:
    """Each layer under the cure, by component and module."""
    return {(one.component, one.module): one for one in build(view.layers, view.dtype, plan=view.plan).layers}


def _fine(layers: Sequence[LayerPeak], findings: Sequence[Finding], dtype: DType) -> Fine | None:
    """The tightest of the layers that are neither over nor tight."""
    limit = math.log2(FLOAT_LIMITS[dtype])
    rest = [layer for layer in layers if limit - log2_peak(layer.peak) >= TIGHT_BITS and layer.peak > 0]
    if not rest:
        return None
    top = max(rest, key=lambda layer: layer.peak)
    return Fine(top.component, top.module, top.peak, limit - log2_peak(top.peak), everything=not findings)


def summary_of_findings(findings: Sequence[Finding]) -> str:
    """3 overflow · 1 tight: layers, with those that a finding only counts"""
    layers = [one.code for one in findings for _ in range(1 + len(one.further))]
    damaged = sum(1 for code in layers if code in ("weights-nonfinite", "memory-damage"))
    tight = sum(1 for code in layers if code == "tight")
    over = sum(1 for code in layers if code.endswith("-overflow"))
    other = len(layers) - damaged - tight - over
    counts = ((damaged, tr("{0} damaged")), (over, tr("{0} overflow")), (tight, tr("{0} tight")), (other, tr("{0} other")))
    return " · ".join(words.format(figures.group(count)) for count, words in counts if count)


def model_tags(model: ModelFacts, extras: Extras) -> tuple[str, ...]:
    """What it is checked with, family, stored type and size."""
    vae = () if extras.vae is None else (f"{tr('VAE')}: {text.vae_words(extras.vae)}",)
    added = (f"{tr('LoRA')}: {text.lora_words(extras.loras)}",) if extras.loras else ()
    nets = (f"{tr('ControlNet')}: {text.control_words(extras.controls)}",) if extras.controls else ()
    return (*vae, *nets, *added, model.base or model.family, type_name(model.stored_dtype), figures.size(model.size_bytes))
