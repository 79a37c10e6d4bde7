"""Models, settings and the cure, through the controller."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import shiboken6
from pytestqt.qtbot import QtBot
from tests.helpers import model_files, samples

from halftone.contract.facts import CheckReport, DTypeReport
from halftone.contract.messages import AnyCommand, AnyEvent, Examine, JobEnded, Ready, SelfTest
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType, Outcome
from halftone.contract.wording import Words
from halftone.gui.controller import Controller
from halftone.gui.process import Link
from halftone.gui.text import notice_message
from halftone.health.precision import AS_SET, resolve_precision
from halftone.library import learned, records
from halftone.library.models import POCKET, describe
from halftone.settings import places, store
from halftone.settings.store import Settings

PATIENCE = 30_000


class Noting(Link):
    """Notes the commands; the test says what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[AnyCommand] = []
        self._seq = 0

    def start(self) -> None:
        self.say(Ready(version="0.1.0", protocol=1, pid=1, devices=(samples.CPU,)))

    def send(self, command: AnyCommand) -> None:
        self.sent.append(command)

    def stop(self) -> None:
        return

    def say(self, event: AnyEvent) -> None:
        self._seq += 1
        self.arrived.emit(msgspec.structs.replace(event, seq=self._seq), b"")

    def examined(self, report: CheckReport) -> None:
        """The last command was a check; it ends with this report."""
        command = self.sent[-1]
        assert isinstance(command, Examine)
        self.say(JobEnded(job=command.job, outcome="done", report=report))


@pytest.fixture
def link() -> Noting:
    return Noting()


@pytest.fixture
def controller(qtbot: QtBot, link: Noting) -> Iterator[Controller]:
    records.save_selftest(msgspec.structs.replace(samples.self_test_report(), device=samples.CPU))
    made = Controller(link, Settings(first_run_done=True))
    made.start()
    qtbot.waitUntil(lambda: made.model is not None, timeout=PATIENCE)
    yield made
    made.stop()
    qtbot.waitUntil(lambda: not made.background.busy, timeout=PATIENCE)
    shiboken6.delete(made)  # here: left to the garbage collector, it could end on a thread of the pool


def report(*, verified: bool = True, refusal: Words | None = None) -> CheckReport:
    plan = Plan(rescale={"vae": {"decoder.conv_in.weight": -3}}, verified=verified)
    cure = Cure(kind="rescale", plan=plan, suggested=True, refusal=refusal)
    made = samples.check_report(describe(POCKET), fragile=True)
    dtype = samples.self_test_report().auto
    return msgspec.structs.replace(made, device=samples.CPU, plan=plan, cures=(cure,), precision=dtype, applied=False)


def kinds(controller: Controller) -> list[str]:
    return [notice.kind for notice in controller.state.notices]


def wait_sent(qtbot: QtBot, link: Noting, count: int) -> None:
    """Until so many commands went out: a job waits for the records before it."""
    qtbot.waitUntil(lambda: len(link.sent) >= count, timeout=PATIENCE)


def wait_idle(qtbot: QtBot, controller: Controller) -> None:
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


def test_fixing_checks_then_cures_then_checks_the_cure(qtbot: QtBot, controller: Controller, link: Noting) -> None:
    pocket = controller.model
    assert pocket is not None
    controller.fix_model(pocket)
    first = link.sent[-1]
    assert isinstance(first, Examine)
    assert first.plan is None
    link.examined(report())
    assert link.sent == [first], "the check of the cure waits until the cure is on disk"
    wait_sent(qtbot, link, 2)
    second = link.sent[-1]
    assert isinstance(second, Examine)
    assert second.plan == report().plan
    assert controller.badge(pocket).state == "cured"
    link.examined(report())
    assert kinds(controller) == ["cure-applied"]
    stored = records.load_report(pocket, samples.CPU, report().precision)
    assert stored is not None
    assert stored.applied


def test_the_last_word_about_a_cure_is_the_one_on_disk(qtbot: QtBot, controller: Controller) -> None:
    pocket = controller.model
    assert pocket is not None
    held = threading.Event()
    controller.background.run_in_order(held.wait, lambda _done: None)
    for applied in (True, False, True):
        controller.apply_cure(report()) if applied else controller.undo_cure(report(), quiet=True)
    assert records.load_report(pocket, samples.CPU, report().precision) is None
    held.set()
    wait_idle(qtbot, controller)
    stored = records.load_report(pocket, samples.CPU, report().precision)
    assert stored is not None
    assert stored.applied


