"""While libraries are imported nothing is collected, and what they leave is no burden to later searches."""

import gc
from collections.abc import Iterator

import pytest

from halftone.measure.giving_back import importing


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("on", [True, False])
def test_what_is_imported_is_kept_out_of_every_search(on: bool) -> None:
    if not on:
        gc.disable()
    with importing():
        assert not gc.isenabled()
        made = [[]]
    assert gc.isenabled() == on
    assert gc.get_freeze_count() > 0
    assert all(one is not made for one in gc.get_objects())


def test_a_library_that_cannot_be_imported_leaves_it_as_it_was() -> None:
    with pytest.raises(ImportError), importing():
        raise ImportError
    assert gc.isenabled()
