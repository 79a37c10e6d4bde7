"""Plain text of any shape: bars, tables, dictionaries, JSON-lines; its steps, losses, norms and rates, and messages between the
numbers: saved, resumed, validated, skipped, failed.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from halftone.library.run_logs.lines import Piece
from halftone.library.run_logs.series import NUMBER, Collector, HappeningKind, Point, Quantity, number_of, quantity_of
from halftone.library.run_logs.settings import precision_in, settings_in
from halftone.library.run_logs.shapes import Seen, Span, Value, json_spans, keys_in

_NO_NUMBER: Final = r"\b(?:nan|inf|infinite|not (?:a number|finite)|non-?finite)\b"
_PATTERNS: Final[tuple[tuple[HappeningKind, str], ...]] = (
    (
        "scale-floor",
        r"loss scale already at minimum|minimum loss scale reached|loss scale (?:is at |reached )(?:the |its )?minimum",
    ),
    (
        "nan-loss",
        rf"\bloss (?:is|was|became|has become|turned|went)(?: now)? {_NO_NUMBER}|training_step` is (?:nan|inf)"
        rf"|{_NO_NUMBER} (?:detected |found |encountered )?(?:in (?:the )?)?(?:training )?loss\b(?! scale)",
    ),
    (
        "skipped-step",
        r"gradient overflow\.?\s{0,4}skipping|overflow!.{0,80}skipping step|overflow (?:detected|occurred).{0,80}skipp"
        rf"|{_NO_NUMBER}.{{0,40}}grad.{{0,80}}skipp|grad.{{0,40}}{_NO_NUMBER}.{{0,80}}skipp"
        rf"|skipp.{{0,80}}{_NO_NUMBER}.{{0,40}}grad",
    ),
    ("nan-latents", r"nan (?:detected|found) in (?:flipped )?latents"),
    ("out-of-memory", r"out of memory|outofmemoryerror"),
    ("interrupted", r"keyboardinterrupt|exiting gracefully|received sig(?:int|term)"),
    (
        "resume",
        r"resum(?:e|ing) (?:training )?from|loading states from|restor(?:ing|ed) (?:all )?states? from|restored all states",
    ),
    (
        "validation",
        r"running (?:validation|evaluation)|generating sample images|sampling \d+ images|generating \d+ (?:images|videos)"
        r"|validation dataloader|sanity checking|start(?:ing)? validation|validation steps|validating\b|evaluating\b",
    ),
    (
        "checkpoint",
        r"saving (?:the )?(?:model )?checkpoint|saved? (?:the )?(?:current )?state (?:to|in)|saving current state|saving state\b"
        r"|saving model|model weights saved|saved checkpoint|saved (?:the )?model",
    ),
    (
        "error",
        r"(?:^|[\s|])(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): |[Tt]raceback \(most recent call last\)",
    ),
)
_KEYS: Final[dict[HappeningKind, tuple[str, ...]]] = {
    "scale-floor": ("minimum",),
    "skipped-step": ("overflow", "skipp"),
    "nan-latents": ("latents",),
    "nan-loss": (" loss", "loss ", "training_step"),
    "out-of-memory": ("memory",),
    "interrupted": ("interrupt", "exiting", "received"),
    "resume": ("resum", "restor", "states from"),
    "validation": ("running ", "generating ", "sampling ", "validati", "sanity", "evaluating"),
    "checkpoint": ("saving ", "saved ", "save state"),
    "error": ("error: ", "exception: ", "traceback"),
}
"""Each pattern needs one of these pieces, which are quick to find."""
KEYS: Final = tuple(key for keys in _KEYS.values() for key in keys)
_COMPILED: Final[tuple[tuple[HappeningKind, tuple[str, ...], re.Pattern[str]], ...]] = tuple(
    (kind, _KEYS[kind], re.compile(pattern)) for kind, pattern in _PATTERNS
)
_NOT: Final[dict[HappeningKind, re.Pattern[str]]] = {
    **dict.fromkeys(
        ("resume", "validation", "checkpoint"), re.compile(r"does not exist|no checkpoint|not found|num_|every|removing")
    ),
    "nan-loss": re.compile(r"\bif\b|\bwhen|\bmay\b.{0,20}\bloss|\bmight\b|\bcould\b|avoid|prevent|in case|--|skip_|causes? "),
}
"""Words that show that a thing did not happen, or was only mentioned."""
_REDUCED: Final = re.compile(
    rf"(?:reducing|reduced|reduce)(?: the)?(?: loss)?(?: scale)? (?:to|by a factor to) ({NUMBER})", re.IGNORECASE
)


def happening_in(text: str, lower: str) -> HappeningKind | None:
    """A line's message beside its numbers; the first of the table that fits. lower: the line in small letters."""
    for kind, keys, pattern in _COMPILED:
        if any(key in lower for key in keys) and pattern.search(text if kind == "error" else lower):
            unless = _NOT.get(kind)
            return None if unless is not None and unless.search(lower) else kind
    return None


