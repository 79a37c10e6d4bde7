"""What a pipeline makes its pictures from, and which make none alone."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.model_files import write_folder

from halftone.contract.errors import HalftoneError
from halftone.library.models import POCKET, describe, runnable
from halftone.library.tasks import check_given, needs_mask, needs_picture, only_a_stage


@pytest.mark.parametrize(
    ("pipeline", "picture", "mask"),
    [
        ("StableDiffusionPipeline", False, False),
        ("StableDiffusionXLImg2ImgPipeline", True, False),
        ("StableDiffusionInpaintPipeline", True, True),
        ("FluxPipeline", False, False),
        ("FluxFillPipeline", True, True),
        ("FluxKontextPipeline", False, False),
        ("FluxKontextInpaintPipeline", True, True),
        ("Flux2Pipeline", False, False),
        ("QwenImageEditPipeline", True, False),
        ("QwenImagePipeline", False, False),
        ("WanPipeline", False, False),
        ("WanImageToVideoPipeline", True, False),
        ("LTXImageToVideoPipeline", True, False),
        ("CogVideoXImageToVideoPipeline", True, False),
        ("StableVideoDiffusionPipeline", True, False),
        ("KandinskyV22CombinedPipeline", False, False),
        ("KandinskyV22InpaintCombinedPipeline", True, True),
    ],
)
def test_what_a_pipeline_starts_from(pipeline: str, picture: bool, mask: bool) -> None:
    assert (needs_picture(pipeline), needs_mask(pipeline)) == (picture, mask)


def test_what_is_needed_and_missing_is_said() -> None:
    fill = replace(describe(POCKET), pipeline="FluxFillPipeline")
    for image, mask, code in ((False, False, "picture-needed"), (True, False, "mask-needed"), (True, True, "")):
        if not code:
            check_given(fill, image=image, mask=mask)
            continue
        with pytest.raises(HalftoneError) as caught:
            check_given(fill, image=image, mask=mask)
        assert caught.value.code == code
    check_given(describe(POCKET), image=False, mask=False)


@pytest.mark.parametrize(
    ("pipeline", "stage"),
    [
        ("StableCascadePriorPipeline", "first"),
        ("StableCascadeDecoderPipeline", "second"),
        ("StableCascadeCombinedPipeline", ""),
        ("KandinskyV22PriorPipeline", "first"),
        ("KandinskyV22Pipeline", "second"),
        ("KandinskyV22InpaintPipeline", "second"),
        ("KandinskyV22CombinedPipeline", ""),
        ("KandinskyV22InpaintCombinedPipeline", ""),
        ("KandinskyPipeline", "second"),
        ("Kandinsky3Pipeline", ""),
    ],
)
def test_one_stage_of_two_is_described_and_not_run(tmp_path: Path, pipeline: str, stage: str) -> None:
    facts = describe(str(write_folder(tmp_path / "m", pipeline)))
    assert (f"only the {stage} of two stages" in str(facts.why)) == bool(stage)
    assert facts.why == only_a_stage(pipeline)
    if not stage:
        runnable(facts)
        return
    with pytest.raises(HalftoneError) as caught:
        runnable(facts)
    assert caught.value.code == "model-cannot-run"
