from typing import get_args

import msgspec
import pytest

from halftone.contract.request import Numerics
from halftone.settings.declared import ALIASES, DECLARED, Setting, declared
from halftone.settings.store import Settings

NUMERICS = [setting for setting in DECLARED if setting.page == "Numerics"]
FIELDS = {field.name: field for field in (*msgspec.structs.fields(Numerics), *msgspec.structs.fields(Settings))}


def test_every_field_of_numerics_is_declared_once() -> None:
    assert [setting.field for setting in NUMERICS] == list(Numerics.__struct_fields__)


def test_names_and_flags_are_used_once() -> None:
    names = [setting.name for setting in DECLARED]
    flags = [*(flag for setting in DECLARED for flag in setting.flags), *(alias.flag for alias in ALIASES)]
    assert len(set(names)) == len(names)
    assert len(set(flags)) == len(flags)
    assert {"--no-half", "--no-half-vae", "--upcast-sampling", "--upcast-attention", "--disable-nan-check"} <= set(flags)


@pytest.mark.parametrize("setting", DECLARED, ids=lambda setting: setting.name)
def test_a_setting_says_what_it_is_and_does(setting: Setting) -> None:
    field = FIELDS[setting.field]
    assert setting.default == (field.default if field.default is not None else "")
    assert setting.title
    assert setting.sentence.endswith(".")
    assert setting.tooltip
    assert "!" not in setting.title + setting.sentence + setting.tooltip
    if setting.kind == "choice":
        assert tuple(choice.value for choice in setting.choices) == get_args(field.type)
        assert all(choice.label for choice in setting.choices)
    else:
        assert setting.choices == ()


def test_aliases_set_what_exists() -> None:
    for alias in ALIASES:
        values = {choice.value for choice in declared(alias.field).choices}
        assert alias.value in values


def test_a_setting_is_found_by_name_and_field() -> None:
    assert declared("numerics.tf32") is declared("tf32")
    with pytest.raises(KeyError):
        declared("tf64")
