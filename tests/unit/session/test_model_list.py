"""Models come on the list by being opened, and off it when the user says so; their files stay."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.helpers.model_files import ramp, safetensors, write_folder
from tests.helpers.sessions import HandClock, HeldExecutor

from halftone.contract.facts import ModelFacts
from halftone.library.index.known import listed_models
from halftone.library.index.walk import is_inside
from halftone.library.models import POCKET
from halftone.session.events import Replaced
from halftone.session.models import known_files, model_list
from halftone.session.models.model_list import ModelList
from halftone.session.state import AppState
from halftone.session.store import Store
from halftone.session.writing import SettingsKeeper
from halftone.settings.store import Settings, load


class Shelf:
    """A model list with what it stands on. Two models lie in `many`, one beside it."""

    def __init__(self, folder: Path) -> None:
        self.alone = str(write_folder(folder / "alone"))
        self.inside = [str(write_folder(folder / "many" / name)) for name in ("one", "two")]
        self.many = str(folder / "many")
        self.executor = HeldExecutor()
        self.store = Store(AppState(settings=Settings(model_folders=(self.alone, self.many), last_model=self.inside[0])))
        self.keeper = SettingsKeeper(self.store, self.executor, HandClock())
        self.models = ModelList(self.store, self.executor)

    @property
    def settings(self) -> Settings:
        return self.store.state.settings

    def ids(self) -> set[str]:
        return set(self.models.found.models)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    made = Shelf(tmp_path)
    made.models.refresh()
    made.executor.settle()
    assert made.ids() == {POCKET, made.alone, *made.inside}
    return made


def test_a_model_leaves_the_list_and_its_files_stay(shelf: Shelf) -> None:
    shelf.models.forget(shelf.alone)
    shelf.executor.settle()
    assert shelf.ids() == {POCKET, *shelf.inside}
    assert (shelf.settings.model_folders, shelf.settings.last_model) == ((shelf.many,), shelf.inside[0])
    assert Path(shelf.alone, "model_index.json").is_file()
    shelf.keeper.finish()
    assert load().model_folders == (shelf.many,)


def test_the_list_follows_the_folders_of_the_settings(shelf: Shelf) -> None:
    shelf.keeper.update(msgspec.structs.replace(shelf.settings, model_folders=(shelf.alone,)))
    shelf.executor.settle()
    assert shelf.ids() == {POCKET, shelf.alone, shelf.inside[0]}, "the one in use stays"
    shelf.keeper.update(msgspec.structs.replace(shelf.settings, model_folders=(shelf.many,)))
    shelf.executor.settle()
    assert shelf.ids() == {POCKET, *shelf.inside}


@pytest.mark.parametrize("which", [0, 1])
def test_a_model_takes_the_folder_it_was_found_in_with_it(shelf: Shelf, which: int) -> None:
    assert set(shelf.models.with_it(shelf.inside[which])) == set(shelf.inside)
    assert shelf.models.with_it(POCKET) == ()
    shelf.models.forget(shelf.inside[which])
    shelf.executor.settle()
    assert shelf.ids() == {POCKET, shelf.alone}
    assert shelf.settings.last_model == POCKET


def test_a_model_that_was_deleted_leaves_too_and_pocket_never(shelf: Shelf) -> None:
    Path(shelf.alone).rename(shelf.alone + "-elsewhere")
    shelf.models.forget(shelf.alone)
    shelf.executor.settle()
    before = shelf.settings
    shelf.models.forget(POCKET)
    assert shelf.settings is before
    assert before.model_folders == (shelf.many,)


def test_a_model_that_is_opened_while_the_headers_are_read_stays(shelf: Shelf, tmp_path: Path) -> None:
    new = str(write_folder(tmp_path / "new"))
    shelf.models.select(new)
    shelf.models.refresh()
    answers = shelf.executor.work()
    answers[1]()  # the reading that began before the model was known ends after it
    answers[0]()
    answers[1]()
    shelf.executor.settle()
    assert shelf.settings.last_model == new
    assert shelf.ids() == {POCKET, shelf.alone, *shelf.inside, new}


def test_a_model_that_is_forgotten_while_the_headers_are_read_does_not_come_back(shelf: Shelf) -> None:
    shelf.models.refresh()
    (answer,) = shelf.executor.work()
    shelf.models.forget(shelf.alone)
    answer()
    shelf.executor.settle()
    assert shelf.ids() == {POCKET, *shelf.inside}


def test_each_folder_is_read_once_for_models_and_loras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "models" / "one")
    for folder, name in (("models", "beside"), ("models", "same"), ("loras", "same")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    models, loras = str(tmp_path / "models"), str(tmp_path / "loras")
    read: list[str] = []

    def counted(folders: Iterable[str], *, indexed: bool = False) -> list[ModelFacts]:
        wanted = tuple(folders)
        read.extend(wanted)
        return listed_models(wanted, indexed=indexed)

    for module in (known_files, model_list):
        monkeypatch.setattr(module, "listed_models", counted)
    store, executor = Store(AppState(settings=Settings(model_folders=(models,), lora_folders=(loras,)))), HeldExecutor()
    found, _loras = ModelList(store, executor), known_files.LoraList(store, executor)

    def known() -> dict[str, str]:
        executor.settle()
        return {name: Path(path).parent.name for name, path in store.state.loras.paths.items()}

    found.refresh()
    assert known() == {"beside": "models", "same": "loras"}
    assert sorted(read) == sorted([models, loras])
    read.clear()
    (tmp_path / "models" / "beside.safetensors").unlink()
    store.take(Replaced(part=replace(store.state.library, changes=1)))
    assert known() == {"same": "loras"}
    assert sorted(read) == sorted([models, loras])
    store.take(Replaced(part=msgspec.structs.replace(store.state.settings, lora_folders=())))
    assert known() == {"same": "models"}
    assert store.state.loras.folders == (models,)
    found.forget(next(model for model in found.found.models if model != POCKET))
    assert known() == {}


@pytest.mark.parametrize("written", ["{0}/", "{0}/../loras", "~/loras"])
def test_loras_are_found_however_their_folder_is_written(tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    folder = tmp_path / "loras"
    folder.mkdir()
    (folder / "style.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    store, executor = Store(AppState(settings=Settings(lora_folders=(written.format(folder),)))), HeldExecutor()
    known_files.LoraList(store, executor).look()
    executor.settle()
    assert list(store.state.loras.paths) == ["style"]


def test_an_older_answer_about_loras_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    file = tmp_path / "style.safetensors"
    file.write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    store, executor = Store(AppState(settings=Settings(lora_folders=(str(tmp_path),)))), HeldExecutor()
    loras = known_files.LoraList(store, executor)
    loras.look()
    (older,) = executor.work()
    file.unlink()
    loras.look()
    (newer,) = executor.work()
    newer()
    older()
    executor.settle()
    assert store.state.loras.paths == {}


def test_loras_are_compared_with_their_folders_off_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "style.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    settings = Settings(lora_folders=(str(tmp_path),))
    store, executor = Store(AppState(settings=settings)), HeldExecutor()
    loras = known_files.LoraList(store, executor)
    compared: list[str] = []

    def counted(path: str, folder: str) -> bool:
        compared.append(path)
        return is_inside(path, folder)

    monkeypatch.setattr(known_files, "is_inside", counted)
    loras.look()
    (found,) = executor.work()
    found()
    assert compared == []
    (shown,) = executor.work()
    store.take(Replaced(part=msgspec.structs.replace(settings, lora_folders=())))
    shown()
    assert store.state.loras.paths == {}, "they were compared with other folders than those set now"
    executor.settle()
    assert store.state.loras.paths == {}
