"""How a job is made to fit into the device's memory: what it needs, the way that is chosen, and the next cheaper one."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, ModelFacts, SelfTestReport, Shortage
from halftone.contract.request import Numerics, PictureRequest, ResolvedRequest
from halftone.contract.vocabulary import DType, OffloadMode, Phase
from halftone.contract.wording import Words
from halftone.engine.inputs.video_inputs import expected_frames
from halftone.engine.loading.in_memory import freed
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import any_component
from halftone.engine.weights.offload import leave_device, put_offload
from halftone.engine.weights.parts import role, tensor_bytes
from halftone.health.faults import first_line, forget_frames, is_out_of_memory
from halftone.health.forecasts.activations import Size
from halftone.health.forecasts.memory_forecast import (
    Need,
    Way,
    allowed,
    bytes_in,
    choose,
    computed,
    decoder_scale,
    fit,
    from_first_fit,
    job_of,
    kept_in_eight,
    largest_size,
    need,
    tile_edge,
)
from halftone.health.pictures.passes import last_size
from halftone.health.precision import granted_to
from halftone.library.families.networks import Network, known_networks
from halftone.measure.devices import memory
from halftone.settings.disk import size_text

log = logging.getLogger(__name__)

Found = TypeVar("Found")

_NAMES: Final[dict[OffloadMode, str]] = {"model": "Model", "group": "Group", "sequential": "Sequential"}
"""The setting's names for its choices."""
_OFFLOADED: Final = "Offload ({0}): all at once would need about {1}, more than is free."
_TILED: Final = "The VAE decodes in tiles: without them about {0} would be needed, more than is free."


class Reference(NamedTuple):
    """A way to see what a component gives where nothing overflows: in which type, and how the model is offloaded meanwhile."""

    dtype: DType
    mode: OffloadMode


