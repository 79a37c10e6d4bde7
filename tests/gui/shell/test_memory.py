"""The selected model is loaded while nothing else is to be done; the user can have its memory back."""

from collections.abc import Iterator

import msgspec
import pytest
import shiboken6
from pytestqt.qtbot import QtBot
from tests.gui.device.test_device_page import open_page
from tests.gui.health import kit
from tests.gui.shell.test_controller import PATIENCE, Noting
from tests.helpers import samples

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import Generate, Load, ModelChanged, Refused, Unload
from halftone.contract.request import PictureRequest
from halftone.gui.control.memory import worth_loading
from halftone.gui.controller import Controller
from halftone.gui.text import activity
from halftone.library import records
from halftone.library.models import POCKET
from halftone.session.events import Sent, Warming
from halftone.session.reducer import apply
from halftone.session.state import AppState, Job
from halftone.settings.store import Settings

IDLE = AppState(worker="ready", device=samples.CPU, self_test=samples.self_test_report())
JOB = Job(id="a", command=Generate(job="a", request=PictureRequest(prompt="a")), title="a")


@pytest.mark.parametrize(
    ("changes", "worth"),
    [
        ({}, True),
        ({"worker": "starting"}, False),
        ({"device": None}, False),
        ({"self_test": None}, False),
        ({"jobs": (JOB,)}, False),
        ({"warming": "another"}, False),
        ({"loaded": samples.POCKET, "loaded_device": samples.CPU.id}, False),
        ({"loaded": samples.POCKET, "loaded_device": "cuda:0"}, True),
        ({"loaded": msgspec.structs.replace(samples.POCKET, id="/other"), "loaded_device": samples.CPU.id}, True),
        ({"device": msgspec.structs.replace(samples.CPU, memory_total=samples.POCKET.size_bytes)}, False),
    ],
)
def test_a_model_is_loaded_only_when_nothing_else_is_to_be_done(changes: dict[str, object], worth: bool) -> None:
    state = AppState(**{**{name: getattr(IDLE, name) for name in ("worker", "device", "self_test")}, **changes})  # pyright: ignore[reportArgumentType]
    assert worth_loading(state, samples.POCKET) is worth


def test_no_model_is_no_reason_to_load() -> None:
    assert not worth_loading(IDLE, None)


def test_the_activity_names_the_model_that_is_loaded_early() -> None:
    warming = apply(IDLE, Warming(model="Pocket (demo)"))
    assert activity(warming, "")[0] == "Loading Pocket (demo)"
    assert apply(warming, ModelChanged(model=samples.POCKET, device="cpu")).warming == ""
    refused = apply(warming, Refused(command="Load", error=ErrorFacts(code="out-of-memory")))
    assert (refused.warming, refused.worker, refused.notices) == ("", "ready", ())


@pytest.fixture
def link() -> Noting:
    return Noting()


@pytest.fixture
def controller(qtbot: QtBot, link: Noting) -> Iterator[Controller]:
    records.save_selftest(msgspec.structs.replace(samples.self_test_report(), device=samples.CPU))
    made = Controller(link, Settings(first_run_done=True), early=True)
    made.start()
    qtbot.waitUntil(lambda: made.model is not None, timeout=PATIENCE)
    yield made
    made.stop()
    qtbot.waitUntil(lambda: not made.background.busy, timeout=PATIENCE)
    shiboken6.delete(made)


def loads(link: Noting) -> list[str]:
    return [command.model for command in link.sent if isinstance(command, Load)]


def test_the_model_in_use_is_loaded_once_and_not_again_after_its_memory_was_freed(
    qtbot: QtBot, controller: Controller, link: Noting
) -> None:
    qtbot.waitUntil(lambda: loads(link) == [POCKET], timeout=PATIENCE)
    assert controller.state.warming == "Pocket (demo)"
    link.say(ModelChanged(model=controller.model, device=samples.CPU.id))
    controller.free_memory()
    assert link.sent[-1] == Unload()
    link.say(ModelChanged(model=None))
    assert not controller._memory._quiet.isActive(), "what the user freed stays free"
    controller.select_model(POCKET)
    qtbot.waitUntil(lambda: loads(link) == [POCKET, POCKET], timeout=PATIENCE)


def test_a_job_goes_before_an_early_load(controller: Controller, link: Noting) -> None:
    assert controller._memory._quiet.isActive()
    controller.generate(PictureRequest(prompt="a"))
    assert isinstance(link.sent[-1], Generate)
    assert not controller._memory._quiet.isActive()
    controller.free_memory()
    assert isinstance(link.sent[-1], Generate), "the running job keeps its model"


def test_the_device_page_says_what_is_in_memory_and_frees_it(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    assert page.device._loaded.accessibleName() == "No model in memory"
    assert not page.device.free.isEnabled()
    link.tell(ModelChanged(model=kit.MODEL, device=kit.GPU.id))
    page.refresh()
    assert page.device._loaded.accessibleName() == f"In memory: {kit.MODEL.name}"
    page.device.free.click()
    assert link.sent[-1] == Unload()
    job = page._controller.generate(PictureRequest(prompt="a"))
    page._controller.take(Sent(job=job))
    page.refresh()
    assert not page.device.free.isEnabled()
    assert page.device.free.toolTip() == "In use by the running job."
