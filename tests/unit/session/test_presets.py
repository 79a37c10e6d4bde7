"""Presets: any fields of the draft under a name, kept in a file that others may have written."""

import json
import random
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.drafts import random_draft

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Lora
from halftone.session.pictures.draft import Draft, Seed
from halftone.session.pictures.presets import (
    FIELDS,
    Preset,
    applied,
    delete_preset,
    missing,
    preset_of,
    proposed,
    put_back,
    read_presets,
    rename_preset,
    save_preset,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "presets.json"


@pytest.mark.parametrize("number", range(8))
def test_a_preset_keeps_what_is_ticked_and_leaves_the_rest(file: Path, number: int) -> None:
    chance = random.Random(number)
    draft, other = random_draft(chance), random_draft(chance)
    ticked = chance.sample(list(FIELDS), chance.randrange(1, len(FIELDS)))
    save_preset(preset_of("mine", draft, ticked), file)
    (preset,) = read_presets(file)
    assert set(preset.ticked) == set(ticked)
    found = applied(preset, other)
    fields = {field for tick in ticked for field in FIELDS[tick]} - {"model"}
    for name in Draft.__struct_fields__:
        assert getattr(found.draft, name) == getattr(draft if name in fields else other, name), name
    assert found.left == ()


def test_every_field_that_the_form_shows_can_be_kept() -> None:
    kept = {field for fields in FIELDS.values() for field in fields}
    assert kept | {"inversions", "defaults", "own"} == set(Draft.__struct_fields__)


def test_what_is_in_use_is_ticked_at_first() -> None:
    assert proposed(Draft()) == {"size", "steps", "guidance", "sampler"}
    draft = replace(Draft(), loras=(Lora(path="/l"),), hires_on=True, image="/a.png", seed=Seed(3))
    assert proposed(draft) == {"size", "steps", "guidance", "sampler", "loras", "hires"}


def test_presets_are_saved_renamed_deleted_and_put_back(file: Path) -> None:
    for name, steps in (("a", 10), ("b", 20), ("a", 30)):
        save_preset(preset_of(name, replace(Draft(), steps=steps), ["steps"]), file)
    assert [(one.name, one.values["steps"]) for one in read_presets(file)] == [("a", 30), ("b", 20)]
    rename_preset("a", "c", file)
    assert [one.name for one in read_presets(file)] == ["c", "b"]
    gone = read_presets(file)[0]
    delete_preset("c", file)
    assert [one.name for one in read_presets(file)] == ["b"]
    put_back(gone, file)
    assert [one.name for one in read_presets(file)] == ["b", "c"]
    rename_preset("b", "b", file)


def test_a_name_in_use_is_refused_and_both_presets_stay(file: Path) -> None:
    for name in ("a", "b"):
        save_preset(preset_of(name, Draft(), ["steps"]), file)
    before = file.read_bytes()
    with pytest.raises(HalftoneError, match=r"^Preset name cannot be b\. Use a name that no preset has\.$"):
        rename_preset("a", "b", file)
    assert file.read_bytes() == before


def test_what_is_not_known_in_the_file_stays(file: Path) -> None:
    entry = {"name": "a", "colour": "red", "fields": {"steps": 9, "tempo": 3, "guidance": "much", "size": [64, 64]}}
    file.write_text(json.dumps({"version": 7, "presets": [entry, {"odd": 1}]}))
    (preset,) = read_presets(file)
    found = applied(preset, Draft())
    assert (found.draft.steps, found.draft.size, found.draft.guidance, found.left) == (9, (64, 64), 7.0, ("tempo", "guidance"))
    save_preset(preset_of("a", replace(Draft(), steps=12), ["steps"]), file)
    rename_preset("a", "b", file)
    whole = json.loads(file.read_text())
    assert whole["version"] == 7
    assert whole["presets"] == [{"colour": "red", "name": "b", "fields": {"tempo": 3, "steps": 12}}, {"odd": 1}]


def test_numbers_beyond_the_limits_are_held() -> None:
    assert applied(Preset(name="a", values={"steps": 99999, "batch": 0}), Draft()).draft.steps == 1000


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    there = tmp_path / "there.safetensors"
    there.touch()
    draft = replace(Draft(), model="/m/gone", loras=(Lora(path=str(there)), Lora(path="/l/ink.safetensors")), vae="/v/own")
    preset = preset_of("a", draft, ["model", "loras"])
    assert missing(preset, {"pocket"}) == ("gone", "ink.safetensors")
    assert missing(preset, {"/m/gone"}) == ("ink.safetensors",)


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"presets": {}}'])
def test_a_file_that_holds_no_presets_is_left_alone(file: Path, text: str) -> None:
    file.write_text(text)
    for act in (
        lambda: read_presets(file),
        lambda: save_preset(Preset(name="a", values={}), file),
        lambda: delete_preset("a", file),
    ):
        with pytest.raises(HalftoneError) as refused:
            act()
        assert refused.value.code == "words-unreadable"
    assert file.read_text() == text
