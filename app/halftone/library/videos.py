"""Videos: which models make them, how many frames a second, and the kind of file."""

from pathlib import PurePath
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import VideoFormat
from halftone.contract.wording import Words, either
from halftone.library.families import known_families as of

FORMATS: Final[tuple[VideoFormat, ...]] = ("mp4", "webp")
FPS: Final = {
    of.ANIMATE_DIFF.name: 8,
    of.SVD.name: 7,
    of.WAN.name: 16,
    of.LTX.name: 25,
    of.LTX2.name: 24,
    of.HUNYUAN_VIDEO.name: 24,
    of.MOCHI.name: 30,
    of.COGVIDEO.name: 8,
    of.COSMOS.name: 30,
}
"""Frames per second of the videos that the families were trained on."""
USUAL_FPS: Final = 8
"""For an unknown model."""
_NAMES: Final = ("Video", "T2VPipeline", "I2VPipeline", "V2VPipeline")
_STILLS: Final = ("Text2Image", "TextToImage", "T2IPipeline", "I2IPipeline")


def makes_videos(facts: ModelFacts) -> bool | None:
    """Whether a model makes videos; None where that is not known."""
    if any(name in facts.pipeline for name in _STILLS):
        return False
    if any(name in facts.pipeline for name in _NAMES):
        return True
    family = of.BY_NAME.get(facts.family)
    return None if family is None else family.frames


def reads_prompt(facts: ModelFacts) -> bool:
    """False for models that make a video of a picture alone."""
    return facts.family != of.SVD.name


def usual_fps(facts: ModelFacts) -> int:
    """Frames per second of its videos, where its pipeline does not say it itself."""
    return FPS.get(facts.family, USUAL_FPS)


def video_format(request: PictureRequest) -> VideoFormat:
    """What several frames are written as."""
    return request.video or ("webp" if _ending(request) == "webp" else "mp4")


def check_video(request: PictureRequest, facts: ModelFacts) -> None:
    """Raise HalftoneError setting-bad-value or video-of-pictures for a video that cannot be made as asked."""
    named = _ending(request)
    if request.video is not None and named and named != request.video:
        value = Words("{0} for {1}", (request.video, str(request.output)))
        raise HalftoneError("setting-bad-value", name="--video", value=value, allowed=f"--video {named}")
    if makes_videos(facts) is not False:
        return
    asked = {"--video": request.video, "--fps": request.fps, ".mp4": named if named == "mp4" else None}
    for name, wanted in asked.items():
        if wanted is not None:
            raise HalftoneError("video-of-pictures", model=facts.name, name=name)


def refuse_still(request: PictureRequest, facts: ModelFacts) -> None:
    """Raise HalftoneError output-bad-type where all frames but the first would be lost."""
    named = _ending(request)
    if named and named not in FORMATS and makes_videos(facts) and request.num_frames != 1:
        raise HalftoneError("output-bad-type", path=str(request.output), allowed=either(*(f".{known}" for known in FORMATS)))


def _ending(request: PictureRequest) -> str:
    """The ending of the request's file, without its dot, in small letters; "" for no file, or a folder."""
    return "" if request.output is None else PurePath(request.output).suffix.lower().removeprefix(".")
