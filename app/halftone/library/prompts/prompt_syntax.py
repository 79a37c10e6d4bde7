"""Prompts in A1111's syntax: weights, BREAK, words that change over the steps. Pure text in, pure text out.

`(word)` weighs 1.1, `(word:1.3)` 1.3, `[word]` 1/1.1, nested ones multiply; a backslash makes a bracket a letter.
`[from:to:when]` and `[a|b]` change with the step. A bracket without its partner is text, for the sake of smileys; in A1111 it
weighs all that follows. Brackets around nothing are an empty prompt, as in A1111. `AND` between prompts is read before
(`composed_prompts`).

`Syntax` chooses the rules of A1111 (modules/prompt_parser.py) or ComfyUI (comfy/sd1_clip.py) instead. Where they differ
from those programs, the guide says so.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from halftone.contract.parameters import EMPHASIS, PROMPT_SYNTAX
from halftone.contract.wording import Words
from halftone.library.families.known_families import reads_brackets, weighs_words

UP: Final = 1.1
"""What a pair of round brackets multiplies by."""
MOST: Final = 10.0
"""Larger weights count as this: encoders give only noise beyond it."""
_LENGTH: Final = "max_sequence_length"
_HUGE: Final = 1e6
"""No weight is larger in any syntax."""
_DEEPEST: Final = 64
"""A bracket further inside is text."""
_NUMBER: Final = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_SIGNS: Final = "()[]:|\\"
"""What a backslash makes a letter."""
_PIECE: Final = re.compile(r"\\[()\[\]:|\\]|[()\[\]]|(?:[^\\()\[\]]|\\(?![()\[\]:|\\]))+")
_MARK: Final = re.compile(r"\\[()\[\]:|\\]|[()\[\]:|]|(?:[^\\()\[\]:|]|\\(?![()\[\]:|\\]))+")
_WEIGHT: Final = re.compile(rf":\s*({_NUMBER})\s*\Z")
_WHEN: Final = re.compile(rf"\s*{_NUMBER}(?:[eE][+-]?\d+)?\s*")
_BREAK: Final = re.compile(r"(?:(?<!\s)\s+|\b)BREAK\b\s*")
"""Begins where the spaces do, so that a long run of them is scanned once."""
AND: Final = re.compile(r"\bAND\b")
_HYPERNET: Final = re.compile(r"<hypernet:[^<>]+>")
_STRAY: Final = re.compile(r"[<＜](?:lora|lyco)\b(?!:[^:<>]+(?::[^:<>]*)?(?::[^<>]*)?>)[^<>＜＞\n]{0,40}[>＞]?", re.IGNORECASE)
"""A LoRA that is not written as one."""
_FULL_WIDTH: Final = re.compile(r"（[^（）()]{0,200}[：:]\s*[\d.]{1,9}\s*）|\([^（）()]{0,200}：\s*[\d.]{1,9}\s*\)")
"""A weight between signs of Chinese and Japanese keyboards."""
_SMILEY: Final = re.compile(r"[:;=]['^o-]?\Z")
_A1111_PIECE: Final = re.compile(r"\\[()\[\]\\]?|:\s*([+-]?[.\d]+)\s*\)|[()\[\]:]|[^\\()\[\]:]+")
"""What A1111 cuts a prompt into; a number is the weight of what closes there."""
_CUT_OFF: Final = re.compile(r"(?<!\\)(?:\\\\)*\\(?:\n|\Z)")
"""A backslash before nothing: A1111 reads such a prompt as it is written."""
_COMFY_ESCAPE: Final = (("\\)", "\0\1"), ("\\(", "\0\2"))
"""A bracket that is a letter -> its place while the others are read."""
_BESIDE: Final = 20
"""Letters that are shown beside a bracket."""
_FIRST_WORD: Final = re.compile(r"\s*\S+")
_LAST_WORD: Final = re.compile(r"\S+\s*\Z")
_MOST_SIGNS: Final = 8
"""Brackets that are named one by one."""
_PARTNER: Final = {")": "(", "]": "["}


class Syntax(IntEnum):
    """Whose rules a prompt follows. The numbers are those of the request's option."""

    HALFTONE = 0
    A1111 = 1
    COMFYUI = 2


class Emphasis(IntEnum):
    """What weights do, as in A1111 (modules/sd_emphasis.py): scale with the mean kept, without, nothing; or brackets are text."""

    ORIGINAL = 0
    NO_NORM = 1
    IGNORE = 2
    NONE = 3


