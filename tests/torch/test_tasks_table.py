"""What is told of pipelines by their names, against diffusers' signatures and its tables of siblings."""

import inspect
from typing import Any, Final

import diffusers
import pytest

from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.resolve import NO_MASK, SIBLINGS
from halftone.library.tasks import only_a_stage, takes_mask, takes_picture, takes_strength

with quiet_libraries():
    from diffusers.pipelines import auto_pipeline

TABLES: Final = {
    "image": auto_pipeline.AUTO_IMAGE2IMAGE_PIPELINES_MAPPING,
    "mask_image": auto_pipeline.AUTO_INPAINT_PIPELINES_MAPPING,
}
MORE: Final = (
    "Flux2KleinKVPipeline", "GlmImagePipeline", "LTXConditionPipeline", "PaintByExamplePipeline", "QwenImage21Pipeline",
    "QwenImageEditPlusPipeline", "QwenImageLayeredPipeline", "StableDiffusionInstructPix2PixPipeline", "LTX2ImageToVideoPipeline",
    "StableDiffusionXLInstructPix2PixPipeline", "StableDiffusionUpscalePipeline", "StableDiffusionDepth2ImgPipeline",
    "StableUnCLIPImg2ImgPipeline", "SanaImageToVideoPipeline", "HunyuanVideoFramepackPipeline", "StableDiffusionInpaintPipeline",
    "StableDiffusionXLInpaintPipeline", "FluxFillPipeline", "QwenImageEditPipeline", "WanImageToVideoPipeline",
    "LTXImageToVideoPipeline", "CogVideoXImageToVideoPipeline", "StableVideoDiffusionPipeline", "WanPipeline", "LTXPipeline",
)  # fmt: skip
KNOWN: Final = sorted(
    {kind.__name__ for table in (auto_pipeline.AUTO_TEXT2IMAGE_PIPELINES_MAPPING, *TABLES.values()) for kind in table.values()}
    - {name for name in dir(diffusers) if "ControlNet" in name}
    | set(MORE)
)
"""Pipelines of models; ControlNets come beside one."""


def parameters(name: str) -> dict[str, Any]:
    return dict(inspect.signature(getattr(diffusers, name).__call__).parameters)


def runs(name: str, argument: str) -> str:
    """The pipeline that takes the argument for this one: itself or a sibling; "" where there is none."""
    if argument in parameters(name):
        return name
    if argument == "mask_image" and name.startswith(NO_MASK):
        return ""
    if name in SIBLINGS[argument]:
        return SIBLINGS[argument][name]
    found: Any = auto_pipeline._get_task_class(TABLES[argument], name, throw_error_if_not_exist=False)
    return "" if found is None or argument not in parameters(found.__name__) else found.__name__


@pytest.mark.parametrize("name", [name for name in KNOWN if not only_a_stage(name)])
def test_what_a_pipeline_takes_is_told_by_its_name(name: str) -> None:
    picture, mask = runs(name, "image"), runs(name, "mask_image")
    assert (takes_picture(name), takes_mask(name)) == (bool(picture), bool(mask))
    assert takes_strength(name, mask=False) == (bool(picture) and "strength" in parameters(picture))
    assert takes_strength(name, mask=True) == (bool(mask) and "strength" in parameters(mask))
