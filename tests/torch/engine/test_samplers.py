"""The names of samplers that are told without torch against those that the engine can make."""

import pytest
from diffusers import DPMSolverMultistepScheduler, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler

from halftone.contract.errors import HalftoneError
from halftone.engine import samplers
from halftone.engine.quiet import quiet_libraries
from halftone.library.models import POCKET, describe
from halftone.library.samplers import FLOW_SAMPLERS, SAMPLERS, check_sampler


def test_the_names_are_the_engines() -> None:
    assert tuple(samplers.SAMPLERS) == SAMPLERS
    assert tuple(samplers.FLOW_SAMPLERS) == FLOW_SAMPLERS


def test_every_sampler_can_be_made() -> None:
    with quiet_libraries():
        for native, names in ((DPMSolverMultistepScheduler(), SAMPLERS), (FlowMatchEulerDiscreteScheduler(), FLOW_SAMPLERS)):
            for name in names:
                scheduler = samplers.make_scheduler(native, name)
                scheduler.set_timesteps(4)
                assert len(scheduler.timesteps) >= 4, name


def test_both_take_and_refuse_the_same() -> None:
    pocket = describe(POCKET)
    for name in (*SAMPLERS, "euler A"):
        check_sampler(pocket, name)
    said: list[str] = []
    for refuse in (lambda: check_sampler(pocket, "Eular"), lambda: samplers.make_scheduler(EulerDiscreteScheduler(), "Eular")):
        with pytest.raises(HalftoneError) as caught:
            refuse()
        said.append(str(caught.value))
    assert said[0] == said[1]
