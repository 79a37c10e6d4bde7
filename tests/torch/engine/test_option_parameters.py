"""Parameters that are options, each against a plain call of diffusers, to the bit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.bench.families import run
from tests.bench.families.plain import arguments, halftone_frames, plain_frames, plain_pipeline, request_of
from tests.bench.families.table import CASES, Case

from halftone.contract.errors import HalftoneError
from halftone.engine.service import DiffusersEngine

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run


def case_of(name: str, **options: Any) -> Case:
    case = next(case for case in CASES if case.name == name)
    return replace(case, options={**case.options, **options})


def ours(engine: DiffusersEngine, case: Case, model: Path) -> Any:
    return halftone_frames(engine, request_of(run.PROMPT, case, model, "text", None, (Path(), Path())))


@pytest.mark.parametrize("name", ["SD 1.x", "SD 2.x", "SDXL"])
def test_cfg_rescale_is_that_of_diffusers(engine: DiffusersEngine, tmp_path: Path, name: str) -> None:
    without, case = case_of(name), case_of(name, guidance_rescale=0.7)
    model = run.save(case, tmp_path / "m")
    pipe = plain_pipeline(run.original(model), "text", {})
    wanted = plain_frames(pipe, arguments(pipe, run.PROMPT, case, "text", None, (Path(), Path())))
    made = ours(engine, case, model)
    assert np.array_equal(made, wanted)
    assert not np.array_equal(made, ours(engine, without, model))


def test_cfg_rescale_is_the_formula(tmp_path: Path) -> None:
    """Lin et al. 2023, section 3.4: guided noise is brought to the deviation of the prompt's own, and the two are mixed."""
    case, share, scale = case_of("SD 1.x"), 0.7, 7.5
    pipe = plain_pipeline(run.original(run.save(case, tmp_path / "m")), "text", {})
    seen: list[torch.Tensor] = []
    taken: list[torch.Tensor] = []
    pipe.unet.register_forward_hook(lambda _module, _given, result: seen.append(result[0]))
    step = pipe.scheduler.step
    pipe.scheduler.step = lambda noise, *more, **named: (taken.append(noise), step(noise, *more, **named))[1]
    given = {**arguments(pipe, run.PROMPT, case, "text", None, (Path(), Path())), "output_type": "np"}
    pipe(**given, guidance_scale=scale, guidance_rescale=share, generator=torch.Generator().manual_seed(5))
    negative, own = seen[0].chunk(2)
    guided = negative + scale * (own - negative)
    rescaled = guided * own.std() / guided.std()
    torch.testing.assert_close(taken[0], share * rescaled + (1 - share) * guided)


def test_a_pipeline_without_cfg_rescale_says_so(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Z-Image", guidance_rescale=0.7)
    with pytest.raises(HalftoneError, match="has no option --guidance-rescale"):
        ours(engine, case, run.save(case, tmp_path / "m"))
