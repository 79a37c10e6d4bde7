"""Names finished pictures by a pattern, such as "{date}/{number}-{seed}", with names that every system can keep."""

import os
import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.wording import Words

TOKENS: Final = ("number", "seed", "date", "time", "prompt", "model", "sampler", "steps", "guidance", "width", "height")
_TOKEN: Final = re.compile(r"\{([^{}]*)\}")
_SEPARATOR: Final = re.compile(r"[/\\]")
_FORBIDDEN: Final = re.compile(r'[<>:"|?*\x00-\x1f\x7f]')
"""Signs that Windows allows in no name."""
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE | re.DOTALL)
"""Names of Windows' devices, with any ending."""
_MOST_BYTES: Final = 120
"""Of one name in UTF-8. Systems allow 255, and Windows' programs 260 signs for a whole path."""
_MOST_FOLDERS: Final = 3
_LONGEST: Final = {"prompt": 60, "model": 40}
_NUMBER: Final = r"(\d{5,9})"


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What a pattern can name of one picture. moment: local time."""

    seed: int
    prompt: str
    model: str
    sampler: str
    steps: int
    guidance: float
    width: int
    height: int
    moment: datetime


EXAMPLE: Final = Named(
    seed=1234567,
    prompt="a red sun over green hills",
    model="pocket",
    sampler="Euler a",
    steps=20,
    guidance=7.5,
    width=512,
    height=512,
    moment=datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC),
)


def pattern_problem(pattern: str) -> Words | None:
    """Why no file can be named by this pattern, None where one can."""
    if not pattern.strip():
        return Words("The pattern is empty.")
    unknown = next((name for name in _TOKEN.findall(pattern) if name not in TOKENS), None)
    if unknown is not None:
        return Words("{0} is not known. Known: {1}.", (f"{{{unknown}}}", tuple(f"{{{name}}}" for name in TOKENS)))
    rest = _TOKEN.sub("x", pattern)
    if "{" in rest or "}" in rest:
        return Words("A brace has no partner.")
    if found := _FORBIDDEN.search(rest):
        return Words("A file name cannot contain {0}.", (found[0],))
    parts = _SEPARATOR.split(rest)
    if any(not part.strip(" .") for part in parts):
        return Words("A folder or file in the pattern has no name.")
    if len(parts) - 1 > _MOST_FOLDERS:
        return Words("The pattern has more than {0} folders.", (_MOST_FOLDERS,))
    return None


def place_of(pattern: str, named: Named, folder: Path, ending: str, ahead: int = 0) -> Path:
    """The file for a picture in `folder`; its folders may not be there yet. pattern: one without a problem.

    "{number}" counts on from the highest number that the pattern gave in the same folder, past so many numbers that are given
    ahead of their files. Raises OSError.
    """
    *folders, last = _SEPARATOR.split(pattern)
    below = folder.joinpath(*filter(None, (_filled(part, named, "00001") for part in folders)))
    number = f"{_next_number(last, below) + ahead:05d}" if "{number}" in last else ""
    return below / f"{_filled(last, named, number) or named.seed}{ending}"


def example(pattern: str, ending: str) -> str:
    """The name of an imagined picture, with its folders. pattern: one without a problem."""
    *folders, last = _SEPARATOR.split(pattern)
    names = (_filled(part, EXAMPLE, "00042") for part in (*folders, last))
    return "/".join(filter(None, names)) + ending


def _next_number(last: str, folder: Path) -> int:
    """Follows the highest number in the names that this part of the pattern gave."""
    shape = re.compile("".join(_shape(piece) for piece in re.split(r"(\{[^{}]*\})", last)))
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return 1
    return max((int(found[1]) for name in names if (found := shape.match(name))), default=0) + 1


def _shape(piece: str) -> str:
    if piece == "{number}":
        return rf"(?<!\d){_NUMBER}(?!\d)"
    return ".*?" if piece.startswith("{") else re.escape(piece)


def _filled(part: str, named: Named, number: str) -> str:
    """One name of the path: what every system can keep, "" where nothing is left."""
    text = unicodedata.normalize("NFC", _TOKEN.sub(lambda found: _value(found[1], named, number), part))
    plain = " ".join(_FORBIDDEN.sub("_", _SEPARATOR.sub("_", text)).split())
    short = plain.encode(errors="replace")[:_MOST_BYTES].decode(errors="ignore").strip(" .")
    return f"_{short}" if _RESERVED.fullmatch(short) else short


def _value(token: str, named: Named, number: str) -> str:
    match token:
        case "number":
            return number
        case "date":
            return f"{named.moment:%Y-%m-%d}"
        case "time":
            return f"{named.moment:%H-%M-%S}"
        case "guidance":
            return f"{named.guidance:g}"
        case _:
            text = " ".join(str(getattr(named, token)).split())
            return text[: _LONGEST.get(token, len(text))].strip()
