"""Banners and receipts say what was done, and nothing else."""

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.facts import GuardEvent
from halftone.gui.picture_text import picture_message, receipt
from halftone.health.explain import note_for

ACTIONS = ("decoded-again", "encoded-again", "went-back-one-step")


def event(action: str, cure: str) -> GuardEvent:
    step = 3 if action == "went-back-one-step" else None
    return msgspec.structs.replace(samples.GUARDED, action=action, cure=cure, step=step)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("cure", "said"), [("none", "right"), ("read-again", "damaged")])
def test_what_needed_no_wider_type_claims_none(action: str, cure: str, said: str) -> None:
    happened = event(action, cure)
    picture = msgspec.structs.replace(samples.picture_facts("a.png", "recovered"), events=(happened,))
    message = picture_message(picture)
    assert message is not None
    for words in (message.spoken, note_for(happened).text.text()):
        assert said in words
        assert "FP32" not in words
        assert "precision" not in words


def test_one_colour_in_full_precision_too_is_told_and_kept() -> None:
    happened = msgspec.structs.replace(event("kept", "none"), kind="flat", module="", peak=None, limit=None)
    picture = msgspec.structs.replace(
        samples.picture_facts("a.png", "not-recovered"), black=True, finite=True, events=(happened,)
    )
    message = picture_message(picture)
    assert message is not None
    assert message.level == "danger"
    assert message.title.startswith("This picture came out in one colour")
    assert [act.key for act in message.actions] == ["check", "copy"]
    assert receipt(picture)[2] == "One colour"
    assert receipt(msgspec.structs.replace(picture, state="clean"))[2] == "One colour"
