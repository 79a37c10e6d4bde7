"""Facts into words."""

from datetime import datetime

import pytest
from tests.helpers import samples

from halftone.contract.messages import AnyEvent, Generate, JobEnded, PhaseChanged, PictureReady, Ready, StepDone
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType, Outcome, Precision
from halftone.contract.wording import Words
from halftone.gui.i18n import set_language, tr
from halftone.gui.kit import figures
from halftone.gui.text import activity, notice_message, precision_words
from halftone.session.events import Making, Noted, OwnEvent, Queued, Sent
from halftone.session.models.conversion import left_words
from halftone.session.reducer import apply
from halftone.session.state import AppState, Job, Notice, NoticeKind


@pytest.fixture(autouse=True)
def english() -> None:
    set_language("en")


@pytest.mark.parametrize(
    ("wanted", "auto", "measuring", "words"),
    [
        ("auto", None, True, "Auto, measuring…"),
        ("auto", None, False, "Auto, not measured yet"),
        ("auto", "float32", False, "Auto → FP32"),
        ("auto", "float32", True, "Auto → FP32"),
        ("float16", None, True, "FP16"),
        ("float32", "float32", False, "FP32"),
    ],
)
def test_auto_names_a_type_only_when_it_was_measured(wanted: Precision, auto: DType | None, measuring: bool, words: str) -> None:
    assert precision_words(wanted, auto, measuring=measuring) == words


def ended(name: str, *events: AnyEvent | OwnEvent, outcome: Outcome) -> tuple[AnyEvent | OwnEvent, ...]:
    job = Job(id=name, command=Generate(job=name, request=PictureRequest(prompt="hills")), title="hills")
    return (Queued(job=job), Sent(job=name), *events, JobEnded(job=name, outcome=outcome))


def said(*events: AnyEvent | OwnEvent) -> str:
    """What the status bar says after these events."""
    state = apply(AppState(), Ready(version="", protocol=1, pid=1, devices=()), 0.0)
    for event in events:
        state = apply(state, event, 0.0)
    return activity(state, "")[0]


STEPPING = (
    PhaseChanged(job="a", phase="denoise"),
    StepDone(job="a", step=3, steps=12, peak=1.0, finite=True, seconds=0.1),
)
CLEAN = PictureReady(job="a", facts=samples.picture_facts("/a.png"), thumbnail_size=0)
RECOVERED = PictureReady(job="a", facts=samples.picture_facts("/b.png", "recovered"), thumbnail_size=0)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (STEPPING, "Cancelled at step 3 of 12, nothing kept"),
        ((), "Cancelled, nothing kept"),
        ((CLEAN,), "Cancelled, 1 picture kept"),
        ((CLEAN, RECOVERED, *STEPPING), "Cancelled at step 3 of 12, 2 pictures kept"),
    ],
)
def test_cancelling_leaves_a_word_until_the_next_picture(events: tuple[AnyEvent, ...], words: str) -> None:
    cancelled = ended("a", *events, outcome="cancelled")
    assert said(*cancelled) == words
    assert said(*cancelled, *ended("b", outcome="done")) == "Ready"


def test_a_recovery_is_told_of_the_last_job_only() -> None:
    recovered = ended("a", CLEAN, RECOVERED, outcome="done")
    assert said(*recovered) == "1 picture recovered"
    assert said(*recovered, *ended("b", outcome="done")) == "Ready"


def test_making_the_fragile_model_is_told_while_it_lasts() -> None:
    assert said(Making(on=True), Noted(kind="copied")) == "Creating the overflow demo model…"
    assert said(Making(on=True), Making(on=False)) == "Ready"


def test_a_measurement_that_could_not_be_kept_says_what_follows() -> None:
    message = notice_message(Notice(number=1, kind="not-kept", facts=("A processor",), why=Words("File exists")))
    assert message.title == "Could not save the measurements of A processor."
    assert message.text == "File exists. They are used until Halftone closes, then measured again."


@pytest.mark.parametrize(("kind", "level"), [("fragile-failed", "danger"), ("model-refused", "warn")])
def test_how_grave_a_message_is(kind: NoticeKind, level: str) -> None:
    assert notice_message(Notice(number=1, kind=kind, facts=("a",))).level == level


def test_chinese_has_spaces_around_latin_words_and_its_own_word_for_times(qapp: object) -> None:
    del qapp
    set_language("zh_CN")
    whole = "Whole {0} in FP32"
    named = tr("Model health: {0}", "我的模型"), tr(whole, "我的 模型")
    spaced = [tr(whole, "VAE"), tr(whole, "文本编码器"), tr("{0} jobs", 3, one="1 job"), figures.times(2.4)]
    set_language("en")
    assert named == ("模型健康：我的模型", "整个我的 模型改用 FP32")
    assert spaced == ["整个 VAE 改用 FP32", "整个文本编码器改用 FP32", "3 项任务", "2.4\u00a0倍"]
    assert figures.times(2.4) == "2.4\u00a0×"


def test_a_conversion_that_left_something_out_says_so() -> None:
    why = left_words({"text_encoder": 2, "extra": 1})
    facts = ("new.safetensors", "/new.safetensors")
    said = notice_message(Notice(number=1, kind="converted", facts=facts, why=why))
    assert (said.level, said.title) == ("warn", "Saved as new.safetensors.")
    assert said.text == "Not in the new file: 2 tensors in text_encoder, 1 tensor in extra."
    both = notice_message(Notice(number=1, kind="converted-open", facts=facts, why=why)).text
    assert both.startswith("This system could not confine the conversion fully")
    assert both.endswith(said.text)
    assert notice_message(Notice(number=1, kind="converted", facts=facts)).level == "ok"


def test_no_line_breaks_inside_a_date() -> None:
    assert figures.moment("2024-05-12T14:32:00") == "12\u00a0May\u00a02024\u00a014:32"
    assert figures.moment(f"{datetime.now():%Y-%m-%d}T14:32") == "today\u00a014:32"
