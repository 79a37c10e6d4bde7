"""Hypothesis strategies for the contract's structs, read from their annotations."""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

_PLAIN: dict[object, st.SearchStrategy[object]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**64 - 1),  # what msgpack can hold
    float: st.floats(allow_nan=False),  # NaN is not equal to itself
    str: st.text(max_size=12),
    bytes: st.binary(max_size=64),
}


def values(kind: object) -> st.SearchStrategy[Any]:
    """Values of any annotation that stands in the contract."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if origin is tuple and arguments[-1] is not Ellipsis:
        return st.tuples(*map(values, arguments))
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is list:
        return st.lists(values(arguments[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.deferred(lambda: structs(kind))
    raise TypeError(f"no strategy for {kind}")


def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Instances of a struct: required fields always, the others sometimes."""
    hints = get_type_hints(kind)
    fields = msgspec.structs.fields(kind)
    required = {field.name: values(hints[field.name]) for field in fields if field.required}
    optional = {field.name: values(hints[field.name]) for field in fields if not field.required}
    given = st.fixed_dictionaries(required, optional=optional)
    return given.map(lambda arguments: kind(**arguments))
