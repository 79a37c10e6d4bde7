"""What programs say between the numbers: saved, resumed, validated, skipped, failed."""

import re
from typing import Final

from halftone.library.run_logs.series import NUMBER, HappeningKind

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
"""Pieces without which a pattern cannot fit: looking for them is quick."""
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
"""Words that show that a thing did not happen, or was only spoken of."""
_REDUCED: Final = re.compile(
    rf"(?:reducing|reduced|reduce)(?: the)?(?: loss)?(?: scale)? (?:to|by a factor to) ({NUMBER})", re.IGNORECASE
)


def happening_in(text: str, lower: str) -> HappeningKind | None:
    """What a line tells beside its numbers; the first of the table that fits. lower: the line in small letters."""
    for key in KEYS:
        if key in lower:
            break
    else:
        return None
    for kind, keys, pattern in _COMPILED:
        if any(key in lower for key in keys) and pattern.search(text if kind == "error" else lower):
            unless = _NOT.get(kind)
            return None if unless is not None and unless.search(lower) else kind
    return None


def reduced_scale(text: str) -> str | None:
    """The loss scale that a skipped step leads to, as it stands there."""
    found = _REDUCED.search(text)
    return None if found is None else found.group(1)
