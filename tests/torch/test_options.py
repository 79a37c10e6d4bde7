"""The table of pipeline options against the signatures of diffusers."""

import diffusers
import pytest

from halftone.engine.inputs.resolve import simple_options
from halftone.library.options import KINDS, OPTIONS


@pytest.mark.parametrize("pipeline", OPTIONS)
def test_the_table_names_what_the_pipeline_takes(pipeline: str) -> None:
    found = simple_options(getattr(diffusers, pipeline))
    assert found == {name: KINDS[name] for name in OPTIONS[pipeline]}


def test_no_kind_is_left_over() -> None:
    assert set(KINDS) == set().union(*OPTIONS.values())