@dataclass
class Room:
    """The memory of one job. size: asked for; way: how pictures are made now; others_leave: unloads other models, and returns
    whether there were any; tile: edge in pixels; plain, tiled: what a picture needs on the device, decoded at once or in tiles.
    """

    loaded: Loaded
    device: DeviceFacts
    request: PictureRequest
    size: Size
    guided: bool
    dtypes: Mapping[str, DType]
    networks: tuple[Network, ...]
    way: Way = field(default_factory=Way)
    tried: set[Way] = field(default_factory=set[Way])
    others_leave: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._ways = allowed(
            self.request.numerics.vae_tiling,
            self.request.numerics.offload,
            on_cpu=not self.loaded.places.apart,
            can_tile=can_tile(self._decoder()),
        )
        self.tile = tile_edge(computed(self.loaded.facts, self.request, self.size), decoder_scale(self.networks))
        self.plain, self.tiled = self._need(self.size, 0), self._need(self.size, self.tile)

    def afresh(self, others_leave: Callable[[], bool]) -> "Room":
        """The same for another job, as if nothing was placed yet."""
        other = copy(self)
        other.way, other.tried, other.others_leave = Way(), set(), others_leave
        return other

    def settle(self, free: int, place: Callable[[], object] = lambda: None) -> tuple[Words, ...]:
        """Choose the cheapest way that fits into the free bytes and put it into force; its reasons. place: as `bring` has it."""
        self.put(choose(self._ways, self.plain, self.tiled, free if self.networks else None))
        return self.bring(place)

    def bring(self, place: Callable[[], object]) -> tuple[Words, ...]:
        """Place the weights, in a cheaper way where they do not fit; return its reasons. Raises model-too-large."""
        while True:
            try:
                place()
                return self.reasons()
            except (RuntimeError, MemoryError, HalftoneError) as error:
                if not (is_too_large(error) or is_out_of_memory(error)):
                    raise
                free_after(error)
                if not self.others_leave() and not self.offload_more():
                    raise

    def offload_more(self) -> bool:
        """The next way that offloads more is in force from now on, if there is one."""
        return self._put_cheaper("encode")

    def references(self, name: str, *, bfloat16: bool) -> tuple[Reference, ...]:
        """The ways to see a component in a wide type, the cheapest that fits first: float32 as the model is placed, then with
        more of it offloaded, then bfloat16. bfloat16: whether the device has it.
        """
        after = self._ways[self._ways.index(self.way) :] if self.way in self._ways else self._ways
        modes: tuple[OffloadMode, ...] = tuple(dict.fromkeys(way.offload for way in after))
        if self.networks:
            wide = replace(self, dtypes={**self.dtypes, name: "float32"})
            modes = from_first_fit(modes, wide.plain, wide.tiled, free_bytes(self.loaded), tiled=self.way.tiled)
        last = modes[-1] if modes else self.way.offload
        narrow = (Reference("bfloat16", last),) if bfloat16 else ()
        return (*(Reference("float32", mode) for mode in modes), *narrow) or (Reference("float32", self.way.offload),)

    def reasons(self) -> tuple[Words, ...]:
        """Reasons for all that is not plain now. The words are the same each time: they stand in the picture's file."""
        numerics = self.request.numerics
        reasons: list[Words] = []
        if self.way.offload != "none" and numerics.offload == "auto":
            named, all_at_once = _NAMES[self.way.offload], size_text(self.plain.peak)
            reasons.append(Words(_OFFLOADED, (Words(named), all_at_once), about="run"))
        if self.way.tiled and numerics.vae_tiling == "always":
            reasons.append(Words("The VAE decodes in tiles: VAE tiling is set to Always.", about="run"))
        elif self.way.tiled:
            whole = size_text(bytes_in(self.plain, self.tiled, Way(self.way.offload)))
            reasons.append(Words(_TILED, (whole,), about="run"))
        return tuple(reasons)

    def put(self, way: Way) -> None:
        """Make the pictures this way from now on."""
        self.way = way
        self.loaded.places.ahead = way.ahead
        put_offload(self.loaded.places, way.offload, packed=self.request.numerics.fp8_storage)
        self.tried.add(way)
        if (decoder := self._decoder()) is not None:
            put_tiling(decoder, self.tile if way.tiled else 0)

    def make(self, phase: str, step: int | None) -> Shortage:
        """The memory ended there: the next cheaper way is in force from now on, if there is one."""
        before = self.way
        if not self._put_cheaper(phase):
            return self.stopped(phase, step)
        return self._shortage(phase, step, "tiles" if _but_for_tiles(self.way, before) else "offload")

    def stopped(self, phase: str, step: int | None) -> Shortage:
        """The memory ended there, and the picture with it."""
        told = self._shortage(phase, step, "stopped")
        if not self.networks:
            return told
        free, needed = free_bytes(self.loaded), self._least(self.plain, self.tiled)
        return msgspec.structs.replace(told, fits=self._largest(free), needed=needed, free=free)

    def _shortage(self, phase: str, step: int | None, then: str) -> Shortage:
        width, height = self.size.width, self.size.height
        return Shortage(phase=cast("Phase", phase or "encode"), step=step, then=then, width=width, height=height)

    def _put_cheaper(self, phase: str) -> bool:
        """Move to the next cheaper way and offload everything that does not run; False where none is left. That takes memory
        itself, so a way that fails is skipped.
        """
        while (way := self._cheaper(phase)) is not None:
            self.tried.add(way)
            try:
                self.put(way)
                leave_device(self.loaded.places, self.loaded.modules.values())
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                free_after(error)
            else:
                return True
        return False

    def _cheaper(self, phase: str) -> Way | None:
        """The next way that takes less in this phase and was not tried yet. Tiles help only where something is decoded."""
        after = self._ways[self._ways.index(self.way) + 1 :] if self.way in self._ways else self._ways
        left = (way for way in after if way not in self.tried and (phase == "decode" or not _but_for_tiles(way, self.way)))
        return next(left, None)

    def _least(self, plain: Need, tiled: Need) -> int:
        """Bytes of the way that needs the least."""
        return min(bytes_in(plain, tiled, way) for way in self._ways)

    def _largest(self, free: int) -> tuple[int, int] | None:
        """The largest (width, height) of this shape that fits into the free bytes in the cheapest way; None where none does."""

        def peak(size: Size) -> int:
            return self._least(self._need(size, 0), self._need(size, self.tile))

        found = largest_size(self.size, free, peak)
        smaller = found is not None and found.pixels < self.size.pixels
        return (found.width, found.height) if found is not None and smaller else None

    def _need(self, size: Size, tile: int) -> Need:
        model = self.loaded.facts
        return need(
            self.networks,
            job_of(model, self.request, computed(model, self.request, size), guided=self.guided, tile=tile),
            self._dtype,
            self.device.backend,
            packed=kept_in_eight(self.request),
        )

    def _dtype(self, network: Network) -> DType:
        return self.dtypes.get("controlnet" if network.work == "control" else network.name, "float32")

    def _decoder(self) -> nn.Module | None:
        found = any_component(self.loaded, "decode")
        return None if found is None else found[1]


def room_of(
    loaded: Loaded,
    device: DeviceFacts,
    request: PictureRequest,
    resolved: ResolvedRequest,
    frames: int,
    dtypes: Mapping[str, DType],
) -> Room:
    """Make the room for a job that is about to begin. dtypes: of its plan."""
    size = Size(*last_size(request.hires, resolved.width, resolved.height), frames)
    return Room(loaded, device, request, size, resolved.guidance > 1, dtypes, loaded.networks)


def settle_at_rest(
    loaded: Loaded, device: DeviceFacts, numerics: Numerics, dtypes: Mapping[str, DType], place: Callable[[], object]
) -> None:
    """Place a model that was just loaded as its first picture will need it: one of its own size. Raises model-too-large."""
    facts = loaded.facts
    size = Size(facts.native_width, facts.native_height, expected_frames(loaded.pipe, None))
    request = PictureRequest(prompt="", numerics=numerics)
    Room(loaded, device, request, size, facts.default_guidance > 1, dtypes, loaded.networks).settle(free_bytes(loaded), place)