class Rules(NamedTuple):
    """How a prompt is read. ComfyUI's syntax has an emphasis of its own. passes: steps of the first and the second pass of
    Hires. fix while the second is made, in which changes count on in A1111's syntax. longest: tokens that T5 reads in ComfyUI's
    syntax, None for as many as there are.
    """

    syntax: Syntax = Syntax.HALFTONE
    emphasis: Emphasis = Emphasis.ORIGINAL
    passes: tuple[int, int] | None = None
    longest: int | None = None


OWN: Final = Rules()


def rules_of(options: Mapping[str, object]) -> Rules:
    """The rules that a request asks for."""
    syntax, emphasis, longest = (options.get(name) for name in (PROMPT_SYNTAX, EMPHASIS, _LENGTH))
    asked = Syntax(syntax) if isinstance(syntax, int) else Syntax.HALFTONE
    return Rules(
        asked,
        Emphasis(emphasis) if isinstance(emphasis, int) else Emphasis.ORIGINAL,
        longest=longest if isinstance(longest, int) and asked is Syntax.COMFYUI else None,
    )


class Part(NamedTuple):
    """Words of one weight, which lies between -MOST and MOST unless the rules are those of another program."""

    text: str
    weight: float


_BROKEN: Final = Part("BREAK", -1.0)
"""How A1111 marks a BREAK: with a weight, which brackets around it change."""
Sections = tuple[tuple[Part, ...], ...]
"""The parts between one BREAK and the next."""


# --- weights -------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def parse(text: str, rules: Rules = OWN) -> Sections:
    """The parts of a prompt, without the brackets. Text without such signs is one part of weight 1, unchanged."""
    if rules.syntax is Syntax.COMFYUI:
        return (tuple(_parse_as_comfy(_escaped(text), 1.0)),)
    if rules.emphasis is Emphasis.NONE:
        return ((Part(text, 1.0),) if text else (),)
    sections = _parse_as_a1111(text) if rules.syntax is Syntax.A1111 else _parse(text)
    if rules.emphasis is Emphasis.IGNORE:
        return tuple(tuple(Part(part.text, 1.0) for part in section) for section in sections)
    return sections


def _parse(text: str) -> Sections:
    pieces: list[str] = _PIECE.findall(text)
    pairs = _pairs(pieces)
    factors = {start: _factor(pieces, start, end) for start, end in pairs.items()}
    ends = {end: start for start, end in pairs.items()}
    sections: list[list[Part]] = [[]]
    running = [1.0]
    for index, piece in enumerate(pieces):
        if index in factors:
            running.append(_bounded(running[-1] * factors[index]))
        elif index in ends:
            running.pop()
        elif len(piece) == 2 and piece[0] == "\\" and piece[1] in _SIGNS:
            _add(sections[-1], piece[1], running[-1])
        else:
            first, *others = _BREAK.split(piece)
            _add(sections[-1], first, running[-1])
            for other in others:
                sections.append([])
                _add(sections[-1], other, running[-1])
    return tuple(map(tuple, sections))


