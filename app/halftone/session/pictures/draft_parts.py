"""The parts of the form: which fields of the draft each has, and which of them a model can use, from its facts alone."""

from collections.abc import Callable
from typing import Final, NamedTuple

from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import OPTION_PARAMETERS
from halftone.library.add_ons.controlnets import takes_controls
from halftone.library.add_ons.denoisers import denoiser_name
from halftone.library.add_ons.ipadapters import takes_ip_adapters
from halftone.library.add_ons.vaes import VAE
from halftone.library.families.known_families import SDXL
from halftone.library.options import takes_option
from halftone.library.tasks import takes_picture, takes_strength
from halftone.library.videos import makes_videos


class Part(NamedTuple):
    """fields: of the draft; the part is in use where one of them differs from an empty draft. takes: whether a model can use it;
    it is False only where that is known.
    """

    fields: tuple[str, ...]
    takes: Callable[[ModelFacts], bool] = lambda _model: True


def _starts(model: ModelFacts) -> bool:
    return not model.pipeline or takes_picture(model.pipeline)


def _draws_over(model: ModelFacts) -> bool:
    return not makes_videos(model) and (not model.pipeline or takes_strength(model.pipeline, mask=False))


PARTS: Final[dict[str, Part]] = {
    "styles": Part(("styles",)),
    "image": Part(("image", "mask"), _starts),
    "loras": Part(("loras",)),
    "controls": Part(("controls",), takes_controls),
    "ip_adapters": Part(("ip_adapters",), takes_ip_adapters),
    "hires": Part(("hires_on",), _draws_over),
    "upscaler": Part(("upscaler",), lambda model: not makes_videos(model)),
    "refiner": Part(("refiner",), lambda model: model.family == SDXL.name),
    "variation": Part(("variation_strength", "seed_size")),
    "vae": Part(("vae",), lambda model: VAE in model.components),
    "transformer": Part(("transformer",), lambda model: denoiser_name(model) is not None),
    "video": Part(("num_frames", "fps", "video"), lambda model: makes_videos(model) is True),
    "options": Part(("options",), lambda model: any(takes_option(model, name) for name in OPTION_PARAMETERS)),
}


def takes(model: ModelFacts | None, part: str) -> bool:
    """Whether a model can use a part; a model that is not known yet can use all but a video."""
    if model is None:
        return part != "video"
    return part not in PARTS or PARTS[part].takes(model)
