"""The common form: numbers over steps, messages between them, settings; and the meaning of a number's name."""

import math
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halftone.contract.wording import Words
from halftone.library.run_logs.trainer import Trainer

Quantity = Literal["loss", "gradient", "rate", "scale", "validation"]
"""loss: of training; gradient: norm of all gradients; rate: learning rate; scale: of the loss, against underflow in float16;
validation: a loss on other pictures.
"""
HappeningKind = Literal[
    "resume",
    "validation",
    "checkpoint",
    "nan-latents",
    "nan-loss",
    "error",
    "out-of-memory",
    "interrupted",
    "skipped-step",
    "scale-floor",
]
NoteCode = Literal["cut-off", "damaged", "unreadable", "too-many", "too-large", "unknown-form"]

_MOST: Final = 2**62
"""Steps beyond it are no steps."""
_KEPT: Final = 20_000
"""Most happenings of one kind from one file."""


class Point(NamedTuple):
    """One number. line: of the file, from 1, 0 where it has none; seat: its place in reading order; wall: seconds since 1970."""

    step: int
    value: float
    line: int
    seat: int
    wall: float


class Numbers(NamedTuple):
    """Many of one name, as in `Point`. Shapes [N]."""

    steps: "NDArray[np.int64]"
    values: "NDArray[np.float64]"
    lines: "NDArray[np.int64]"
    seats: "NDArray[np.int64]"
    walls: "NDArray[np.float64]"


class Happening(NamedTuple):
    """A program's message. step: the last one before it in that file, None before the first."""

    kind: HappeningKind
    step: int | None
    file: str
    line: int
    seat: int
    words: str


class Note(NamedTuple):
    """The unusable part of a file."""

    code: NoteCode
    file: str
    detail: Words | None = None


class Setting(NamedTuple):
    """A setting of the run. name: one of `settings.NAMES`; value: as written."""

    name: str
    value: str
    file: str
    line: int


@dataclass
class Track:
    """One number over the steps, in the order of writing: steps may begin anew where a run was started again."""

    file: str
    tag: str
    quantity: Quantity
    steps: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    lines: "array[int]" = field(default_factory=lambda: array("q"))
    seats: "array[int]" = field(default_factory=lambda: array("q"))
    walls: "array[float]" = field(default_factory=lambda: array("d"))
    counted: bool = False
    """Whether its steps are no steps, but the count of its numbers, where the log names none."""

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> Point:
        return Point(self.steps[index], self.values[index], self.lines[index], self.seats[index], self.walls[index])

    @property
    def averaged(self) -> bool:
        """Whether each number is a mean over many steps, which one bad step spoils."""
        return bool(_AVERAGED.search(self.tag))

    @property
    def by_epoch(self) -> bool:
        """Whether its steps count epochs."""
        return "epoch" in self.tag.lower()

    def finite(self, begin: int = 0, end: int | None = None) -> list[Point]:
        """The finite numbers among those from begin to end."""
        return [self[index] for index in range(len(self))[begin:end] if math.isfinite(self.values[index])]

    def put(self, step: int, value: float, line: int, seat: int, wall: float) -> None:
        """Append; a bar that is drawn again at the same step, on the same line, replaces what it showed before."""
        if line and self.steps and self.steps[-1] == step and self.lines[-1] == line:
            self.values[-1], self.seats[-1] = value, seat
            return
        self.steps.append(step)
        self.values.append(value)
        self.lines.append(line)
        self.seats.append(seat)
        self.walls.append(wall)

    def put_many(self, found: "Numbers") -> None:
        """Append many, as `put` would one after the other; N > 0."""
        steps, _, lines, *_ = found
        if lines[0] and self.steps and self.steps[-1] == steps[0] and self.lines[-1] == lines[0]:
            for kept in (self.steps, self.values, self.lines, self.seats, self.walls):
                kept.pop()
        last = np.ones(len(steps), np.bool_)
        last[:-1] = (steps[1:] != steps[:-1]) | (lines[1:] != lines[:-1]) | (lines[1:] == 0)
        for kept, more in zip((self.steps, self.values, self.lines, self.seats, self.walls), found, strict=True):
            kept.frombytes(more[last].tobytes())


