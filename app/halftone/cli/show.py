"""Reports for people: the verdict first, then the evidence, then what to do. Printed with rich on stdout."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    DTypeReport,
    GenerateReport,
    GuardEvent,
    PictureFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.plan import Cure
from halftone.contract.words import CureKind, DType, DTypeState, ReceiptState, Verdict
from halftone.health.judge import headroom_bits, smallest_room
from halftone.health.words import bits, duration, number, plain_component, plain_module

_SHOWN_FINDINGS: Final = 6
_DTYPES: Final[dict[DType, str]] = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32"}
_VERDICTS: Final[dict[Verdict, tuple[str, str, str]]] = {
    "healthy": ("✓", "green", "{model} is healthy in {precision} on {device}."),
    "tight": ("▲", "yellow", "{model} works in {precision} on {device}, with little room."),
    "fixable": ("✗", "red", "{model} does not hold in {precision} on {device}, and there is a cure."),
    "broken": ("✗", "red", "{model} holds broken numbers, and no setting can cure that."),
}
_CURES: Final[dict[CureKind, str]] = {
    "none": "Nothing to do",
    "rescale": "Rescale in memory: exact, the file stays as it is",
    "setting": "Change a setting",
    "upcast-region": "Run the smallest region in FP32",
    "bfloat16": "Run the component in BF16",
    "float32-component": "Run the component in FP32",
    "float32-all": "Run everything in FP32",
}
_STATES: Final[dict[DTypeState, tuple[str, str, str]]] = {
    "works": ("✓", "green", "works"),
    "slow": ("▲", "yellow", "slow"),
    "wrong": ("✗", "red", "faulty"),
    "missing": ("–", "dim", "missing"),
}
_RECEIPTS: Final[dict[ReceiptState, tuple[str, str, str]]] = {
    "clean": ("✓", "green", "clean"),
    "recovered": ("✓", "yellow", "recovered"),
    "unwatched": ("–", "yellow", "not watched"),
    "not-recovered": ("✗", "red", "not recovered"),
    "asking": ("?", "yellow", "waits for your answer"),
}
_ACTIONS: Final[dict[str, str]] = {
    "decoded-again": "Halftone decoded the picture again",
    "went-back-one-step": "Halftone went back one step and finished the picture",
    "encoded-again": "Halftone read the prompt again",
    "stopped": "Halftone stopped this picture",
    "kept": "the picture was kept as it is",
    "asked": "Halftone kept the result before that step and asks what to do",
}


def show_check(report: CheckReport, *, layers: bool = False, console: Console | None = None) -> None:
    out = console or _console()
    glyph, style, words = _VERDICTS[report.verdict]
    said = words.format(model=report.model.name, precision=_DTYPES[report.precision], device=report.device.name)
    out.print(Text(f"{glyph} {said}", style=f"bold {style}"))
    room = smallest_room(report.layers, report.precision)
    facts = [report.model.family, f"{len(report.layers)} layers", f"checked in {duration(report.seconds)}"]
    if room is not None:
        facts.insert(2, f"smallest room {bits(room)} bits")
    out.print(Text("  " + " · ".join(facts), style="dim"))
    _show_findings(out, report)
    _show_cure(out, report)
    if layers:
        out.print(_layer_table(report))


def _show_findings(out: Console, report: CheckReport) -> None:
    for index, finding in enumerate(report.findings[:_SHOWN_FINDINGS], 1):
        out.print()
        message = finding.message or f"{plain_module(finding.component, finding.module)}: {finding.code}."
        out.print(Padding(Text.assemble((f"{index}  ", "bold"), message), (0, 0, 0, 2)))
        place = f"{finding.component}.{finding.module}" if finding.module else finding.component
        if finding.peak is not None and finding.limit is not None:
            place += f" · peak {number(finding.peak)} · limit {number(finding.limit)}"
        out.print(Padding(Text(place, style="dim"), (0, 0, 0, 5)))
    if (more := len(report.findings) - _SHOWN_FINDINGS) > 0:
        out.print(Text(f"\n  and {more} more; --json lists all", style="dim"))


def _show_cure(out: Console, report: CheckReport) -> None:
    cure = next((cure for cure in report.cures if cure.suggested), None)
    if cure is None or cure.kind == "none":
        if report.verdict == "broken" and report.findings:
            out.print(Text(f"\n  {report.findings[0].remedy}"))
        return
    out.print()
    out.print(Text.assemble("  ", ("Cure  ", "bold cyan"), _CURES[cure.kind] + "."))
    out.print(Padding(Text(_price(cure), style="dim"), (0, 0, 0, 8)))
    name = report.model.id
    if report.applied:
        out.print("  It is used from now on whenever this model runs on this device.", markup=False)
        return
    out.print(Text(f"  Use it from now on:    halftone check {name} --precision {report.precision} --apply"))
    if cure.kind == "rescale":
        out.print(Text(f"  Write a repaired copy: halftone repair {name} --output NEW"))


def _price(cure: Cure) -> str:
    """The four prices; what was not measured says so."""
    time = "time not measured" if cure.time_ratio is None else f"time {_percent(cure.time_ratio - 1)}"
    memory = "memory not measured" if cure.memory_bytes is None else f"memory +{cure.memory_bytes / 1e6:.0f}\u00a0MB"
    disk = f"disk +{(cure.disk_bytes or 0) / 1e6:.0f}\u00a0MB"
    picture = "picture not compared" if cure.psnr is None else f"picture {cure.psnr:.0f}\u00a0dB from FP32"
    return " · ".join((time, memory, disk, picture))


def _percent(share: float) -> str:
    sign = "+" if share >= 0 else "\u2212"
    return f"{sign}{abs(share) * 100:.1f}\u00a0%"


def _layer_table(report: CheckReport) -> Table:
    table = Table("layer", "kind", box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("peak", justify="right")
    table.add_column("room", justify="right")
    for layer in report.layers:
        room = headroom_bits(layer.peak, report.precision)
        style = "" if room is None or room >= 2 else "yellow" if room >= 0 else "red"
        name = f"{layer.component}.{layer.module}" if layer.module else layer.component
        table.add_row(name, layer.kind, number(layer.peak), "" if room is None else bits(room), style=style)
    return table


def show_pictures(report: GenerateReport, *, console: Console | None = None) -> None:
    out = console or _console()
    for picture in report.images:
        glyph, style, state = _RECEIPTS[picture.state]
        where = picture.path or (f"kept as {picture.latents}" if picture.latents else "no picture")
        facts = f"seed {picture.seed} · {picture.width} × {picture.height} · {duration(picture.seconds)} · {state}"
        out.print(Text.assemble((f"{glyph} ", f"bold {style}"), (where, "bold")), soft_wrap=True)
        out.print(Text(f"  {facts}", style="dim"))
        _show_events(out, picture)
    if not report.images:
        out.print(Text("✗ No picture was made.", style="bold red"))
        for event in report.events:
            out.print(Text(f"  {_event(event)}"))


def _show_events(out: Console, picture: PictureFacts) -> None:
    for event in picture.events:
        out.print(Padding(Text(_event(event)), (0, 0, 0, 2)))
    if picture.dark:
        out.print("  This picture is almost black, but its numbers are fine.", markup=False)


def _event(event: GuardEvent) -> str:
    """What happened, what Halftone did."""
    when = f"At step {event.step}, a" if event.step is not None else "A"
    what = "bad number appeared" if event.kind == "nonfinite" else "picture of one colour came out"
    place = plain_module(event.component, event.module) if event.module else plain_component(event.component).text()
    done = _ACTIONS.get(event.action, event.action)
    cost = f" It took {duration(event.seconds)} more." if event.seconds >= 0.05 else ""
    return f"{when} {what} in: {place}. {done[:1].upper()}{done[1:]}.{cost}"


def show_repair(report: RepairReport, *, console: Console | None = None) -> None:
    out = console or _console()
    glyph, style = ("✓", "green") if report.float16_finite else ("✗", "red")
    out.print(Text.assemble((f"{glyph} ", f"bold {style}"), (report.path, "bold")), soft_wrap=True)
    finite = "finite in FP16" if report.float16_finite else "still not finite in FP16"
    error = f"{report.float32_error:.1e}".replace("-", "\u2212")
    facts = f"{report.changed_tensors} tensors rescaled · {finite} · {error} away from the original in FP32"
    out.print(Text(f"  {facts} · {duration(report.seconds)}", style="dim"))


def show_devices(devices: Iterable[DeviceFacts], report: SelfTestReport, *, console: Console | None = None) -> None:
    out = console or _console()
    facts = report.device
    memory = f" · {facts.memory_total / 1e9:.0f}\u00a0GB" if facts.memory_total else ""
    driver = f" · driver {facts.driver}" if facts.driver else ""
    out.print(Text(f"{facts.name} ({facts.id})", style="bold"))
    out.print(Text(f"  {facts.backend}{memory}{driver} · PyTorch {facts.torch_version}", style="dim"))
    out.print()
    for dtype in report.dtypes:
        out.print(Padding(_dtype_line(dtype), (0, 0, 0, 2)))
    out.print()
    out.print(Text.assemble("  ", ("Auto  ", "bold cyan"), f"{_DTYPES[report.auto]}. {report.auto_reason}"))
    wrong = [test for test in report.tests if test.outcome not in {"right", "missing"}]
    out.print(Text(f"  {len(report.tests)} tests, {len(wrong)} wrong, measured {report.measured_at[:16]}", style="dim"))
    others = [f"{device.name} ({device.id})" for device in devices if device.id != facts.id]
    if others:
        out.print(Text(f"  Also here: {', '.join(others)}; --device chooses", style="dim"))


def _dtype_line(report: DTypeReport) -> Text:
    glyph, style, state = _STATES[report.state]
    speed = "" if report.speed is None or report.dtype == "float32" else f"  {report.speed:.1f} × FP32"
    return Text.assemble((f"{glyph} {_DTYPES[report.dtype]}  {state}", style), speed, (f"  {report.reason}", "dim"))


def _console() -> Console:
    return Console(highlight=False)
