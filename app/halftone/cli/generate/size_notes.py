"""What a size far above the model's own will cost, said before it is begun."""

import sqlite3
from collections.abc import Iterable

from msgspec.structs import replace

from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.request import PictureRequest
from halftone.contract.wording import number
from halftone.gallery.history import History
from halftone.gallery.timed import Conditions, tells_time
from halftone.health.forecasts.picture_memory import Made, Next, forecast
from halftone.health.part_names import duration, elapsed
from halftone.health.pictures.passes import last_size
from halftone.library.families.networks import known_networks
from halftone.library.resolution_bins import computed_size
from halftone.library.tasks import takes_strength
from halftone.metadata.start_images import picture_size
from halftone.settings.disk import size_text

_FAR_ABOVE = 4.0
"""Times the pixels that a model was made for; the window warns from there on too."""

_FAR_ABOVE_IN_PASSES = 16.0
"""The same of a second pass, which is meant to be above."""


def size_note(request: PictureRequest, facts: ModelFacts, now: Conditions) -> tuple[str, ...]:
    """A note on a size far above the model's own, with the time as far as pictures made under the same conditions tell it, and
    the memory that is surely needed; none for others.
    """
    if (known := sized(request, facts)) is None:
        return ()
    request = known
    first = request.width or facts.native_width, request.height or facts.native_height
    width, height = computed_size(facts, last_size(request.hires, *first), request.options)
    native = facts.native_width * facts.native_height
    if not native or (ratio := width * height / native) < (_FAR_ABOVE if request.hires is None else _FAR_ABOVE_IN_PASSES):
        return ()
    made = _made_under(now)
    steps = max(1, int((request.steps or facts.default_steps) * (request.start.strength or 1.0)))
    more = 0 if request.hires is None else first[0] * first[1] * steps
    work = (width * height * ((request.hires and request.hires.steps) or steps) + more) * request.batch
    what = f"{width} × {height} is {_times(ratio)} times the pixels this model was made for."
    return (f"{what} {_time(work, width * height, made)} {_memory(request, facts, now, made)}Ctrl+C stops it.",)


def sized(request: PictureRequest, facts: ModelFacts) -> PictureRequest | None:
    """Return the request with the width and height that its start picture gives it; None where they are not known beforehand:
    kept latents, a masked part in its own size, a pipeline that chooses.

    Raises image-unreadable.
    """
    if request.resume_latents is not None:
        return None
    if request.image is None or (request.width is not None and request.height is not None and not request.start.extends):
        return request
    start, (width, height) = request.start, picture_size(request.image)
    if start.only_masked is not None or not (request.masked or takes_strength(facts.pipeline, mask=False)):
        return None
    if start.extends:
        left, top, right, bottom = start.outpaint
        return replace(request, width=width + left + right, height=height + top + bottom)
    wide, high = request.width, request.height
    if wide is None:
        wide = width if high is None else round(width * high / height)
    return replace(request, width=wide, height=round(height * wide / width) if high is None else high)


def _memory(request: PictureRequest, facts: ModelFacts, now: Conditions, made: Iterable[Made]) -> str:
    networks = known_networks(facts, request.extras)
    backend = "cpu" if "cpu" in now.devices else "cuda"
    found = forecast(networks, Next(request, facts, now.dtype, backend), None, made)
    if found is None:
        return ""
    how = "measured" if found.pictures else "computed from how the model is built"
    return f"It needs about {size_text(found.peak)} of memory, {how}. "


def _times(ratio: float) -> str:
    return number(round(ratio)) if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0")


def _time(work: int, pixels: int, made: Iterable[Made]) -> str:
    """In proportion to the pixels of all steps of the picture that is nearest, one without more pixels first."""
    pictures = [picture for picture, _ in made]
    near = min(pictures, key=lambda one: (_pixels(one) > pixels, abs(one.work - work)), default=None)
    if near is None or not near.work:
        return "How long it takes was not measured; it can be very long."
    seconds = near.seconds * work / near.work
    width, height = near.computed or (near.width, near.height)
    measured = f"{elapsed(near.seconds)} measured at {width} × {height}, {near.steps} steps"
    longer = ", or longer, as time may grow faster than pixels" if pixels > _pixels(near) else ""
    return f"Computed from {measured}: about {duration(seconds)}{longer}."


def _pixels(picture: PictureFacts) -> int:
    width, height = picture.computed or (picture.width, picture.height)
    return width * height


def _made_under(now: Conditions) -> list[Made]:
    """The latest pictures that tell the time; none where the list cannot be read."""
    try:
        with History() as history:
            return [(entry.facts, entry.request) for entry in history.recent() if tells_time(entry.facts, entry.request, now)]
    except (OSError, sqlite3.Error):
        return []
