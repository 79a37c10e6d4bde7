"""A training as followed from its events: the numbers of its steps, what was caught, saved and shown."""

import math
import sys
from array import array
from collections import deque
from typing import Final

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import (
    AnyEvent,
    TestPicture,
    TrainBegins,
    TrainCaught,
    TrainHeld,
    TrainSaved,
    TrainStep,
    TrainUnsaved,
)
from halftone.contract.training import Caught, TrainConfig

_TIMED: Final = 50
"""Steps that the pace is the mean of."""
ENOUGH: Final = 3
"""Timed steps before the remaining time is told."""


class RunRecord:
    """Grows in place: a training may have a hundred thousand steps. Element i of `losses`, `smoothed` (of the loss) and `norms`
    is of step i + 1; NaN where it is not known, as before a resumed training's first step.
    """

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.begins: TrainBegins | None = None
        self.losses = array("d")
        self.smoothed = array("d")
        self.norms = array("d")
        self.rate: float | None = None
        self.scale: float | None = None
        self.caught: list[Caught] = []
        self.folder = ""
        """Of the run, "" before its first step."""
        self.making_picture = False
        """Whether a test picture is made now, and no step."""
        self.asks: Caught | None = None
        self.saved: TrainSaved | None = None
        self.unsaved: TrainUnsaved | None = None
        """What could not be saved since."""
        self.no_picture: ErrorFacts | None = None
        """Why the last test picture could not be made."""
        self.pictures: list[TestPicture] = []
        self.held = False
        self.rewound = 0
        """How often steps were taken back, or filled in before those that are known."""
        self._missed = 0
        self._seconds: deque[float] = deque(maxlen=_TIMED)

    def take(self, event: AnyEvent, blob: bytes = b"") -> bool:
        """Follow an event with its blob; False where it tells nothing of a training."""
        match event:
            case TrainBegins():
                self._begin(event, blob)
            case TrainStep():
                self._step(event)
            case TrainCaught():
                self.caught.append(event.caught)
                self.asks = event.caught if event.asks else self.asks
            case TrainHeld():
                self.held = event.on
            case TrainSaved():
                self.saved, self.unsaved = event, None
                self.folder = event.folder or self.folder
            case TrainUnsaved():
                self.unsaved = event
            case TestPicture():
                self.no_picture = event.error
                self.making_picture = not event.path and event.error is None
                if event.path:
                    self.pictures.append(event)
            case _:
                return False
        return True

    def _begin(self, event: TrainBegins, blob: bytes) -> None:
        self.begins, self.config, self.folder = event, event.config, event.folder
        self.caught = list(event.caught)
        self.losses, self.norms = curve_in(blob)
        self.rewound += 1
        self.smoothed = array("d")
        for loss in self.losses:
            self.smoothed.append(smooth(self.smoothed[-1] if self.smoothed else math.nan, loss, event.config.steps))
        self._go_to(event.first - 1)
        if event.first > 1:
            self.saved = TrainSaved(step=event.first - 1, path="", folder=event.folder)

    def _step(self, event: TrainStep) -> None:
        self._go_to(event.step - 1)
        self._missed = 0 if event.applied else 1
        self.making_picture = False
        before = self.smoothed[-1] if self.smoothed else math.nan
        loss = event.loss if math.isfinite(event.loss) else math.nan
        self.losses.append(loss)
        self.smoothed.append(smooth(before, loss, event.steps))
        self.norms.append(math.nan if event.norm is None or not math.isfinite(event.norm) else event.norm)
        self.rate, self.scale, self.asks = event.rate, event.scale, None
        self._seconds.append(event.seconds)

    def _go_to(self, count: int) -> None:
        """Make the known steps this many: later ones were taken back, earlier ones are filled with NaN."""
        self.rewound += len(self.losses) > count
        for values in (self.losses, self.smoothed, self.norms):
            del values[count:]
            values.extend([math.nan] * (count - len(values)))

    @property
    def step(self) -> int:
        """The last step that was made; 0 before the first. One that was left out is none."""
        return len(self.losses) - self._missed

    @property
    def steps(self) -> int:
        """How many there are to be."""
        return self.config.steps

    @property
    def seconds_per_step(self) -> float | None:
        """The mean of the last ones, None before there are enough."""
        return sum(self._seconds) / len(self._seconds) if len(self._seconds) >= ENOUGH else None

    @property
    def seconds_left(self) -> float | None:
        pace = self.seconds_per_step
        return None if pace is None else pace * max(0, self.steps - self.step)

    @property
    def stopped(self) -> int:
        """Bad numbers that were stopped before they reached the weights."""
        return sum(1 for one in self.caught if one.did != "warned")


def packed_curve(losses: "array[float]", norms: "array[float]") -> bytes:
    """Losses and gradient norms of as many steps, from the first, NaN where they are not known: float32 values, little-endian."""
    both = array("f", losses) + array("f", norms)
    if sys.byteorder == "big":
        both.byteswap()
    return both.tobytes()


def curve_in(blob: bytes) -> "tuple[array[float], array[float]]":
    """(losses, norms) of `packed_curve`."""
    both = array("f")
    both.frombytes(blob)
    if sys.byteorder == "big":
        both.byteswap()
    half = len(both) // 2
    return array("d", both[:half]), array("d", both[half:])


def smooth(before: float, value: float, steps: int) -> float:
    """The next value of an exponential mean over about a fortieth of a training; what is not known changes nothing."""
    if math.isnan(value):
        return before
    if math.isnan(before):
        return value
    share = 2 / (min(200, max(5, steps // 40)) + 1)
    return before + share * (value - before)
