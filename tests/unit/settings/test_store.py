import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.wording import translated

from halftone.contract.request import Numerics, Saving
from halftone.settings.store import Loaded, Settings, load, load_with_problems, save

CHANGED = Settings(
    numerics=Numerics(precision="float16", tf32=True, upcast_sampling=False),
    theme="dark",
    pictures_folder="/p",
    model_folders=("/m", "/n"),
    lora_folders=("/l",),
    first_run_done=True,
    splitters={"create": "1,2"},
)


def test_without_a_file_everything_is_default(tmp_path: Path) -> None:
    assert load(tmp_path / "settings.toml") == Settings()


def test_only_what_differs_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save(Settings(numerics=Numerics(tf32=True)), path)
    assert path.read_text() == "[numerics]\ntf32 = true\n"
    save(Settings(), path)
    assert path.read_text().strip() == ""


def test_settings_come_back(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save(CHANGED, path)
    assert load_with_problems(path).settings == CHANGED
    assert load_with_problems(path).problems == ()


def test_comments_and_unknown_names_survive(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('# mine\n[numerics]\nprecison = "float16" # typed by hand\n')
    loaded = load_with_problems(path)
    said = "There is no setting numerics.precison; it is ignored. Did you mean numerics.precision?"
    assert list(map(str, loaded.problems)) == [said]
    assert all(map(translated, loaded.problems))
    save(msgspec.structs.replace(loaded.settings, theme="light"), path)
    assert "# mine" in path.read_text()
    assert "typed by hand" in path.read_text()
    assert load_with_problems(path).settings.theme == "light"


def test_a_value_that_cannot_be_is_reported_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('stray = 1\n[numerics]\nprecision = "float8"\ntf32 = true\n[appearance]\ntheme = 3\n')
    loaded = load_with_problems(path)
    assert loaded.settings == Settings(numerics=Numerics(tf32=True))
    assert len(loaded.problems) == 3


def test_folders_may_be_one_word_and_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    text = '[folders]\nmodels = ["~/models", "/m"]\nloras = "~/loras"\n'
    file = tmp_path / "settings.toml"
    file.write_text(text)
    loaded = load_with_problems(file)
    assert loaded.problems == ()
    assert loaded.settings.model_folders == (str(tmp_path / "models"), "/m")
    assert loaded.settings.lora_folders == (str(tmp_path / "loras"),)
    save(msgspec.structs.replace(loaded.settings, theme="light"), file, since=loaded.settings)
    assert file.read_text().startswith(text), "what nobody changed stays as it was written"


def test_a_value_of_a_newer_version_survives_a_change_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[numerics]\nprecision = "float8"\ntf32 = true\n')
    save(msgspec.structs.replace(load_with_problems(path).settings, theme="light", numerics=Numerics()), path)
    assert path.read_text() == '[numerics]\nprecision = "float8"\n\n[appearance]\ntheme = "light"\n'
    save(Settings(numerics=Numerics(precision="bfloat16")), path)
    assert load_with_problems(path) == Loaded(Settings(numerics=Numerics(precision="bfloat16")))


@pytest.mark.skipif(os.name == "nt", reason="links need a right there that users lack")
def test_settings_that_are_a_link_stay_one(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    link, real = tmp_path / "settings.toml", tmp_path / "mine" / "halftone.toml"
    real.touch()
    link.symlink_to(Path("mine", "halftone.toml"))
    save(CHANGED, link)
    assert link.is_symlink()
    assert load_with_problems(real).settings == CHANGED


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"[numerics\n\xff")
    (tmp_path / "settings-damaged-1.toml").write_text("older")
    loaded = load_with_problems(path)
    assert loaded.settings == Settings()
    assert "settings-damaged-2.toml" in str(loaded.problems[0])
    assert translated(loaded.problems[0])
    assert (tmp_path / "settings-damaged-2.toml").read_bytes() == b"[numerics\n\xff"
    assert not path.exists()


@pytest.mark.logs("is damaged")
def test_saving_over_a_damaged_file_keeps_it_too(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"[[[")
    save(CHANGED, path)
    assert load(path) == CHANGED
    assert (tmp_path / "settings-damaged-1.toml").exists()


def test_a_damaged_file_that_cannot_be_set_aside_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"[[[")

    def refuse(_path: Path, _target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    (problem,) = load_with_problems(path).problems
    assert "could not be set aside" in str(problem)
    with pytest.raises(PermissionError):
        save(CHANGED, path)
    assert path.read_bytes() == b"[[["


def test_only_what_changed_since_the_last_look_is_written(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save(CHANGED, path)
    mine = load(path)
    save(msgspec.structs.replace(mine, model_folders=("/new",), theme="system"), path, since=mine)
    save(msgspec.structs.replace(mine, form="draft", lora_folders=()), path, since=mine)
    expected = msgspec.structs.replace(CHANGED, model_folders=("/new",), theme="system", form="draft", lora_folders=())
    assert load(path) == expected


def test_all_is_written_where_the_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save(msgspec.structs.replace(CHANGED, theme="light"), path, since=CHANGED)
    assert load(path) == msgspec.structs.replace(CHANGED, theme="light")


def test_a_folder_in_its_place_is_survived(tmp_path: Path) -> None:
    loaded = load_with_problems(tmp_path)
    assert loaded.settings == Settings()
    assert "cannot be read" in str(loaded.problems[0])
    assert translated(loaded.problems[0])


@settings(max_examples=60)
@given(st.from_type(Numerics), st.text(max_size=20), st.dictionaries(st.text(), st.text()))
def test_any_settings_come_back(numerics: Numerics, model: str, geometry: dict[str, str]) -> None:
    changed = Settings(numerics=numerics, last_model=model, geometry=geometry)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.toml"
        save(changed, path)
        assert load_with_problems(path).settings == changed


@pytest.mark.parametrize(
    "line",
    [
        "[appearance]\ntext_size = 20",
        "[saving]\npicture_quality = 101",
        '[saving]\nfile_names = "{nothing}"',
        "[saving]\nfile_names = 3",
    ],
)
def test_numbers_beyond_their_limits_and_patterns_that_name_nothing_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(line)
    loaded = load_with_problems(path)
    assert loaded.settings == Settings()
    assert len(loaded.problems) == 1


def test_what_is_saved_of_pictures_and_keys_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    kept = Settings(file_names="{date}/{seed}", picture_format="webp", picture_quality=80, save_metadata=False)
    kept = msgspec.structs.replace(kept, text_size=150, motion="reduced", notify_after=5, shortcuts={"save": "F2", "fit": ""})
    save(kept, path)
    assert load(path) == kept
    assert kept.saving == Saving(file_names="{date}/{seed}", picture_format="webp", picture_quality=80, save_metadata=False)
