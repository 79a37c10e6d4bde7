"""What the Health page shows, decided from facts alone: one verdict, its four figures, findings and cures. No widget in here."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from halftone.contract.facts import CheckReport, DeviceFacts, Finding, LayerPeak, ModelFacts
from halftone.contract.messages import Examine
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Extras
from halftone.contract.vocabulary import FLOAT_LIMITS, TIGHT_BITS, DType
from halftone.contract.wording import Words
from halftone.gui import text
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.create.picture import picture_details
from halftone.gui.health import health_text
from halftone.gui.health.verdict_text import State, checked_words, state_of, verdict_words
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.health.headroom import Layer, build, log2_peak, part_key, room_bits
from halftone.health.judge import came_once, highest_peak, over_and_tight, why_broken
from halftone.session.state import Ended, Job

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


PHASES: Final = ("load", "scan", "range", "target", "plan", "verify", "measure")
"""A check goes through these; the share of the whole is counted in them."""


def whole_share(job: Job | None) -> float | None:
    """0 to 1 over all phases, None while nothing tells it."""
    if job is None or not job.running or job.phase not in PHASES:
        return None if job is not None and job.running else 0.0
    return (PHASES.index(job.phase) + (job.fraction or 0.0)) / len(PHASES)


def offered(cures: Sequence[Cure]) -> tuple[Cure, ...]:
    """Cures as the list shows them: those that can be chosen first, in the order of the check; doing nothing is none."""
    real = [cure for cure in cures if cure.kind != "none"]
    return (*(cure for cure in real if not cure.refusal), *(cure for cure in real if cure.refusal))


def suggested(view: HealthView) -> int | None:
    """Index of the cure that is selected at first."""
    if view.applied:
        return next((index for index, cure in enumerate(view.cures) if health_text.same_plan(cure.plan, view.plan)), None)
    marked = next((index for index, cure in enumerate(view.cures) if cure.suggested and not cure.refusal), None)
    return marked if marked is not None else next((index for index, cure in enumerate(view.cures) if not cure.refusal), None)


def of_unchecked(device: DeviceFacts | None) -> HealthView:
    title = tr("Not checked {0} yet", health_text.here(device))
    text = tr("A check runs each part once and finds layers that overflow. It changes nothing.")
    return HealthView("unchecked", title, text)


def of_progress(job: Job, share: float, dtype: DType, before: HealthView, measured: tuple[Figure, ...]) -> HealthView:
    """While a check runs; one that follows a cure keeps the findings. share: of the layers; measured: figures of them so far."""
    command = job.command
    curing = isinstance(command, Examine) and command.plan is not None
    phase = phase_words(job)
    if not job.running:
        title = tr("Check queued")
    elif job.stopping:
        title = tr("Stopping the check")
    else:
        title = tr("Checking the cure") if curing else tr("Checking {0}", job.title) if job.title else tr("Checking")
    if curing:
        return replace(before, state="checking", title=title, text=phase, figures=(), share=1.0, report=None)
    return HealthView("checking", title, phase, measured, "", dtype, job.layers, job.findings, None, (), None, share=share)


def phase_words(job: Job) -> str:
    """What the check does at this moment, with the highest value so far."""
    names = {
        "load": tr("Loading the model"),
        "scan": tr("Scanning the file"),
        "range": tr("Measuring each layer in FP32"),
        "target": tr("Running in half precision"),
        "plan": tr("Looking for the cheapest cure"),
        "verify": tr("Testing the cure"),
        "measure": tr("Measuring its cost"),
        "encode": tr("Encoding the prompt"),
        "denoise": tr("Denoising"),
        "decode": tr("Decoding the picture"),
    }
    phase = names.get(job.phase or "", tr("Starting"))
    detail = picture_details.cure_name(job.detail) or text.component_name(job.detail)
    if job.phase == "plan" and job.done:
        detail = tr("attempt {0}", figures.group(job.done))
    words = [tr("{0}: {1}.", phase, detail) if detail else tr("{0}.", phase)]
    if job.layers:
        top = max(layer.peak for layer in job.layers)
        limit = FLOAT_LIMITS["float16"]
        fits = tr("fits in FP16") if top <= limit else tr("{0} the FP16 limit", figures.times(top / limit))
        words.append(tr("Highest value so far {0}, {1}.", figures.peak(top), fits))
    return sentences(*words)


def of_failed(ended: Ended, dtype: DType) -> HealthView:
    """M9: the check stopped; what it had measured stays."""
    job = ended.job
    if ended.outcome == "cancelled":
        title = tr("Check stopped")
        words = tr("Results so far are kept.")
    else:
        title = tr("Check failed")
        what = text.error_sentence(ended.error) if ended.error is not None else ""
        words = sentences(what, tr("Results so far are kept."))
    report = ended.report if isinstance(ended.report, CheckReport) else None
    layers = report.layers if report is not None else job.layers
    findings = report.findings if report is not None else job.findings
    return HealthView(
        "stopped" if ended.outcome == "cancelled" else "failed",
        title,
        words,
        figures_of(layers, dtype, findings),
        tr("Not finished"),
        dtype,
        layers,
        findings,
        _fine(layers, findings, dtype) if layers else None,
    )


def of_report(report: CheckReport, stale_reason: Words | None) -> HealthView:
    """A finished check, or an old one that a changed fact made stale."""
    state = state_of(report, stale_reason)
    title, words = verdict_words(report, state, stale_reason)
    return HealthView(
        state,
        title,
        words,
        figures_of(report.layers, report.precision, report.findings, cured=report.plan if state == "cured" else None),
        checked_words(report),
        report.precision,
        report.layers,
        report.findings,
        None if state == "broken" else _fine(report.layers, report.findings, report.precision),
        () if state == "broken" and why_broken(report) != "no-cure" else offered(report.cures),
        None if report.plan.is_plain or state == "broken" else report.plan,
        report.applied,
        report=report,
    )


def figures_of(
    layers: Sequence[LayerPeak], dtype: DType, findings: Sequence[Finding] = (), *, cured: Plan | None = None
) -> tuple[Figure, ...]:
    """Four figures of what was measured; with a cure, of the peaks under it."""
    if not layers:
        return ()
    data = build(layers, dtype, plan=cured)
    rooms = [room_bits(one.exp_after, one.dtype_after) if cured else room_bits(one.exp, dtype) for one in data.layers]
    states = ["over" if room < 0 else "tight" if room < TIGHT_BITS else "fine" for room in rooms]
    places = [(one.component, one.module) for one in data.layers]
    over, tight = over_and_tight(places, rooms)
    top = max(one.exp_after if cured else one.exp for one in data.layers)
    if not cured and (peak := highest_peak(layers, findings)) is not None:
        top = log2_peak(peak)
        rooms.append(room_bits(top, dtype))  # of attention scores, which are in no layer
    limit = math.log2(FLOAT_LIMITS[dtype])
    share = tr("highest peak, {0} limit", figures.times(2 ** (top - limit))) if limit < top < math.inf else tr("highest peak")
    parts = {part_key(one.component, one.module) for one in data.layers}
    bad = {part_key(one.component, one.module) for one, state in zip(data.layers, states, strict=True) if state != "fine"}
    parts_over = {part_key(*place) for place, state in zip(places, states, strict=True) if state == "over"}
    count = figures.group(len(layers))
    if over or cured:
        first = Figure(tr("{0} of {1}", figures.group(over), count), tr("layers overflow"), "danger" if over else "ok")
    else:
        first = Figure(tr("{0} of {1}", figures.group(tight), count), tr("layers tight"), "warn" if tight else "text")
    tone = "danger" if over else "warn" if min(rooms) < TIGHT_BITS else "ok"
    last = Figure(tr("{0} of {1}", len(bad), len(parts)), _parts_words(parts_over, len(bad), cured=cured is not None))
    return (
        first,
        Figure(figures.peak(2**top if top < math.inf else math.inf), share),
        Figure(figures.bits(min(rooms)), tr("headroom"), tone),
        last,
    )


def _parts_words(over: Collection[object], bad: int, *, cured: bool) -> str:
    """over: the parts in which a layer overflows; bad: how many do, or are tight."""
    if cured:
        return tr("parts tight")
    tight = bad - len(over)
    return tr("parts affected, {0} only tight", tight) if over and tight else tr("parts affected")


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
    once = sum(map(came_once, findings))
    damaged = sum(1 for code in layers if code in ("weights-nonfinite", "memory-damage")) - once
    tight = sum(1 for code in layers if code == "tight")
    over = sum(1 for code in layers if code.endswith("-overflow"))
    other = len(layers) - damaged - tight - over
    counts = ((damaged, tr("{0} damaged")), (over, tr("{0} overflow")), (tight, tr("{0} tight")), (other, tr("{0} other")))
    return " · ".join(words.format(figures.group(count)) for count, words in counts if count)


def model_tags(model: ModelFacts, extras: Extras) -> tuple[str, ...]:
    """What it is checked with, family, stored type and size."""
    parts = ((tr("Transformer"), extras.transformer), (tr("VAE"), extras.vae))
    replaced = tuple(f"{name}: {text.part_words(path)}" for name, path in parts if path is not None)
    lists = ((tr("ControlNet"), extras.controls), (tr("IP-Adapter"), extras.ip_adapters), (tr("LoRA"), extras.loras))
    added = tuple(f"{name}: {text.net_words(nets)}" for name, nets in lists if nets)
    return (
        *replaced,
        *added,
        model.base or model.family,
        type_name(model.stored_dtype),
        figures.size(model.size_bytes),
    )
