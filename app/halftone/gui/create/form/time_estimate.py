"""How long a picture takes and what a size costs, in words."""

from halftone.contract.facts import ModelFacts
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.session.pictures.picture_time import Computed, Shape, Times, computed, far_above


def size_warning(model: ModelFacts, shape: Shape, times: Times) -> str:
    """What a size far above the model's own will cost, "" for others and for those that were measured."""
    ratio = far_above(model, shape)
    if not ratio or times.mean(model.id, shape) is not None:
        return ""
    size = size_words(shape)
    factor = figures.group(round(ratio)) if ratio >= 10 else figures.decimal(ratio)
    what = tr("{0} has {1} times the native pixels.", size, factor)
    known = computed(model.id, shape, times)
    if known is None:
        return sentences(what, tr("This may take very long."))
    measured, about = _base_words(known), figures.duration(known.seconds)
    if known.longer(shape):
        about = tr("{0} or longer", about)
    return sentences(what, tr("{0}.", tr("About {0}", about)), tr("Estimated from {0}.", measured))


def _base_words(known: Computed) -> str:
    return tr("{0} at {1}, {2} steps", figures.duration(known.measured), size_words(known.base), known.base.steps)


def estimate(model: str, shape: Shape, count: int, times: Times, dtype: DType) -> tuple[str, str]:
    """The time of `count` pictures in this type, and where it comes from: measured, computed and said to be so, or neither."""
    known, other = times.mean(model, shape), computed(model, shape, times)
    if known is not None:
        total = figures.duration(known[0] * count)
        tip = tr("Measured on {0} pictures of this size.", known[1], one="Measured at this size.")
        return (tr("About {0}", total) if count == 1 else tr("About {0} for {1} pictures", total, count)), tip
    if other is not None:
        return tr("About {0}, estimated", figures.duration(other.seconds * count)), tr("Estimated from {0}.", _base_words(other))
    return tr("Time unknown"), tr("No similar picture in {0} yet.", DTYPE_NAMES[dtype])


def size_words(shape: Shape) -> str:
    return figures.pixels(shape.width, shape.height)
