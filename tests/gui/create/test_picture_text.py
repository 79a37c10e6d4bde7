"""Banners and receipts say what was done, and nothing else."""

from gettext import NullTranslations
from typing import Any

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.wording import chinese

from halftone.cli.reports.guard_events import how_to_finish
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import GuardEvent, LoraCause, PassFacts, PictureFacts, Shortage
from halftone.contract.request import Lora, PictureRequest
from halftone.contract.vocabulary import ReceiptState
from halftone.gui.create.picture.picture_model import about_model, without_memory
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.create.picture.picture_text import picture_message, receipt
from halftone.gui.kit.message_bars import Message
from halftone.health.explain import note_for
from halftone.health.pictures.passes import kept_words

ACTIONS = ("decoded-again", "encoded-again", "went-back-one-step")


def event(action: str, cure: str) -> GuardEvent:
    step = 3 if action == "went-back-one-step" else None
    return msgspec.structs.replace(samples.GUARDED, action=action, cure=cure, step=step)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("cure", "said"), [("none", "unchanged, and it worked"), ("read-again", "damaged")])
def test_what_needed_no_wider_type_claims_none(action: str, cure: str, said: str) -> None:
    happened = event(action, cure)
    picture = msgspec.structs.replace(samples.picture_facts("a.png", "recovered"), events=(happened,))
    message = picture_message(picture)
    assert message is not None
    repeated = (action, cure) == ("went-back-one-step", "none")
    assert ("Repeating the step was enough." if repeated else said) in story(message)
    assert said in note_for(happened).text.text()
    for words in (message.spoken, story(message), note_for(happened).text.text()):
        assert "FP32" not in words
        assert "precision" not in words


def story(message: Message) -> str:
    """What Halftone did, which stands in the details."""
    return dict(message.details)["What happened"]


def repaired(*events: GuardEvent) -> PictureFacts:
    return msgspec.structs.replace(samples.picture_facts("a.png", "recovered"), events=events)


def test_a_banner_offers_what_its_model_can_still_have() -> None:
    found = msgspec.structs.replace(event("went-back-one-step", "float32-component"), remembered=True)
    picture = repaired(found)
    message = picture_message(picture, "A price", 4)
    assert message is not None
    assert message.text.startswith("It took ")
    assert message.strong == ""
    assert "for this picture" in story(message)
    assert story(message).endswith("Your next pictures use it too.")
    long = "A model with a very long name that no button has room for"
    in_use = about_model(message, long, "in-use").actions[0]
    assert (in_use.label, in_use.tip) == ("Fix this model", f"Fix {long}")
    assert about_model(message, long, "another").actions[0].label == "Use A model with a very long na… again"
    mended = picture_message(without_memory(picture), "", 4)
    assert mended is not None
    cured = about_model(mended, "Pocket", "cured")
    assert [act.key for act in cured.actions] == ["health", "copy", "fold"]
    assert cured.strong.endswith("Pocket is cured now.")
    assert "next pictures" not in story(cured)
    other = about_model(message, "Pocket", "another")
    assert next((act.key, act.label) for act in other.actions) == ("use-model", "Use Pocket again")
    assert [act.key for act in other.actions[1:]] == ["copy", "fold"]
    assert other.price == ""
    assert [act.key for act in about_model(message, "Pocket", "unknown").actions] == ["copy", "fold"]


def test_every_repair_is_told_and_their_whole_time() -> None:
    denoiser = msgspec.structs.replace(
        event("went-back-one-step", "rescale"), component="unet", module="mid_block.resnets.0.conv1", seconds=0.7
    )
    decoder = msgspec.structs.replace(event("decoded-again", "float32-component"), seconds=0.3)
    message = picture_message(repaired(denoiser, decoder))
    assert message is not None
    assert message.title == "Recovered after 2 repairs."
    assert (
        message.spoken == "Recovered after 2 repairs. UNet, VAE decoder: values passed the FP16 limit; it took 1.0\u00a0s longer."
    )
    told = story(message)
    assert "NaN at step 3. Halftone repeated the step." in told
    assert "UNet, mid block, first residual layer, first convolution: rescaled for this picture." in told
    assert told.index("step 3") < told.index("VAE decoder"), "in the order in which it happened"
    assert receipt(repaired(denoiser, decoder))[3] == "2 repairs, 1.0\u00a0s longer"
    assert [name for name, _ in message.details].count("Where") == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "VAE decoder: values passed the FP16 limit"),
        ({"peak": None}, "VAE decoder: NaN values"),
        ({"peak": None, "kind": "flat"}, "VAE decoder: lost values"),
    ],
)
def test_a_picture_with_several_repairs_names_the_cause(changes: dict[str, Any], why: str) -> None:
    one = msgspec.structs.replace(event("decoded-again", "float32-component"), seconds=0.5, **changes)
    message = picture_message(repaired(one, one))
    assert message is not None
    assert message.text == f"{why}; it took 1.0\u00a0s longer."


