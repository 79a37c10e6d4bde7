"""Every cause, cure, deed and omen of a training has its sentence; M12 and M13 read as they were designed."""

from typing import get_args

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.training import Cause, Deed, Foreseen, Omen, Remedy, TrainCure, TrainPicture, TrainReport
from halftone.health.training import training_sentences as words

CAUGHT = samples.caught(742)


def test_m13_in_its_parts() -> None:
    assert words.caught_title(CAUGHT).text() == "A NaN was stopped at step 742. Nothing was lost."
    why, pictures = words.why_words(CAUGHT)
    assert why.text() == ("UNet, mid block, first attention layer reached 91 300, above the FP16 limit of 65 504.")
    assert pictures.text() == "Pictures in this step: IMG_0193.png."
    assert words.did_words(CAUGHT).text().endswith("then repeated with one layer in FP32.")
    assert words.cost_words(CAUGHT).text() == "+0.6\u00a0% time, +12.6\u00a0MB."


def test_m12() -> None:
    assert words.caught_title(CAUGHT, asks=True).text() == "Training paused at step 742: the same NaN came back."
    assert words.safe_words(600).text() == "The LoRA from step 600 is safe."
    assert words.safe_words(None).text() == "This step did not change the LoRA."


def whole(said: str) -> bool:
    return bool(said) and not {"{", "}", "?"} & set(said) and "None" not in said


@pytest.mark.parametrize("cause", get_args(Cause))
@pytest.mark.parametrize("measured", [True, False])
def test_every_cause_is_told_without_a_gap(cause: Cause, measured: bool) -> None:
    known = msgspec.structs.replace(CAUGHT, cause=cause, was="float32", now="float16")
    caught = known if measured else msgspec.structs.replace(known, peak=None, limit=None)
    said = words.why_words(caught)[0].text()
    assert whole(said)
    assert measured or "above the" not in said
    assert whole(words.caught_title(caught).text())


@pytest.mark.parametrize("deed", get_args(Deed))
@pytest.mark.parametrize("cure", get_args(TrainCure))
def test_every_deed_and_cure_is_told(deed: Deed, cure: TrainCure) -> None:
    caught = msgspec.structs.replace(CAUGHT, did=deed, cure=cure)
    assert whole(words.did_words(caught).text())
    assert whole(words.cost_words(caught).text())
    assert whole(words.CURES[cure].text())


@pytest.mark.parametrize("code", get_args(Foreseen))
def test_every_omen_is_told_with_what_helps(code: Foreseen) -> None:
    remedies: tuple[Remedy, ...] = get_args(Remedy)
    omen = Omen(code=code, certain=True, name="unet.conv_in", dtype="float16", value=1e-8, limit=6e-5, remedies=remedies)
    assert whole(words.omen_words(omen).text())
    helps = words.remedy_words(omen)
    assert helps is not None
    assert helps.text().count(", or ") == len(remedies) - 1


def test_a_rate_is_written_out() -> None:
    said = words.omen_words(Omen(code="rate-too-high", certain=False, value=0.01, limit=0.0005))
    assert said.text() == "Learning rate 0.01 is high: one step can change weights by that much; they are around 0.0005."


def test_what_helps_is_silent_where_nothing_does() -> None:
    assert words.remedy_words(Omen(code="rate-too-high", certain=False)) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unet.mid_block.attentions.0", "UNet, mid block, first attention layer"),
        ("base_model.model.down_blocks.1.resnets.0", "UNet, second down block, first residual layer"),
        ("transformer_blocks.3.attn", "Transformer, fourth transformer block, attention"),
        ("text_encoder.text_model.encoder.layers.2", "Text encoder, third layer"),
        ("transformer.ln_f.weight", "transformer.ln_f.weight"),
        ("transformer.h.0.attn.c_attn", "transformer.h.0.attn.c_attn"),
        ("model.layers.3.mlp.down_proj", "model.layers.3.mlp.down_proj"),
        ("transformer.single_transformer_blocks.0", "Transformer, first single transformer block"),
        ("transformer.x_embedder.weight", "Transformer, patch embedding, weight"),
        ("decoder.up_blocks.0.resnets.0", "decoder.up_blocks.0.resnets.0"),
        ("head", "head"),
        ("0", 'layer "0"'),
        ("0.2", 'layer "0.2"'),
        ("0.weight", "0.weight"),
        ("", "A part of the model"),
    ],
)
def test_places(name: str, said: str) -> None:
    assert words.place_words(name).text() == said


def test_a_sentence_that_begins_with_a_layer_called_by_a_number() -> None:
    why = words.why_words(msgspec.structs.replace(CAUGHT, name="0"))[0].text()
    assert why.startswith('Layer "0" reached ')


