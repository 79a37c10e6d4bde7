"""Known troubles name pipelines that there are."""

import diffusers
import pytest

from halftone.health.troubles import all_troubles


@pytest.mark.parametrize("start", sorted({start for trouble in all_troubles() for start in trouble.pipelines}))
def test_a_pipeline_that_a_trouble_names_is_one_of_diffusers(start: str) -> None:
    names = [name for name in dir(diffusers) if name.startswith(start) and name.endswith("Pipeline")]
    assert [name for name in names if "Modular" not in name]
