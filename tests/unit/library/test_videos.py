"""Which models make videos, how fast; and what is refused before anything is computed."""

from typing import Any

import msgspec
import pytest
from tests.helpers.samples import POCKET

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.library.families.known_families import FAMILIES
from halftone.library.videos import FPS, check_video, makes_videos, reads_prompt, refuse_still, usual_fps, video_format


def model(family: str, pipeline: str = "") -> ModelFacts:
    return msgspec.structs.replace(POCKET, family=family, pipeline=pipeline)


@pytest.mark.parametrize(
    ("family", "pipeline", "videos"),
    [
        ("SDXL", "StableDiffusionXLPipeline", False),
        ("Wan", "WanPipeline", True),
        ("Wan", "WanImageToVideoPipeline", True),
        ("Stable Video Diffusion", "StableVideoDiffusionPipeline", True),
        ("CogVideoX", "CogVideoXImageToVideoPipeline", True),
        ("Kandinsky 5", "Kandinsky5T2VPipeline", True),
        ("Kandinsky 5", "Kandinsky5T2IPipeline", False),
        ("Cosmos", "Cosmos2TextToImagePipeline", False),
        ("LattePipeline", "LattePipeline", None),
    ],
)
def test_what_a_model_makes(family: str, pipeline: str, videos: bool | None) -> None:
    facts = model(family, pipeline)
    assert makes_videos(facts) == videos
    assert reads_prompt(facts) == (family != "Stable Video Diffusion")


def test_every_family_of_videos_has_its_frames_per_second() -> None:
    assert set(FPS) == {family.name for family in FAMILIES if family.frames}
    assert (usual_fps(model("Wan")), usual_fps(model("LattePipeline"))) == (16, 8)


def request(**changes: Any) -> PictureRequest:
    return PictureRequest(prompt="a red sun", **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "mp4"),
        ({"output": "a.WebP"}, "webp"),
        ({"output": "folder"}, "mp4"),
        ({"video": "webp"}, "webp"),
        ({"output": "a.mp4"}, "mp4"),
    ],
)
def test_the_kind_of_file(changes: dict[str, Any], expected: str) -> None:
    assert video_format(request(**changes)) == expected


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("SDXL", {"video": "mp4"}, "Pocket makes pictures; --video is for videos"),
    ("SDXL", {"fps": 8}, "--fps is for videos"),
    ("SDXL", {"output": "a.mp4"}, r"\.mp4 is for videos"),
    ("Wan", {"output": "a.webp", "video": "mp4"}, "--video cannot be mp4 for a.webp"),
]


@pytest.mark.parametrize(("family", "changes", "said"), REFUSED)
def test_what_cannot_become_a_video_as_it_is_wanted_is_refused(family: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(HalftoneError, match=said):
        check_video(request(**changes), model(family))


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("SDXL", {"output": "a.webp"}),
        ("Wan", {"output": "a.png", "num_frames": 1}),
        ("Wan", {"output": "a.mp4", "fps": 30}),
        ("LattePipeline", {"output": "a.png"}),
        ("Stable Video Diffusion", {"image": "a.png", "video": "webp"}),
    ],
)
def test_what_can_is_not(family: str, changes: dict[str, Any]) -> None:
    check_video(request(**changes), model(family))


def test_a_file_that_holds_one_picture_is_refused_for_a_video() -> None:
    with pytest.raises(HalftoneError, match=r"End the name with \.mp4 or \.webp"):
        refuse_still(request(output="a.png"), model("Wan"))
    for changes, family in (({"output": "a.png", "num_frames": 1}, "Wan"), ({"output": "a.png"}, "LattePipeline"), ({}, "Wan")):
        refuse_still(request(**changes), model(family))
