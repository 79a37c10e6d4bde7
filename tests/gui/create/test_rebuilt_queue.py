"""The queue in a window that is built again, as for another language."""

from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage

from halftone.contract.request import PictureRequest
from halftone.gui.create.create_page import CreatePage


def test_a_new_queue_panel_shows_the_queue_at_once(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.controller.session.queue.pause(True)
    stage.controller.session.queue.generate(PictureRequest(prompt="hills"))
    page = CreatePage(stage.controller)
    qtbot.addWidget(page)
    panel = page.queue
    assert panel.pause.isChecked()
    assert [job.title for job in panel.model.items] == ["hills"]
    assert not panel.isHidden()
