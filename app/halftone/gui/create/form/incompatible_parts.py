"""Which parts of the Create form cannot be used together, told before a picture is begun."""

from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.gui.i18n import tr
from halftone.library.videos import makes_videos


def hires_clash(request: PictureRequest, model: ModelFacts | None) -> str:
    """What keeps the second pass of a request from being made, and what to do; "" for nothing."""
    if request.hires is None:
        return ""
    if model is not None and makes_videos(model):
        return tr("Hires. fix does not work with video models.")
    if request.masked:
        return tr("Hires. fix does not work with inpainting or outpainting.")
    return ""


def refiner_clash(request: PictureRequest) -> str:
    """The same of the refiner."""
    if request.refiner is None:
        return ""
    if request.masked:
        return tr("The refiner does not work with inpainting or outpainting.")
    if request.hires is not None:
        return tr("The refiner does not work with Hires. fix.")
    return ""
