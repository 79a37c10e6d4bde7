"""What the commands do once their input proved good: run the job and keep what is to be remembered."""

import logging
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import psutil
from msgspec.structs import replace

from halftone.cli.generate.size_notes import sized
from halftone.cli.jobs.engine_and_log import JOB, Tools, kept_log, kept_stdout
from halftone.cli.jobs.hardware import most_memory
from halftone.cli.jobs.in_process import list_devices, run_job
from halftone.cli.reports.chosen_precision import ChosenPrecision
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.progress import Progress, picture_count
from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    GenerateReport,
    MemoryFacts,
    ModelFacts,
    PictureFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.messages import AnyEvent, Examine, Generate, PictureReady, Repair, SelfTest, Upscale
from halftone.contract.request import Extras, Numerics, PictureRequest, UpscaleRequest
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words, either
from halftone.gallery.timed import Conditions, names_of
from halftone.health.forecasts.memory_forecast import NEAR
from halftone.health.forecasts.picture_memory import Next, forecast
from halftone.health.judge import kept
from halftone.health.pictures.passes import last_size
from halftone.health.precision import model_precision
from halftone.library.families.networks import known_networks
from halftone.library.learned import forget
from halftone.library.records import drop_applied, load_report, load_selftest, save_report, set_applied, staleness
from halftone.library.resolution_bins import computed_size
from halftone.metadata.picture import output_error
from halftone.settings.atomic import create_atomically, write_atomically
from halftone.settings.disk import system_words
from halftone.settings.places import checks_dir
from halftone.settings.store import load, save

log = logging.getLogger(__name__)


def measure_device(tools: Tools, device: str, *, again: bool, as_json: bool) -> tuple[tuple[DeviceFacts, ...], SelfTestReport]:
    """All devices, and the self-test of one: the stored one if it still holds and `again` is not wanted."""
    with Progress(wanted=not as_json) as progress:
        listed = list_devices(tools)
        chosen = _chosen(listed, device)
        stored = None if again else load_selftest(chosen)
        report = stored or run_job(tools, SelfTest(job=JOB, device=chosen.id), SelfTestReport, progress)
    if report.not_kept:
        _note(f"The measurements could not be saved{_because(report.not_kept)}: the next command measures again.")
    return listed, report


def choose_precision(
    tools: Tools, device: str, numerics: Numerics, model: ModelFacts, extras: Extras, *, as_json: bool
) -> ChosenPrecision:
    """What a model will run in on `device`, and why. Auto has to know the device: it is measured now if it never was."""
    wanted = numerics.precision
    chosen = _chosen(list_devices(tools), device)
    tested = load_selftest(chosen)
    if tested is None and wanted == "auto":
        tested = _measure_once(tools, chosen, as_json=as_json)
    dtype, reason = model_precision(numerics, tested, chosen, model, extras)
    return ChosenPrecision(dtype, reason, measured=wanted == "auto" and tested is not None)


def conditions(tools: Tools, request: PictureRequest, dtype: DType) -> Conditions:
    """What the time of a picture depends on, its size aside."""
    listed = list_devices(tools)
    names = names_of(_chosen(listed, request.device), listed)
    return Conditions(request.model, names, request.numerics.precision, dtype, request.numerics.compile)


def check_memory(tools: Tools, request: PictureRequest, facts: ModelFacts, dtype: DType) -> None:
    """Refuse a size that needs surely more than all the memory there is; say so where only the free part is too small.

    Raises HalftoneError out-of-memory.
    """
    if (known := sized(request, facts)) is None:
        return
    request = known
    device = _chosen(list_devices(tools), request.device)
    networks = known_networks(facts, request.extras)
    most = most_memory(device)
    room = None if most is None else MemoryFacts(total=most, own=0, others=0)
    found = forecast(networks, Next(request, facts, dtype, device.backend), room)
    if found is None:
        return
    first = request.width or facts.native_width, request.height or facts.native_height
    width, height = computed_size(facts, last_size(request.hires, *first), request.options)
    said = Words("{0} × {1} pixels need about {2}\u00a0GB", (str(width), str(height), f"{found.peak / 1e9:.1f}"))
    if most is not None and found.peak * (1 - NEAR) > most:
        raise HalftoneError(
            "out-of-memory", detail=Words("{0}, and there are {1}\u00a0GB for {2}", (said, f"{most / 1e9:.1f}", device.name))
        )
    if device.backend == "cpu" and found.peak > (free := psutil.virtual_memory().available):
        _note(f"{said}, and only {free / 1e9:.1f}\u00a0GB are free: the system may become very slow or end Halftone.")


def tell_unused_cure(tools: Tools, device: str, facts: ModelFacts, dtype: DType, numerics: Numerics) -> None:
    """Say so where a cure was applied to the model and this picture goes without it."""
    chosen = _chosen(list_devices(tools), device)
    report = load_report(facts, chosen, dtype)
    changed = staleness(report, facts, chosen, numerics) if report is not None and report.applied else None
    if changed is not None:
        _note(f"The cure that was applied to {facts.name} is not used. {changed} Check the model again with --apply.")


def _measure_once(tools: Tools, device: DeviceFacts, *, as_json: bool) -> SelfTestReport | None:
    """The self-test, kept for the job that follows; None, with a word, where it cannot be made or kept."""
    try:
        checks_dir()
        if not as_json:
            _note(f"Measuring {device.name} once, so that Auto knows what is accurate and fast here. --precision skips this.")
        with Progress(wanted=not as_json) as progress:
            report = run_job(tools, SelfTest(job=JOB, device=device.id), SelfTestReport, progress)
    except HalftoneError as error:
        _note(f"{device.name} could not be measured ({error.facts.get('detail', error)}), so Auto uses FP32.")
        return None
    except OSError as error:
        _note(f"Measurements cannot be saved ({system_words(error)}), so Auto uses FP32.")
        return None
    if (kept := load_selftest(device)) is None:
        _note(f"The measurements could not be saved{_because(report.not_kept)}, so Auto uses FP32.")
    return kept


