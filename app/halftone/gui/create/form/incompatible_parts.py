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
        return tr("Hires fix is for pictures, and this model makes videos. Turn it off, or choose another model.")
    if request.masked:
        return tr("Hires fix cannot be used with a mask or an extension. Turn it off, or use a start picture without them.")
    return ""


def refiner_clash(request: PictureRequest) -> str:
    """The same of the refiner."""
    if request.refiner is None:
        return ""
    if request.masked:
        return tr("The refiner cannot be used with a mask or an extension. Use no refiner, or a start picture without them.")
    if request.hires is not None:
        return tr("The refiner cannot be used with Hires fix. Use one of the two.")
    return ""
