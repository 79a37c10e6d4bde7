"""The commands that show, add and remove folders: they change what the window's settings hold, and nothing else."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import Run

from halftone.cli.models.folders_command import KINDS, field_of
from halftone.settings.declared import DECLARED
from halftone.settings.places import settings_file
from halftone.settings.store import Settings, load, save


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


def test_every_list_of_folders_in_the_settings_has_a_kind() -> None:
    assert {field_of(kind): f"folders.{kind}" for kind in KINDS} == {
        one.field: one.name for one in DECLARED if one.kind == "folders"
    }


def test_a_folder_is_added_listed_and_removed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("models", "words"):
        (tmp_path / name).mkdir()
    save(Settings(theme="dark", model_folders=(str(tmp_path / "gone"),)))
    settings_file().write_text("# mine\n" + settings_file().read_text(encoding="utf-8"), encoding="utf-8")
    assert run("folders", "add", "models", str(tmp_path / "models")).out == f"Added: {tmp_path / 'models'}\n"
    assert run("folders", "add", "models/../models").code == 0
    assert run("folders", "add", "words", "--kind", "embeddings").code == 0
    models, words = str(tmp_path / "models"), str(tmp_path / "words")
    saved = Settings(theme="dark", model_folders=(str(tmp_path / "gone"), models), embedding_folders=(words,))
    assert load() == saved
    assert settings_file().read_text(encoding="utf-8").startswith("# mine\n")
    assert run("folders").out.splitlines() == [
        "Models (--kind models)",
        f"  {tmp_path / 'gone'}, which is not there now",
        f"  {models}",
        "Embeddings (--kind embeddings)",
        f"  {words}",
    ]
    found = json.loads(run("folders", "--json").out)["folders"]
    assert found == {kind: [] for kind in KINDS} | {"models": [*saved.model_folders], "embeddings": [words]}
    assert (
        run("folders", "remove", "gone", words).out == f"Removed: {tmp_path / 'gone'} (models)\nRemoved: {words} (embeddings)\n"
    )
    assert load() == Settings(theme="dark", model_folders=(models,))


def test_a_folder_that_is_known_is_not_added_again(run: Run, tmp_path: Path) -> None:
    save(Settings(model_folders=(str(tmp_path),)))
    assert run("folders", "add", str(tmp_path)).out == f"It was there already: {tmp_path}\n"
    assert load().model_folders == (str(tmp_path),)
    added = json.loads(run("folders", "add", str(tmp_path), "--kind", "gallery", "--json").out)["folders"]
    assert (added["models"], added["gallery"]) == ([str(tmp_path)], [str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "gone"), "The folder PLACE/gone does not exist."),
        (("add", "a.txt"), "PLACE/a.txt is a file, not a folder."),
        (("add", "here", "gone"), "The folder PLACE/gone does not exist."),
        (("remove", "here"), "PLACE/here is not among your folders. Those are listed by:  halftone folders"),
        (("add", "here", "--kind", "pets"), "--kind takes models, loras, embeddings, upscalers, wildcards or gallery."),
        (("add",), "halftone folders add needs"),
        (("ad", "here"), "There is no command ad. Did you mean add?"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "a.txt").write_text("a")
    refused = run("folders", *words)
    assert refused.code == 2
    assert said.replace("PLACE", str(tmp_path)) in refused.err
    assert load() == Settings()


def test_a_folder_stays_as_what_else_it_holds(run: Run, tmp_path: Path) -> None:
    place = str(tmp_path)
    for kind in ("models", "gallery"):
        assert run("folders", "add", place, "--kind", kind).code == 0
    assert run("folders", "remove", place, "--kind", "gallery").out == f"Removed: {place} (gallery)\n"
    assert run("folders", "remove", place, "--kind", "gallery").code == 2
    assert place in run("folders").out
    assert run("folders", "remove", place).out == f"Removed: {place} (models)\n"
