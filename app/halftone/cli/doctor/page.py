"""The doctor's page in a terminal: the verdict, where it stands, the causes with their evidence, what to do."""

import textwrap
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from halftone.cli.terminal.console import HarmlessConsole
from halftone.contract.errors import sentence
from halftone.contract.wording import number
from halftone.health.doctor.found import LOOK, Diagnosis, First, Sign, SignCode, Suspect
from halftone.health.doctor.sentences import NOTES, advice_words, cause_words, sign_words, trouble_words, value_words, where_words
from halftone.library.run_logs.folder import Run
from halftone.library.run_logs.trainer import Trainer

_EVIDENCE: Final = (6, 3, 2, 2)
"""The number of signs shown for the first cause, the second and so on."""
_NOTES: Final = 3
_ASIDE: Final[tuple[SignCode, ...]] = (
    "averaged",
    "weights-sound",
    "loss-hidden",
    "after-checkpoint",
    "scale-growing",
    "recovers",
    "gradient-skips",
)
"""Told also where no cause rests on them."""


def show_diagnosis(read: Run, found: Diagnosis, *, console: Console | None = None) -> None:
    out = console or HarmlessConsole(highlight=False)
    if found.verdict == "sound":
        has_losses = any(track.quantity != "rate" for track in read.tracks)
        line = f"The run is sound{_span(found)}." if has_losses else "No checkpoint has NaN or infinity; no loss log was found."
        if any(sign.code in LOOK for sign in found.signs):
            _put(out, f"! No number is NaN or infinite{_span(found)}, but this is worth a look:", 0, "bold yellow", hanging=2)
            _evidence(out, (sign for sign in found.signs if sign.code in LOOK), "·")
        else:
            _put(out, f"✓ {line}", 0, "bold green", hanging=2)
        if found.last_loss is not None:
            _put(out, f"Every loss is finite; the last one is {found.last_loss:.4g}.", 2)
    for trouble in found.troubles:
        _put(out, f"✗ {trouble_words(trouble, found.first).text()}", 0, "bold red", hanging=2)
        if trouble.code == "nonfinite" and found.first is not None:
            _put(out, _first_line(found.first), 2, "dim")
        elif where := where_words(trouble.where):
            _put(out, where, 2, "dim")
    _put(out, _read_line(read), 2, "dim")
    _show_causes(out, read, found)
    if found.troubles and found.last_sound:
        out.print()
        _put(out, f"The last checkpoint without NaN or infinity: {found.last_sound}", 2)
    _show_notes(out, read)


def _no_cause(read: Run) -> str:
    """What else would help."""
    norms = any(track.quantity == "gradient" for track in read.tracks)
    more = "Add its settings and its console output" if norms else "Log the gradient norm"
    return f"No cause was found. {more}, or train with Halftone's guard."


def _show_causes(out: Console, read: Run, found: Diagnosis) -> None:
    shown = {sign.code for suspect in found.suspects for sign in (*suspect.signs, *suspect.against)}
    for index, (suspect, most) in enumerate(zip(found.suspects, _EVIDENCE, strict=False), 1):
        out.print()
        if index == 1:
            _put(out, "Likely causes, by points of evidence:", 2)
        _show_cause(out, index, suspect, most, read.trainer)
    if found.first is not None and not found.suspects:
        out.print()
        _put(out, _no_cause(read), 2)
    shown |= LOOK
    aside = [sign for sign in found.signs if sign.code not in shown and (sign.code in _ASIDE or not found.suspects)]
    if aside:
        out.print()
        _put(out, "Also seen:", 2)
        _evidence(out, aside, "·")


def _show_cause(out: Console, index: int, suspect: Suspect, most: int, trainer: Trainer | None) -> None:
    points = f"{suspect.score} point{'' if suspect.score == 1 else 's'}"
    _put(out, f"{index}  {cause_words(suspect)} ({points})", 2, "bold", hanging=3)
    _evidence(out, suspect.signs[:most], "+")
    _evidence(out, suspect.against[:2], "−")
    if suspect.advice:
        _put(out, f"→ {advice_words(suspect.advice, trainer)}", 5, hanging=2)


def _evidence(out: Console, signs: Iterable[Sign], mark: str) -> None:
    for sign in signs:
        place = where_words(sign.where)
        _put(out, f"{mark} {sign_words(sign).text()}{f' [{place}]' if place else ''}", 5, hanging=2)


def _first_line(first: First) -> str:
    when = "" if first.wall is None else f", {datetime.fromtimestamp(first.wall):%Y-%m-%d %H:%M:%S}"
    return f"{where_words(first.where)}: {first.tag} = {value_words(first.value)}{when}"


def _span(found: Diagnosis) -> str:
    return "" if found.steps is None else f" from step {number(found.steps[0])} to {number(found.steps[1])}"


def _read_line(read: Run) -> str:
    parts = [_counted(len(read.logs), "log"), _counted(len(read.checkpoints), "checkpoint")]
    return f"Read: {', '.join(parts)}, of {_counted(read.files, 'file')}."


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _show_notes(out: Console, read: Run) -> None:
    notes = [NOTES[note.code].format(note.file, note.detail) for note in read.notes]
    notes += [f"{one.file} was skipped. {sentence(one.problem)}" for one in read.checkpoints if one.problem]
    if read.pickles:
        notes.append(
            f"{_counted(len(read.pickles), 'pickle file')} ({read.pickles[0]}{' …' if len(read.pickles) > 1 else ''}) "
            "not opened: a pickle can run code."
        )
    if notes:
        out.print()
    for note in notes[:_NOTES]:
        _put(out, note, 2, "dim")
    if len(notes) > _NOTES:
        _put(out, f"And {len(notes) - _NOTES} more notes; --json lists them.", 2, "dim")


def _put(out: Console, text: str, indent: int, style: str = "", *, hanging: int = 0) -> None:
    """A paragraph, wrapped at plain spaces only."""
    before = " " * indent
    for line in textwrap.wrap(text, max(out.width, 40), initial_indent=before, subsequent_indent=before + " " * hanging):
        out.print(Text(line, style=style), soft_wrap=True)
