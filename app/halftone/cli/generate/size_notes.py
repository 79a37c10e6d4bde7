"""The note on the cost of a size far above the model's native size."""

import sqlite3
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.contract.wording import number
from halftone.gallery.history import History
from halftone.gallery.timed import Conditions
from halftone.health.forecasts.picture_memory import Made, Next, forecast
from halftone.health.part_names import duration, elapsed
from halftone.health.pictures.passes import last_size
from halftone.library.families.networks import known_networks
from halftone.library.resolution_bins import computed_size
from halftone.library.tasks import takes_strength
from halftone.metadata.start_images import picture_size
from halftone.session.picture_time import Computed, Pictures, Shape, computed, far_above
from halftone.settings.disk import size_text


def size_note(request: PictureRequest, facts: ModelFacts, now: Conditions) -> tuple[str, ...]:
    """A note on a size far above the model's own, with the time as far as pictures made under the same conditions tell it, and
    the memory that is surely needed; none for others.
    """
    if (known := sized(request, facts)) is None:
        return ()
    request = known
    first = request.width or facts.native_width, request.height or facts.native_height
    width, height = computed_size(facts, last_size(request.hires, *first), request.options)
    steps = max(1, int((request.steps or facts.default_steps) * (request.start.strength or 1.0)))
    if request.hires is None:
        shape = Shape(width, height, steps)
    else:
        shape = Shape(width, height, request.hires.steps or steps, first[0] * first[1] * steps)
    if not (ratio := far_above(facts, shape)):
        return ()
    made = _made()
    what = f"{width} × {height} has {_times(ratio)} times the native pixels."
    near = computed(now.model, shape, made.times(now))
    return (f"{what} {_time(near, shape, request.batch)} {_memory(request, facts, now, made.measured(now))}Ctrl+C stops it.",)


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
    how = "measured" if found.pictures else "estimated"
    return f"It needs about {size_text(found.peak)} of memory ({how}). "


def _times(ratio: float) -> str:
    return number(round(ratio)) if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0")


def _time(near: Computed | None, shape: Shape, count: int) -> str:
    if near is None:
        return "This may take very long."
    base = near.base
    measured = f"{elapsed(near.measured)} at {base.width} × {base.height}, {base.steps} steps"
    longer = " or longer" if near.longer(shape) else ""
    return f"About {duration(near.seconds * count)}{longer}. Estimated from {measured}."


def _made() -> Pictures:
    """The latest pictures; none where the list cannot be read."""
    pictures = Pictures()
    with suppress(OSError, sqlite3.Error), History() as history:
        for entry in reversed(history.recent()):
            pictures.learn(entry.facts, entry.request)
    return pictures
