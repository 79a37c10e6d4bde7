"""The memory of the next picture before it begins: computed, or measured with similar pictures, and whether it fits."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from halftone.contract.facts import MemoryFacts, ModelFacts, PictureFacts
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType
from halftone.health.forecasts import memory_forecast
from halftone.health.forecasts.activations import Size
from halftone.health.pictures.passes import last_size
from halftone.library.families.networks import Network, files_in
from halftone.library.prompts.composed_prompts import is_composed
from halftone.library.prompts.prompt_syntax import rules_of

Made = tuple[PictureFacts, PictureRequest]


class Forecast(NamedTuple):
    """peak: bytes on the device at the worst moment; pictures: number of similar ones in the measurement, 0: computed; free:
    bytes there, None: not known; largest: (width, height) of the largest fitting one of this shape, where this does not fit.
    """

    peak: int
    pictures: int
    way: memory_forecast.Way
    free: int | None
    fit: memory_forecast.Fit | None
    largest: tuple[int, int] | None = None


class Next(NamedTuple):
    """The next picture: request, model, type, and kind of device."""

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
    request, model = picture.request, picture.model
    first = request.width or model.native_width, request.height or model.native_height
    size = Size(*last_size(request.hires, *first), request.num_frames or 1)
    numerics, on_cpu, can_tile = request.numerics, picture.backend == "cpu", memory_forecast.tiles(networks)
    ways = memory_forecast.allowed(numerics.vae_tiling, numerics.offload, on_cpu=on_cpu, can_tile=can_tile)
    free = None if memory is None else max(0, memory.total - memory.others)
    plain, tiled = _needs(networks, picture, picture.request, size)
    way = memory_forecast.choose(ways, plain, tiled, free)
    wanted = files_in(request.extras, model), numerics.vae_float32  # with these alike, the same networks ran
    alike = (one for one in made if (files_in(one[1].extras, model), one[1].numerics.vae_float32) == wanted)
    known = (_measured(networks, picture, way, *one) for one in alike)
    told = memory_forecast.predict(_need_in(plain, tiled, way), filter(None, known))
    fits = None if free is None else memory_forecast.fit(told.peak, free)
    largest = None
    if fits == "no" and free is not None:
        largest = _largest(networks, picture, size, ways, free)
    return Forecast(told.peak, told.pictures, way, free, fits, largest)


def memory_key(request: PictureRequest, model: ModelFacts) -> bytes:
    """The same for requests that need the same memory: without what a forecast does not depend on."""
    composes = is_composed(request.prompt, rules_of(request.options))
    alike = replace(
        request,
        prompt=request.prompt if request.numerics.fp8_storage or composes else "",  # it may name LoRAs
        negative="",
        steps=None,
        guidance=2.0 if _guided(request, model) else 1.0,
        sampler=None,
        seed=None,
        batch=1,
        variation_seed=None,
        variation_strength=0.0,
    )
    return msgspec.msgpack.encode(alike)


def _guided(request: PictureRequest, model: ModelFacts) -> bool:
    return (model.default_guidance if request.guidance is None else request.guidance) > 1


def _needs(
    networks: Sequence[Network], picture: Next, request: PictureRequest, size: Size
) -> tuple[memory_forecast.Need, memory_forecast.Need]:
    """Decoded at once, and in tiles. size: that was asked for."""
    size = memory_forecast.computed(picture.model, request, size)
    edges = 0, memory_forecast.tile_edge(size, memory_forecast.decoder_scale(networks))
    plain, tiled = (_need(networks, picture, request, size, edge) for edge in edges)
    return plain, tiled


def _need_in(plain: memory_forecast.Need, tiled: memory_forecast.Need, way: memory_forecast.Way) -> memory_forecast.Need:
    """Offloaded, no weights are there all the time."""
    if way.offload == "none":
        return tiled if way.tiled else plain
    return memory_forecast.Need((), 0, memory_forecast.bytes_in(plain, tiled, way))


def _need(networks: Sequence[Network], picture: Next, request: PictureRequest, size: Size, tile: int) -> memory_forecast.Need:
    wide = request.numerics.vae_float32 == "always"

    def dtype_of(network: Network) -> DType:
        return "float32" if wide and network.work == "decode" else picture.dtype

    job = memory_forecast.job_of(picture.model, request, size, guided=_guided(request, picture.model), tile=tile)
    return memory_forecast.need(networks, job, dtype_of, picture.backend, packed=memory_forecast.kept_in_eight(request))


def _measured(
    networks: Sequence[Network], picture: Next, way: memory_forecast.Way, facts: PictureFacts, request: PictureRequest
) -> memory_forecast.Measured | None:
    """The measurement of a finished picture; None where there is none, memory ended, or other parts of the model were there."""
    if facts.peak_memory is None or facts.shortages or facts.offload != way.offload or request.refiner is not None:
        return None
    plain, tiled = _needs(networks, picture, request, Size(facts.width, facts.height, facts.frames))
    return memory_forecast.Measured(
        _need_in(plain, tiled, memory_forecast.Way(facts.offload, tiled=facts.tiled)), facts.peak_memory
    )


def _largest(
    networks: Sequence[Network], picture: Next, size: Size, ways: Sequence[memory_forecast.Way], free: int
) -> tuple[int, int] | None:
    def peak(wanted: Size) -> int:
        plain, tiled = _needs(networks, picture, picture.request, wanted)
        return min(memory_forecast.bytes_in(plain, tiled, way) for way in ways)

    found = memory_forecast.largest_size(size, free, peak)
    return None if found is None else (found.width, found.height)
