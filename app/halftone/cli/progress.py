"""What a job is doing, on stderr, while it runs; silent when nobody watches."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from halftone.contract.messages import AnyEvent, LayersMeasured, PhaseChanged, PlanChanged, StepDone, TestDone
from halftone.contract.words import Phase

if TYPE_CHECKING:
    import rich.progress

_PHASES: Final[dict[Phase, str]] = {
    "load": "Loading the model",
    "encode": "Reading the prompt",
    "denoise": "Drawing",
    "decode": "Decoding",
    "save": "Saving",
    "scan": "Looking at the weights",
    "range": "Measuring every layer",
    "target": "Running in the wanted precision",
    "plan": "Looking for a cure",
    "verify": "Verifying the cure",
    "measure": "Measuring the device",
    "write": "Writing the copy",
}


class Progress:
    """A bar with the phase's name; a context manager, called with every event."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._bar = _bar() if wanted and sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("Starting", total=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:  # noqa: ARG002 - previews are not shown here
        if self._bar is None:
            return
        match event:
            case PhaseChanged():
                text = _PHASES[event.phase] + (f", {event.detail}" if event.detail else "")
                self._bar.update(self._task, description=text, completed=event.done, total=event.total)
            case StepDone():
                text = f"{_PHASES['denoise']}, step {event.step} of {event.steps}"
                self._bar.update(self._task, description=text, completed=event.step, total=event.steps)
            case TestDone():
                self._bar.update(self._task, description=_PHASES["measure"], completed=event.done, total=event.total)
            case LayersMeasured():
                self._bar.update(self._task, completed=event.done, total=event.total)
            case PlanChanged():  # the report tells what happened, once and in order
                self._bar.update(self._task, description="Recovering the picture")
            case _:
                pass


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