def _pairs(pieces: list[str]) -> dict[int, int]:
    """Index of an opening bracket -> that of its partner."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for index, piece in enumerate(pieces):
        if piece in ("(", "["):
            opened.append(index)
        elif piece in _PARTNER and any(pieces[start] == _PARTNER[piece] for start in opened[-_DEEPEST:]):
            while pieces[opened[-1]] != _PARTNER[piece]:
                opened.pop()
            found[opened.pop()] = index
    return found


def _factor(pieces: list[str], start: int, end: int) -> float:
    """The factor of a pair; a weight in it is removed from the text."""
    if pieces[start] == "[":
        return 1 / UP
    weight = _WEIGHT.search(pieces[end - 1]) if end - 1 > start else None
    if weight is None:
        return UP
    pieces[end - 1] = pieces[end - 1][: weight.start()]
    return _bounded(float(weight[1]))


def _add(parts: list[Part], text: str, weight: float) -> None:
    weight = bounded(weight, OWN)
    if parts and parts[-1].weight == weight:
        parts[-1] = Part(parts[-1].text + text, weight)
    elif text:
        parts.append(Part(text, weight))


def _parse_as_a1111(text: str) -> Sections:
    """A bracket weighs all up to its partner, or to the end; a BREAK among weighed words is a word."""
    pieces: list[Part] = []
    opened: dict[str, list[int]] = {"(": [], "[": []}
    spans: list[_Span] = []
    for match in _A1111_PIECE.finditer(text):
        sign, weight = match[0], _number(match[1])
        partner = "(" if weight is not None else _PARTNER.get(sign, "")
        if sign[0] == "\\":
            pieces.append(Part(sign[1:], 1.0))
        elif sign in opened:
            opened[sign].append(len(pieces))
        elif partner and opened[partner]:
            factor = 1 / UP if partner == "[" else UP if weight is None else weight
            spans.append(_Span(opened[partner].pop(), len(pieces), factor))
        else:
            first, *others = _BREAK.split(sign)
            pieces += [Part(first, 1.0), *(piece for other in others for piece in (_BROKEN, Part(other, 1.0)))]
    for bracket, factor in (("(", UP), ("[", 1 / UP)):
        spans += [_Span(start, len(pieces), factor) for start in opened[bracket]]
    sections: list[list[Part]] = [[]]
    for piece in merged(_weighed(pieces, spans)):
        if piece == _BROKEN:
            sections.append([])
        elif piece.text:
            sections[-1].append(piece)
    return tuple(map(tuple, sections))


class _Span(NamedTuple):
    """The pieces from start to before end that a bracket weighs."""

    start: int
    end: int
    factor: float


def _weighed(pieces: list[Part], spans: list[_Span]) -> list[Part]:
    """The pieces with the factors of all brackets, multiplied in A1111's order, so that equal weights stay equal."""
    import numpy as np  # the window starts without it

    weights = np.array([piece.weight for piece in pieces], np.float64)
    for start, end, factor in spans:
        inside = weights[start:end]
        np.clip(inside * factor, -_HUGE, _HUGE, out=inside)
    return [Part(piece.text, weight) for piece, weight in zip(pieces, weights.tolist(), strict=True)]


def _bounded(weight: float) -> float:
    return max(-_HUGE, min(_HUGE, weight))


def bounded(weight: float, rules: Rules) -> float:
    """A weight that a prompt was given, within the limit of its syntax."""
    return max(-MOST, min(MOST, weight)) if rules.syntax is Syntax.HALFTONE else _bounded(weight)


def _number(text: str | None) -> float | None:
    """None for what is none, such as 1.2.3, at which A1111 fails."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def merged(pieces: list[Part]) -> list[Part]:
    found: list[Part] = []
    for piece in pieces:
        if found and found[-1].weight == piece.weight:
            found[-1] = Part(found[-1].text + piece.text, piece.weight)
        else:
            found.append(piece)
    return found


def _parse_as_comfy(text: str, weight: float, depth: int = 0) -> Iterator[Part]:
    """Only round brackets weigh; a weight that is written counts alone, whatever is around it."""
    for piece in _comfy_pieces(text):
        if depth < _DEEPEST and len(piece) > 1 and piece[0] == "(" and piece[-1] == ")":
            words, colon, number = piece[1:-1].rpartition(":")
            written = _float(number) if colon and words else None
            yield from (
                _parse_as_comfy(piece[1:-1], _bounded(weight * UP), depth + 1)
                if written is None
                else _parse_as_comfy(words, _bounded(written), depth + 1)
            )
        else:
            yield Part(_unescaped(piece), weight)


def _float(text: str) -> float | None:
    """As Python reads it, like ComfyUI, but nothing that is not finite."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _comfy_pieces(text: str) -> Iterator[str]:
    """The text cut around its outermost round brackets."""
    begun, depth = 0, 0
    for place, sign in enumerate(text):
        if sign == "(":
            if depth == 0 and place > begun:
                yield text[begun:place]
                begun = place
            depth += 1
        elif sign == ")":
            depth -= 1
            if depth == 0:
                yield text[begun : place + 1]
                begun = place + 1
    if begun < len(text):
        yield text[begun:]


def _escaped(text: str) -> str:
    for written, held in _COMFY_ESCAPE:
        text = text.replace(written, held)
    return text


def _unescaped(text: str) -> str:
    for written, held in _COMFY_ESCAPE:
        text = text.replace(held, written[1:])
    return text


# --- words that change over the steps --------------------------------------------------------------------


class _Swap(NamedTuple):
    """`[before:after:when]`; when: a share of the steps, or a number of steps."""

    before: "_Row"
    after: "_Row"
    when: float
    share: bool


class _Turn(NamedTuple):
    """`[a|b]`: one word after the other, step by step."""

    words: tuple["_Row", ...]


_Row = tuple["str | _Swap | _Turn", ...]


