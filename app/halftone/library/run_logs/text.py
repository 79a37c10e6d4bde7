"""Plain text of any shape: bars, tables, dictionaries, JSON-lines; what stands in it of steps, losses, norms and rates."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from halftone.library.run_logs.lines import Piece, pieces
from halftone.library.run_logs.said import happening_in, reduced_scale
from halftone.library.run_logs.series import NUMBER, Collector, HappeningKind, Quantity, number_of, quantity_of
from halftone.library.run_logs.settings import settings_in

_HIT: Final = re.compile("loss|norm|lr|rate|scale")
_NAME: Final = "abcdefghijklmnopqrstuvwxyz0123456789_./*-"
_LONGEST: Final = 60
"""Letters of a name."""
_TAIL: Final = re.compile(
    rf"([\w./*-]{{0,40}})['\"]?\s{{0,3}}[:=|]?\s{{0,9}}(?:tensor\(|np\.float\d+\(|\[)?['\"]?({NUMBER})(?=s:|[^\w/]|$)"
)
_BEFORE: Final = re.compile(
    r"(?<![\w./*-])(?:fp16 grad|loss|grad|gradient|learning|train|training|val|valid|validation|eval|evaluation|test) $"
)
_BAR: Final = re.compile(r"(?:^|[\s|])(\d{1,12})/(\d{1,12}) ?\[")
_EPOCH: Final = re.compile(r"^\s*epoch[ :]{1,2}(\d{1,9})\b(?!.{0,20}steps?\b)")
_EPOCHS: Final = re.compile(r"^\s*epochs?: {1,3}\d{1,3}%")
"""A bar of the epochs themselves, under which another counts the steps of each."""
_OF_EPOCH: Final = re.compile(r"^\s*(?:step|iteration)s?: {1,3}\d{1,3}%")
_ASIDE: Final = re.compile("val|eval|test|sampl|generat")
"""Bars of something else than the training."""
_STEP: Final = re.compile(
    r"(?<![\w-])(?:global[ _]?step|total[ _]?step|train[ _]?step|step|iter(?:ation)?|_step)s?(?:\([a-z]{1,9}\))?"
    r"['\"]?\s{0,3}[:=#|\[(]{0,2}\s{0,9}(\d{1,15})(?![\d.]*[a-z%]|\.\d*[1-9])"
)
_NUMBERED: Final = re.compile(r"^\s*(\d{1,15}): (?=\{)")
_STEPS: Final = ("global_step", "_step", "step", "iteration", "iter", "steps")
_WALLS: Final = ("_timestamp", "timestamp", "wall_time", "time")
_JSON_MOST: Final = 30_000
"""Letters of a line of JSON; a longer one holds no numbers of training alone."""


class Reader:
    """Reads one file of text into a collector."""

    def __init__(self, into: Collector) -> None:
        self._into = into
        self._seat = 0
        self._bar: tuple[int, int] | None = None
        """(step, of how many) of the bar that is longest: the one of the training."""
        self._epochs: int | None = None
        """How many epochs were done, where a bar of its own counts them."""
        self._counted: dict[str, int] = {}
        self._loss: tuple[str, float] = ("loss", 0.0)
        """(name, last number) of the loss of the training."""
        self._begun = False
        self._told = False
        """Whether any number came with its step."""
        self.step: int | None = None

    def take(self, piece: Piece) -> None:
        self._seat += 1
        text = piece.text
        if not text or text.isspace():
            return
        if "{" in text and self._took_json(piece):
            return
        lower = text.lower() if text.isascii() else _lower(text)
        bar = self._bar_step(lower) if "[" in text and "/" in text else None
        pairs = _pairs(text, lower)
        told = _STEP.search(lower) if pairs and bar is None and ("step" in lower or "iter" in lower) else None
        if pairs and (told or bar or any(quantity != "rate" for _, quantity, _ in pairs)):
            step = int(told.group(1)) if told else bar
            self._put(pairs, step, piece, math.nan)
        elif not self._begun:
            self._into.settings += settings_in(text, lower, self._into.file, piece.number)
        whole_bar = bar is not None and text.endswith("]") and "valid" not in lower
        kind = None if whole_bar else happening_in(text, lower)
        if kind is not None:
            self._happened(kind, piece)

    def _happened(self, kind: HappeningKind, piece: Piece) -> None:
        step = self._bar[0] if self.step is None and self._bar else self.step
        fatal = kind == "nan-loss" and "Error: " in piece.text
        self._into.happened("error" if fatal else kind, step, piece.number, self._seat, piece.text)
        if kind == "nan-loss":
            self._bad_loss(piece)
        scale = reduced_scale(piece.text) if kind == "skipped-step" else None
        if scale is not None:
            self._put([("loss scale", "scale", number_of(scale))], self.step, piece, math.nan)

    def _bad_loss(self, piece: Piece) -> None:
        """A loss that is told in words alone, in the step after the last one that was shown."""
        name, last = self._loss
        if math.isfinite(last):
            told = _STEP.search(piece.text.lower())
            step = int(told.group(1)) if told else 1 if self.step is None else self.step + 1
            self._put([(name, "loss", math.nan)], step, piece, math.nan)

    def _bar_step(self, text: str) -> int | None:
        """The step of a bar; of one that counts the batches of an epoch the step since the beginning. text: in small letters."""
        found = _BAR.search(text)
        if found is None:
            return None
        done, total = int(found.group(1)), int(found.group(2))
        if _EPOCHS.match(text):
            self._epochs = done
            return None
        epoch = _EPOCH.search(text) if "epoch" in text else None
        before = int(epoch.group(1)) if epoch else self._epochs if self._epochs and _OF_EPOCH.match(text) else None
        if before is not None:
            done, total = done + before * total, total * (before + 1)
        if _ASIDE.search(text, 0, found.start()):
            return None
        if self._bar is None or total >= self._bar[1] or "loss" in text:
            self._bar = (done, total)
            return done
        return None

    def _took_json(self, piece: Piece) -> bool:
        """Whether the line is one object of JSON, with or without its step before it."""
        numbered = _NUMBERED.match(piece.text)
        text = piece.text[numbered.end() :] if numbered else piece.text
        text = text.strip()
        if not (text.startswith('{"') and text.endswith("}")) or len(text) > _JSON_MOST:
            return False
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            return False
        record = dict(flat(content))
        step = int(numbered.group(1)) if numbered else whole(record, _STEPS)
        self.record(record, step, piece)
        return True

    def row(self, record: Mapping[str, Any], names: tuple[str, ...], piece: Piece) -> None:
        """A record of its own line, with its step under one of these names."""
        self._seat += 1
        self.record(record, whole(record, names), piece)

    def record(self, record: Mapping[str, Any], step: int | None, piece: Piece) -> None:
        """Numbers by name, of one step."""
        found: list[tuple[str, Quantity, float]] = []
        for name, value in record.items():
            quantity = "scale" if name == "scale" else quantity_of(name)
            number = None if quantity is None else numeric(value)
            if quantity is not None and number is not None:
                found.append((name, quantity, number))
        if step is None and not any(quantity != "rate" for _, quantity, _ in found):
            return
        walls = (numeric(record.get(name)) for name in _WALLS)
        self._put(found, step, piece, next((wall for wall in walls if wall is not None and wall > 1e8), math.nan))

    def _put(self, found: list[tuple[str, Quantity, float]], step: int | None, piece: Piece, wall: float) -> None:
        for tag, quantity, value in found:
            self._told = self._told or step is not None or self._bar is not None
            at = self._unstepped(tag, quantity) if step is None else step
            self._counted[tag] = at
            exact = 2.0**value if tag.endswith("log_scale") and abs(value) < 1000 else value
            self._into.put(tag, quantity, at, exact, piece.number, self._seat, wall, counted=step is None and not self._told)
            self.step = at
            if quantity == "loss":
                self._begun = True
                self._loss = (tag, exact)

    def _unstepped(self, tag: str, quantity: Quantity) -> int:
        """The step of a number that stands without one: that of the bar, the last one that was told, or its count."""
        if self._bar:
            return self._bar[0]
        if self._told and self.step is not None and quantity in {"scale", "gradient", "rate"}:
            return self.step
        return self._counted.get(tag, 0) + 1


def _lower(text: str) -> str:
    """In small letters, of the same length: some letters would become two."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _pairs(text: str, lower: str) -> list[tuple[str, Quantity, float]]:
    """(name, what it is, number) as they stand in a line; of several with one name the last. lower: it in small letters."""
    found: dict[str, tuple[Quantity, float]] = {}
    end = 0
    for hit in _HIT.finditer(lower):
        tail = _TAIL.match(lower, hit.end()) if hit.start() >= end else None
        if tail is None:
            continue
        start = _begin(lower, hit.start())
        name = " ".join(text[start : tail.end(1)].split())
        quantity = quantity_of(name) if tail.end(1) - start <= _LONGEST else None
        if quantity is not None:
            found[name] = (quantity, number_of(tail.group(2)))
            end = tail.end()
    return [(name, quantity, value) for name, (quantity, value) in found.items()]


def _begin(lower: str, start: int) -> int:
    """Where a name begins of which a part stands at `start`; names of two words are known."""
    least = max(0, start - _LONGEST)
    start = least + len(lower[least:start].rstrip(_NAME))
    if start and lower[start - 1] == " " and (before := _BEFORE.search(lower, max(0, start - 20), start)):
        return before.start()
    return start


def flat(content: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of nested objects, the names joined with "/"."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from flat(value, f"{before}/{key}" if before else str(key))
    elif before:
        yield before, content


def numeric(value: Any) -> float | None:
    """A number, or a text that is one ("NaN", "1e-4"); None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str) and len(value) < 40:
        try:
            return number_of(value)
        except ValueError:
            return None
    return None


def whole(record: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first of these that is a whole number of at most eighteen digits."""
    for name in names:
        number = numeric(record.get(name))
        if number is not None and math.isfinite(number) and abs(number) < 1e18:
            return int(number)
    return None


def read_text(path: Path, into: Collector) -> None:
    """Read a file of text; OSError if it cannot be read."""
    reader = Reader(into)
    for piece in pieces(path):
        reader.take(piece)
