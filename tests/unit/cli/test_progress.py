"""Signs of life where no bar can be drawn."""

import io
import threading

import pytest
from tests.helpers import samples

from halftone.cli.terminal.progress import Progress, TimeLeft
from halftone.contract.messages import PhaseChanged, PictureReady, PlanChanged, StepDone
from halftone.contract.plan import Plan
from halftone.contract.vocabulary import Phase

PATIENCE = 30


class Screen(io.StringIO):
    """A stderr that is no terminal; `said` is set once the words were written."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.said = threading.Event()

    def wait_for(self, words: str) -> None:
        self._words = words
        self.said.clear()
        assert self.said.wait(PATIENCE), self.getvalue()

    def write(self, text: str) -> int:
        if self._words in text:
            self.said.set()
        return super().write(text)


def test_a_long_step_is_told_again_and_again_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    screen = Screen("Drawing, step 3 of 12, 1\u00a0s so far\n")
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=0.001) as progress:
        progress(PhaseChanged(phase="denoise"))
        progress(StepDone(step=3, steps=12, peak=1.0, finite=True, seconds=0.1))
        assert screen.said.wait(PATIENCE), screen.getvalue()
    end = screen.getvalue()
    assert threading.active_count() == before
    assert screen.getvalue() == end, "nothing comes after the job"


def test_after_a_bad_step_the_progress_says_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is drawn while the cause is looked for. Only a new plan is a recovery: the job may stop, too."""
    screen = Screen("Looking for the cause, step 3 of 12, ")
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=0.001) as progress:
        progress(PhaseChanged(phase="denoise"))
        progress(StepDone(step=3, steps=12, peak=None, finite=False, seconds=0.1))
        assert screen.said.wait(PATIENCE), screen.getvalue()
        assert "Recovering" not in screen.getvalue()
        progress(PlanChanged(before=Plan(), after=Plan()))
        screen.wait_for("Recovering the picture, ")
        progress(StepDone(step=3, steps=12, peak=1.0, finite=True, seconds=0.1))
        screen.wait_for("Drawing, step 3 of 12, ")


def test_of_several_pictures_the_progress_says_which_one(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("Drawing, picture 1 of 3, ")
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=0.001, pictures=3) as progress:
        progress(PhaseChanged(phase="denoise"))
        assert screen.said.wait(PATIENCE), screen.getvalue()
        progress(StepDone(step=3, steps=12, peak=1.0, finite=True, seconds=0.1, picture=2))
        screen.wait_for("Drawing, picture 2 of 3, step 3 of 12, ")
        progress(PhaseChanged(phase="decode"))
        screen.wait_for("Decoding, picture 2 of 3, ")
        progress(PictureReady(facts=samples.picture_facts("/b.png"), thumbnail_size=0))
        progress(PhaseChanged(phase="denoise"))
        screen.wait_for("Drawing, picture 3 of 3, ")


@pytest.mark.parametrize(("done", "words"), [(0, "Looking for a cure,"), (12, "cure, attempt 12, ")])
def test_a_search_tells_how_often_it_tried(monkeypatch: pytest.MonkeyPatch, done: int, words: str) -> None:
    screen = Screen(words)
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=0.001) as progress:
        progress(PhaseChanged(phase="plan", done=done))
        assert screen.said.wait(PATIENCE), screen.getvalue()


@pytest.mark.parametrize(
    ("phase", "detail", "words"),
    [("verify", "float32-component", "the cure, in FP32, "), ("target", "text_encoder_2", "precision, second text encoder, ")],
)
def test_parts_and_cures_have_plain_names(monkeypatch: pytest.MonkeyPatch, phase: Phase, detail: str, words: str) -> None:
    screen = Screen(words)
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=0.001) as progress:
        progress(PhaseChanged(phase=phase, detail=detail))
        assert screen.said.wait(PATIENCE), screen.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("total", "shown"), [(260, True), (None, False)])
def test_a_phase_without_an_end_shows_no_share_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch, total: int | None, shown: bool
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with Progress() as progress:
        progress(PhaseChanged(phase="range", done=5, total=10))
        progress(PhaseChanged(phase="plan", done=130, total=total))
    last = screen.getvalue().rpartition("attempt 130")[2]
    assert last
    assert ("50%" in last) is shown
    assert ("%" in last) is shown


def test_the_time_is_the_jobs_own_without_the_start_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("the model, 3\u00a0s so far\n")
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=0.001) as progress:
        progress(PhaseChanged(phase="load"))
        assert screen.said.wait(PATIENCE), screen.getvalue()
        progress(PhaseChanged(phase="denoise"))
        screen.wait_for("Drawing")
    first = next(line for line in screen.getvalue().splitlines() if line.startswith("Drawing"))
    assert first == "Drawing, 1\u00a0s so far"


def test_a_short_job_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("never")
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=PATIENCE) as progress:
        progress(PhaseChanged(phase="denoise"))
    assert screen.getvalue() == ""


def test_a_job_that_nobody_watches_has_nothing_that_could_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Screen("never"))
    before = threading.active_count()
    with Progress(wanted=False, every=0.001) as progress:
        progress(PhaseChanged(phase="denoise"))
        assert threading.active_count() == before


def test_a_job_may_call_a_phase_otherwise_and_counts_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("Reading pictures, 3 of 10, ")
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(every=0.001, phases={"encode": "Reading pictures"}) as progress:
        progress(PhaseChanged(phase="encode", done=3, total=10))
        assert screen.said.wait(PATIENCE), screen.getvalue()


def test_a_training_tells_the_time_left_once_it_can_be_known() -> None:
    times = iter([5.0, *[35.0] * 4])
    left = TimeLeft(100, clock=lambda: next(times))
    assert [left.after(step, 110) for step in (101, 102, 103, 110)] == ["", "", "1\u00a0min\u00a010\u00a0s", ""]
