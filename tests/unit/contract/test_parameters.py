"""The table of parameters against the structs that hold them, and against itself."""

import math
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from halftone.contract.parameters import BY_FIELD, OPTION_PARAMETERS, PARAMETERS, Parameter, option_numbers, seed_in
from halftone.contract.request import CheckInputs, Hires, PictureRequest, ResolvedRequest, Start
from halftone.library.options import KINDS

_OF_KIND = {int: ("whole number",), float: ("number", "whole number"), str: ("text",)}
REQUEST = PictureRequest(prompt="a", start=Start(strength=0.5), hires=Hires(steps=3), options={"clip_skip": 1})


def alternatives(hint: Any) -> set[Any]:
    """The types that a field may hold, without None."""
    several = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return {one for one in several if one is not type(None)}


def held(struct: type, one: Parameter) -> set[Any] | None:
    """The types of a parameter's field in a struct, None where the struct has no such field."""
    outer, _, inner = one.field.partition(".")
    found = get_type_hints(struct).get(outer)
    return found and alternatives(get_type_hints(*alternatives(found))[inner] if inner else found)


@pytest.mark.parametrize("one", [one for one in PARAMETERS if not one.is_option], ids=lambda one: one.field)
def test_a_row_has_the_type_of_its_field(one: Parameter) -> None:
    found = held(PictureRequest, one)
    assert found is not None
    assert one.kind in found or (one.kind is str and all(get_origin(kind) is not None for kind in found))
    for other in (CheckInputs, ResolvedRequest):
        assert held(other, one) in (None, found)


@pytest.mark.parametrize(
    ("text", "seed"),
    [("0", 0), ("7", 7), ("18446744073709551615", 2**64 - 1), ("18446744073709551616", None), ("9" * 30, None)]
    + [(text, None) for text in ("", "-1", "1.5", "random")],
)
def test_a_seed_of_another_program_is_one_that_can_be_used(text: str, seed: int | None) -> None:
    assert seed_in(text) == seed


@pytest.mark.parametrize("one", OPTION_PARAMETERS.values(), ids=lambda one: one.field)
def test_a_row_of_an_option_has_its_kind(one: Parameter) -> None:
    assert one.settings or one.ours or KINDS[one.name] in _OF_KIND[one.kind]
    assert not one.names or one.limits == (0, len(one.names) - 1)
    assert one.tip is not None
    assert math.isfinite(sum(one.limits))
    assert one.neutral is None or one.limits[0] <= one.neutral <= one.limits[1]


def test_names_are_there_once() -> None:
    assert len(BY_FIELD) == len(PARAMETERS)
    for names in ("flags", "keys", "arguments"):
        every = [name for one in PARAMETERS for name in getattr(one, names)]
        assert len(set(every)) == len(every), names


def test_numbers_have_limits_that_hold_what_is_usual() -> None:
    for one in PARAMETERS:
        assert all(map(math.isfinite, one.limits)) == (one.kind is not str)
        usual = None if one.is_option else one.number(PictureRequest(prompt="a", hires=Hires()))
        assert usual is None or one.limits[0] <= usual <= one.limits[1]


@pytest.mark.parametrize(
    ("field", "value"),
    [("start.strength", 0.5), ("hires.steps", 3), ("refiner.at", None), ("options.clip_skip", 2), ("width", None), ("batch", 1)],
)
def test_a_row_finds_its_number_as_the_user_counts(field: str, value: float | None) -> None:
    assert BY_FIELD[field].number(REQUEST) == value


@pytest.mark.parametrize("value", [True, "2", [1]])
def test_what_is_no_number_is_none(value: Any) -> None:
    assert BY_FIELD["options.clip_skip"].number(PictureRequest(prompt="a", options={"clip_skip": value})) is None


def test_options_that_are_the_same_as_none_are_not_told() -> None:
    found = [option_numbers(PictureRequest(prompt="a", options={"clip_skip": skip, "eta": 0.5})) for skip in (0, 2, True)]
    assert found == [{}, {"clip_skip": 3}, {}]