def test_the_same_repair_at_many_steps_is_told_once() -> None:
    steps = [msgspec.structs.replace(event("went-back-one-step", "none"), step=step, seconds=0.5) for step in (2, 5, 7)]
    message = picture_message(repaired(*steps))
    assert message is not None
    assert message.title == "Recovered after 3 repairs."
    assert story(message).count("Repeating the step was enough") == 1
    assert "NaN at steps 2, 5, 7. Halftone repeated each step." in story(message)


def test_one_colour_in_full_precision_too_is_told_and_kept() -> None:
    happened = msgspec.structs.replace(
        event("kept", "none"), kind="flat", module="", peak=None, limit=None, sound_in_float32=False
    )
    picture = msgspec.structs.replace(
        samples.picture_facts("a.png", "not-recovered"), black=True, finite=True, events=(happened,)
    )
    message = picture_message(picture)
    assert message is not None
    assert message.level == "danger"
    assert message.title.startswith("This picture is one flat colour")
    assert [act.key for act in message.actions] == ["check", "copy"]
    assert receipt(picture)[2] == "One colour"
    assert receipt(msgspec.structs.replace(picture, state="clean"))[2] == "One colour"


STATES: tuple[tuple[ReceiptState, str], ...] = (("not-recovered", "stopped"), ("asking", "asked"))


@pytest.mark.parametrize(("state", "action"), STATES)
@pytest.mark.parametrize("step", [None, 3])
@pytest.mark.parametrize("component", ["vae", "text_encoder"])
@pytest.mark.parametrize(("sound", "why"), [(None, ""), (True, "setting"), (True, "no-cure"), (False, "float32")])
def test_window_and_terminal_say_the_same_of_a_picture_that_was_given_up(
    state: ReceiptState, action: str, step: int | None, component: str, sound: bool | None, why: str
) -> None:
    happened = msgspec.structs.replace(
        samples.GUARDED, action=action, cure="none", step=step, component=component, sound_in_float32=sound, why=why
    )
    picture = msgspec.structs.replace(samples.picture_facts("", state), events=(happened,), latents="/kept")
    message = picture_message(picture)
    assert message is not None
    note = note_for(happened)
    assert (message.title, message.text) == (note.title.text(), note.text.text())
    if state == "asking":
        assert receipt(picture)[2] == ("Black" if step is None else "NaN")
    if sound is not False:
        assert "even in FP32" not in message.spoken
    known = chinese()
    unknown: list[str] = []

    class Listening(NullTranslations):
        def gettext(self, message: str) -> str:
            if message not in known:
                unknown.append(message)
            return message

    for words in (note.title, note.text):
        words.text(Listening())
    assert unknown == []


KEPT: tuple[tuple[dict[str, Any], str], ...] = (
    ({"latents": "/kept", "kept_step": 2}, "Saved after step 2. You can resume later."),
    ({"latents": "/kept"}, "The latents are saved. You can retry decoding."),
    ({"not_kept": True}, "This model and sampler cannot resume it."),
    ({}, ""),
)


@pytest.mark.parametrize(("state", "action"), STATES)
@pytest.mark.parametrize(("kept", "said"), KEPT)
def test_what_is_kept_of_a_picture_is_told(state: ReceiptState, action: str, kept: dict[str, Any], said: str) -> None:
    happened = msgspec.structs.replace(
        samples.GUARDED, action=action, cure="none", step=3, component="unet", sound_in_float32=True, why="setting"
    )
    picture = msgspec.structs.replace(samples.picture_facts("", state), events=(happened,), **kept)
    message = picture_message(picture)
    assert message is not None
    assert message.strong == said
    offered = [act.key for act in message.actions]
    assert ("recover" in offered) == (state == "asking" or "latents" in kept)
    assert offered[0] == ("recover" if "recover" in offered else "fix")


def test_a_cure_is_offered_only_where_one_may_hold() -> None:
    stopped = msgspec.structs.replace(samples.GUARDED, action="stopped", cure="none")
    offered: dict[str, bool] = {}
    for why, sound in (("setting", True), ("no-cure", True), ("float32", False), ("", None)):
        known = msgspec.structs.replace(stopped, why=why, sound_in_float32=sound)
        message = picture_message(msgspec.structs.replace(samples.picture_facts("", "not-recovered"), events=(known,)))
        assert message is not None
        offered[why] = "fix" in [act.key for act in message.actions]
    assert offered == {"setting": True, "no-cure": False, "float32": False, "": False}


GLOW = LoraCause(names=("glow",), weight=0.8, share=0.5)