def test_a_model_that_was_checked_is_cured_without_another_check(qtbot: QtBot, controller: Controller, link: Noting) -> None:
    pocket = controller.model
    assert pocket is not None
    records.save_report(report())
    controller.fix_model(pocket)
    wait_sent(qtbot, link, 1)
    assert isinstance(link.sent[-1], Examine)
    assert link.sent[-1].plan is not None


def test_a_cure_that_does_not_hold_is_taken_back(qtbot: QtBot, controller: Controller, link: Noting) -> None:
    controller.apply_cure(report())
    wait_sent(qtbot, link, 1)
    link.examined(report(verified=False, refusal=Words("still bad")))
    assert kinds(controller) == ["cure-failed"]
    pocket = controller.model
    assert pocket is not None
    assert controller.badge(pocket).state == "overflows"


@pytest.mark.parametrize("outcome", ["cancelled", "failed"])
def test_a_cure_whose_check_does_not_finish_is_taken_back(
    qtbot: QtBot, controller: Controller, link: Noting, outcome: Outcome
) -> None:
    controller.apply_cure(report())
    wait_sent(qtbot, link, 1)
    command = link.sent[-1]
    assert isinstance(command, Examine)
    link.say(JobEnded(job=command.job, outcome=outcome))
    assert kinds(controller) == ["cure-unchecked"]
    assert controller.badge(controller.model).state == "overflows"


def test_a_cure_whose_check_is_taken_out_of_the_queue_is_taken_back(controller: Controller) -> None:
    controller.pause(True)
    controller.cancel(controller.apply_cure(report()))
    assert kinds(controller) == ["cure-unchecked"]
    assert controller.badge(controller.model).state == "overflows"


@pytest.mark.parametrize(("verified", "state", "told"), [(True, "cured", []), (False, "overflows", ["cure-dropped"])])
def test_a_new_check_confirms_the_cure_in_force_or_ends_it(
    controller: Controller, link: Noting, verified: bool, state: str, told: list[str]
) -> None:
    pocket = controller.model
    assert pocket is not None
    records.save_report(msgspec.structs.replace(report(), applied=True))
    controller.check(pocket)
    link.examined(report(verified=verified))
    assert controller.badge(pocket).state == state
    assert kinds(controller) == told


def test_undo_of_a_cure(qtbot: QtBot, controller: Controller) -> None:
    pocket = controller.model
    assert pocket is not None
    controller.apply_cure(report())
    stored = controller.report(pocket)
    assert stored is not None
    learned.remember(pocket, stored.device, "float16", stored.plan, Numerics())
    controller.undo_cure(stored)
    assert controller.badge(pocket).state == "overflows"
    # nothing that cured it before works on in silence
    qtbot.waitUntil(lambda: learned.recall(pocket, stored.device, "float16", Numerics()) is None, timeout=PATIENCE)
    assert kinds(controller) == ["cure-undone"]


def test_a_folder_of_models_stands_for_the_models_in_it(qtbot: QtBot, controller: Controller, tmp_path: Path) -> None:
    for name in ("one", "two"):
        model_files.write_folder(tmp_path / name)
    controller.select_model(str(tmp_path))
    qtbot.waitUntil(lambda: len(controller.models) == 3, timeout=PATIENCE)
    assert controller.model is not None
    assert controller.model.path.startswith(str(tmp_path))
    assert controller.model_error is None
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


@pytest.mark.logs("could not be kept")
def test_a_measurement_that_cannot_be_kept_is_told_and_used_as_the_worker_uses_it(controller: Controller, link: Noting) -> None:
    folder = places.checks_dir()
    shutil.rmtree(folder)
    folder.touch()
    measured = msgspec.structs.replace(samples.self_test_report(), auto="bfloat16")
    controller.measure()
    command = link.sent[-1]
    assert isinstance(command, SelfTest)
    worker = records.SelfTests()
    link.say(JobEnded(job=command.job, outcome="done", report=worker.keep(measured)))
    assert kinds(controller) == ["not-kept"]
    message = notice_message(controller.state.notices[0])
    assert message.title == "The measurements of A processor could not be saved."
    assert message.text == "File exists. Halftone measures again at the next start."
    assert controller.precision == resolve_precision("auto", worker.of(samples.CPU), samples.CPU)
    assert controller.precision[0] == "bfloat16"
    controller.use_device(samples.CPU)
    assert controller.precision[0] == "bfloat16", "the worker has not forgotten it"
    link.start()
    assert controller.precision == resolve_precision("auto", records.SelfTests().of(samples.CPU), samples.CPU)
    assert controller.precision[0] == "float32", "a new worker has"


