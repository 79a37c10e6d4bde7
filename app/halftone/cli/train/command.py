"""The command that trains a LoRA: settings from a TOML file, what the guard stopped a line each, Ctrl+C stops and keeps."""

import os
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from halftone.cli.jobs.engine_and_log import JOB, Tools
from halftone.cli.options import flags
from halftone.cli.terminal.control_characters import say
from halftone.cli.train.config_file import example as example_file
from halftone.cli.train.config_file import read_config
from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.errors import say as sentence_and_remedy
from halftone.contract.messages import AnyEvent, Keep, Train, TrainSaved
from halftone.contract.training import TrainConfig, TrainReport

_STOPPED: Final = 1
"""The exit code of a training that a bad number ended."""


def train(
    context: typer.Context,
    config: Annotated[str | None, typer.Argument(metavar="CONFIG.toml", help="The training file; see --example.")] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="FOLDER", help="Resume a run that was stopped or killed.", show_default=False),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Train up to this step, overriding the file.", show_default=False),
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a training file with comments and exit.")] = False,
    json: flags.Json = False,
) -> None:
    """Train a LoRA on your own pictures, and stop NaN before it does harm.

    Ctrl+C stops after the step and keeps what was learned. A run that is resumed gives the same weights, bit for bit, on a
    processor with the same number of threads. Exit code: 0 finished, or stopped by you; 1 NaN or infinity ended it, and
    what was learned before is kept; 2 the input was wrong.
    """
    from halftone.library.training_data.training_checks import check_before

    if example:
        say(example_file(), end="")
        return
    if resume is not None:
        resume = _run_folder(resume)
    wanted = _wanted(config, resume)
    if steps is not None:
        wanted = msgspec.structs.replace(wanted, steps=steps)
    if resume is not None and _is_finished(resume, wanted, as_json=json):
        return
    check_before(wanted, new=resume is None)
    report = _run(context.obj, wanted, resume, as_json=json)
    if json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        put({"schema": SCHEMA, "training": msgspec.to_builtins(report)})
    else:
        from halftone.cli.train.lines import end_lines

        say("\n".join(end_lines(report, wanted)))
        if report.not_kept:
            say(f"Not everything could be saved: {sentence_and_remedy(report.not_kept)}", err=True)
    raise typer.Exit(_STOPPED if _ended_badly(report) else 0)


def _ended_badly(report: TrainReport) -> bool:
    """Whether NaN ended this run, and not one before it was resumed."""
    last = next(reversed(report.caught), None)
    return last is not None and last.did == "stopped" and last.step > report.steps and report.steps < report.steps_wanted


def _run_folder(given_path: str) -> str:
    """Find the folder of a run, also by the LoRA file beside it."""
    path = Path(flags.absolute(given_path))
    return str(path.with_suffix("") if path.suffix == ".safetensors" and not os.path.isdir(path) else path)


def _wanted(config: str | None, resume: str | None) -> TrainConfig:
    """The settings of the file, or of the run to resume."""
    if resume is None and config is None:
        raise typer.BadParameter("name a training file, or a run with --resume", param_hint="CONFIG.toml")
    return read_config(config) if config is not None else config_of(resume or "")


def _is_finished(folder: str, wanted: TrainConfig, *, as_json: bool) -> bool:
    """Whether a run has no step left, which is then said."""
    from halftone.library.training_data.training_runs import finished

    steps = wanted.steps
    path = finished(folder, steps)
    if path and as_json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        training = {"name": wanted.name, "path": path, "folder": folder, "steps": steps, "steps_wanted": steps}
        put({"schema": SCHEMA, "training": training})
    elif path:
        from halftone.cli.train.lines import finished_line

        say(finished_line(folder, steps, path))
    return bool(path)


def config_of(folder: str) -> TrainConfig:
    """The settings that a run was begun with. Raises HalftoneError train-no-run and train-state-unreadable."""
    from halftone.library.training_data.training_runs import config_in

    return config_in(folder)


def _run(tools: Tools, config: TrainConfig, resume: str | None, *, as_json: bool) -> TrainReport:
    from halftone.cli.jobs.in_process import run_job
    from halftone.cli.terminal.progress import Progress
    from halftone.cli.train.lines import broken_line, event_line, go_on_line

    saved: list[str] = []
    with Progress(wanted=not as_json, phases={"encode": "Encoding captions and pictures"}) as progress:

        def hear(event: AnyEvent, blob: bytes) -> None:
            progress(event, blob)
            if isinstance(event, TrainSaved):
                saved.append(event.folder)
            if not as_json and (line := event_line(event)):
                progress.note(line)

        if resume is None and not as_json and (line := broken_line(config)):
            progress.note(line)
        try:
            return run_job(tools, Train(job=JOB, config=config, resume=resume), TrainReport, hear, stop=Keep)
        except (HalftoneError, JobCancelled):
            if saved and saved[-1] and not as_json:
                progress.note(go_on_line(saved[-1]))
            raise
