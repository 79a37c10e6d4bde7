"""What the commands do once their input proved good: run the job and keep what is to be remembered."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from halftone.cli.jobs.engine_and_log import JOB, Tools
from halftone.cli.jobs.in_process import list_devices, run_job
from halftone.cli.reports.chosen_precision import ChosenPrecision
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.progress import Progress, picture_count
from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    GenerateReport,
    ModelFacts,
    PictureFacts,
    SelfTestReport,
)
from halftone.contract.messages import AnyEvent, Examine, Generate, JobCommand, PictureReady, PictureSaving, SelfTest, Upscale
from halftone.contract.request import Extras, Numerics
from halftone.contract.vocabulary import DType
from halftone.contract.wording import either
from halftone.health.precision import model_precision
from halftone.metadata.picture import output_error
from halftone.session.checks import keep, stop_curing, why_unused
from halftone.session.devices import device_named, self_test_of
from halftone.session.pictures.picture_list import expect_picture, forget_expected, keep_picture
from halftone.settings.atomic import create_atomically, write_atomically
from halftone.settings.disk import system_words
from halftone.settings.places import checks_dir

_Report = TypeVar("_Report")
log = logging.getLogger(__name__)


def run_with_progress(tools: Tools, command: JobCommand, kind: type[_Report], *, as_json: bool) -> _Report:
    """The report of a job, with its progress on stderr for people. Raises as `run_job`."""
    with Progress(wanted=not as_json) as progress:
        return run_job(tools, command, kind, progress)


def device_of(tools: Tools, wanted: str) -> DeviceFacts:
    """Find a device by its name. Raises HalftoneError device-unknown."""
    listed = list_devices(tools)
    if (found := device_named(listed, wanted)) is None:
        raise HalftoneError("device-unknown", device=wanted, known=either("auto", *(facts.id for facts in listed)))
    return found


def measure_device(tools: Tools, device: str, *, again: bool, as_json: bool) -> SelfTestReport:
    """The self-test of a device: the stored one if it still holds and `again` is not wanted."""
    chosen = device_of(tools, device)
    return self_test_of(chosen, lambda: _measure(tools, chosen, as_json=as_json), again=again)


def choose_precision(
    tools: Tools, device: DeviceFacts, numerics: Numerics, model: ModelFacts, extras: Extras, *, as_json: bool
) -> ChosenPrecision:
    """What a model will run in on `device`, and why. Auto has to know the device: it is measured now if it never was."""
    auto = numerics.precision == "auto"
    tested = self_test_of(device, lambda: _measure_once(tools, device, as_json=as_json) if auto else None)
    dtype, reason = model_precision(numerics, tested, device, model, extras)
    return ChosenPrecision(dtype, reason, measured=auto and tested is not None)


def _measure(tools: Tools, device: DeviceFacts, *, as_json: bool) -> SelfTestReport:
    report = run_with_progress(tools, SelfTest(job=JOB, device=device.id), SelfTestReport, as_json=as_json)
    if report.not_kept:
        _note(f"The measurements could not be saved ({report.not_kept}): the next command measures again.")
    return report


def _measure_once(tools: Tools, device: DeviceFacts, *, as_json: bool) -> SelfTestReport | None:
    """The self-test before the job that follows; None, with a word, where it cannot be made or never kept."""
    try:
        checks_dir()
        if not as_json:
            _note(f"Measuring {device.name} once, so that Auto knows what is accurate and fast here. --precision skips this.")
        return _measure(tools, device, as_json=as_json)
    except HalftoneError as error:
        _note(f"{device.name} could not be measured ({error.facts.get('detail', error)}), so Auto uses FP32.")
    except OSError as error:
        _note(f"Measurements cannot be saved ({system_words(error)}), so Auto uses FP32.")
    return None


def tell_unused_cure(device: DeviceFacts, facts: ModelFacts, dtype: DType, numerics: Numerics) -> None:
    """Say so where a cure was applied to the model and this picture goes without it."""
    if (changed := why_unused(facts, device, dtype, numerics)) is not None:
        _note(f"The cure that was applied to {facts.name} is not used. {changed} Check the model again with --apply.")


def check_model(tools: Tools, command: Examine, *, apply: bool, as_json: bool) -> CheckReport:
    """Check, and keep the report for the window and for later pictures. apply: use its cure from now on."""
    report = run_with_progress(tools, command, CheckReport, as_json=as_json)
    try:
        report, dropped = keep(report, apply=apply)
    except OSError as error:
        _note(f"The report could not be saved ({system_words(error)}).")
        return report
    if dropped:
        _note("The earlier cure is no longer used: this check does not suggest it. Use --apply again.")
    return report


def undo_cure(tools: Tools, facts: ModelFacts, device: str, extras: Extras) -> bool:
    """Let the model run on the device without a cure; whether one was in use. Raises HalftoneError output-*, disk-full."""
    try:
        return stop_curing(facts, device_of(tools, device), extras)
    except OSError as error:
        raise output_error(error, checks_dir(), 0) from error


def write_report(report: CheckReport, path: Path, *, overwrite: bool) -> None:
    """Write the page of a check, whole or not at all. Raises HalftoneError output-*, disk-full."""
    from halftone.health.reports.report_page import as_html

    page = as_html(report, self_test_of(report.device, lambda: None)).encode()
    try:
        (write_atomically if overwrite else create_atomically)(path, page)
    except OSError as error:
        raise output_error(error, path, len(page)) from error
    _note(f"Report written: {path}")


def pictures_of(tools: Tools, command: Generate | Upscale, *, as_json: bool) -> GenerateReport:
    """Make pictures and list each in the history as soon as it is saved. Those that were finished before the job failed or was
    cancelled are told, too.
    """
    made: list[PictureFacts] = []
    lost: set[str] = set()

    def listen(event: AnyEvent, blob: bytes) -> None:
        if isinstance(event, PictureSaving):
            expect_picture(command.request, event.facts, blob)
        elif isinstance(event, PictureReady):
            made.append(event.facts)
            lost.update(keep_picture(command.request, event.facts, blob[: event.thumbnail_size]))
        progress(event, blob)

    try:
        with Progress(wanted=not as_json, pictures=picture_count(command)) as progress:
            return run_job(tools, command, GenerateReport, listen)
    except (HalftoneError, JobCancelled):
        tell_notes(f"Already finished: {facts.path}" for facts in made if facts.path)
        raise
    finally:
        forget_expected()
        tell_notes(f"The history could not be saved ({why})." for why in sorted(lost))


def tell_notes(notes: Iterable[str]) -> None:
    """What is no obstacle but should be known, on stderr."""
    for note in notes:
        _note(note)


def is_good(picture: PictureFacts) -> bool:
    """Whether there is a picture whose numbers are sound, of all the passes that were asked for."""
    sound = picture.finite and not picture.black and picture.state not in {"not-recovered", "asking"}
    return sound and picture.cut_short is None


def _note(text: str) -> None:
    log.info("%s", text)
    say(text, err=True)