@pytest.mark.parametrize(("count", "said"), [(0, None), (1, "step: a0."), (3, "step: a0, a1, a2."), (4, "step: 4.")])
def test_pictures_of_a_step(count: int, said: str | None) -> None:
    found = words.why_words(msgspec.structs.replace(CAUGHT, items=tuple(f"a{n}" for n in range(count))))[1:]
    assert (said is None and not found) or (said is not None and said in found[0].text())


@pytest.mark.parametrize(
    ("tries", "said"), [(0, "Halftone stopped"), (1, "1 cure failed. Halftone stopped"), (3, "3 cures failed. Halftone stopped")]
)
def test_tries_before_a_stop(tries: int, said: str) -> None:
    assert said in words.did_words(msgspec.structs.replace(CAUGHT, did="stopped", tries=tries)).text()


@pytest.mark.parametrize(
    ("did", "restored_to", "said"),
    [
        ("repeated", None, "Nothing was lost."),
        ("repeated", 741, "Nothing was lost."),
        ("repeated", 700, "at step 742."),
        ("restored", 741, "Nothing was lost."),
        ("restored", 700, "at step 742."),
        ("skipped", None, "at step 742."),
    ],
)
def test_that_nothing_was_lost_is_said_only_where_nothing_was(did: Deed, restored_to: int | None, said: str) -> None:
    caught = msgspec.structs.replace(CAUGHT, did=did, restored_to=restored_to)
    assert words.caught_title(caught).text().endswith(said)
    assert ("restored to step 700" in words.did_words(caught).text()) == (restored_to == 700)


def test_what_random_numbers_that_go_back_mean() -> None:
    caught = msgspec.structs.replace(CAUGHT, cause="random-outside", did="warned")
    assert "reset the random state" in words.why_words(caught)[0].text()


def test_costs_that_are_not_known_are_not_told() -> None:
    unknown = msgspec.structs.replace(CAUGHT, time_ratio=None, memory=0)
    assert words.cost_words(unknown).text() == "time not measured."


@pytest.mark.parametrize(
    ("steps", "bad", "said"),
    [
        (1600, 0, "Training finished, 1\u202f600 steps, no NaN."),
        (1600, 1, "Training finished, 1\u202f600 steps, 1 NaN stopped."),
        (1600, 2, "Training finished, 1\u202f600 steps, 2 NaNs stopped."),
        (912, 1, "Training stopped at step 912 of 1\u202f600, 1 NaN stopped."),
        (912, 0, "Training stopped at step 912 of 1\u202f600, no NaN."),
    ],
)
def test_how_a_training_ended(steps: int, bad: int, said: str) -> None:
    noted = msgspec.structs.replace(CAUGHT, did="warned")
    report = TrainReport(
        name="a", path="a", folder="a", steps=steps, steps_wanted=1600, loss=0.1, seconds=1.0, caught=(*[CAUGHT] * bad, noted)
    )
    assert words.report_words(report).text() == said


@pytest.mark.parametrize(
    ("steps", "bad", "said"),
    [
        (1600, 0, "Training finished, 1\u202f600 steps, guard off."),
        (1600, 1, "Training finished, 1\u202f600 steps, guard off. The loss was NaN in 1 step."),
        (9, 2, "Training stopped at step 9 of 1\u202f600, guard off. The loss was NaN in 2 steps."),
    ],
)
def test_of_a_training_that_nobody_watched_nothing_is_claimed(steps: int, bad: int, said: str) -> None:
    report = TrainReport(
        name="a",
        path="a",
        folder="a",
        steps=steps,
        steps_wanted=1600,
        loss=0.1,
        seconds=1.0,
        caught=(),
        guarded=False,
        bad_losses=bad,
    )
    assert words.report_words(report).text() == said


def test_a_high_rate_is_held_against_what_it_changes() -> None:
    rate = Omen(code="rate-too-high", certain=False, name="up", value=1.0, limit=0.038)
    said = words.omen_words(rate).text()
    assert said == "Learning rate 1 is high: one step can change weights by that much; they are around 0.038."
    endless = Omen(code="rate-too-high", certain=True, name="up", value=1e39)
    assert words.omen_words(endless).text() == "Learning rate 1 × 10^39 is too high for any weight."


def test_pictures_of_the_folder() -> None:
    assert words.picture_words(TrainPicture(name="a.png")) is None
    white, broken = TrainPicture(name="a.png", note="white"), TrainPicture(name="a.png", problem="unreadable", note="small")
    said = [found.text() for found in (words.picture_words(white), words.picture_words(broken)) if found]
    assert said == ["all white", "unreadable"]