@dataclass
class _Frame:
    """An open bracket and its contents so far: rows, and the signs between them."""

    bracket: str
    rows: list[list[str | _Swap | _Turn]] = field(default_factory=lambda: [[]])
    signs: list[str] = field(default_factory=list[str])

    def put(self, *pieces: str | _Swap | _Turn) -> None:
        self.rows[-1].extend(pieces)

    @property
    def follows_a1111(self) -> bool:
        """Whether A1111's grammar has such brackets, which decides about all those around them."""
        if self.bracket == "(":
            return len(self.signs) <= 1
        return not self.signs or not isinstance(self.closed("]")[0], str)

    def closed(self, bracket: str) -> list[str | _Swap | _Turn]:
        """The meaning of the whole; bracket: "" where its partner is missing."""
        rows = [tuple(row) for row in self.rows]
        whole = self.bracket == "[" and bracket
        if whole and set(self.signs) == {"|"}:
            return [_Turn(tuple(rows))]
        when = rows[-1][0] if len(rows) in (2, 3) and len(rows[-1]) == 1 and "|" not in self.signs else None
        if whole and isinstance(when, str) and _WHEN.fullmatch(when):
            return [_Swap(rows[0] if len(rows) == 3 else (), rows[-2], float(when), "." in when)]
        found: list[str | _Swap | _Turn] = [self.bracket]
        for row, sign in zip(self.rows, [*self.signs, bracket], strict=True):
            found += [*row, sign]
        return found


@lru_cache(maxsize=64)
def _read(text: str, rules: Rules = OWN) -> _Row:
    """The parts of a prompt that change with the step, and those that do not."""
    if rules.syntax is Syntax.COMFYUI or (rules.syntax is Syntax.A1111 and _CUT_OFF.search(text)):
        return (text,)
    strict = rules.syntax is Syntax.A1111
    frames = [_Frame("")]
    for sign in _MARK.findall(text):
        if sign in ("(", "[") and len(frames) <= _DEEPEST:
            frames.append(_Frame(sign))
        elif (sign == ":" and frames[-1].bracket) or (sign == "|" and frames[-1].bracket == "["):
            frames[-1].signs.append(sign)
            frames[-1].rows.append([])
        elif strict and sign == "|":
            return (text,)
        elif strict and sign in _PARTNER and not (frames[-1].bracket == _PARTNER[sign] and frames[-1].follows_a1111):
            if not _flatten(frames):
                return (text,)
            frames[-1].put(sign)
        elif sign in _PARTNER and any(frame.bracket == _PARTNER[sign] for frame in frames):
            while frames[-1].bracket != _PARTNER[sign]:
                _close(frames, "")
            _close(frames, sign)
        else:
            frames[-1].put(sign)
    return tuple(frames[0].rows[0]) if _flatten(frames) or not strict else (text,)


def _flatten(frames: list[_Frame]) -> bool:
    """Close all brackets without their partners. False where a bar stood in one, for which A1111 has no rule outside."""
    lawful = not any("|" in frame.signs for frame in frames)
    while len(frames) > 1:
        _close(frames, "")
    return lawful


def _close(frames: list[_Frame], bracket: str) -> None:
    frame = frames.pop()
    frames[-1].put(*frame.closed(bracket))


def _at(row: _Row, step: int, steps: int, done: int = 0) -> Iterator[str]:
    """done: steps of the pass before, from which whole numbers count on; its share of the steps is 1."""
    for piece in row:
        if isinstance(piece, str):
            yield piece
        elif isinstance(piece, _Turn):
            yield from _at(piece.words[(step - 1) % len(piece.words)], step, steps, done)
        else:
            when = (piece.when - (done > 0)) * steps if piece.share else piece.when - done
            yield from _at(piece.before if step <= int(max(0, min(steps, when))) else piece.after, step, steps, done)


@lru_cache(maxsize=64)
def changes(text: str, rules: Rules = OWN) -> bool:
    """Whether a prompt changes over the steps."""
    return any(not isinstance(piece, str) for piece in _read(text, rules))


def at_step(text: str, step: int, steps: int, rules: Rules = OWN) -> str:
    """The prompt of a step, counted from 1, with its weights."""
    done = rules.passes[0] if rules.passes and rules.syntax is Syntax.A1111 else 0
    return "".join(_at(_read(text, rules), step, steps, done)) if changes(text, rules) else text


# --- what it comes to ------------------------------------------------------------------------------------


def is_plain(text: str, rules: Rules = OWN) -> bool:
    """Whether a prompt holds nothing but words."""
    return not changes(text, rules) and parse(text, rules) == (((Part(text, 1.0),) if text else ()),)


