"""Models come on the list by being opened, and off it when the user says so; their files stay."""

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot
from tests.helpers.model_files import write_folder

from halftone.gui.background import Background
from halftone.gui.control.model_list import ModelList
from halftone.gui.control.writing import SettingsKeeper
from halftone.library.models import POCKET
from halftone.session.store import Store
from halftone.settings.store import Settings, load


class Shelf:
    """A model list with what it stands on. Two models lie in `many`, one beside it."""

    def __init__(self, folder: Path) -> None:
        self.alone = str(write_folder(folder / "alone"))
        self.inside = [str(write_folder(folder / "many" / name)) for name in ("one", "two")]
        self.many = str(folder / "many")
        self.owner = QObject()
        background = Background(self.owner)
        settings = Settings(model_folders=(self.alone, self.many), last_model=self.inside[0])
        holder = Store()
        self.keeper = SettingsKeeper(settings, holder, background, self.owner)
        self.models = ModelList(holder, self.keeper, background, self.owner)

    def ids(self) -> set[str]:
        return {facts.id for facts in self.models.all}


@pytest.fixture
def shelf(qtbot: QtBot, tmp_path: Path) -> Shelf:
    made = Shelf(tmp_path)
    with qtbot.waitSignal(made.models.changed):
        made.models.refresh()
    assert made.ids() == {POCKET, made.alone, *made.inside}
    return made


def test_a_model_leaves_the_list_and_its_files_stay(qtbot: QtBot, shelf: Shelf) -> None:
    with qtbot.waitSignal(shelf.models.changed):
        shelf.models.forget(shelf.alone)
    assert shelf.ids() == {POCKET, *shelf.inside}
    assert (shelf.keeper.settings.model_folders, shelf.keeper.settings.last_model) == ((shelf.many,), shelf.inside[0])
    assert Path(shelf.alone, "model_index.json").is_file()
    shelf.keeper.finish()
    assert load().model_folders == (shelf.many,)


def test_the_list_follows_the_folders_of_the_settings(qtbot: QtBot, shelf: Shelf) -> None:
    with qtbot.waitSignal(shelf.models.changed):
        shelf.keeper.update(msgspec.structs.replace(shelf.keeper.settings, model_folders=(shelf.alone,)))
    assert shelf.ids() == {POCKET, shelf.alone, shelf.inside[0]}, "the one in use stays"
    with qtbot.waitSignal(shelf.models.changed):
        shelf.keeper.update(msgspec.structs.replace(shelf.keeper.settings, model_folders=(shelf.many,)))
    assert shelf.ids() == {POCKET, *shelf.inside}


@pytest.mark.parametrize("which", [0, 1])
def test_a_model_takes_the_folder_it_was_found_in_with_it(qtbot: QtBot, shelf: Shelf, which: int) -> None:
    assert set(shelf.models.with_it(shelf.inside[which])) == set(shelf.inside)
    assert shelf.models.with_it(POCKET) == ()
    with qtbot.waitSignals([shelf.models.changed, shelf.models.selected]):
        shelf.models.forget(shelf.inside[which])
    assert shelf.ids() == {POCKET, shelf.alone}
    assert shelf.keeper.settings.last_model == POCKET


def test_a_model_that_was_deleted_leaves_too_and_pocket_never(qtbot: QtBot, shelf: Shelf) -> None:
    Path(shelf.alone).rename(shelf.alone + "-elsewhere")
    with qtbot.waitSignal(shelf.models.changed):
        shelf.models.forget(shelf.alone)
    before = shelf.keeper.settings
    shelf.models.forget(POCKET)
    assert shelf.keeper.settings is before
    assert before.model_folders == (shelf.many,)
