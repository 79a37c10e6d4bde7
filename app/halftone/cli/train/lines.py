"""The lines that a training prints in a terminal."""

from collections.abc import Iterable
from typing import Final

from halftone.cli.terminal.command_lines import command_line
from halftone.contract.errors import say
from halftone.contract.messages import AnyEvent, TestPicture, TrainBegins, TrainCaught, TrainSaved, TrainUnsaved
from halftone.contract.training import TrainConfig, TrainPicture, TrainReport
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.health.training import training_sentences as words
from halftone.library.training_data.training_runs import broken_off
from halftone.settings.disk import size_text

_NAMED: Final = 5
"""Pictures of a kind to name; the rest are counted."""


def event_line(event: AnyEvent) -> str:
    """The line for an event of a training; "" for a step."""
    match event:
        case TrainBegins():
            return "\n".join(_begin_lines(event))
        case TrainCaught():
            caught = event.caught
            sentences = (words.caught_title(caught), *words.why_words(caught), words.did_words(caught))
            return " ".join([*(one.text() for one in sentences), f"Cost: {words.cost_words(caught).text()}"])
        case TrainSaved():
            return f"Saved at step {event.step}: {event.path}"
        case TestPicture() if event.error is not None:
            return f"No test picture after step {event.step}: {say(event.error)}"
        case TestPicture() if event.path:
            return f"Test picture after step {event.step}{', all black' if event.black else ''}: {event.path}"
        case TrainUnsaved():
            return f"Step {event.step} could not be saved: {say(event.error)} Training continues and retries every 10 steps."
        case _:
            return ""


def _begin_lines(begins: TrainBegins) -> Iterable[str]:
    pictures = begins.pictures
    if pictures:
        used = sum(1 for picture in pictures if not picture.problem)
        yield f"Pictures: {used} of {len(pictures)} are used." if used < len(pictures) else f"Pictures: {used}."
        yield from _picture_lines(pictures)
    memory = f", about {size_text(begins.memory)} of memory" if begins.memory else ""
    yield f"Training runs in {DTYPE_NAMES[begins.dtype]}{memory}. Its folder: {begins.folder}"
    if begins.wider is not None:
        yield words.wider_words(begins.wider).text()
    if begins.first > begins.config.steps:
        yield f"All of its {begins.config.steps} steps are done: only its LoRA is written again."
    elif begins.first > 1:
        yield f"It resumes after step {begins.first - 1} of {begins.config.steps}."
    if begins.config.guard == "off":
        yield "The NaN guard is off: NaN can reach the LoRA."
    for omen in begins.omens:
        sentences = (words.omen_words(omen), words.remedy_words(omen))
        yield f"Warning: {' '.join(one.text() for one in sentences if one is not None)}"


def _picture_lines(pictures: Iterable[TrainPicture]) -> Iterable[str]:
    """Describe the pictures, alike ones together, the excluded ones first."""
    kinds: dict[tuple[bool, str], list[str]] = {}
    for picture in sorted(pictures, key=lambda one: not one.problem):
        if (said := words.picture_words(picture)) is not None:
            kinds.setdefault((bool(picture.problem), said.text()), []).append(picture.name)
    for (out, said), names in kinds.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{'Excluded, ' if out else ''}{said}: {', '.join(names[:_NAMED])}{more}"


def end_lines(report: TrainReport, config: TrainConfig) -> Iterable[str]:
    """How it ended, where the LoRA lies, and how to go on with what is not finished, or to use what is."""
    yield words.report_words(report).text()
    if not report.path:
        return
    yield report.path
    if report.steps < report.steps_wanted and not report.not_kept:
        yield go_on_line(report.folder)
    else:
        prompt = config.test_prompt or config.word or "your words"
        yield f"Try it:  {command_line('generate', prompt, '--model', config.model, '--lora', report.path)}"


def finished_line(folder: str, steps: int, path: str) -> str:
    """Say that a run has no step left, and how to give it more."""
    more = command_line("train", "--resume", folder, "--steps", str(2 * steps))
    return (
        f"This training is finished: all {steps} steps were made, and its LoRA is {path}; to train on, raise the steps:  {more}"
    )


def go_on_line(folder: str) -> str:
    """How to go on with a run."""
    return f"Resume with: {command_line('train', '--resume', folder)}"


def broken_line(config: TrainConfig) -> str:
    """That the same training lies there, broken off; "" where none does."""
    for run in broken_off(config.output):
        if (run.config.name, run.config.pictures) == (config.name, config.pictures):
            return (
                f"{run.folder} was stopped after step {run.step} of {run.config.steps}, and stays as it is; this is a new "
                f"run. {go_on_line(run.folder)}"
            )
    return ""