def test_auto_is_chosen_for_each_model(controller: Controller, link: Noting) -> None:
    speeds: dict[DType, float] = {"float32": 1.0, "float16": 2.4, "bfloat16": 2.3}
    dtypes = tuple(DTypeReport(dtype=name, state="works", reason=Words("Right."), speed=speed) for name, speed in speeds.items())
    test = msgspec.structs.replace(
        samples.self_test_report(), dtypes=dtypes, auto="float16", auto_reason=Words("FP16, measured.")
    )
    records.save_selftest(test)
    controller.use_device(samples.CPU)
    assert controller.model is not None
    assert controller.precision == controller.device_precision == ("float16", Words("FP16, measured."))
    other = msgspec.structs.replace(controller.model, id="other", path="/other", fingerprint="f", stored={"unet": "bfloat16"})
    assert controller.precision_of(other)[0] == "bfloat16"
    assert controller.precision_of(other, "float16") == ("float16", Words(AS_SET, ("FP16",)))
    controller.check(other, precision="float16")
    command = link.sent[-1]
    assert isinstance(command, Examine)
    assert command.numerics.precision == "float16", "not what Auto takes"
    link.examined(msgspec.structs.replace(samples.check_report(other), precision="float16", verdict="healthy", cures=()))
    assert controller.precision_of(other)[0] == "float16", "the check found headroom"


def test_settings_are_written_soon_and_at_the_end(qtbot: QtBot, controller: Controller) -> None:
    controller.update_settings(msgspec.structs.replace(controller.settings, theme="light"))
    qtbot.waitUntil(lambda: store.load().theme == "light", timeout=PATIENCE)
    controller.update_settings(msgspec.structs.replace(controller.settings, theme="dark"))
    controller.stop()
    assert store.load().theme == "dark"


def test_the_fragile_demo_model_is_made_once_and_then_used(qtbot: QtBot, controller: Controller) -> None:
    folder = places.data_dir() / "models" / "pocket-fragile"
    model_files.write_folder(folder)
    controller.make_fragile()
    qtbot.waitUntil(lambda: controller.model is not None and controller.model.id == str(folder), timeout=PATIENCE)
    assert kinds(controller) == []
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


def test_a_fragile_demo_model_that_cannot_be_made_says_why(controller: Controller) -> None:
    (places.data_dir() / "models").write_text("a file where the folder should be")
    controller.make_fragile()
    assert kinds(controller) == ["fragile-failed"]
    assert notice_message(controller.state.notices[0]).level == "danger"


def select(qtbot: QtBot, controller: Controller, model: Path) -> None:
    controller.select_model(str(model))
    wait_idle(qtbot, controller)


def test_a_model_that_is_gone_leaves_the_list_with_a_word(qtbot: QtBot, controller: Controller, tmp_path: Path) -> None:
    model_files.write_folder(tmp_path / "gone")
    select(qtbot, controller, tmp_path / "gone")
    controller.select_model(POCKET)
    away = str(tmp_path / "no drive" / "away")
    settings = controller.settings
    controller.update_settings(msgspec.structs.replace(settings, model_folders=(*settings.model_folders, away)))
    shutil.rmtree(tmp_path / "gone")
    controller.refresh_models()
    wait_idle(qtbot, controller)
    assert controller.settings.model_folders == (away,), "a drive that is away is no loss"
    assert [(notice.kind, notice.facts) for notice in controller.state.notices] == [("models-gone", ("gone",))]


def test_a_folder_that_is_no_model_is_refused_and_the_model_in_use_stays(
    qtbot: QtBot, controller: Controller, tmp_path: Path
) -> None:
    select(qtbot, controller, tmp_path)
    assert controller.settings.last_model == POCKET
    assert controller.settings.model_folders == ()
    assert kinds(controller) == ["model-refused"]
    assert notice_message(controller.state.notices[0]).level == "warn"
