"""The memory of the next picture, told before it is begun: counted, or measured with pictures like it, and whether it fits."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from halftone.contract.facts import MemoryFacts, ModelFacts, PictureFacts
from halftone.contract.request import PictureRequest
from halftone.contract.words import DType
from halftone.health.activations import Size
from halftone.health.memory import (
    Fit,
    Job,
    Measured,
    Need,
    Way,
    allowed,
    bytes_in,
    choose,
    decoder_scale,
    fit,
    largest_size,
    need,
    predict,
    tile_edge,
)
from halftone.health.passes import last_size
from halftone.library.networks import Network

Made = tuple[PictureFacts, PictureRequest]


class Forecast(NamedTuple):
    """peak: bytes on the device at the worst moment; pictures: with how many like it that was measured, 0: it is computed; free:
    bytes there, None where that is not known; largest: (width, height) of the largest of this shape that fits, where this does
    not.
    """

    peak: int
    pictures: int
    way: Way
    free: int | None
    fit: Fit | None
    largest: tuple[int, int] | None = None


class Next(NamedTuple):
    """The next picture: what is asked for, of which model, in which type, on what kind of device."""

    request: PictureRequest
    model: ModelFacts
    dtype: DType
    backend: str


def forecast(
    networks: Sequence[Network], picture: Next, memory: MemoryFacts | None, made: Iterable[Made] = ()
) -> Forecast | None:
    """made: finished pictures of the same model, device and precision; None where nothing is known of the networks."""
    if not any(one.work == "denoise" for one in networks):
        return None
    size = _size(picture.request, picture.model)
    tile = tile_edge(size, decoder_scale(networks))
    ways = _ways(picture)
    free = None if memory is None else max(0, memory.total - memory.others)
    plain, tiled = (_need(networks, picture, picture.request, size, edge) for edge in (0, tile))
    way = choose(ways, plain, tiled, free)
    known = [_measured(networks, picture, facts, request, tile) for facts, request in made if _alike(picture.request, request)]
    if way.offload == "none":
        told = predict(tiled if way.tiled else plain, filter(None, known))
    else:
        told = predict(Need((), 0, bytes_in(plain, tiled, way)), ())
    fits = None if free is None else fit(told.peak, free)
    largest = None
    if fits == "no" and free is not None:
        largest = _largest(networks, picture, size, ways, free)
    return Forecast(told.peak, told.pictures, way, free, fits, largest)


def _ways(picture: Next) -> tuple[Way, ...]:
    numerics = picture.request.numerics
    return allowed(numerics.vae_tiling, numerics.offload, on_cpu=picture.backend == "cpu", can_tile=True)


def _size(request: PictureRequest, model: ModelFacts) -> Size:
    first = request.width or model.native_width, request.height or model.native_height
    return Size(*last_size(request.hires, *first), request.num_frames or 1)


def _need(networks: Sequence[Network], picture: Next, request: PictureRequest, size: Size, tile: int) -> Need:
    guidance = picture.model.default_guidance if request.guidance is None else request.guidance
    wide = request.numerics.vae_float32 == "always"

    def dtype_of(network: Network) -> DType:
        return "float32" if wide and network.work == "decode" else picture.dtype

    return need(
        networks, Job(size, guided=guidance > 1, tile=tile), dtype_of, picture.backend, packed=request.numerics.fp8_storage
    )


def _measured(
    networks: Sequence[Network], picture: Next, facts: PictureFacts, request: PictureRequest, tile: int
) -> Measured | None:
    """Of a finished picture; None where its memory was not measured, or ended."""
    if facts.peak_memory is None or facts.shortages:
        return None
    edge = tile if facts.tiled else 0
    return Measured(_need(networks, picture, request, Size(facts.width, facts.height, facts.frames), edge), facts.peak_memory)


def _alike(wanted: PictureRequest, made: PictureRequest) -> bool:
    """Whether the same networks ran."""
    same = wanted.vae == made.vae and wanted.numerics.vae_float32 == made.numerics.vae_float32
    return same and [one.path for one in wanted.controls] == [one.path for one in made.controls]


def _largest(networks: Sequence[Network], picture: Next, size: Size, ways: Sequence[Way], free: int) -> tuple[int, int] | None:
    def peak(wanted: Size) -> int:
        tile = tile_edge(wanted, decoder_scale(networks))
        plain, tiled = (_need(networks, picture, picture.request, wanted, edge) for edge in (0, tile))
        return min(bytes_in(plain, tiled, way) for way in ways)

    found = largest_size(size, free, peak)
    return None if found is None else (found.width, found.height)
