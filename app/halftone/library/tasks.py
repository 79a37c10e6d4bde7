"""What a pipeline of diffusers starts from, and which make no picture alone: from their names, without loading them."""

from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words

_FROM_PICTURE: Final = (
    "Img2Img", "Inpaint", "Fill", "ImageToVideo", "Image2Video", "I2V", "I2I", "ImageEdit", "InstructPix2Pix", "Layered",
    "Upscale", "Depth2Img", "StableVideoDiffusion",
)  # fmt: skip
_WITH_MASK: Final = ("Inpaint", "Fill")
_CONTROLLED: Final = ("Control", "Adapter")
_FROM_VIDEO: Final = ("VideoToVideo", "EasyAnimateInpaint", "LucyEdit")
_BASES: Final = (
    "Chroma", "FluxControl", "Flux", "IF", "Kandinsky3", "KandinskyCombined", "KandinskyV22Combined", "Kolors",
    "LatentConsistencyModel", "QwenImage", "SanaSprint", "StableDiffusion3PAG", "StableDiffusion3", "StableDiffusionPAG",
    "StableDiffusionXLPAG", "StableDiffusionXL", "StableDiffusion", "ZImage",
)  # fmt: skip
"""Pipelines with a sibling in diffusers that starts from a picture, with a strength."""
_TAKING: Final = (
    "Flux2KleinKV", "Flux2Klein", "Flux2", "FluxKontext", "GlmImage", "HeliosPyramid", "Helios",
    "HunyuanVideoFramepack", "LTXCondition", "LTX", "PaintByExample", "QwenImage21", "ZImageOmni",
)  # fmt: skip
"""Pipelines that take a picture beside the prompt, themselves or their sibling."""
_MASKED: Final = (
    "Chroma", "FluxControl", "FluxControlImg2Img", "Flux", "FluxImg2Img", "Flux2Klein", "FluxKontext", "IF", "IFImg2Img",
    "PaintByExample", "QwenImage", "QwenImageEdit", "QwenImageImg2Img", "StableDiffusion3", "StableDiffusion3Img2Img",
    "StableDiffusion", "StableDiffusionImg2Img", "StableDiffusionPAG", "StableDiffusionPAGImg2Img", "StableDiffusionXL",
    "StableDiffusionXLImg2Img", "StableDiffusionXLPAG", "StableDiffusionXLPAGImg2Img", "ZImage", "ZImageImg2Img",
)  # fmt: skip
"""Pipelines that paint inside a mask, themselves or their sibling."""
_STRENGTHLESS: Final = (
    "I2V", "I2I", "ImageToVideo", "Image2Video", "ImageEdit", "InstructPix2Pix", "Layered", "Upscale", "StableVideoDiffusion",
    "PaintByExample", "KandinskyInpaint", "KandinskyV22Inpaint", "ZImageControlNet", "ShapE", "UnCLIP",
)  # fmt: skip
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


def needs_control(pipeline: str) -> bool:
    """Tell whether a control picture steers it in every run: its ControlNet or adapter is one of its parts."""
    return any(word in pipeline for word in _CONTROLLED)


def needs_video(pipeline: str) -> bool:
    """Tell whether it starts from a video."""
    return any(word in pipeline for word in _FROM_VIDEO)


def takes_picture(pipeline: str) -> bool:
    """Whether it can start from a picture, or has a sibling over the same parts that can."""
    return needs_picture(pipeline) or _base(pipeline) in (*_BASES, *_TAKING)


def takes_mask(pipeline: str) -> bool:
    """Whether it can paint inside a mask, or has a sibling over the same parts that can."""
    return needs_mask(pipeline) or _base(pipeline) in _MASKED


def takes_strength(pipeline: str, *, mask: bool) -> bool:
    """Whether a denoising strength can be set. mask: whether there is one."""
    if mask:
        return takes_mask(pipeline) and not any(word in pipeline.replace("ImageEdit", "") for word in _STRENGTHLESS)
    if _base(pipeline) in (*_BASES, "LTXCondition"):
        return True
    return needs_picture(pipeline) and not any(word in pipeline.replace("EditInpaint", "") for word in _STRENGTHLESS)


def _base(pipeline: str) -> str:
    return pipeline.removesuffix("Pipeline")


def only_a_stage(pipeline: str) -> Words | None:
    """Why a pipeline makes no picture alone, as the end of a sentence; None for one that does."""
    if pipeline.startswith(_PRIORS):
        return Words("it is only the first of two stages, which makes no picture alone; choose a folder that holds both")
    if pipeline.startswith(_DECODERS):
        return Words("it is only the second of two stages, which needs what the first one made; choose a folder that holds both")
    return None


def check_given(facts: ModelFacts, *, image: bool, mask: bool, strength: bool = False) -> None:
    """Raise picture-needed, mask-needed, or start-no-strength. image, mask, strength: whether they are set."""
    if needs_picture(facts.pipeline) and not image:
        raise HalftoneError("picture-needed", model=facts.name)
    if needs_mask(facts.pipeline) and not mask:
        raise HalftoneError("mask-needed", model=facts.name)
    if strength and takes_picture(facts.pipeline) and not takes_strength(facts.pipeline, mask=mask):
        raise HalftoneError("start-no-strength", model=facts.name)
