"""Names of the samplers that fit a model, told from its folder; which scheduler each one stands for, the engine knows."""

from collections.abc import Mapping
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.words import either

SAMPLERS: Final = (
    "Euler", "Euler a", "DPM++ 2M", "DPM++ 2M Karras", "DPM++ 2M SDE", "DPM++ 2M SDE Karras", "DPM++ SDE", "Heun", "DDIM",
    "DDPM", "UniPC", "PNDM", "DEIS", "LCM",
)  # fmt: skip
FLOW_SAMPLERS: Final = ("Euler", "Heun", "DPM++ 2M", "UniPC")
_ALIKE: Final = (
    "DDIM", "DDPM", "PNDM", "LMSDiscrete", "EulerDiscrete", "HeunDiscrete", "EulerAncestralDiscrete", "DPMSolverMultistep",
    "DPMSolverSinglestep", "KDPM2Discrete", "KDPM2AncestralDiscrete", "DEISMultistep", "UniPCMultistep", "DPMSolverSDE", "LCM",
    "SASolver", "DDIMParallel", "DDPMParallel",
)  # fmt: skip
"""Schedulers that others may stand in for (diffusers, `KarrasDiffusionSchedulers` and what calls them compatible); what has
another, only runs with that.
"""
_GIVEN_NOISE: Final = ("Euler", "UniPC")
"""Flow samplers that take the noise levels and the shift that a pipeline works out itself, as most of them do."""
_FLOW: Final[dict[str, tuple[str, ...]]] = {
    "StableDiffusion3": FLOW_SAMPLERS,
    "Sana": FLOW_SAMPLERS,
    "AuraFlow": FLOW_SAMPLERS,
    "Flux": ("Euler", "DPM++ 2M", "UniPC"),
}
"""By the beginning of the pipeline's name; of other flow pipelines nothing more is known than `_GIVEN_NOISE`."""
_ENDING: Final = "Scheduler"


def samplers_of(pipeline: str, scheduler: Mapping[str, object]) -> tuple[str, ...]:
    """Names of the samplers that a pipeline class takes, its own first where users have no name for it.

    scheduler: the configuration of its own. None where that does not name its class.
    """
    own = str(scheduler.get("_class_name", "")).removesuffix(_ENDING)
    if own.startswith("FlowMatch") or scheduler.get("use_flow_sigmas"):
        return next((names for start, names in _FLOW.items() if pipeline.startswith(start)), _GIVEN_NOISE)
    if pipeline.startswith("LatentConsistency"):
        return ("LCM",)
    if not own:
        return ()
    return SAMPLERS if own in _ALIKE else (own,)


def check_sampler(facts: ModelFacts, wanted: str, *, image: bool = False) -> None:
    """Raise setting-bad-value for a sampler that does not fit; of a model whose samplers are not known nothing is said.

    image: whether one is given to start from; the pipelines of FLUX then take fewer.
    """
    names = facts.samplers
    if image and facts.family == "FLUX":
        names = tuple(name for name in names if name in _GIVEN_NOISE)
    if names and wanted.lower() not in {name.lower() for name in (*names, facts.own_sampler)}:
        raise HalftoneError("setting-bad-value", name="Sampler", value=wanted, allowed=either(names))