def fit_together(
    models: Sequence[tuple[ModelFacts, PictureRequest]],
    device: DeviceFacts,
    tested: SelfTestReport | None,
    there: Sequence[Loaded],
) -> bool:
    """Whether all models can stay in memory while pictures are made with them in turns: their weights, and what the one in use
    computes. An unknown need does not fit. models: each with its request; there: in memory now.
    """
    numerics = models[0][1].numerics
    needs = [
        _need_of(facts, request, granted_to(numerics, tested, device, facts, request.extras)[0], device.backend)
        for facts, request in models
    ]
    now = memory(device.id)
    free = now.total - now.others
    if device.backend == "cpu":
        free += sum(map(weight_bytes, there)) - now.own
    known = all(one.resident for one in needs) and numerics.offload in ("auto", "none")
    return known and fit(sum(one.resident for one in needs) + max(one.activations for one in needs), free) == "fits"


def _need_of(facts: ModelFacts, request: PictureRequest, dtype: DType, backend: str) -> Need:
    asked = last_size(request.hires, request.width or facts.native_width, request.height or facts.native_height)
    job = job_of(facts, request, computed(facts, request, Size(*asked)), guided=True)
    networks = known_networks(facts, request.extras)
    return need(networks, job, lambda _: dtype, backend, packed=kept_in_eight(request))


def _but_for_tiles(way: Way, other: Way) -> bool:
    """Whether two ways are the same, whatever of them decodes in tiles."""
    return way._replace(tiled=other.tiled) == other


def can_tile(decoder: nn.Module | None) -> bool:
    return decoder is not None and hasattr(decoder, "use_tiling")


def is_too_large(error: BaseException) -> bool:
    """Whether it says that the weights do not fit into the device's memory."""
    return isinstance(error, HalftoneError) and error.code == "model-too-large"


def put_tiling(decoder: Any, edge: int) -> None:
    """Decode in tiles of so many pixels along an edge, frame by frame; 0: the whole at once."""
    if not can_tile(decoder):
        return
    sliced = hasattr(decoder, "use_slicing")
    if not edge:
        decoder.disable_tiling()
        if sliced:
            decoder.disable_slicing()
        return
    sizes = inspect.signature(decoder.enable_tiling).parameters
    told = {"tile_sample_min_height": edge, "tile_sample_min_width": edge}
    told |= {"tile_sample_stride_height": edge * 3 // 4, "tile_sample_stride_width": edge * 3 // 4}
    decoder.enable_tiling(**{name: value for name, value in told.items() if name in sizes})
    if hasattr(decoder, "tile_latent_min_size") and isinstance(decoder.tile_sample_min_size, int):
        scale = 2 ** (len(decoder.config.block_out_channels) - 1)
        decoder.tile_sample_min_size, decoder.tile_latent_min_size = edge, edge // scale
    if sliced:
        decoder.enable_slicing()


def free_bytes(loaded: Loaded) -> int:
    """Bytes that the networks and what they compute may take together on the device."""
    now = memory(str(loaded.device))
    if loaded.device.type != "cpu":
        return max(0, now.total - now.others)
    return max(0, now.total - now.others - now.own) + weight_bytes(loaded)


def weight_bytes(loaded: Loaded) -> int:
    """Bytes of all networks as they are in memory now."""
    return sum(tensor_bytes(module) for name, module in loaded.modules.items() if role(name, module) != "other")


def free_after(error: BaseException) -> None:
    """Free what a failed call left: tensors of its frames, and the caches of torch and the C library."""
    forget_frames(error)
    freed()


def first_that_fits(loaded: Loaded, ways: Sequence[Reference], run: Callable[[Reference], Found]) -> Found:
    """Run in the first way that fits in memory, then offload as before. Raises the last shortage where no way fits."""
    places, before = loaded.places, loaded.places.mode
    try:
        for index, way in enumerate(ways):
            try:
                if way.mode != places.mode:
                    put_offload(places, way.mode)
                    leave_device(places, loaded.modules.values())
                return run(way)
            except (RuntimeError, MemoryError, HalftoneError) as error:
                if index == len(ways) - 1 or not is_shortage(error):
                    raise
                log.info("%s with offload %s does not fit: %s", way.dtype, way.mode, first_line(error))
                free_after(error)
    finally:
        put_offload(places, before)
    raise AssertionError("no way to run it")


def is_shortage(error: BaseException) -> bool:
    """Whether the memory ended, as torch or Python raises it or as a part of a model that is too large."""
    return is_out_of_memory(error) or is_too_large(error)


def once_more(work: Callable[[], Found]) -> Found:
    """What the work gives; where the memory ends in it, it is done a second time after what it left was given back."""
    try:
        return work()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        free_after(error)
    return work()
