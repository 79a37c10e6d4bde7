"""What is in the worker's memory: the activity names it, the Device page shows it and frees it."""

from pytestqt.qtbot import QtBot
from tests.gui.device.test_device_page import open_page
from tests.gui.health import kit
from tests.helpers import samples

from halftone.contract.messages import ModelChanged, Unload
from halftone.contract.request import PictureRequest
from halftone.gui.text import activity
from halftone.session.events import Sent, Warming
from halftone.session.reducer import apply
from halftone.session.state import AppState


def test_the_activity_names_the_model_that_is_loaded_early() -> None:
    state = AppState(worker="ready", device=samples.CPU, self_test=samples.self_test_report())
    assert activity(apply(state, Warming(model="Pocket (demo)")), "")[0] == "Loading Pocket (demo)"


def test_the_device_page_says_what_is_in_memory_and_frees_it(qtbot: QtBot) -> None:
    page, link = open_page(qtbot)
    assert page.device._loaded.accessibleName() == "No model in memory"
    assert not page.device.free.isEnabled()
    link.tell(ModelChanged(model=kit.MODEL, device=kit.GPU.id))
    page.refresh()
    assert page.device._loaded.accessibleName() == f"In memory: {kit.MODEL.name}"
    page.device.free.click()
    assert link.sent[-1] == Unload()
    job = page._controller.session.queue.generate(PictureRequest(prompt="a"))
    page._controller.take(Sent(job=job))
    page.refresh()
    assert not page.device.free.isEnabled()
    assert page.device.free.toolTip() == "In use by the running job."
