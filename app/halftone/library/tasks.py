"""What a pipeline of diffusers makes its pictures from, and which make none alone: told by their names, without loading them."""

from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts

_FROM_PICTURE: Final = (
    "Img2Img", "Inpaint", "Fill", "ImageToVideo", "Image2Video", "I2V", "I2I", "ImageEdit", "InstructPix2Pix", "Layered",
    "Upscale", "Depth2Img", "StableVideoDiffusion",
)  # fmt: skip
_WITH_MASK: Final = ("Inpaint", "Fill")
_PRIORS: Final = ("StableCascadePrior", "KandinskyPrior", "KandinskyV22Prior", "WuerstchenPrior")
_DECODERS: Final = (
    "StableCascadeDecoder", "WuerstchenDecoder", "KandinskyPipeline", "KandinskyImg2ImgPipeline", "KandinskyInpaintPipeline",
    "KandinskyV22Pipeline", "KandinskyV22Img2ImgPipeline", "KandinskyV22InpaintPipeline", "KandinskyV22Control",
)  # fmt: skip


def needs_picture(pipeline: str) -> bool:
    """Whether it starts from a picture whatever the prompt says."""
    return any(word in pipeline for word in _FROM_PICTURE)


def needs_mask(pipeline: str) -> bool:
    """Whether it paints only where a mask says so."""
    return any(word in pipeline for word in _WITH_MASK)


def only_a_stage(pipeline: str) -> str:
    """Why a pipeline makes no picture alone, as the end of a sentence; "" for one that does."""
    if pipeline.startswith(_PRIORS):
        return "it is only the first of two stages, which makes no picture alone; choose a folder that holds both"
    if pipeline.startswith(_DECODERS):
        return "it is only the second of two stages, which needs what the first one made; choose a folder that holds both"
    return ""


def check_given(facts: ModelFacts, *, image: bool, mask: bool) -> None:
    """Raise picture-needed or mask-needed for what does not start from a prompt alone. image, mask: whether one is given."""
    if needs_picture(facts.pipeline) and not image:
        raise HalftoneError("picture-needed", model=facts.name)
    if needs_mask(facts.pipeline) and not mask:
        raise HalftoneError("mask-needed", model=facts.name)
