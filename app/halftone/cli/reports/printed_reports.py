"""Reports for people: the verdict first, then the evidence, then what to do. Printed with rich on stdout."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final, cast

from msgspec.structs import replace
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from halftone.cli.generate.pass_options import passes_words
from halftone.cli.reports.chosen_precision import ChosenPrecision
from halftone.cli.reports.guard_events import cure_command, event_line, how_to_finish, repaired_name, what_to_do
from halftone.cli.reports.remedies import finding_remedy, say_here
from halftone.cli.terminal.command_lines import command_line, extra_words
from halftone.cli.terminal.console import HarmlessConsole
from halftone.contract.echoes import harmless
from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    DTypeReport,
    Finding,
    GenerateReport,
    GuardEvent,
    OperationResult,
    PictureFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.plan import Cure
from halftone.contract.request import ALONE, Extras, Numerics
from halftone.contract.vocabulary import DETAIL_NAMES, DTYPE_NAMES, FLOAT_LIMITS, CureKind, DType, ReceiptState
from halftone.contract.wording import number
from halftone.health.device_faults import HABITS, OPERATIONS, detours
from halftone.health.explain import copy_limits, finding_words, further_words
from halftone.health.headroom import over_in_float16
from halftone.health.judge import cured_room, disk_price, headroom_bits, is_cured, least_room
from halftone.health.part_names import bits, duration, elapsed, share_of_change
from halftone.health.pictures.frame_lists import frame_list, video_seconds
from halftone.health.pictures.passes import kept_words
from halftone.health.pictures.run_reasons import how_it_ran
from halftone.health.pictures.shortage_sentences import shortage_note
from halftone.health.precision import auto_follows_model, resolve_precision
from halftone.health.reports.report_sentences import (
    CURE_TITLES,
    DTYPE_STATES,
    Tone,
    exactness_words,
    size_words,
    slower_words,
    used_words,
    verdict_words,
)
from halftone.health.troubles import Trouble, helps_words, known_on, known_on_device, origin_words
from halftone.library.add_ons.inversions import inversion_name
from halftone.library.add_ons.vaes import vae_name
from halftone.settings.declared import declared
from halftone.settings.disk import size_text

_SHOWN_FINDINGS: Final = 6
_SHOWN_KNOWN: Final = 3
_GLYPHS: Final[dict[Tone, tuple[str, str]]] = {
    "ok": ("✓", "green"),
    "warn": ("▲", "yellow"),
    "danger": ("✗", "red"),
    "unknown": ("–", "dim"),
}
_IN_USE: Final[dict[CureKind, str]] = {"rescale": "rescaled by powers of two", "upcast-region": "some layers in FP32"}
_RECEIPTS: Final[dict[ReceiptState, tuple[str, str, str]]] = {
    "clean": ("✓", "green", "clean"),
    "recovered": ("✓", "yellow", "recovered"),
    "unwatched": ("–", "yellow", "not watched"),
    "not-recovered": ("✗", "red", "not recovered"),
    "asking": ("?", "yellow", "stopped to ask"),
}


def show_check(report: CheckReport, precision: ChosenPrecision, *, layers: bool = False, console: Console | None = None) -> None:
    out = console or _console()
    words, tone = verdict_words(report)
    glyph, style = _GLYPHS[tone]
    _put(out, f"{glyph} {words.text()}", 0, f"bold {style}", hanging=2)
    room = least_room(report)
    measured = [f"{len(report.layers)} layers"] if report.layers else []
    sizes = [size_words(report)] if report.sizes else []
    facts = [report.model.family, *measured, *sizes, f"checked in {elapsed(report.seconds)}"]
    if room is not None:
        facts.insert(-1, f"least headroom {_room_words(report, room)}")
    _put(out, " · ".join(facts), 2, "dim")
    if report.made_up:
        _put(out, f"Checked with synthetic inputs: {', '.join(report.made_up)}", 2, "dim")
    _put(out, precision.line(), 2, "dim")
    over = over_in_float16(report) if report.verdict in {"healthy", "tight"} else None
    if over is not None:
        _put(out, _float16_words(over), 2, "yellow" if over else "dim")
    _put(out, precision.other_check(overflows=bool(over)), 2, "dim")
    _show_cure(out, report)
    _show_findings(out, report)
    _show_known(out, known_on(report.model, report.device, report.precision, report.numerics))
    if layers:
        out.print(_layer_table(report))


def _float16_words(over: int) -> str:
    """Say what the layers that were measured would meet in FP16. over: how many would overflow."""
    which = "1 layer" if over == 1 else f"{number(over)} layers" if over else "none"
    return f"In FP16, {which} would exceed the limit of {number(FLOAT_LIMITS['float16'])}."


def _room_words(report: CheckReport, room: float) -> str:
    """Give the headroom with the cure where one is in use, as the verdict does."""
    now = cured_room(report) if is_cured(report) else None
    return f"{bits(room)} bits" if now is None else f"{bits(now)} bits with the cure, {bits(room)} bits before"


def _show_findings(out: Console, report: CheckReport) -> None:
    if report.findings and is_cured(report):
        out.print()
        _put(out, "Before the cure:", 2)
    for index, finding in enumerate(report.findings[:_SHOWN_FINDINGS], 1):
        out.print()
        _put(out, f"{index}  {finding_words(finding)[0]}", 2, hanging=3)
        if place := _place(finding):
            _put(out, place, 5, "dim")
        if (further := further_words(finding)) is not None:
            _put(out, further.text(), 5)
        if ("lora" in finding.facts or finding.code == "weights-clipped") and report.verdict != "broken":
            _put(out, finding_remedy(finding), 5)
    if (more := len(report.findings) - _SHOWN_FINDINGS) > 0:
        out.print()
        _put(out, f"and {more} more; --json lists all", 2, "dim")
    if report.verdict == "broken" and report.findings:
        out.print()
        _put(out, finding_remedy(report.findings[0]), 2)


def _show_known(out: Console, troubles: Sequence[Trouble]) -> None:
    """Print what others met under a heading of its own: it is no finding."""
    if not troubles:
        return
    out.print()
    _put(out, "Reported by other users, not measured here:", 2)
    for trouble in troubles[:_SHOWN_KNOWN]:
        _put(out, f"–  {trouble.what} {helps_words(trouble).text()}", 2, "dim", hanging=3)
        _put(out, origin_words(trouble).text(), 5, "dim")
    if (more := len(troubles) - _SHOWN_KNOWN) > 0:
        _put(out, f"and {more} more; --json lists all", 5, "dim")


def _place(finding: Finding) -> str:
    """The exact names: of the tensor in its file where the file is at fault, else of the layer, with what was measured there."""
    if "tensor" in finding.facts:
        names = [str(finding.facts[name]) for name in ("file", "tensor") if name in finding.facts]
        return " · ".join((finding.component, *names))
    place = f"{finding.component}.{finding.module}" if finding.module else finding.component
    if finding.peak is not None and finding.limit is not None:
        place += f" · peak {number(finding.peak)} · limit {number(finding.limit)}"
    return place


def _show_cure(out: Console, report: CheckReport) -> None:
    cure = next((cure for cure in report.cures if cure.suggested), None)
    if cure is None or cure.kind == "none":
        return
    out.print()
    out.print(Text.assemble("  ", ("Cure  ", "bold cyan"), CURE_TITLES[cure.kind] + "."))
    _put(out, _price(cure), 8, "dim")
    if (exactness := exactness_words(cure.plan)) is not None:
        _put(out, exactness.text(), 8, "dim")
    if report.applied:
        _put(out, used_words(report).text(), 2)
        return
    name, used = report.model.id, extra_words(report.extras)
    out.print(Text(f"  Use it from now on:    {cure_command(report, cure)}"), soft_wrap=True)
    if cure.kind == "rescale" and report.extras.can_be_copied and not report.model.parts:
        out.print(
            Text(f"  Write a repaired copy: {command_line('repair', name, *used, '--output', repaired_name(name))}"),
            soft_wrap=True,
        )


def _put(out: Console, text: str, indent: int, style: str = "", *, hanging: int = 0) -> None:
    """A paragraph, wrapped at plain spaces only: rich would also break the narrow ones inside numbers and before units."""
    before = " " * indent
    lines = textwrap.wrap(text, max(out.width, 40), initial_indent=before, subsequent_indent=before + " " * hanging)
    for line in lines:
        out.print(Text(line, style=style), soft_wrap=True)


def _price(cure: Cure) -> str:
    """The four prices; what was not measured says so."""
    slower = slower_words(cure)
    time = "time not measured" if slower is None else f"picture time {slower.text()}, measured"
    memory = "memory not measured" if cure.memory_bytes is None else f"memory +{cure.memory_bytes / 1e6:.0f}\u00a0MB, computed"
    disk = f"disk +{(disk_price(cure) or 0) / 1e6:.0f}\u00a0MB"
    return " · ".join((time, memory, disk, _picture_price(cure)))


def _picture_price(cure: Cure) -> str:
    """No picture is drawn for a cure whose results are close to those of FP32."""
    if cure.psnr is not None:
        return f"picture {cure.psnr:.0f}\u00a0dB from FP32"
    if cure.plan.error is None:
        return "picture not compared"
    return f"picture not compared: the results are within {share_of_change(cure.plan.error)} of FP32"


def _layer_table(report: CheckReport) -> Table:
    table = Table("layer", "kind", box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("peak", justify="right")
    table.add_column("headroom", justify="right")
    for layer in report.layers:
        room = headroom_bits(layer.peak, report.precision)
        style = "" if room is None or room >= 2 else "yellow" if room >= 0 else "red"
        name = f"{layer.component}.{layer.module}" if layer.module else layer.component
        table.add_row(harmless(name), layer.kind, number(layer.peak), "" if room is None else bits(room), style=style)
    return table


def show_pictures(
    report: GenerateReport,
    model: str,
    precision: ChosenPrecision,
    *,
    extras: Extras = ALONE,
    console: Console | None = None,
) -> None:
    """model: as the user would name it again."""
    out = console or _console()
    for picture in report.images:
        used = f" · with {named}" if (named := _named(replace(extras, loras=(*extras.loras, *picture.loras)))) else ""
        glyph, style, state = _RECEIPTS[picture.state]
        if picture.state == "clean" and picture.cures:
            state += f", with a cure in use ({', '.join(f'{name}: {_IN_USE[kind]}' for name, kind in picture.cures.items())})"
        after = "" if picture.kept_step is None else f" after step {kept_words(picture).text()}"
        where = picture.path or (f"kept{after} as {picture.latents}" if picture.latents else "no picture")
        size = f"{picture.width} × {picture.height}{_film_words(picture)}{passes_words(picture)}"
        memory = "" if picture.peak_memory is None else f" · {size_text(picture.peak_memory)} of memory"
        facts = f"seed {picture.seed} · {size} · {elapsed(picture.seconds)}{memory} · {state}{used}"
        out.print(Text.assemble((f"{glyph} ", f"bold {style}"), (where, "bold")), soft_wrap=True)
        _put(out, facts, 2, "dim")
        _show_events(out, picture.events, "red" if picture.state == "not-recovered" else "yellow")
        for shortage in picture.shortages:
            note = shortage_note(shortage)
            _put(out, f"{note.title.text()} {note.text.text()}", 2, "red" if shortage.then == "stopped" else "yellow")
        if picture.cut_short is not None:
            first = " This is the first pass." if picture.path else ""
            _put(out, f"The second pass failed.{first} {say_here(picture.cut_short)}", 2, "yellow")
        if picture.not_kept:
            _put(out, "This model and sampler cannot resume it.", 2)
            _put(out, "Use --on-black recover, which cures the step as soon as it fails.", 2)
        if picture.path and (bad := picture.broken_frames or picture.flat_frames):
            what = "Frames with NaN" if picture.broken_frames else "Frames with one flat colour"
            _put(out, f"{what}, of {picture.frames}: {frame_list(bad)}.", 2, "red")
        if picture.dark:
            _put(out, "Dark picture, but finite.", 2)
    if not report.images:
        _put(out, "✗ No picture was made.", 0, "bold red")
        _show_events(out, report.events, "red")
    _put(out, precision.brief(), 2, "dim")
    for reason in how_it_ran(report.plan.reasons):
        _put(out, reason.text(), 2, "dim")
    events = [event for picture in report.images for event in picture.events]
    if command := what_to_do(events, model, precision.dtype, extras):
        out.print(Text(f"  What you can do:  {command}", style="bold"), soft_wrap=True)
    for command in filter(None, map(how_to_finish, report.images)):
        out.print(Text(f"  Finish it with:  {command}", style="bold"), soft_wrap=True)


def _film_words(picture: PictureFacts) -> str:
    """Describe a video beside its size."""
    if not (seconds := video_seconds(picture)):
        return ""
    return f" · {picture.frames} frames, {picture.fps} a second, {seconds:.1f}\u00a0s"


def _named(extras: Extras) -> str:
    """Which transformer, VAE, embeddings, and LoRAs with their weights; "" where the model was alone."""
    listed = ", ".join(f"{lora.name} {lora.shown_weight}" for lora in extras.loras)
    loras = f"the LoRA{'s' if len(extras.loras) > 1 else ''} {listed}" if listed else ""
    vae = "" if extras.vae is None else f"the VAE {vae_name(extras.vae)}"
    transformer = "" if extras.transformer is None else f"the transformer {vae_name(extras.transformer)}"
    nets = ", ".join(f"{control.name} {control.scale:g}" for control in extras.controls)
    controls = f"the ControlNet{'s' if len(extras.controls) > 1 else ''} {nets}" if nets else ""
    shown = ", ".join(f"{one.name} {one.scale:g}" for one in extras.ip_adapters)
    pictures = f"the IP-Adapter{'s' if len(extras.ip_adapters) > 1 else ''} {shown}" if shown else ""
    words = ", ".join(map(inversion_name, extras.inversions))
    named = f"the embedding{'s' if len(extras.inversions) > 1 else ''} {words}" if words else ""
    return " and ".join(filter(None, (transformer, vae, controls, pictures, loras, named)))


def _show_events(out: Console, events: Iterable[GuardEvent], style: str) -> None:
    for index, event in enumerate(events, 1):
        _put(out, f"{index}  {event_line(event)}", 2, style, hanging=3)


def show_repair(report: RepairReport, *, console: Console | None = None) -> None:
    out = console or _console()
    glyph, style = ("✓", "green") if report.float16_finite else ("✗", "red")
    out.print(Text.assemble((f"{glyph} ", f"bold {style}"), (report.path, "bold")), soft_wrap=True)
    finite = "finite in FP16" if report.float16_finite else "still not finite in FP16"
    facts = f"{report.changed_tensors} tensors rescaled · {finite} · {_distance(report)} in FP32"
    _put(out, f"{facts} · {elapsed(report.seconds)}", 2, "dim")
    if (note := copy_limits(report)) is not None:
        _put(out, note.text(), 2, "yellow")


def _distance(report: RepairReport) -> str:
    compared = "the original with its LoRAs" if report.loras else "the original"
    return f"identical to {compared}" if report.float32_error == 0 else f"{number(report.float32_error)} away from {compared}"


def show_devices(
    devices: Iterable[DeviceFacts], report: SelfTestReport, numerics: Numerics, *, console: Console | None = None
) -> None:
    """Show what the self-test measured of a device. numerics: the saved settings, which say what Halftone will do on it."""
    out = console or _console()
    facts = report.device
    memory = f" · {facts.memory_total / 1e9:.0f}\u00a0GB" if facts.memory_total else ""
    driver = f" · driver {facts.driver}" if facts.driver else ""
    out.print(Text(f"{facts.name} ({facts.id})", style="bold"))
    shown = [(DETAIL_NAMES[one], value) for one, value in facts.details.items() if one != "threads" or not facts.threads]
    details = "".join(f" · {name}: {value}" for name, value in shown)
    _put(out, f"{facts.backend}{memory}{driver} · PyTorch {facts.torch_version}{_threads_words(facts)}{details}", 2, "dim")
    out.print()
    for dtype in report.dtypes:
        out.print(Padding(_dtype_line(dtype), (0, 0, 0, 2)))
    _put(out, f"Tested: {_tested(report)}.", 2, "dim")
    if any(_is_faster(dtype) for dtype in report.dtypes):
        _put(out, "Times of a UNet step plus a transformer step, run in turns.", 2, "dim")
    out.print()
    or_wide = ", or BF16 for models that need its range" if auto_follows_model(report) else ""
    _put(
        out,
        f"Auto uses {DTYPE_NAMES[report.auto]}{or_wide}. {report.auto_reason}" if or_wide else f"Auto: {report.auto_reason}",
        2,
    )
    wrong = [test for test in report.tests if test.outcome not in {"right", "missing"}]
    when = report.measured_at[:16].replace("T", " ")
    _put(out, f"{len(report.tests)} tests, {len(wrong)} wrong, measured {when} in {duration(report.seconds)}.", 2, "dim")
    for words, off in _failed_tests(report, numerics):
        _put(out, words, 2, "dim" if off else "yellow")
    _put(out, _settings_words(report, numerics), 2, "dim")
    for way in detours(report, "auto"):
        _put(out, way.text(), 2, "yellow")
    others = [f"{device.name} ({device.id})" for device in devices if device.id != facts.id]
    if others:
        _put(out, f"Also here: {', '.join(others)}. --device chooses.", 2, "dim")
    _show_known(out, known_on_device(facts))


def _threads_words(device: DeviceFacts) -> str:
    """Say how many threads compute, and of how many where that is known."""
    if not device.threads:
        return ""
    if of_all := device.details.get("threads"):
        return f" · {device.threads} of {of_all} threads in use"
    return f" · {device.threads} thread{'s' * (device.threads > 1)} in use"


def _dtype_line(report: DTypeReport) -> Text:
    state, tone = DTYPE_STATES[report.state]
    glyph, style = _GLYPHS[tone]
    speed = f", about {report.speed:.1f} × as fast as FP32" if _is_faster(report) else ""
    return Text.assemble((f"{glyph} {DTYPE_NAMES[report.dtype]} {state}", style), f"{speed}.", (f" {report.reason}", "dim"))


def _failed_tests(report: SelfTestReport, numerics: Numerics) -> list[tuple[str, bool]]:
    """Say of each mode which accuracy tests failed in it, and whether the settings leave that mode out."""
    found: list[tuple[str, bool]] = []
    leaves_out = {"tf32": not numerics.tf32, "float16-sums": not numerics.fp16_accumulation}
    for mode in dict.fromkeys(one.mode for one in report.tests):
        finished = [one for one in report.tests if one.mode == mode and one.outcome != "missing"]
        failed = [one for one in finished if one.outcome != "right"]
        if failed:
            off = leaves_out.get(mode, False)
            count = f"{len(failed)} of {len(finished)} accuracy tests failed ({_operations(failed)})."
            found.append((f"{_mode_name(mode)}: {count}{' Your settings turn it off.' if off else ''}", off))
    return found


def _mode_name(mode: str) -> str:
    return {"tf32": "TF32", "float16-sums": "FP16 with FP16 sums"}.get(mode) or DTYPE_NAMES.get(cast("DType", mode), mode)


def _settings_words(report: SelfTestReport, numerics: Numerics) -> str:
    """Say what the saved settings have Halftone do on this device."""
    dtype, _ = resolve_precision(numerics.precision, report, report.device)
    asked = "Auto, so " if numerics.precision == "auto" else ""
    sums = f"sums in {'FP16' if numerics.fp16_accumulation else 'FP32'}, " if dtype == "float16" else ""
    checked = {"every-step": "every step is checked", "at-end": "the finished picture is checked", "off": "nothing is checked"}
    attention = next(
        choice.label for choice in declared("attention_backend").choices if choice.value == numerics.attention_backend
    )
    return f"Your settings: {asked}{DTYPE_NAMES[dtype]}, {sums}{attention} attention, and {checked[numerics.nan_check]}."


def _tested(report: SelfTestReport) -> str:
    """matrix product, convolution, ...: every operation that was tested."""
    return _operations(report.tests)


def _operations(tests: Iterable[OperationResult]) -> str:
    names = dict.fromkeys(HABITS.get(one.operation) or OPERATIONS.get(one.operation, one.operation) for one in tests)
    return ", ".join(name[0].lower() + name[1:] for name in names)


def _is_faster(report: DTypeReport) -> bool:
    return report.dtype != "float32" and report.state == "works" and report.speed is not None


def _console() -> Console:
    return HarmlessConsole(highlight=False)