HITS: Final = ("loss", "norm", "lr", "rate", "scale")
"""Every known name contains one of these."""
_HIT: Final = re.compile("|".join(HITS))
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
"""A bar of the epochs, above another of the steps of each."""
_OF_EPOCH: Final = re.compile(r"^\s*(?:step|iteration)s?: {1,3}\d{1,3}%")
_ASIDE: Final = re.compile("val|eval|test|sampl|generat")
"""Bars of something other than the training."""
_STEP: Final = re.compile(
    r"(?<![\w-])(?:global[ _]?step|total[ _]?step|train[ _]?step|step|iter(?:ation)?|_step)s?(?:\([a-z]{1,9}\))?"
    r"['\"]?\s{0,3}[:=#|\[(]{0,2}\s{0,9}(\d{1,15})(?![\d.]*[a-z%]|\.\d*[1-9])"
)
_NUMBERED: Final = re.compile(r"^\s*(\d{1,15}): (?=\{)")
_STEPS: Final = ("global_step", "_step", "step", "iteration", "iter", "steps")
WALLS: Final = ("_timestamp", "timestamp", "wall_time", "time")
_JSON_MOST: Final = 30_000
"""Letters of a line of JSON; longer ones hold more than numbers of training."""


class Reader:
    """Reads one file of text into a collector, line by line.

    bar: (step, of how many) of the longest bar, the training's; epochs: how many were done, where a bar of their own counts them;
    counted: the last step by name; loss: (name, last number) of the training's loss; begun: whether there was one; has_steps:
    whether any number came with its step; seat: number of lines; seen: the last line's parts, None where it must not stand for
    others.
    """

    def __init__(self, into: Collector) -> None:
        self.into = into
        self.seat = 0
        self.bar: tuple[int, int] | None = None
        self.epochs: int | None = None
        self.counted: dict[str, int] = {}
        self.loss: tuple[str, float] = ("loss", 0.0)
        self.begun = False
        self.precise = False
        """Whether a line named the precision since numbers began."""
        self.has_steps = False
        self.step: int | None = None
        self.seen: Seen | None = None

    def take(self, piece: Piece) -> None:
        self.seat += 1
        self.seen = None
        text = piece.text
        if not text or text.isspace():
            return
        if "{" in text and self._took_json(piece):
            self._note_precision(piece)
            return
        lower = text.lower() if text.isascii() else _lower(text)
        bar = self._bar_of(lower) if "[" in text and "/" in text else None
        pairs = _pairs(text, lower)
        step_match = _STEP.search(lower) if pairs and bar is None and ("step" in lower or "iter" in lower) else None
        kept = pairs if step_match or bar or any(pair.quantity != "rate" for pair in pairs) else []
        if kept or self.begun:
            self._note_precision(piece)
        else:
            self.into.settings += settings_in(text, lower, self.into.file, piece.number)
        if kept:
            step = int(step_match.group(1)) if step_match else bar.step if bar else None
            self._put([(pair.name, pair.quantity, pair.value) for pair in kept], step, piece, math.nan)
        whole_bar = bar is not None and text.endswith("]") and "valid" not in lower
        kind = None if whole_bar else happening_in(text, lower)
        if kind is not None:
            self._happened(kind, piece)
        elif self.begun and (bar or not _BAR.search(lower)):
            self.seen = self._understood(text, kept, step_match, bar)

    def _note_precision(self, piece: Piece) -> None:
        """Settings come before the numbers, but for the precision, which some programs name beside them."""
        if not self.precise and (said := precision_in(piece.text, self.into.file, piece.number)) is not None:
            self.precise = True
            self.into.settings.append(said)

    def _understood(self, text: str, pairs: "list[_Pair]", step_match: re.Match[str] | None, bar: "_Bar | None") -> Seen | None:
        values = tuple(_value(pair.name, pair.quantity, pair.span) for pair in pairs)
        fixed = tuple(pair.named for pair in pairs)
        if bar:
            of_loss = "loss" in text.lower()
            if values and not of_loss:
                return None  # whether it is the bar of the training depends on others
            shape = Seen(text, "bar", bar.span, values, bar.total, bar.epoch, bar.of_epoch, of_loss=of_loss)
            return shape._replace(fixed=(*fixed, bar.total_span))
        if not values:
            return None
        if step_match:
            return Seen(text, "own", step_match.span(1), values, fixed=(*fixed, (step_match.start(), step_match.start(1))))
        return Seen(text, "under", None, values, fixed=fixed) if self.bar else None

    def _happened(self, kind: HappeningKind, piece: Piece) -> None:
        step = self.bar[0] if self.step is None and self.bar else self.step
        fatal = kind == "nan-loss" and "Error: " in piece.text
        self.into.happened("error" if fatal else kind, step, piece.number, self.seat, piece.text)
        if kind == "nan-loss":
            self._bad_loss(piece)
        if kind == "skipped-step" and (reduced := _REDUCED.search(piece.text)):
            self._put([("loss scale", "scale", number_of(reduced.group(1)))], self.step, piece, math.nan)

    def _bad_loss(self, piece: Piece) -> None:
        """A loss that only words report, in the step after the last one shown."""
        name, last = self.loss
        if math.isfinite(last):
            step_match = _STEP.search(piece.text.lower())
            step = int(step_match.group(1)) if step_match else 1 if self.step is None else self.step + 1
            self._put([(name, "loss", math.nan)], step, piece, math.nan)

    def _bar_of(self, text: str) -> "_Bar | None":
        """A bar of the training; for a bar per epoch the step since the beginning. text: in small letters."""
        found = _BAR.search(text)
        if found is None:
            return None
        done, total = int(found.group(1)), int(found.group(2))
        if _EPOCHS.match(text):
            self.epochs = done
            return None
        if _ASIDE.search(text, 0, found.start()):
            return None
        epoch = _EPOCH.search(text) if "epoch" in text else None
        of_epoch = epoch is None and bool(_OF_EPOCH.match(text))
        before = int(epoch.group(1)) if epoch else (self.epochs or 0) if of_epoch else 0
        if self.bar is None or total * (before + 1) >= self.bar[1] or "loss" in text:
            self.bar = (done + before * total, total * (before + 1))
            return _Bar(self.bar[0], found.span(1), total, found.span(2), epoch.span(1) if epoch else None, of_epoch)
        return None

    def _took_json(self, piece: Piece) -> bool:
        """Whether the line is one JSON object, with or without its step before it."""
        numbered = _NUMBERED.match(piece.text)
        begin = numbered.end() if numbered else 0
        text = piece.text[begin:].strip()
        if not (text.startswith('{"') and text.endswith("}")) or len(text) > _JSON_MOST:
            return False
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            return False
        record = dict(flat(content))
        step = int(numbered.group(1)) if numbered else whole(record, _STEPS)
        self.record(record, step, piece)
        if step is not None and self.begun:
            self.seen = self._object_seen(piece.text, content, record, numbered)
        return True

    def _object_seen(self, text: str, content: Any, record: Mapping[str, Any], numbered: re.Match[str] | None) -> Seen | None:
        """The places of an object's numbers; None if one of them is no plain number, or its step is no whole one."""
        begin = numbered.end() if numbered else 0
        spans = {name: (begin + start, begin + end) for name, (start, end) in json_spans(text[begin:], content).items()}
        numbers = [name for name, value in record.items() if numeric(value) is not None]
        named: list[tuple[str, Quantity]] = [(name, quantity) for name in numbers if (quantity := column_quantity(name))]
        by = next((name for name in _STEPS if whole(record, (name,)) is not None), "")
        step = numbered.span(1) if numbered else spans.get(by)
        if step is None or not text[slice(*step)].isdigit() or not named or any(name not in spans for name, _ in named):
            return None
        wall = next((name for name in WALLS if (numeric(record.get(name)) or 0) > 1e8), "")
        if wall and wall not in spans:
            return None
        values = tuple(_value(name, quantity, spans[name]) for name, quantity in named)
        fixed = tuple((begin + start, begin + end) for start, end in keys_in(text[begin:]))
        return Seen(text, "own", step, values, wall=spans.get(wall), fixed=fixed)

    def row(self, record: Mapping[str, Any], names: tuple[str, ...], piece: Piece) -> None:
        """A record on its own line, with its step under one of these names."""
        self.seat += 1
        self.record(record, whole(record, names), piece)

    def record(self, record: Mapping[str, Any], step: int | None, piece: Piece) -> None:
        """Numbers by name, of one step."""
        found: list[tuple[str, Quantity, float]] = []
        for name, value in record.items():
            quantity = column_quantity(name)
            number = None if quantity is None else numeric(value)
            if quantity is not None and number is not None:
                found.append((name, quantity, number))
        if step is None and not any(quantity != "rate" for _, quantity, _ in found):
            return
        walls = (numeric(record.get(name)) for name in WALLS)
        self._put(found, step, piece, next((wall for wall in walls if wall is not None and wall > 1e8), math.nan))

    def _put(self, found: list[tuple[str, Quantity, float]], step: int | None, piece: Piece, wall: float) -> None:
        for tag, quantity, value in found:
            self.has_steps = self.has_steps or step is not None or self.bar is not None
            at = self._unstepped(tag, quantity) if step is None else step
            self.counted[tag] = at
            exact = 2.0**value if tag.endswith("log_scale") and abs(value) < 1000 else value
            point = Point(at, exact, piece.number, self.seat, wall)
            self.into.put(tag, quantity, point, counted=step is None and not self.has_steps)
            if step is not None or self.bar or quantity != "scale":  # a count of scales is not a step
                self.step = at
            if quantity == "loss":
                self.begun = True
                self.loss = (tag, exact)

    def _unstepped(self, tag: str, quantity: Quantity) -> int:
        """The step of a number without one: the bar's, the last known one, or its count."""
        if self.bar:
            return self.bar[0]
        if self.has_steps and self.step is not None and quantity in {"scale", "gradient", "rate"}:
            return self.step
        return self.counted.get(tag, 0) + 1


