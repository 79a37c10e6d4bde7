"""Models, settings and the cure, through the session."""

import shutil
from pathlib import Path

import msgspec
import pytest
from tests.helpers import model_files, samples
from tests.helpers.sessions import Desk, NotedLink

from halftone.contract.facts import CheckReport, DTypeReport
from halftone.contract.messages import Examine, JobEnded, Ready, SelfTest, WorkerLost
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType, Outcome
from halftone.contract.wording import Words
from halftone.health.precision import AS_SET, resolve_precision
from halftone.library import learned, records
from halftone.library.models import POCKET, describe
from halftone.settings import places, store


@pytest.fixture
def desk() -> Desk:
    return Desk()


def report(*, verified: bool = True, refusal: Words | None = None) -> CheckReport:
    plan = Plan(rescale={"vae": {"decoder.conv_in.weight": -3}}, verified=verified)
    cure = Cure(kind="rescale", plan=plan, suggested=True, refusal=refusal)
    made = samples.check_report(describe(POCKET), fragile=True)
    dtype = samples.self_test_report().auto
    return msgspec.structs.replace(made, device=samples.CPU, plan=plan, cures=(cure,), precision=dtype, applied=False)


def test_fixing_checks_then_cures_then_checks_the_cure(desk: Desk) -> None:
    pocket = desk.model
    desk.session.checks.fix(pocket)
    first = desk.link.sent[-1]
    assert isinstance(first, Examine)
    assert first.plan is None
    desk.link.examined(report())
    assert desk.link.sent == [first], "the check of the cure waits until the cure is on disk"
    desk.settle()
    second = desk.link.sent[-1]
    assert isinstance(second, Examine)
    assert second.plan == report().plan
    assert desk.session.checks.badge(pocket).state == "cured"
    desk.link.examined(report())
    assert desk.kinds == ["cure-applied"]
    stored = records.load_report(pocket, samples.CPU, report().precision)
    assert stored is not None
    assert stored.applied


def test_the_last_word_about_a_cure_is_the_one_on_disk(desk: Desk) -> None:
    pocket = desk.model
    for applied in (True, False, True):
        desk.session.checks.apply(report()) if applied else desk.session.checks.undo(report(), quiet=True)
    assert records.load_report(pocket, samples.CPU, report().precision) is None
    desk.settle()
    stored = records.load_report(pocket, samples.CPU, report().precision)
    assert stored is not None
    assert stored.applied


def test_a_model_that_was_checked_is_cured_without_another_check(desk: Desk) -> None:
    pocket = desk.model
    records.save_report(report())
    desk.session.checks.fix(pocket)
    desk.settle()
    assert isinstance(desk.link.sent[-1], Examine)
    assert desk.link.sent[-1].plan is not None


def test_a_cure_that_does_not_hold_is_taken_back(desk: Desk) -> None:
    desk.session.checks.apply(report())
    desk.settle()
    desk.link.examined(report(verified=False, refusal=Words("still bad")))
    assert desk.kinds == ["cure-failed"]
    pocket = desk.model
    assert desk.session.checks.badge(pocket).state == "overflows"


@pytest.mark.parametrize("outcome", ["cancelled", "failed"])
def test_a_cure_whose_check_does_not_finish_is_taken_back(desk: Desk, outcome: Outcome) -> None:
    desk.session.checks.apply(report())
    desk.settle()
    command = desk.link.sent[-1]
    assert isinstance(command, Examine)
    desk.link.say(JobEnded(job=command.job, outcome=outcome))
    assert desk.kinds == ["cure-unchecked"]
    assert desk.session.checks.badge(desk.model).state == "overflows"


def test_a_cure_whose_check_is_taken_out_of_the_queue_is_taken_back(desk: Desk) -> None:
    desk.session.queue.pause(True)
    desk.session.queue.cancel(desk.session.checks.apply(report()))
    assert desk.kinds == ["cure-unchecked"]
    assert desk.session.checks.badge(desk.model).state == "overflows"


@pytest.mark.parametrize(("verified", "state", "told"), [(True, "cured", []), (False, "overflows", ["cure-dropped"])])
def test_a_new_check_confirms_the_cure_in_force_or_ends_it(desk: Desk, verified: bool, state: str, told: list[str]) -> None:
    pocket = desk.model
    records.save_report(msgspec.structs.replace(report(), applied=True))
    desk.session.checks.check(pocket)
    desk.link.examined(report(verified=verified))
    assert desk.session.checks.badge(pocket).state == state
    assert desk.kinds == told


def test_undo_of_a_cure(desk: Desk) -> None:
    pocket = desk.model
    desk.session.checks.apply(report())
    stored = desk.session.checks.report(pocket)
    assert stored is not None
    learned.remember(pocket, stored.device, "float16", stored.plan, Numerics())
    desk.session.checks.undo(stored)
    assert desk.session.checks.badge(pocket).state == "overflows"
    # nothing that cured it before works on in silence
    desk.settle()
    assert learned.recall(pocket, stored.device, "float16", Numerics()) is None
    assert desk.kinds == ["cure-undone"]


def test_a_folder_of_models_stands_for_the_models_in_it(desk: Desk, tmp_path: Path) -> None:
    for name in ("one", "two"):
        model_files.write_folder(tmp_path / name)
    desk.session.models.select(str(tmp_path))
    desk.settle()
    assert len(desk.session.state.models.models) == 3
    assert desk.model.path.startswith(str(tmp_path))
    assert desk.model.id not in desk.session.state.models.errors


