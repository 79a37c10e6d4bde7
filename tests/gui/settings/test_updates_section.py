"""The Updates section: what can be pressed in each state, and what is said."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.gui.stage import Stage

from halftone.gui.settings.settings_page import SettingsPage
from halftone.gui.settings.typed_controls import SourceControl
from halftone.gui.settings.updates_section import UpdatesSection
from halftone.gui.text import notice_message
from halftone.session.events import Replaced
from halftone.session.update_state import Offer, Updating, refusal

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support propagateSizeHints")
OFFER = Offer(
    version="0.3.0", current="0.1.0", date="2026-11-25", source="/media/usb", size=31_240_000, unpacked=78_100_000,
    environment=True, agreed="abc", damaged="app/x.py", notes={"en": "Several sizes in one queue."},
)  # fmt: skip


def opened(qtbot: QtBot, *, packaged: bool = True) -> UpdatesSection:
    section = UpdatesSection(kit.desk()[0], packaged=packaged)
    qtbot.addWidget(section)
    section.resize(1440, 830)
    section.show()
    return section


def shown(section: UpdatesSection) -> str:
    return " ".join(one.text() for one in section.findChildren(QLabel) if one.isVisible())


@pytest.mark.parametrize(
    ("updating", "words", "buttons"),
    [
        (Updating(), "Halftone looks for updates only when you ask it to.", {"check"}),
        (Updating(stage="checking"), "Reading the manifest…", {"cancel"}),
        (Updating(stage="up-to-date"), "You have the newest version.", {"check"}),
        (Updating(stage="found", offer=OFFER), "Version 0.3.0 is available.", {"check", "install"}),
        (
            Updating(stage="installing", offer=OFFER, step="download", done=12_000_000, total=31_240_000),
            "Copying the update: 12.0 MB of 31.2 MB",
            {"cancel"},
        ),
        (
            Updating(stage="installing", offer=replace(OFFER, source="https://example.org/x.update"), step="download"),
            "Downloading the update…",
            {"cancel"},
        ),
        (Updating(stage="installing", offer=OFFER, step="self-check"), "Checking the new version…", {"cancel"}),
        (Updating(stage="installing", offer=OFFER, step="switch"), "Switching to the new version…", set()),
        (Updating(stage="failed", error=refusal("no-key", ())), "This build has no update key", {"check"}),
        (Updating(stage="failed", offer=OFFER, error=refusal("busy", ())), "Another update is running", {"check", "install"}),
        (Updating(stage="done", offer=OFFER), "Version 0.3.0 is installed and will start next time.", {"check"}),
    ],
)
def test_each_state_says_what_it_is_and_what_can_be_done(qtbot: QtBot, updating: Updating, words: str, buttons: set[str]) -> None:
    section = opened(qtbot)
    section._controller.updates_changed.connect(section.refresh)
    section._controller.session.store.take(Replaced(part=updating))
    qtbot.waitUntil(lambda: words in section.state.text().replace("\u00a0", " "))
    assert {name for name in ("check", "install", "cancel") if getattr(section, name).isVisible()} == buttons
    assert section.bar.isVisible() == (updating.stage in ("checking", "installing"))
    offered = updating.offer is not None and updating.stage != "done"
    for fact in (
        "0.3.0 of 2026-11-25; current: 0.1.0",
        "A new one will be built",
        "Damaged: app/x.py",
        "Several sizes in one queue.",
    ):
        qtbot.waitUntil(lambda fact=fact: (fact in shown(section)) is offered)


def test_the_source_is_typed_kept_and_taken_back(qtbot: QtBot) -> None:
    section = opened(qtbot)
    control = section.rows["update_source"].control
    assert isinstance(control, SourceControl)
    control.field.setText(" https://updates.example.org ")
    control.field.editingFinished.emit()
    assert section._controller.settings.update_source == "https://updates.example.org"
    section.rows["update_source"].reset.emit()
    assert section._controller.settings.update_source == ""
    assert control.field.text() == ""


def test_the_sources_say_that_git_updates_them(qtbot: QtBot) -> None:
    section = opened(qtbot, packaged=False)
    said = shown(section)
    assert "runs from its source code" in said
    assert "Only an installed package can be updated here." in said
    assert not section.check.isVisible()
    assert not section.rows["update_source"].control.isEnabled()


def test_the_page_knows_that_these_are_sources(qtbot: QtBot) -> None:
    page = SettingsPage(kit.desk()[0])
    qtbot.addWidget(page)
    page.show_section("Updates")
    section = page.section("Updates")
    assert isinstance(section, UpdatesSection)
    assert "git pull" in section.state.text()


def test_a_damaged_update_is_said_and_leads_to_the_updates(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    try:
        stage.controller.session.updates.begin({"HALFTONE_DAMAGED": "0.3.0: app/x.py"})
        notice = stage.controller.state.notices[-1]
        message = notice_message(notice)
        assert message.title == "An update is damaged: 0.3.0: app/x.py."
        stage.workspace.act(notice, message.actions[0].key)
        page = stage.workspace.page("settings")
        assert isinstance(page, SettingsPage)
        assert page.nav["Updates"].isChecked()
        stage.wait(lambda: stage.controller.state.updating.stage == "failed")  # these are sources
    finally:
        stage.close()
