"""Where a LoRA is the cause, what is said of a picture or a layer names it, and a weight only where it was measured."""

import pytest
from msgspec.structs import replace
from tests.helpers.samples import GUARDED

from halftone.cli.reports.guard_events import event_line
from halftone.contract.facts import Finding, LoraCause
from halftone.health.explain import finding_words, note_for

GLOW = LoraCause(names=("glow",), weight=0.8, share=0.5)
LOST = replace(GUARDED, action="stopped", cure="none", sound_in_float32=False)


@pytest.mark.parametrize("why", ["", "setting", "no-cure"])
@pytest.mark.parametrize("action", ["stopped", "asked"])
def test_a_picture_that_is_lost_names_it_first(action: str, why: str) -> None:
    note = note_for(replace(LOST, action=action, sound_in_float32=None, why=why, lora=GLOW))
    assert note.title.text().endswith(" The cause: the LoRA glow.")
    assert note.text.text().endswith(
        " Without the LoRA glow (weight 0.8), the model stays in range here. "
        "Lower its weight or remove it: at 0.4, this stays in range."
    )


def test_no_damaged_file_is_suspected_where_the_cause_is_known() -> None:
    assert "damaged" in note_for(LOST).text.text()
    assert "damaged" not in note_for(replace(LOST, lora=GLOW)).text.text()


def test_several_and_no_weight_that_held() -> None:
    both = LoraCause(names=("glow", "ink"), weight=0.8, share=None)
    note = note_for(replace(LOST, lora=both))
    assert note.title.text().endswith("The cause: the LoRAs glow, ink.")
    assert note.text.text().endswith("Without the LoRAs glow, ink, the model stays in range here. Remove them.")
    lower = note_for(replace(LOST, lora=replace(both, share=0.25))).text.text()
    assert lower.endswith("at 0.25 times, this stays in range.")


def test_a_model_that_fails_elsewhere_too_is_not_excused() -> None:
    note = note_for(replace(LOST, lora=replace(GLOW, alone=False)))
    assert "The cause" not in note.title.text()
    assert note.text.text().endswith("(weight 0.8), the model stays in range here. The model overflows elsewhere without it too.")
    facts: dict[str, str | int | float | bool] = {"lora": "glow", "lora_weight": 0.8, "lora_share": 0.5, "lora_alone": False}
    finding = Finding(
        code="activation-overflow", component="unet", module="conv_in", dtype="float16", peak=7e4, limit=65504.0, facts=facts
    )
    assert finding_words(finding)[1].text() == "Apply the cure: the model overflows elsewhere without glow too."


def test_the_line_of_a_recovered_picture_names_it() -> None:
    assert event_line(replace(GUARDED, lora=GLOW)) == (
        event_line(GUARDED) + " Without the LoRA glow (weight 0.8), the model stays in range here. "
        "Lower its weight or remove it: at 0.4, this stays in range."
    )