def is_weighted(text: str, rules: Rules = OWN) -> bool:
    """Whether some words count more or less than others."""
    return any(part.weight != 1 for section in parse(text, rules) for part in section)


def plain(text: str, rules: Rules = OWN, *, literal: bool = False) -> str:
    """The words alone, at the first step: for a model whose text encoder takes no weights. literal: in ComfyUI's syntax it reads
    all signs as they are written.
    """
    if literal and rules.syntax is Syntax.COMFYUI:
        return _unescaped(_escaped(text))
    if is_plain(text, rules):
        return text
    sections = parse(at_step(text, 1, 1000, rules), rules)
    return " ".join("".join(part.text for part in section) for section in sections if section)


def family_notes(texts: tuple[str, ...], family: str, rules: Rules = OWN) -> tuple[Words, ...]:
    """`notes` for a family of models."""
    weights = weighs_words(family, as_comfyui=rules.syntax is Syntax.COMFYUI)
    return notes(texts, weights=weights, rules=rules, literal=reads_brackets(family))


def notes(texts: tuple[str, ...], *, weights: bool, rules: Rules = OWN, literal: bool = False) -> tuple[Words, ...]:
    """A sentence for each sign without effect here. texts: the prompt, then the negative one; weights: whether the model's text
    encoder takes them; literal: as in `plain`.
    """
    found: list[Words] = []
    if not weights and any(is_weighted(at_step(text, 1, 1000, rules), rules) for text in texts):
        found.append(
            Words("This model reads the brackets of weights as text, as in ComfyUI.")
            if literal and rules.syntax is Syntax.COMFYUI
            else Words("This text encoder has no prompt weights; brackets are ignored.")
        )
    if not weights and any(changes(text, rules) for text in texts):
        found.append(
            Words("This model reads one prompt for all steps: of what changes with the step it reads what stands first.")
        )
    unmatched = [left for text in texts for left in _left_open(text)] if rules.syntax is Syntax.HALFTONE else []
    if len(unmatched) == 1:
        found.append(Words("Unmatched {0} read as text: “{1}”.", unmatched[0]))
    elif unmatched:
        signs = [sign for sign, _ in unmatched]
        shown = " ".join(signs[:_MOST_SIGNS]) + (" …" if len(signs) > _MOST_SIGNS else "")
        found.append(Words("Unmatched {0} read as text, the first in “{1}”.", (shown, unmatched[0][1])))
    if rules.syntax is not Syntax.COMFYUI:
        found += _uncomposed(texts, weights=weights)
    if weight := next((match[0] for text in texts for match in _FULL_WIDTH.finditer(text)), None):
        found.append(Words("Full-width brackets and colons do not weigh words: “{0}”. Use ( ) and :.", (weight,)))
    if stray := next((match[0] for text in texts for match in _STRAY.finditer(text)), None):
        found.append(Words("This tag is read as text: “{0}”. A LoRA is written <lora:name:weight>.", (stray,)))
    if named := next((tag for text in texts for tag in _HYPERNET.findall(text)), None):
        found.append(Words("Hypernetworks are not supported. Read as text: “{0}”. Remove it from the prompt.", (named,)))
    return tuple(found)


def _uncomposed(texts: tuple[str, ...], *, weights: bool) -> Iterator[Words]:
    if weights and any(map(AND.search, texts[1:])):
        yield Words("AND in the negative prompt is read as a word, as in A1111.")
    elif not weights and any(map(AND.search, texts)):
        yield Words("AND is read as a word: this model's text encoder does not support prompts composed of several.")


def _left_open(text: str) -> Iterator[tuple[str, str]]:
    """(bracket, the bracket with the word beside it) of each without a partner; a smiley is none."""
    pieces: list[str] = _PIECE.findall(text)
    pairs = _pairs(pieces)
    matched = {*pairs, *pairs.values()}
    for index, piece in enumerate(pieces):
        before = pieces[index - 1] if index else ""
        if piece not in ("(", ")", "[", "]") or index in matched or _SMILEY.search(before):
            continue
        after = pieces[index + 1] if index + 1 < len(pieces) else ""
        after = "" if after in _SIGNS else after
        before = "" if before in _SIGNS else before
        opens = piece in ("(", "[")
        word = _FIRST_WORD.match(after) if opens else _LAST_WORD.search(before)
        beside = word[0] if word is not None else ""
        yield piece, piece + beside[:_BESIDE] if opens else beside[-_BESIDE:] + piece
