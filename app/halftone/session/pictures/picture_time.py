"""How long a picture takes, measured with pictures like it or computed from the nearest; sizes far above a model's own."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.gallery.timed import Conditions, tells_time
from halftone.health.forecasts.picture_memory import Made
from halftone.health.pictures.passes import larger
from halftone.library.resolution_bins import computed_size
from halftone.session.pictures.draft import Draft

_KEPT: Final = 5
_MEMORIES: Final = 20
_FAR_ABOVE: Final = 4.0
"""Times the pixels that a model was made for."""
_FAR_ABOVE_IN_PASSES: Final = 16.0
"""The same of a second pass, which is meant to be above."""


class Shape(NamedTuple):
    """Holds what the time of a picture depends on, of its last pass. Sizes are in pixels, as they are computed; before: pixels of
    all steps of the passes before that.
    """

    width: int
    height: int
    steps: int
    before: int = 0

    @property
    def pixels(self) -> int:
        return self.width * self.height

    @property
    def work(self) -> int:
        """Pixels of all steps."""
        return self.pixels * self.steps + self.before


def shape_of(picture: PictureFacts) -> Shape:
    """Return the shape of a finished picture."""
    last = picture.passes[-1].steps if picture.passes else picture.steps
    width, height = (None if picture.passes else picture.computed) or (picture.width, picture.height)
    return Shape(width, height, last, picture.work - width * height * last)


def next_shape(draft: Draft, model: ModelFacts | None, edges: tuple[int, int]) -> Shape:
    """Of the next picture. edges: what its first pass computes, see `computed_edges`."""
    if not draft.hires_on:
        return Shape(*(edges if model is None else computed_size(model, edges, {})), draft.steps)
    return Shape(*larger(*edges, draft.hires.scale), draft.hires.steps or draft.steps, edges[0] * edges[1] * draft.steps)


@dataclass
class Times:
    """Seconds that the last pictures took, by model and shape."""

    _seconds: dict[tuple[str, Shape], list[float]] = field(default_factory=dict[tuple[str, Shape], list[float]])

    def learn(self, picture: PictureFacts, model: str) -> None:
        times = self._seconds.setdefault((model, shape_of(picture)), [])
        times.append(picture.seconds)
        del times[:-_KEPT]

    def mean(self, model: str, shape: Shape) -> tuple[float, int] | None:
        """Mean seconds of the last pictures of this shape, and how many they were; None if there was none."""
        times = self._seconds.get((model, shape))
        return (sum(times) / len(times), len(times)) if times else None

    def nearest(self, model: str, shape: Shape) -> tuple[Shape, float] | None:
        """The measured shape with the most nearly as much work, one without more pixels first, and its mean seconds."""
        known = [other for name, other in self._seconds if name == model and other.work > 0]
        if not known:
            return None
        best = min(known, key=lambda other: (other.pixels > shape.pixels, abs(other.work - shape.work)))
        times = self._seconds[(model, best)]
        return best, sum(times) / len(times)


class Pictures:
    """Finished pictures, and what they tell of the next one. Never changed: only the last answer is remembered."""

    def __init__(self, made: Iterable[tuple[str, Made]] = ()) -> None:
        self._made = dict(made)
        self._known: tuple[Conditions, Times, list[Made]] | None = None

    def __len__(self) -> int:
        return len(self._made)

    def with_made(self, pictures: Iterable[Made]) -> "Pictures":
        """These and others, the newest last; a picture that is no file is one by itself, one that is known counts anew."""
        made = dict(self._made)
        for one in pictures:
            key = one[0].path or f"unsaved {len(made)}"
            made.pop(key, None)
            made[key] = one
        return Pictures(made.items())

    def times(self, now: Conditions) -> Times:
        """What pictures took that were made under these conditions."""
        return self._under(now)[1]

    def measured(self, now: Conditions) -> list[Made]:
        """The last of those whose memory was measured."""
        return self._under(now)[2]

    def _under(self, now: Conditions) -> tuple[Conditions, Times, list[Made]]:
        if self._known is None or self._known[0] != now:
            times, found = Times(), list[Made]()
            for picture, request in self._made.values():
                if tells_time(picture, request, now):
                    times.learn(picture, now.model)
                    found += [(picture, request)] if picture.peak_memory is not None else []
            self._known = now, times, found[-_MEMORIES:]
        return self._known


class Computed(NamedTuple):
    """Seconds of the next picture, in proportion to the pixels of all steps of a measured shape, and the mean seconds of that."""

    seconds: float
    base: Shape
    measured: float

    def longer(self, shape: Shape) -> bool:
        """Whether it may take longer than in proportion: time can grow faster than pixels."""
        return shape.pixels > self.base.pixels


def computed(model: str, shape: Shape, times: Times) -> Computed | None:
    """None where nothing was measured."""
    near = times.nearest(model, shape)
    return None if near is None else Computed(near[1] * shape.work / near[0].work, *near)


def far_above(model: ModelFacts, shape: Shape) -> float:
    """Times the pixels that the model was made for, where that is so much that it should be said; else 0."""
    native = model.native_width * model.native_height
    ratio = shape.pixels / native if native else 0.0
    return ratio if ratio >= (_FAR_ABOVE_IN_PASSES if shape.before else _FAR_ABOVE) else 0.0