@pytest.mark.logs("could not be kept")
def test_a_measurement_that_cannot_be_kept_is_told_and_used_as_the_worker_uses_it(desk: Desk) -> None:
    folder = places.checks_dir()
    shutil.rmtree(folder)
    folder.touch()
    measured = msgspec.structs.replace(samples.self_test_report(), auto="bfloat16")
    desk.session.devices.measure()
    command = desk.link.sent[-1]
    assert isinstance(command, SelfTest)
    worker = records.SelfTests()
    desk.link.say(JobEnded(job=command.job, outcome="done", report=worker.keep(measured)))
    assert desk.kinds == ["not-kept"]
    assert desk.precision == resolve_precision("auto", worker.of(samples.CPU), samples.CPU)
    assert desk.precision[0] == "bfloat16"
    desk.session.devices.use(samples.CPU)
    assert desk.precision[0] == "bfloat16", "the worker has not forgotten it"
    desk.link.start()
    assert desk.precision == resolve_precision("auto", records.SelfTests().of(samples.CPU), samples.CPU)
    assert desk.precision[0] == "float32", "a new worker has"


def test_auto_is_chosen_for_each_model(desk: Desk) -> None:
    speeds: dict[DType, float] = {"float32": 1.0, "float16": 2.4, "bfloat16": 2.3}
    dtypes = tuple(DTypeReport(dtype=name, state="works", reason=Words("Right."), speed=speed) for name, speed in speeds.items())
    test = msgspec.structs.replace(
        samples.self_test_report(), dtypes=dtypes, auto="float16", auto_reason=Words("FP16, measured.")
    )
    records.save_selftest(test)
    desk.session.devices.use(samples.CPU)
    assert desk.precision == desk.session.state.device_precision == ("float16", Words("FP16, measured."))
    other = msgspec.structs.replace(desk.model, id="other", path="/other", fingerprint="f", stored={"unet": "bfloat16"})
    assert desk.session.checks.precision_of(other)[0] == "bfloat16"
    assert desk.session.checks.precision_of(other, "float16") == ("float16", Words(AS_SET, ("FP16",)))
    desk.session.checks.check(other, precision="float16")
    command = desk.link.sent[-1]
    assert isinstance(command, Examine)
    assert command.numerics.precision == "float16", "not what Auto takes"
    desk.link.examined(msgspec.structs.replace(samples.check_report(other), precision="float16", verdict="healthy", cures=()))
    assert desk.session.checks.precision_of(other)[0] == "float16", "the check found headroom"


def test_settings_are_written_soon_and_at_the_end(desk: Desk) -> None:
    desk.session.settings.update(msgspec.structs.replace(desk.session.state.settings, theme="light"))
    desk.clock.pass_by(1)
    desk.settle()
    assert store.load().theme == "light"
    desk.session.settings.update(msgspec.structs.replace(desk.session.state.settings, theme="dark"))
    desk.session.stop()
    assert store.load().theme == "dark"


def test_the_fragile_demo_model_is_made_once_and_then_used(desk: Desk) -> None:
    folder = places.data_dir() / "models" / "pocket-fragile"
    model_files.write_folder(folder)
    desk.session.fragile.make()
    desk.settle()
    assert desk.model.id == str(folder)
    assert not desk.commands.started
    assert desk.kinds == ["fragile-made"], "its message offers to try it"
    desk.settle()


def test_a_fragile_demo_model_that_cannot_be_made_says_why(desk: Desk) -> None:
    (places.data_dir() / "models").write_text("a file where the folder should be")
    desk.session.fragile.make()
    assert desk.kinds == ["fragile-failed"]


def select(desk: Desk, model: Path) -> None:
    desk.session.models.select(str(model))
    desk.settle()


def test_a_model_that_is_gone_leaves_the_list_with_a_word(desk: Desk, tmp_path: Path) -> None:
    model_files.write_folder(tmp_path / "gone")
    select(desk, tmp_path / "gone")
    desk.session.models.select(POCKET)
    away = str(tmp_path / "no drive" / "away")
    settings = desk.session.state.settings
    desk.session.settings.update(msgspec.structs.replace(settings, model_folders=(*settings.model_folders, away)))
    shutil.rmtree(tmp_path / "gone")
    desk.session.models.refresh()
    desk.settle()
    assert desk.session.state.settings.model_folders == (away,), "a drive that is away is no loss"
    assert [(notice.kind, notice.facts) for notice in desk.session.state.notices] == [("models-gone", ("gone",))]


def test_a_folder_that_is_no_model_is_refused_and_the_model_in_use_stays(desk: Desk, tmp_path: Path) -> None:
    select(desk, tmp_path)
    assert desk.session.state.settings.last_model == POCKET
    assert desk.session.state.settings.model_folders == ()
    assert desk.kinds == ["model-refused"]


def test_a_worker_that_is_slow_to_start_is_reported_once_and_restarted_when_the_user_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NotedLink, "start", lambda _link: None)
    desk = Desk()
    restarts: list[str] = []
    monkeypatch.setattr(desk.link, "restart", lambda: restarts.append("restart"))
    desk.clock.pass_by(3600.0)
    assert desk.kinds == ["worker-late"]
    desk.session.restart()
    assert restarts == ["restart"]
    desk.link.say(Ready(version="0.1.0", protocol=1, pid=1, devices=(samples.CPU,)))
    desk.clock.pass_by(3600.0)
    assert desk.kinds == [], "it is ready now"


def test_a_lost_worker_is_awaited_as_long_as_the_first(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NotedLink, "gone", False)
    monkeypatch.setattr(NotedLink, "hopeless", False)
    desk.link.say(WorkerLost(exit_code=None, signal="SIGKILL", log="worker.log"))
    desk.clock.pass_by(0.0)
    assert desk.session.state.worker == "starting", "not stopped: the next one starts"
    desk.clock.pass_by(3600.0)
    assert desk.kinds == ["worker-late"]
