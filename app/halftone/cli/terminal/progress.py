"""What a job is doing, on stderr, while it runs: a bar on a terminal, elsewhere a line now and then as a sign of life."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, Self

from halftone.cli.terminal.control_characters import say
from halftone.contract.echoes import harmless
from halftone.contract.messages import (
    AnyEvent,
    Generate,
    JobCommand,
    LayersMeasured,
    PhaseChanged,
    PictureReady,
    PlanChanged,
    StepDone,
    TestDone,
    TrainBegins,
    TrainStep,
    Upscale,
)
from halftone.contract.vocabulary import Phase
from halftone.health.part_names import detail_name, duration

if TYPE_CHECKING:
    import rich.progress

_PHASES: Final[dict[Phase, str]] = {
    "load": "Loading the model",
    "encode": "Encoding the prompt",
    "denoise": "Drawing",
    "decode": "Decoding",
    "upscale": "Upscaling",
    "save": "Saving",
    "scan": "Scanning the weights",
    "range": "Measuring every layer",
    "target": "Running in the target precision",
    "plan": "Looking for a cure",
    "verify": "Verifying the cure",
    "measure": "Measuring the device",
    "write": "Writing the copy",
}


_SEEKING: Final = "Looking for the cause"
"""What follows a step with bad numbers, whatever is to be done about them."""
_CURING: Final = "Recovering the picture"
"""What follows a change of the plan: the numbers are computed again with a cure."""
_OF_PICTURES: Final[frozenset[Phase]] = frozenset(("denoise", "decode", "upscale"))
"""Phases that each picture of a job has."""
_EVERY: Final = 10.0
"""Seconds between two lines where no bar can be drawn; a job that is done before is silent."""
_SAMPLES: Final = 3
"""Steps before the time left is shown."""


class Progress:
    """A bar, or lines, with the phase's name; a context manager, called with every event."""

    def __init__(
        self,
        *,
        wanted: bool = True,
        every: float = _EVERY,
        phases: Mapping[Phase, str] = MappingProxyType({}),
        pictures: int = 1,
    ) -> None:
        """every: seconds between two lines; phases: words of those that mean something else in this job; pictures: of the job."""
        self._phases: dict[Phase, str] = {**_PHASES, **phases}
        self._pictures, self._picture = pictures, 1
        terminal = sys.stderr.isatty()
        self._bar = _bar() if wanted and terminal else None
        self._lines = _Lines(every) if wanted and not terminal else None
        self._begun = False
        self._left = TimeLeft(0)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("Starting", total=None)
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._lines is not None:
            self._lines.stop()

    def _begin(self, event: AnyEvent) -> None:
        """Exclude the start of the program and the loading, as the times of pictures and checks do."""
        if self._begun or not isinstance(event, PhaseChanged) or event.phase == "load":
            return
        self._begun = True
        if self._bar is not None:
            self._bar.reset(self._task)
        if self._lines is not None:
            self._lines.begin()

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:  # noqa: ARG002 - previews are not shown here
        self._picture = picture_after(self._picture, event)
        which = picture_words(self._picture, self._pictures)
        text = None if (words := _words(event, self._phases, which)) is None else harmless(words)
        if isinstance(event, TrainBegins):
            self._left = TimeLeft(event.first - 1)
        elif isinstance(event, TrainStep) and (left := self._left.after(event.step, event.steps)):
            text = f"{text}, about {left} left"
        self._begin(event)
        if self._lines is not None and text is not None:
            self._lines.words = text
        if self._bar is None:
            return
        match event:
            case PhaseChanged() | TestDone() | LayersMeasured():
                _fill(self._bar, event.done, event.total)
            case StepDone() | TrainStep():
                _fill(self._bar, event.step, event.steps)
            case TrainBegins():
                _fill(self._bar, event.first - 1, event.config.steps)
            case _:
                pass
        if text is not None:
            self._bar.update(self._task, description=text)

    def note(self, text: str) -> None:
        """A line of its own, above the bar."""
        if self._bar is not None:
            self._bar.console.print(harmless(text), markup=False, highlight=False, soft_wrap=True)
        else:
            say(text, err=True)


def picture_count(command: JobCommand) -> int:
    """Return how many pictures a job makes, one after another."""
    match command:
        case Generate():
            return command.request.batch
        case Upscale():
            return len(command.request.pictures)
        case _:
            return 1


def picture_after(number: int, event: AnyEvent) -> int:
    """Return which picture of a job is made from this event on. number: the one before."""
    match event:
        case StepDone():
            return event.picture
        case PictureReady():
            return number + 1
        case _:
            return number


def picture_words(number: int, count: int) -> str:
    """Say which picture of a job it is; "" of a single one, and after the last."""
    return f"picture {number} of {count}" if number <= count and count > 1 else ""


def _words(event: AnyEvent, phases: Mapping[Phase, str], which: str) -> str | None:
    """What the job does from this event on, None where nothing changes. which: of its pictures."""
    match event:
        case PhaseChanged(phase="plan", done=done) if done:
            return f"{phases['plan']}, attempt {done}"
        case PhaseChanged(phase="encode", done=done, total=total) if total:
            return f"{phases['encode']}, {done} of {total}"
        case PhaseChanged():
            which = which if event.phase in _OF_PICTURES else ""
            return ", ".join(filter(None, (phases[event.phase], which, detail_name(event.detail))))
        case StepDone():
            part = f"pass {event.in_pass} of {event.passes}" if event.passes > 1 else ""
            doing = _SEEKING if event.finite is False else phases["denoise"]
            return ", ".join(filter(None, (doing, which, part, f"step {event.step} of {event.steps}")))
        case TrainBegins():
            return "Training"
        case TrainStep():
            return f"Training, step {event.step} of {event.steps}, loss {event.loss:.4g}"
        case TestDone():
            return phases["measure"]
        case PlanChanged():
            return _CURING
        case _:
            return None


class TimeLeft:
    """The time that the steps of a training still need, from what those so far took with all that stood between them."""

    def __init__(self, done: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._done = done
        self._clock = clock
        self._began = clock()

    def after(self, step: int, steps: int) -> str:
        """ "" before it can be known, and at the end."""
        made = step - self._done
        if made < _SAMPLES or step >= steps:
            return ""
        return duration((self._clock() - self._began) / made * (steps - step))


class _Lines:
    """Says every few seconds what is being done and for how long, from a thread of its own: the job may be deep in one step."""

    def __init__(self, every: float) -> None:
        self.words = "Starting"
        self._every = every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        self.begin()
        self._thread.start()

    def begin(self) -> None:
        """Count from now on."""
        self._started = time.monotonic()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            say(f"{self.words}, {duration(int(time.monotonic() - self._started))} so far", err=True)


def _fill(bar: "rich.progress.Progress", done: int, total: int | None) -> None:
    """Show how much is done, and no share where the end is not known: `update` alone would keep the end of the phase before."""
    for task in bar.tasks:
        task.total = total
        bar.update(task.id, completed=done)
        task.finished_time = None  # the phase may be over, the job goes on


def _bar() -> "rich.progress.Progress":
    import rich.console
    import rich.progress

    return rich.progress.Progress(
        rich.progress.SpinnerColumn(),
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(bar_width=30),
        rich.progress.TaskProgressColumn(),
        rich.progress.TimeElapsedColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
    )
