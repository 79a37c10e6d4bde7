"""Fixing a model from a picture that overflowed: check, cure, the same seed again, and back."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.helpers import samples
from tests.helpers.sessions import Desk

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import CheckReport, PictureFacts
from halftone.contract.messages import Cancel, Examine, Generate, JobEnded, JobStarted, PhaseChanged, PictureReady
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import Outcome, Phase, ReceiptState
from halftone.contract.wording import Words
from halftone.library import records
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.fix_progress import advanced, seconds_left
from halftone.session.pictures.fixing import likeness
from halftone.session.pictures.history import Made
from halftone.session.state import Job


@pytest.fixture
def desk() -> Desk:
    return Desk()


def report(desk: Desk, **changes: Any) -> CheckReport:
    """A check of the demo model that found a cure which holds."""
    plan = Plan(rescale={"vae": {"decoder.conv_in.weight": -3}}, verified=True)
    made = samples.check_report(desk.model, fragile=True)
    known: dict[str, Any] = {"device": samples.CPU, "plan": plan, "precision": desk.precision[0], "applied": False}
    known["cures"] = (Cure(kind="rescale", plan=plan, suggested=True, time_ratio=1.0, memory_bytes=0),)
    return msgspec.structs.replace(made, **(known | changes))


def recovered(path: str = "/a.png", **changes: Any) -> Made:
    facts = msgspec.structs.replace(samples.picture_facts(path, "recovered"), seed=11, **changes)
    return Made(facts=facts, request=PictureRequest(prompt="sun", batch=4), made_at=datetime.now(UTC))


def fix(desk: Desk) -> Fix:
    return desk.session.state.fix


def clean(desk: Desk, path: str = "/b.png", state: ReceiptState = "clean") -> PictureFacts:
    """The picture of the second step comes."""
    desk.settle()
    command = desk.link.sent[-1]
    assert isinstance(command, Generate)
    facts = msgspec.structs.replace(samples.picture_facts(path, state), seed=11)
    desk.link.say(PictureReady(job=command.job, facts=facts, thumbnail_size=0))
    desk.link.say(JobEnded(job=command.job, outcome="done"))
    desk.settle()
    return facts


def test_a_fix_checks_the_model_then_makes_the_same_picture_again(desk: Desk) -> None:
    desk.session.fixing.begin(recovered())
    check = desk.link.sent[-1]
    assert isinstance(check, Examine)
    assert (check.plan, fix(desk).step, fix(desk).job) == (None, 1, check.job)
    desk.link.examined(report(desk))
    assert desk.link.sent[-1] is check, "the picture waits until the cure is on disk"
    desk.settle()
    again = desk.link.sent[-1]
    assert isinstance(again, Generate)
    assert (again.request.seed, again.request.batch, again.request.prompt) == (11, 1, "sun")
    assert again.request.numerics.on_black == "recover"
    assert (fix(desk).step, fix(desk).job) == (2, again.job)
    facts = clean(desk)
    assert (fix(desk).state, fix(desk).clean, fix(desk).progress) == ("fixed", facts, 1.0)
    assert desk.session.checks.badge(desk.model).state == "cured"
    assert desk.kinds == [], "its banner says it"


def test_a_cure_that_is_known_is_tried_and_not_looked_for(desk: Desk) -> None:
    records.save_report(report(desk))
    desk.session.fixing.begin(recovered())
    check = desk.link.sent[-1]
    assert isinstance(check, Examine)
    assert check.plan == report(desk).plan
    priced = Cure(kind="rescale", plan=report(desk).plan, time_ratio=1.01, memory_bytes=0)
    desk.link.examined(report(desk, cures=(priced,)))
    clean(desk)
    kept = fix(desk).report
    assert kept is not None
    assert [cure.time_ratio for cure in kept.cures if cure.suggested] == [1.01], "the newest measurement"


def test_a_fix_comes_before_all_that_waits(desk: Desk) -> None:
    queue = desk.session.queue
    running = queue.generate(PictureRequest(prompt="one"))
    queue.generate(PictureRequest(prompt="two"))
    desk.session.fixing.begin(recovered())
    assert [job.kind for job in desk.session.state.jobs] == ["Generate", "Examine", "Generate"]
    desk.link.say(JobEnded(job=running, outcome="done"))
    desk.link.examined(report(desk))
    desk.settle()
    assert [job.title for job in desk.session.state.jobs] == ["sun", "two"]


def test_one_fix_at_a_time(desk: Desk) -> None:
    desk.session.fixing.begin(recovered())
    desk.session.fixing.begin(recovered("/other.png"))
    assert len(desk.session.state.jobs) == 1
    assert fix(desk).key == "/a.png"


def test_undo_takes_the_cure_back(desk: Desk) -> None:
    desk.session.fixing.begin(recovered())
    desk.link.examined(report(desk))
    clean(desk)
    desk.session.fixing.undo()
    desk.settle()
    assert fix(desk) == Fix()
    assert desk.session.checks.badge(desk.model).state == "overflows"
    assert desk.kinds == ["cure-undone"]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("outcome", ["cancelled", "failed"])
def test_a_step_that_does_not_end_leaves_the_model_as_it_was(desk: Desk, step: int, outcome: Outcome) -> None:
    desk.session.fixing.begin(recovered())
    if step == 2:
        desk.link.examined(report(desk))
        desk.settle()
    if outcome == "cancelled":
        desk.session.fixing.cancel()
        assert isinstance(desk.link.sent[-1], Cancel)
    error = ErrorFacts(code="out-of-memory") if outcome == "failed" else None
    desk.link.say(JobEnded(job=fix(desk).job, outcome=outcome, error=error))
    desk.settle()
    assert fix(desk).state == ("" if outcome == "cancelled" else "failed")
    assert fix(desk).error == error
    assert (fix(desk).report, fix(desk).clean) == (None, None)
    assert desk.session.checks.badge(desk.model).state == ("overflows" if step == 2 else "unchecked")
    assert not desk.session.state.jobs


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdict": "healthy", "plan": Plan(), "cures": (), "findings": ()}, "Every layer has at least 2 bits of headroom."),
        ({"verdict": "broken", "plan": Plan(), "cures": ()}, "It produces NaN even in FP32."),
    ],
)
def test_a_check_without_a_cure_says_why(desk: Desk, changes: dict[str, Any], why: str) -> None:
    desk.session.fixing.begin(recovered())
    desk.link.examined(report(desk, **changes))
    desk.settle()
    assert (fix(desk).state, fix(desk).step) == ("failed", 1)
    assert fix(desk).why is not None
    assert not desk.session.state.jobs


def test_a_known_cure_that_no_longer_holds_is_dropped(desk: Desk) -> None:
    records.save_report(report(desk))
    desk.session.fixing.begin(recovered())
    refused = Cure(kind="rescale", plan=report(desk).plan, refusal=Words("still bad"))
    desk.link.examined(report(desk, plan=Plan(verified=False), cures=(refused,)))
    desk.settle()
    assert fix(desk).state == "failed"
    desk.session.fixing.begin(recovered())
    check = desk.link.sent[-1]
    assert isinstance(check, Examine)
    assert check.plan is None, "the next try looks for another"


def test_a_picture_that_overflows_with_the_cure_is_no_success(desk: Desk) -> None:
    desk.session.fixing.begin(recovered())
    desk.link.examined(report(desk))
    clean(desk, state="recovered")
    assert (fix(desk).state, fix(desk).step) == ("failed", 2)
    assert desk.session.checks.badge(desk.model).state == "overflows"


def test_what_was_learnt_while_the_picture_was_made_is_used(desk: Desk) -> None:
    learnt = msgspec.structs.replace(samples.GUARDED, remembered=True)
    desk.session.fixing.begin(recovered(events=(learnt,)))
    desk.link.examined(report(desk, verdict="healthy", plan=Plan(), cures=(), findings=()))
    clean(desk)
    assert fix(desk).state == "fixed"


def test_a_picture_that_was_not_finished_goes_on_from_its_latents(desk: Desk) -> None:
    desk.session.fixing.begin(recovered("", latents="/kept.safetensors"))
    desk.link.examined(report(desk))
    desk.settle()
    again = desk.link.sent[-1]
    assert isinstance(again, Generate)
    assert again.request.resume_latents == "/kept.safetensors"
    clean(desk)
    assert (fix(desk).state, fix(desk).likeness) == ("fixed", None)


PHASES: tuple[Phase, ...] = (
    "load",
    "scan",
    "range",
    "target",
    "plan",
    "verify",
    "encode",
    "denoise",
    "upscale",
    "decode",
    "save",
)
PHASE_EVENTS = st.lists(
    st.tuples(st.sampled_from(PHASES), st.integers(0, 40), st.none() | st.integers(0, 30)), min_size=1, max_size=40
)


@given(checks=PHASE_EVENTS, pictures=PHASE_EVENTS)
def test_progress_only_rises_whatever_the_phases_do(
    checks: list[tuple[Phase, int, int | None]], pictures: list[tuple[Phase, int, int | None]]
) -> None:
    now, before = Fix(state="running"), 0.0
    check, picture = Examine(job="a", model="pocket"), Generate(job="b", request=PictureRequest(prompt="sun"))
    for step, command, phases in ((1, check, checks), (2, picture, pictures)):
        now = replace(now, step=step, share=0.0) if step == 2 else now
        for phase, done, total in phases:
            job = Job(id="a", command=command, title="", started=0.0, phase=phase, done=done, total=total)
            now = advanced(now, job)
            assert before <= now.progress <= 1.0
            assert now.step == 2 or now.progress <= 0.5
            before = now.progress
            left = seconds_left(now, job, 3.0)
            assert left is None or left >= 0


def test_progress_reaches_the_state_step_by_step(desk: Desk) -> None:
    desk.session.fixing.begin(recovered())
    job = fix(desk).job
    desk.link.say(JobStarted(job=job, kind="examine"))
    shares: list[float] = []
    for phase in ("load", "scan", "range", "plan", "range", "verify"):
        desk.link.say(PhaseChanged(job=job, phase=phase, done=1, total=2))
        shares.append(fix(desk).progress)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 0.5


def test_the_time_left_counts_the_picture_that_follows() -> None:
    job = Job(id="a", command=Examine(job="a", model="pocket"), title="", started=10.0)
    facts = msgspec.structs.replace(samples.picture_facts("/a.png"), seconds=20.0)
    now = Fix(state="running", facts=facts, share=0.5)
    assert seconds_left(now, job, 14.0) == 24.0
    assert seconds_left(replace(now, step=2), job, 14.0) == 4.0
    assert seconds_left(replace(now, share=0.05), job, 14.0) is None


def test_likeness_is_measured_from_the_files(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.png", "b.png", "small.png", "gone.png")]
    for file, colour, side in zip(files, (100, 101, 100), (8, 8, 4), strict=False):
        Image.new("RGB", (side, side), (colour, colour, colour)).save(file)
    one, near, small, gone = map(str, files)
    assert likeness(one, one) == float("inf")
    assert likeness(one, near) == pytest.approx(48.13, abs=0.01)
    assert likeness(one, small) is None
    assert likeness(one, gone) is None
    assert likeness("", one) is None
    assert likeness("/a.mp4", "/b.mp4") is None


def test_a_picture_of_too_many_pixels_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = tmp_path / "a.png", tmp_path / "b.png"
    for path in (before, after):
        Image.new("RGB", (64, 64)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert likeness(str(before), str(after)) is None


@pytest.mark.logs("two pictures cannot be compared")
def test_a_fix_ends_though_the_pictures_cannot_be_compared(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_before: str, _after: str) -> None:
        raise MemoryError

    monkeypatch.setattr("halftone.session.pictures.fixing.likeness", broken)
    desk.session.fixing.begin(recovered())
    desk.link.examined(report(desk))
    clean(desk)
    assert (fix(desk).state, fix(desk).likeness) == ("fixed", None)
