"""Replaces methods of live objects for the length of a block, and puts back what was there."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

_ABSENT = object()


@contextmanager
def replaced(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Generator[None]:
    """owner.name becomes make(the present owner.name), signature and all; afterwards the instance is as before."""
    before = owner.__dict__.get(name, _ABSENT)
    original = getattr(owner, name)
    owner.__dict__[name] = wraps(original)(make(original))
    try:
        yield
    finally:
        if before is _ABSENT:
            owner.__dict__.pop(name, None)
        else:
            owner.__dict__[name] = before


@contextmanager
def all_replaced(changes: list[tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]]) -> Generator[None]:
    with ExitStack() as stack:
        for owner, name, make in changes:
            stack.enter_context(replaced(owner, name, make))
        yield
