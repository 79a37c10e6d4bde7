"""The object that `train doctor --json` prints."""

from datetime import UTC, datetime
from typing import Any

from halftone.cli.reports.json_objects import SCHEMA
from halftone.contract.errors import sentence
from halftone.health.doctor.flags import flag
from halftone.health.doctor.found import Diagnosis, First, Sign, Trouble, Where
from halftone.health.doctor.sentences import ADVICE, NOTES, cause_words, sign_words, trouble_words, value_words
from halftone.library.run_logs.folder import Run


def doctor_object(place: str, read: Run, found: Diagnosis) -> dict[str, Any]:
    """Stable names; numbers that are not finite are texts, as JSON has none for them."""
    return {
        "schema": SCHEMA,
        "run": place,
        "verdict": found.verdict,
        "first": None if found.first is None else _first(found.first),
        "troubles": [_trouble(one, found.first) for one in found.troubles],
        "causes": [
            {
                "cause": one.cause,
                "message": cause_words(one),
                "points": one.score,
                "for": [sign.code for sign in one.signs],
                "against": [sign.code for sign in one.against],
                "remedies": [
                    {"code": advice, "message": ADVICE[advice], "setting": flag(advice, read.trainer) or None}
                    for advice in one.advice
                ],
            }
            for one in found.suspects
        ],
        "signs": [_sign(one) for one in found.signs],
        "last_sound_checkpoint": found.last_sound or None,
        "steps": None if found.steps is None else list(found.steps),
        "last_loss": found.last_loss,
        "read": {
            "files": read.files,
            "trainer": read.trainer,
            "logs": list(read.logs),
            "checkpoints": [
                {
                    "file": one.file,
                    "step": one.step,
                    "tensors": sum(kind.tensors for kind in one.kinds.values()),
                    "bad": [scan.tensor for scan in one.bad],
                    "problem": None if one.problem is None else sentence(one.problem),
                }
                for one in read.checkpoints
            ],
            "pickles": list(read.pickles),
        },
        "notes": [NOTES[note.code].format(note.file, note.detail) for note in read.notes],
    }


def _first(first: First) -> dict[str, Any]:
    when = None if first.wall is None else datetime.fromtimestamp(first.wall, UTC).isoformat(timespec="seconds")
    return {"quantity": first.quantity, "tag": first.tag, "value": value_words(first.value), "time": when} | _place(first.where)


def _trouble(trouble: Trouble, first: First | None) -> dict[str, Any]:
    return {"code": trouble.code, "message": trouble_words(trouble, first).text()} | _place(trouble.where)


def _sign(sign: Sign) -> dict[str, Any]:
    return {"code": sign.code, "message": sign_words(sign).text()} | _place(sign.where)


def _place(where: Where | None) -> dict[str, Any]:
    if where is None or not where.file:
        return {"file": None, "line": None, "step": None}
    return {"file": where.file, "line": where.line or None, "step": where.step}
