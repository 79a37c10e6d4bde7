"""How long a picture takes: measured with pictures like it, or computed from others and said to be so."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.gallery.timed import Conditions, names_of, tells_time
from halftone.gui.controller import Controller
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.health.forecasts.picture_memory import Made

_KEPT: Final = 5
_MEMORIES: Final = 20
FAR_ABOVE: Final = 4.0
"""Times the pixels that a model was made for, from which on a size is warned of."""


FAR_ABOVE_IN_PASSES: Final = 16.0
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
    """Of a finished picture."""
    last = picture.passes[-1].steps if picture.passes else picture.steps
    width, height = (None if picture.passes else picture.computed) or (picture.width, picture.height)
    return Shape(width, height, last, picture.work - width * height * last)


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


def conditions(controller: Controller) -> Conditions:
    """Under which the next picture is made."""
    device, wanted = controller.state.device, controller.settings.device
    names = names_of(device, controller.state.devices) if device is not None else frozenset({wanted})
    numerics, report = controller.numerics, controller.report(controller.model)
    plan = report.plan if report is not None and report.applied else None
    return Conditions(controller.settings.last_model, names, numerics.precision, controller.precision[0], numerics.compile, plan)


@dataclass
class Pictures:
    """The pictures of the window, and what they tell of the next one."""

    _made: dict[str, tuple[PictureFacts, PictureRequest]] = field(default_factory=dict[str, tuple[PictureFacts, PictureRequest]])
    _known: tuple[Conditions, Times, list[Made]] | None = None

    def learn(self, picture: PictureFacts, request: PictureRequest) -> None:
        """Remember a picture; one that is no file by itself, one that is known anew."""
        key = picture.path or f"unsaved {len(self._made)}"
        self._made.pop(key, None)
        self._made[key] = picture, request
        self._known = None

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


def size_warning(model: ModelFacts, shape: Shape, times: Times) -> str:
    """What a size far above the model's own will cost, "" for others and for those that were measured."""
    native = model.native_width * model.native_height
    ratio = shape.pixels / native if native else 0.0
    if ratio < (FAR_ABOVE_IN_PASSES if shape.before else FAR_ABOVE) or times.mean(model.id, shape) is not None:
        return ""
    size = size_words(shape)
    factor = figures.group(round(ratio)) if ratio >= 10 else figures.decimal(ratio)
    what = tr("{0} is {1} times the pixels this model was made for.", size, factor)
    known = computed(model.id, shape, times)
    if known is None:
        return sentences(what, tr("It can take very long."))
    about = figures.duration(known.seconds)
    if known.more_pixels:
        cost = tr("Computed from {0}: about {1}, or longer, as time may grow faster than pixels.", known.measured, about)
    else:
        cost = tr("Computed from {0}: about {1}.", known.measured, about)
    return sentences(what, cost)


class Computed(NamedTuple):
    """Seconds, what was measured to compute them from, and whether that had fewer pixels."""

    seconds: float
    measured: str
    more_pixels: bool


def computed(model: str, shape: Shape, times: Times) -> Computed | None:
    """In proportion to the pixels of all steps of the nearest measured shape; None where nothing was measured."""
    near = times.nearest(model, shape)
    if near is None:
        return None
    base, seconds = near
    measured = tr("{0} measured at {1}, {2} steps", figures.duration(seconds), size_words(base), base.steps)
    return Computed(seconds * shape.work / base.work, measured, shape.pixels > base.pixels)


def estimate(model: str, shape: Shape, count: int, times: Times, dtype: DType) -> tuple[str, str]:
    """The time of `count` pictures in this type, and where it comes from: measured, computed and said to be so, or neither."""
    known, other = times.mean(model, shape), computed(model, shape, times)
    if known is not None:
        total = figures.duration(known[0] * count)
        tip = tr(
            "Measured with your last {0} pictures of this size.", known[1], one="Measured with your last picture of this size."
        )
        return (tr("About {0}", total) if count == 1 else tr("About {0} for {1} pictures", total, count)), tip
    if other is not None:
        return tr("About {0}, computed", figures.duration(other.seconds * count)), tr("Computed from {0}.", other.measured)
    return tr("Time not measured yet"), tr("No picture like this was made in {0} yet.", DTYPE_NAMES[dtype])


def size_words(shape: Shape) -> str:
    """1 024 × 768"""
    return f"{figures.group(shape.width)} × {figures.group(shape.height)}"
