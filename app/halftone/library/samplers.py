"""Names of the samplers that fit a model, told from its folder; which scheduler each one stands for, the engine knows."""

from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.words import either
from halftone.library.folder import read_json

SAMPLERS: Final = (
    "Euler", "Euler a", "DPM++ 2M", "DPM++ 2M Karras", "DPM++ 2M SDE", "DPM++ 2M SDE Karras", "DPM++ SDE", "Heun", "DDIM",
    "DDPM", "UniPC", "PNDM", "DEIS", "LCM",
)  # fmt: skip
FLOW_SAMPLERS: Final = ("Euler", "Heun", "DPM++ 2M", "UniPC")
_CONFIG: Final = Path("scheduler", "scheduler_config.json")


def check_sampler(facts: ModelFacts, wanted: str) -> None:
    """Raise setting-bad-value for a sampler that does not fit; of a model without a scheduler's file nothing is said."""
    file = Path(facts.path) / _CONFIG
    if not file.is_file():
        return
    config = read_json(file)
    own = str(config.get("_class_name", ""))
    names = FLOW_SAMPLERS if own.startswith("FlowMatch") or config.get("use_flow_sigmas") else SAMPLERS
    if wanted.lower() not in {name.lower() for name in (*names, own.removesuffix("Scheduler"))}:
        raise HalftoneError("setting-bad-value", name="Sampler", value=wanted, allowed=either(names))
