"""What the terminal says of a picture that was recovered more than once."""

import pytest
from msgspec.structs import replace
from tests.helpers.samples import GUARDED

from halftone.cli.reports.guard_events import event_line, what_to_do
from halftone.contract.facts import GuardEvent

STEP = replace(GUARDED, component="unet", module="mid_block", action="went-back-one-step", step=3)
ENCODED = replace(GUARDED, component="text_encoder", module="", action="encoded-again")
LOST = replace(GUARDED, action="stopped", cure="", peak=None, sound_in_float32=False)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            GUARDED,
            "While the picture was decoded: VAE decoder overflowed in half precision → Halftone decoded the latents again "
            "with rescaled layers. It took 0.4\u00a0s more.",
        ),
        (
            STEP,
            "At step 3: UNet, mid block produced NaN → Halftone went back one step and ran it "
            "again with rescaled layers. It took 0.4\u00a0s more.",
        ),
        (
            ENCODED,
            "Before the first step: Text encoder produced NaN → Halftone ran it again with rescaled layers. "
            "It took 0.4\u00a0s more.",
        ),
    ],
)
def test_what_happened_and_what_was_done_stand_in_one_line(event: GuardEvent, line: str) -> None:
    assert event_line(event) == line


def test_what_was_lost_is_told_as_in_the_window() -> None:
    assert event_line(LOST).startswith("This picture could not be recovered.")


def test_what_can_be_done_follows_from_the_cures() -> None:
    assert what_to_do([GUARDED, STEP], "some/model", "float16") == "halftone repair some/model --output model-repaired"
    check = "halftone check some/model --precision float16 --apply"
    assert what_to_do([GUARDED, replace(STEP, cure="upcast-region")], "some/model", "float16") == check
    assert what_to_do([replace(GUARDED, cure="none")], "some/model", "float16") == ""
    assert what_to_do([LOST], "some/model", "float32") == "halftone check some/model --precision float32", "it names the damage"