@pytest.mark.parametrize(
    ("happened", "state"),
    [
        (event("decoded-again", "rescale"), "recovered"),
        (event("went-back-one-step", "rescale"), "recovered"),
        (event("stopped", "none"), "not-recovered"),
        (event("asked", "none"), "asking"),
    ],
)
def test_a_banner_names_the_lora_that_is_the_cause(happened: GuardEvent, state: ReceiptState) -> None:
    picture = msgspec.structs.replace(
        samples.picture_facts("a.png", state), events=(msgspec.structs.replace(happened, lora=GLOW),), latents="a.latents"
    )
    message = picture_message(picture)
    assert message is not None
    assert message.title.endswith("The cause: the LoRA glow.")
    assert "Lower its weight or remove it: at 0.4, this stays in range." in message.text
    assert not any("file" in act.label for act in message.actions), "it is not the file that is at fault"


def test_many_repairs_name_a_lora_once() -> None:
    steps = [msgspec.structs.replace(event("went-back-one-step", "none"), step=step, lora=GLOW) for step in (2, 5)]
    message = picture_message(repaired(*steps))
    assert message is not None
    assert message.text.count("the LoRA glow") == 1


def test_a_receipt_lists_the_loras_and_names_the_cause() -> None:
    request = PictureRequest(prompt="sun", loras=(Lora(path="/l/glow.safetensors", weight=0.8), Lora(path="ink.safetensors")))
    rows = dict(receipt_rows(repaired(event("decoded-again", "rescale")), request))
    assert rows["LoRA"] == "glow 0.80, ink 1.00"
    assert "Cause" not in rows
    rows = dict(receipt_rows(repaired(msgspec.structs.replace(event("decoded-again", "rescale"), lora=GLOW)), request))
    assert rows["Cause"] == "LoRA: glow"
    assert "LoRA" not in dict(receipt_rows(samples.picture_facts("a.png"), PictureRequest(prompt="sun")))


def test_where_the_memory_ended_the_banner_offers_what_helps() -> None:
    short = Shortage(phase="decode", step=None, then="stopped", width=960, height=960, fits=(640, 640))
    picture = msgspec.structs.replace(
        samples.picture_facts("", "not-recovered"), path="", events=(), shortages=(short,), latents="/kept.safetensors"
    )
    message = picture_message(picture)
    assert message is not None
    assert (message.level, message.title) == ("danger", "This size does not fit in memory.")
    assert [(act.key, act.label) for act in message.actions] == [
        ("use-size", "Use 640 × 640"),
        ("recover", "Try again"),
        ("fold", "Not now"),
    ]
    assert receipt(picture)[2:] == ("Not finished", "Out of memory at 64 × 64")


def test_a_picture_that_was_decoded_in_tiles_says_so_and_stays_clean() -> None:
    short = Shortage(phase="decode", step=None, then="tiles", width=960, height=960)
    picture = msgspec.structs.replace(samples.picture_facts("a.png", "clean"), events=(), shortages=(short,))
    message = picture_message(picture)
    assert message is not None
    assert (message.level, message.title) == ("warn", "Out of memory at 960 × 960. Halftone decodes in tiles.")
    assert receipt(picture)[2] == "Clean"


@pytest.mark.parametrize("latents", [None, "/kept.safetensors"])
def test_a_second_pass_that_was_not_made_is_told_with_the_first_picture(latents: str | None) -> None:
    why = ErrorFacts(code="out-of-memory", facts={"detail": "memory ran out at 1024 × 1024"})
    picture = msgspec.structs.replace(samples.picture_facts("a.png", "clean"), cut_short=why, latents=latents)
    message = picture_message(picture)
    assert message is not None
    assert message.title == "The second pass failed. The first picture is saved."
    assert message.text.startswith("This size does not fit: memory ran out at 1024 × 1024. Use")
    assert [act.key for act in message.actions] == (["fold"] if latents is None else ["recover", "fold"])
    assert bool(how_to_finish(picture)) == (latents is not None)


def test_a_refiner_that_made_nothing_leaves_what_the_base_made() -> None:
    first = PassFacts(kind="first", width=64, height=64, steps=20, seconds=1, dtypes={})
    why = ErrorFacts(code="model-load-failed", facts={"path": "/refiner", "detail": "a part is missing"})
    left = msgspec.structs.replace(samples.picture_facts("", "not-recovered"), events=(), cut_short=why, kept_step=0)
    picture = msgspec.structs.replace(left, latents="/kept.safetensors", passes=(first,))
    message = picture_message(picture)
    assert message is not None
    assert message.title == "The second pass failed."
    assert message.strong == "Saved after step 20 of pass 1. You can resume later."
    tried = msgspec.structs.replace(picture, passes=(first, msgspec.structs.replace(first, kind="second", steps=0)))
    assert kept_words(tried).text() == "20 of pass 1"
    assert how_to_finish(picture)