def check_model(tools: Tools, command: Examine, *, apply: bool, as_json: bool) -> CheckReport:
    """Check, and keep the report for the window and for later pictures. apply: use its cure from now on."""
    with Progress(wanted=not as_json) as progress:
        report = run_job(tools, command, CheckReport, progress)
    try:
        if apply and report.verdict in {"tight", "fixable"} and not report.plan.is_plain:
            return set_applied(report, True)
        after, dropped = kept(load_report(report.model, report.device, report.precision, report.extras), report)
        save_report(after)
        if dropped:
            _note("The earlier cure is no longer used: this check does not suggest it. Use --apply again.")
        return after
    except OSError as error:
        _note(f"The report could not be saved ({system_words(error)}).")
    return report


def undo_cure(tools: Tools, facts: ModelFacts, device: str, extras: Extras) -> bool:
    """Let the model run on the device without a cure; whether one was in use. Raises HalftoneError output-*, disk-full."""
    chosen = _chosen(list_devices(tools), device)
    try:
        applied = drop_applied(facts, chosen, extras)
        return forget(facts, chosen) or applied
    except OSError as error:
        raise output_error(error, checks_dir(), 0) from error


def write_report(report: CheckReport, path: Path, *, overwrite: bool) -> None:
    """Write the page of a check, whole or not at all. Raises HalftoneError output-*, disk-full."""
    from halftone.health.reports.report_page import as_html

    page = as_html(report, load_selftest(report.device)).encode()
    try:
        (write_atomically if overwrite else create_atomically)(path, page)
    except OSError as error:
        raise output_error(error, path, len(page)) from error
    _note(f"Report written: {path}")


def make_pictures(tools: Tools, request: PictureRequest, *, as_json: bool) -> GenerateReport:
    """Make the pictures and list them in the history."""
    return pictures_of(tools, Generate(job=JOB, request=request), as_json=as_json)


def pictures_of(tools: Tools, command: Generate | Upscale, *, as_json: bool) -> GenerateReport:
    """Make pictures and list each in the history as soon as it is saved. Those that were finished before the job failed or was
    cancelled are told, too.
    """
    made: list[PictureFacts] = []
    lost: set[str] = set()

    def listen(event: AnyEvent, blob: bytes) -> None:
        if isinstance(event, PictureReady):
            made.append(event.facts)
            lost.update(_remember(command.request, event.facts, blob[: event.thumbnail_size]))
        progress(event, blob)

    try:
        with Progress(wanted=not as_json, pictures=picture_count(command)) as progress:
            return run_job(tools, command, GenerateReport, listen)
    except (HalftoneError, JobCancelled):
        tell_notes(f"Already finished: {facts.path}" for facts in made if facts.path)
        raise
    finally:
        tell_notes(f"The history could not be saved ({why})." for why in sorted(lost))


def repair_model(tools: Tools, command: Repair, *, as_json: bool) -> RepairReport:
    with Progress(wanted=not as_json) as progress:
        return run_job(tools, command, RepairReport, progress)


def write_fragile(folder: Path) -> Path:
    """Pocket's fragile twin in `folder`."""
    from halftone.worker.environment import prepare

    prepare()
    for library in ("DIFFUSERS_VERBOSITY", "TRANSFORMERS_VERBOSITY"):
        os.environ.setdefault(library, "error")
    with kept_log(), kept_stdout():
        from halftone.engine.checks.fragile import make_fragile
        from halftone.library.models import POCKET, describe

        return make_fragile(Path(describe(POCKET).path), folder)


def tell_notes(notes: Iterable[str]) -> None:
    """What is no obstacle but should be known, on stderr."""
    for note in notes:
        _note(note)


def is_good(picture: PictureFacts) -> bool:
    """Whether there is a picture whose numbers are sound, of all the passes that were asked for."""
    sound = picture.finite and not picture.black and picture.state not in {"not-recovered", "asking"}
    return sound and picture.cut_short is None


def _chosen(listed: tuple[DeviceFacts, ...], device: str) -> DeviceFacts:
    """`auto`: the first one; `cuda`: the first CUDA device."""
    for facts in listed:
        if device in {"auto", facts.id, facts.id.partition(":")[0]}:
            return facts
    raise HalftoneError("device-unknown", device=device, known=either("auto", *(facts.id for facts in listed)))


def _remember(request: PictureRequest | UpscaleRequest, facts: PictureFacts, thumbnail: bytes) -> list[str]:
    """The history and the last used model; why they could not be kept, which is no reason to lose the picture."""
    why: list[str] = []
    try:
        saved = load()
        if isinstance(request, PictureRequest) and saved.last_model != request.model:
            save(replace(saved, last_model=request.model))
    except OSError as error:
        why.append(f"settings: {system_words(error)}")
    try:
        from halftone.gallery.made import list_made

        list_made(request, facts, thumbnail)
    except (OSError, sqlite3.Error) as error:
        why.append(str(error))
    return why


def _because(reason: Words | None) -> str:
    return "" if reason is None else f" ({reason})"


def _note(text: str) -> None:
    log.info("%s", text)
    say(text, err=True)