class Collector:
    """Collects what the readers find in one file."""

    def __init__(self, file: str, on_way: Callable[[float], None] = lambda _share: None) -> None:
        """on_way: gets the share of the file that was read, now and then; it may raise JobCancelled."""
        self.file = file
        self.on_way = on_way
        self.tracks: dict[str, Track] = {}
        self.happenings: list[Happening] = []
        self.settings: list[Setting] = []
        self.notes: list[Note] = []
        self.marks: set[Trainer] = set()
        """Programs of which the file shows a sign."""
        self._counts: dict[str, int] = {}

    def put(self, tag: str, quantity: Quantity, point: Point, *, counted: bool = False) -> None:
        """counted: the step is only the number's place among those of its name."""
        if abs(point.step) > _MOST:
            return
        if tag not in self.tracks:
            self.tracks[tag] = Track(self.file, tag, quantity, counted=counted)
        self.tracks[tag].put(*point)

    def put_many(self, tag: str, quantity: Quantity, found: "Numbers") -> None:
        """Numbers of one name, in order."""
        near = np.abs(found.steps) <= _MOST
        if near.any():
            track = self.tracks.setdefault(tag, Track(self.file, tag, quantity))
            track.put_many(found if near.all() else Numbers._make(part[near] for part in found))

    def happened(self, kind: HappeningKind, step: int | None, line: int, seat: int, words: str) -> None:
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= _KEPT:
            self.happenings.append(Happening(kind, step, self.file, line, seat, words.strip()[:200]))

    def note(self, code: NoteCode, detail: Words | None = None) -> None:
        self.notes.append(Note(code, self.file, detail))


_AVERAGED: Final = re.compile(r"avr|avg|average|mean|ema|smooth", re.IGNORECASE)
_LOSS: Final = re.compile(r"(?!g?loss(?:y|less)|gloss|floss)[a-z]*loss(?:es|\d*)")
_SPLIT: Final = re.compile(r"[^a-z0-9]+")
_VALIDATION: Final = frozenset(("val", "valid", "validation", "eval", "evaluation", "test"))
_NO_LOSS: Final = frozenset(
    ("weight", "weights", "type", "coef", "lambda", "ratio", "divergence", "norm", "every", "steps", "huber", "scaler", "scaling")
)
_NO_NORM: Final = frozenset(("max", "clip", "threshold", "clipping"))
_NO_RATE: Final = frozenset(
    ("scheduler", "schedule", "warmup", "steps", "num", "decay", "min", "end", "power", "cycles", "type", "scale")
)
_SCALES: Final = frozenset(("log_scale", "amp_scale", "scaler", "fp16_scale", "grad_scaler"))


@lru_cache(4096)
def quantity_of(name: str) -> Quantity | None:
    """The meaning of a tag, column or word of a log; None: none that matters. Spelling as in programs."""
    lower = name.lower().strip()
    words = frozenset(_SPLIT.split(lower))
    if ("scale" in words and not words.isdisjoint(("loss", "grad", "fp16"))) or lower.rpartition("/")[2] in _SCALES:
        return "scale"
    if any(_LOSS.fullmatch(word) for word in words):
        if words & _NO_LOSS:
            return None
        return "validation" if words & _VALIDATION else "loss"
    if ("norm" in lower and "grad" in lower) or lower == "gnorm":
        return None if words & _NO_NORM else "gradient"
    if "lr" in words or "learningrate" in lower or {"learning", "rate"} <= words:
        return None if words & _NO_RATE else "rate"
    return None


NUMBER: Final = (
    r"[+-]?(?:nan(?:\(\w{0,9}\))?(?:\.0)?|inf(?:inity)?(?:\.0)?|1\.\#(?:ind|qnan|inf)|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
)
"""As written by Python, C, JSON and Lightning ("nan.0")."""


def number_of(text: str) -> float:
    """The number that NUMBER matched. Raises ValueError for any other text."""
    lower = text.strip().lower()
    if "#" in lower:
        return math.inf if "inf" in lower else math.nan
    if "nan" in lower:
        if lower.lstrip("+-").startswith("nan"):
            return math.nan
        raise ValueError(text)
    return float(lower.removesuffix(".0") if "inf" in lower else lower)


def numbers_of(texts: Sequence[str]) -> NDArray[np.float64]:
    """The same of many texts."""
    try:
        return np.frombuffer(array("d", map(float, texts)))
    except ValueError:
        return np.array(list(map(number_of, texts)), np.float64)


def exact_scale(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Loss scales from their logarithms to base 2."""
    near = np.abs(logarithms) < 1000
    return np.where(near, np.exp2(np.where(near, logarithms, 0.0)), logarithms)
