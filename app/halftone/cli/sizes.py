"""What a size far above the model's own will cost, said before it is begun."""

import sqlite3
from collections.abc import Iterable

from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.health.words import duration

_FAR_ABOVE = 4.0
"""Times the pixels that a model was made for; the window warns from there on too."""


def size_note(request: PictureRequest, facts: ModelFacts) -> tuple[str, ...]:
    """A note on a size far above the model's own, with the time as far as pictures of this model were timed; none for others."""
    if request.image is not None or request.resume_latents is not None:
        return ()  # their own files tell the size
    width, height = request.width or facts.native_width, request.height or facts.native_height
    ratio = width * height / (facts.native_width * facts.native_height)
    if ratio < _FAR_ABOVE:
        return ()
    made = [picture for picture in _made_with(facts.id) if picture.seconds > 0]
    work = width * height * (request.steps or facts.default_steps) * request.batch
    what = f"{width} × {height} is {ratio:.3g} times the pixels this model was made for."
    return (f"{what} {_time(work, width * height, made)}",)


def _time(work: int, pixels: int, made: Iterable[PictureFacts]) -> str:
    """In proportion to the pixels of all steps of the picture that is nearest, one without more pixels first."""
    near = min(made, key=lambda one: (_pixels(one) > pixels, abs(_pixels(one) * one.steps - work)), default=None)
    if near is None or not _pixels(near) * near.steps:
        return "How long it takes was not measured; it can be very long, and take much memory."
    seconds = near.seconds * work / (_pixels(near) * near.steps)
    measured = f"{duration(near.seconds)} measured at {near.width} × {near.height}, {near.steps} steps"
    longer = ", or longer, as time may grow faster than pixels" if pixels > _pixels(near) else ""
    return f"Computed from {measured}: about {duration(seconds)}{longer}. It can take much memory."


def _pixels(picture: PictureFacts) -> int:
    return picture.width * picture.height


def _made_with(model: str) -> list[PictureFacts]:
    """The latest pictures of a model; none where the list cannot be read."""
    try:
        with History() as history:
            return [entry.facts for entry in history.recent() if entry.request.model == model]
    except (OSError, sqlite3.Error):
        return []
