"""Whether the next picture fits the memory of its device. Pure: the window and the terminal ask the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from halftone.contract.facts import DeviceFacts, MemoryFacts, ModelFacts
from halftone.contract.request import Extras, PictureRequest
from halftone.contract.vocabulary import DType
from halftone.health.forecasts.memory_forecast import NEAR
from halftone.health.forecasts.picture_memory import Forecast, Made, Next, forecast
from halftone.library.families.networks import Network, files_in
from halftone.session.pictures.picture_time import Shape

NetworkKey = tuple[str, str, tuple[tuple[str, ...], ...]]
"""A model's id and fingerprint, and the files beside it: where they are the same, so are the networks."""


@dataclass(frozen=True, kw_only=True)
class Networks:
    """What the networks of the next picture need. networks: () while they are read; accepted: what the user wants to try though
    it does not fit.
    """

    key: NetworkKey | None = None
    networks: tuple[Network, ...] = ()
    accepted: frozenset[tuple[Shape, DType]] = frozenset()


class Shortage(NamedTuple):
    """A picture that does not fit: bytes that it needs, bytes that are free, and the largest that fits, where that is known."""

    shape: Shape
    needed: int
    free: int
    largest: Shape | None


def network_key(model: ModelFacts, extras: Extras) -> NetworkKey:
    return model.id, model.fingerprint, files_in(extras, model)


def memory_estimate(
    picture: tuple[PictureRequest, ModelFacts, DType],
    device: DeviceFacts,
    networks: Sequence[Network],
    memory: MemoryFacts | None,
    made: Iterable[Made] = (),
) -> Forecast | None:
    """The peak memory of a picture and whether it fits; None where its networks are not known. made: finished pictures of the
    same model, device and precision.
    """
    return forecast(networks, Next(*picture, device.backend), memory, made)


def shortage(shape: Shape, found: Forecast | None) -> Shortage | None:
    """What is missing; None where the picture fits, or where that is not known."""
    if found is None or found.fit != "no" or found.free is None:
        return None
    largest = None if found.largest is None else Shape(*found.largest, shape.steps)
    return Shortage(shape, found.peak, found.free, largest)


def lacks_memory(peak: int, most: int | None, free: int | None) -> Literal["sure", "likely"] | None:
    """Whether a picture that needs so many bytes lacks memory: surely, where a job can never have as much, allowing for the error
    of what is computed; likely, where less is free now. None of them is known where it is None.
    """
    if most is not None and peak * (1 - NEAR) > most:
        return "sure"
    return "likely" if free is not None and peak > free else None
