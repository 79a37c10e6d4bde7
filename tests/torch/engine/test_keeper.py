"""What was given to a network and what it gave is compared as it was then, whatever the pipeline does with it later."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import StableDiffusionPipeline
from tests.helpers.engine_runs import check, generate

from halftone.engine.basics.snapshot import Keeper
from halftone.engine.service import DiffusersEngine

pytestmark = pytest.mark.usefixtures("made_on_the_device")


def test_a_copy_stays_as_it_was_and_is_made_once() -> None:
    keep = Keeper()
    given = torch.ones(2, 3)
    first = keep({"a": [given]})["a"][0]
    assert keep((given,))[0] is first
    given.zero_()
    assert first.eq(1).all()
    assert keep(given).eq(0).all()


class _Writing(StableDiffusionPipeline):
    """Writes into what its text encoder gave."""

    def encode_prompt(self, *args: Any, **kwargs: Any) -> Any:
        self.text_encoder(torch.tensor([[1, 2, 3]]))[0].zero_()
        return super().encode_prompt(*args, **kwargs)


def test_a_pipeline_that_writes_in_place_is_no_fault_of_the_network(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    generate(engine, models["sd15"], steps=1)
    assert engine.loaded is not None
    engine.loaded.pipe.__class__ = _Writing
    try:
        report, _ = check(engine, models["sd15"])
    finally:
        engine.loaded.pipe.__class__ = StableDiffusionPipeline
    assert (report.verdict, report.findings) == ("healthy", ())
