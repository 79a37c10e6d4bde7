"""What a request will cost, known before it is begun: its size, its memory and its time."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from halftone.contract.facts import DeviceFacts, MemoryFacts, ModelFacts
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType
from halftone.gallery.timed import Conditions, names_of
from halftone.health.forecasts.picture_memory import Forecast
from halftone.health.pictures.passes import last_size
from halftone.library.families.networks import known_networks
from halftone.library.resolution_bins import computed_size
from halftone.library.tasks import takes_strength
from halftone.metadata.start_images import picture_size
from halftone.session.pictures.memory_estimate import memory_estimate
from halftone.session.pictures.picture_list import recent
from halftone.session.pictures.picture_time import Computed, Pictures, Shape, computed, far_above


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


class Cost(NamedTuple):
    """What a picture costs. above: times the pixels that the model was made for, where that is so much that it should be said,
    else 0; memory, time: None where nothing is known.
    """

    shape: Shape
    above: float
    memory: Forecast | None
    time: Computed | None


def cost_of(
    request: PictureRequest,
    facts: ModelFacts,
    dtype: DType,
    device: DeviceFacts,
    devices: Sequence[DeviceFacts],
    most: int | None,
) -> Cost | None:
    """What a request will cost; None where its size is not known beforehand. most: bytes that a job may have on the device at the
    very most.

    Raises image-unreadable.
    """
    if (known := sized(request, facts)) is None:
        return None
    shape = request_shape(known, facts)
    above = far_above(facts, shape)
    made = Pictures().with_made((entry.facts, entry.request) for entry in reversed(recent() if above else ()))
    numerics = request.numerics
    now = Conditions(request.model, names_of(device, devices), numerics.precision, dtype, numerics.compile)
    room = None if most is None else MemoryFacts(total=most, own=0, others=0)
    memory = memory_estimate((known, facts, dtype), device, known_networks(facts, known.extras), room, made.measured(now))
    return Cost(shape, above, memory, computed(now.model, shape, made.times(now)))


def request_shape(request: PictureRequest, facts: ModelFacts) -> Shape:
    """The shape of the pictures of a request."""
    first = request.width or facts.native_width, request.height or facts.native_height
    width, height = computed_size(facts, last_size(request.hires, *first), request.options)
    steps = max(1, int((request.steps or facts.default_steps) * (request.start.strength or 1.0)))
    if request.hires is None:
        return Shape(width, height, steps)
    return Shape(width, height, request.hires.steps or steps, first[0] * first[1] * steps)
