"""What programs say between the numbers: saved, resumed, validated, skipped, failed."""

import re
from typing import Final

from halftone.library.run_logs.series import NUMBER, HappeningKind

_PATTERNS: Final[tuple[tuple[HappeningKind, str], ...]] = (
    (
        "scale-floor",
        r"loss scale already at minimum|minimum loss scale reached|loss scale (?:is at |reached )(?:the |its )?minimum",
    ),
    (
        "skipped-step",
        r"gradient overflow\.?\s{0,4}skipping|overflow!.{0,80}skipping step|overflow (?:detected|occurred).{0,80}skipp",
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
    ("error", r"(?:^|[\s|])(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception): |traceback \(most recent call last\)"),
)
_FIRST: Final = re.compile(
    r"minimum|overflow|latents|memory|interrupt|exiting|received|resum|restor|states|valid|sampl|generating|sanity|evaluati|sav"
    r"|error|exception|traceback|floor",
    re.IGNORECASE,
)
_COMPILED: Final[tuple[tuple[HappeningKind, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS
)
_NOT: Final = re.compile(r"does not exist|no checkpoint|not found|num_|every|removing", re.IGNORECASE)
_REDUCED: Final = re.compile(
    rf"(?:reducing|reduced|reduce)(?: the)?(?: loss)?(?: scale)? (?:to|by a factor to) ({NUMBER})", re.IGNORECASE
)


def happening_in(text: str) -> HappeningKind | None:
    """What a line tells beside its numbers; the first of the table that fits."""
    if _FIRST.search(text) is None:
        return None
    for kind, pattern in _COMPILED:
        if pattern.search(text):
            if kind in {"resume", "validation", "checkpoint"} and _NOT.search(text):
                return None
            return kind
    return None


def reduced_scale(text: str) -> str | None:
    """The loss scale that a skipped step leads to, as it stands there."""
    found = _REDUCED.search(text)
    return None if found is None else found.group(1)