class _Bar(NamedTuple):
    """span, total_span, epoch: places of its step, its length and its epoch; total: its length."""

    step: int
    span: Span
    total: int
    total_span: Span
    epoch: Span | None
    of_epoch: bool


class _Pair(NamedTuple):
    """A name and a number. named, span: where the two stand."""

    name: str
    quantity: Quantity
    value: float
    named: Span
    span: Span


def _value(name: str, quantity: Quantity, span: Span) -> Value:
    return Value(name, quantity, span, doubled=name.endswith("log_scale"))


def column_quantity(name: str) -> Quantity | None:
    """The meaning of a column or an entry; "scale" alone only there."""
    return "scale" if name == "scale" else quantity_of(name)


def _lower(text: str) -> str:
    """In small letters, of the same length, as some letters would become two."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _pairs(text: str, lower: str) -> "list[_Pair]":
    """Names and numbers in a line; of several with one name the last. lower: the line in small letters."""
    found: dict[str, _Pair] = {}
    end = 0
    for hit in _HIT.finditer(lower):
        tail = _TAIL.match(lower, hit.end()) if hit.start() >= end else None
        if tail is None:
            continue
        start = _begin(lower, hit.start())
        name = " ".join(text[start : tail.end(1)].split())
        quantity = quantity_of(name) if tail.end(1) - start <= _LONGEST else None
        if quantity is not None:
            found[name] = _Pair(name, quantity, number_of(tail.group(2)), (start, tail.start(2)), tail.span(2))
            end = tail.end()
    return list(found.values())


def _begin(lower: str, start: int) -> int:
    """The beginning of a name with a part at `start`; names of two words are known."""
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
