"""A picture's need of device memory, whether it fits, and the cheapest way in which it does. Pure: no torch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor, sqrt
from typing import Final, Literal, NamedTuple

from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType, Offload, OffloadMode, VaeTiling
from halftone.health.forecasts import activations as counts
from halftone.library.families.known_families import reads_in_chunks
from halftone.library.families.networks import Network, Parts
from halftone.library.prompts.composed_prompts import composed, is_composed
from halftone.library.prompts.drawn_prompts import names_loras
from halftone.library.prompts.prompt_syntax import rules_of
from halftone.library.prompts.styles import styled
from halftone.library.resolution_bins import computed_size, joined_size

Fit = Literal["fits", "tight", "no"]

ITEM_BYTES: Final[dict[DType, int]] = {"float32": 4, "float16": 2, "bfloat16": 2}
NEAR: Final = 0.15
"""Share by which what is computed may differ from what is needed (tests/bench/bench_memory.py).

Of models of some megabytes it may be more: tensors below 32 MiB lie in the C library's heap, which on a CPU keeps much of what
was freed until a network is done (of Pocket at 512 x 512: 40 of 216 MB). Loading is not counted: SD 1.5 took 1.17 times its
weights while they became BF16, 1.01 times for FP32, and nothing where they run as they are stored: its first picture takes more.
"""
TIGHT: Final = 0.9
"""Share of the free memory above which a picture may fail, since what else happens on the device is not known."""
_MUCH: Final = 0.25
"""The same share where the memory is a processor's, shared with every other program."""
_LARGE: Final = 500_000_000
"""Numbers of a network that comes in blocks on a processor however much is free: whole it takes 2 GB in float32, and to fill that
for the first time takes as long as to make the blocks anew for each call (the UNet of SD 1.5: 0.98 to 1.4 times).
"""
_ON_A_CPU: Final = 1.25
"""Convolutions on a CPU reorder their inputs in a copy (a decoder measured: 1.24 and 1.27), their weights layer by layer."""
_BESIDE_ON_A_CPU: Final = 10_000_000
"""Bytes of a picture there at any size: kernels made for its shapes, and their work space (Pocket at 128 x 128)."""
_AT_ONCE: Final = ("AutoencoderKLTemporalDecoder", "PaellaVQModel", "VQModel")
"""Decoders without tiles."""
_UNPACKING: Final = 4
"""Bytes for each number of the layer that is being unpacked: float32, beside its type."""


class Job(NamedTuple):
    """A picture. tile: edge in pixels of the decoder's tiles, 0 for none; text: tokens of the prompt, None: the network's own;
    joined: a start picture whose tokens run beside those of the result; begun: a start picture begins the video; further: prompts
    composed with AND beyond what a call of the denoiser holds. Each is a call of its own: a ControlNet answers for all at once.
    """

    size: counts.Size
    guided: bool = True
    tile: int = 0
    text: int | None = None
    joined: counts.Size | None = None
    begun: bool = False
    further: int = 0

    @property
    def prompts(self) -> int:
        """All that is read, the negative one among them."""
        return (2 if self.guided else 1) + self.further


class Need(NamedTuple):
    """Bytes. weights: (network, its weights); the others: beside the weights while they compute; encode: the prompt. A start
    picture is encoded by the decoder's other half, and counted with it. levels: of `denoise` in each of the denoiser's stages:
    its largest blocks do not compute the most.
    """

    weights: tuple[tuple[Network, int], ...]
    denoise: int
    decode: int
    encode: int = 0
    levels: tuple[int, ...] = ()

    @property
    def resident(self) -> int:
        return sum(size for _, size in self.weights)

    @property
    def activations(self) -> int:
        """At the worst moment."""
        return max(self.encode, self.denoise, self.decode)

    @property
    def peak(self) -> int:
        """With everything on the device."""
        return self.resident + self.activations


class Way(NamedTuple):
    """Offload, and whether it is decoded in tiles. ahead: a network's next piece is brought while the one before computes."""

    offload: OffloadMode = "none"
    tiled: bool = False
    ahead: bool = True


PLAIN: Final = Way()


def need(
    networks: Sequence[Network], job: Job, dtype_of: Callable[[Network], DType], backend: str, *, packed: bool = False
) -> Need:
    """The need with all on the device. dtype_of: type of a network; packed: the model's own denoiser is stored in eight bits."""
    decoder = next((one for one in networks if one.work == "decode"), None)
    on_cpu = backend == "cpu"
    tokens = counts.read_tokens(networks, job.text)
    encode = denoise = decode = beside = 0
    shares: tuple[float, ...] = ()
    eight = {one.name for one in networks if packed and one.work == "denoise" and not one.own_file}
    for one in networks:
        item = ITEM_BYTES[dtype_of(one)]
        copied = one.largest if on_cpu or one.packed or one.name in eight else 0
        if one.work == "denoise":
            alive = counts.denoising(one, decoder, job.size, guided=job.guided, text=job.text, joined=job.joined, begun=job.begun)
            denoise = max(denoise, item * (alive + copied) + (_UNPACKING * one.largest if one.packed else 0))
            shares = counts.stage_shares(one) if one.stages else ()
        elif one.work == "control":
            beside += item * counts.controlling(one, decoder, job.size, prompts=job.prompts)
        elif one.work == "decode":
            alive = _in_tiles(counts.decoding, one, job.size, job.tile)
            if job.joined is not None:  # other given pictures take less than decoding
                alive = max(alive, _in_tiles(counts.encoding, one, job.joined, job.tile))
            decode = max(decode, round(item * (alive * (_ON_A_CPU if on_cpu else 1.0) + copied)))
        else:
            encode = max(encode, item * (counts.reading(one, tokens) + copied))

    def stored(one: Network) -> int:
        item = 1 if one.name in eight else ITEM_BYTES[dtype_of(one)]
        return one.packed_bytes + item * (one.parameters - one.packed) + ITEM_BYTES["float32"] * one.tables

    weights = tuple((one, stored(one)) for one in networks)
    kept = max((counts.keeping(one, tokens, prompts=job.prompts) for one in networks if one.work == "denoise"), default=0)
    waits = counts.waiting(decoder, job.size, guided=job.guided) + kept
    process = (_BESIDE_ON_A_CPU if on_cpu else 0) + ITEM_BYTES["float32"] * waits
    most = max(shares, default=1.0)
    staged = tuple(process + beside + round(denoise * share / most) for share in shares)
    return Need(weights, process + denoise + beside, process + decode, encode, staged)


def computed(model: ModelFacts, request: PictureRequest, size: counts.Size) -> counts.Size:
    """The size that is computed for this one."""
    return counts.Size(*computed_size(model, (size.width, size.height), request.options), size.frames)


def job_of(model: ModelFacts, request: PictureRequest, size: counts.Size, *, guided: bool, tile: int = 0) -> Job:
    """A request as a job. size: that is computed."""
    joined = None if request.image is None else joined_size(model, (size.width, size.height), request.options)
    begun = request.image is not None and size.frames > 1
    further = further_prompts(model, request, guided=guided)
    return Job(size, guided, tile, prompt_tokens(request), None if joined is None else counts.Size(*joined), begun, further)


def further_prompts(model: ModelFacts, request: PictureRequest, *, guided: bool) -> int:
    """Prompts composed with AND beyond what a call of the denoiser holds; without guidance the negative one is among them."""
    rules = rules_of(request.options)
    prompt = styled(request.prompt, request.negative, request.styles)[0]
    if not reads_in_chunks(model.family) or not is_composed(prompt, rules):
        return 0
    return len(composed(prompt, rules)) - guided


def prompt_tokens(request: PictureRequest) -> int | None:
    """Padded length of the prompt, where the request sets it."""
    asked = request.options.get("max_sequence_length")
    return asked if isinstance(asked, int) and not isinstance(asked, bool) else None


def kept_in_eight(request: PictureRequest) -> bool:
    """Whether eight bits count. Weights with LoRAs, chosen or still to be drawn, stay wide; that may be all of them."""
    return request.numerics.fp8_storage and not request.loras and not names_loras(request)


def _in_tiles(count: Callable[[Network, counts.Size], int], decoder: Network, size: counts.Size, tile: int) -> int:
    """Numbers of a whole picture, or of one tile and three copies of the picture (its tiles, its rows, the whole)."""
    if not tile or max(size.width, size.height) <= tile:
        return count(decoder, size)
    part = counts.Size(min(size.width, tile), min(size.height, tile), size.frames)
    return count(decoder, part) + 9 * size.pixels * size.frames


def bytes_in(plain: Need, tiled: Need, way: Way) -> int:
    """Bytes on the device at once in a way. plain, tiled: of the same picture, decoded at once and in tiles."""
    now = tiled if way.tiled else plain
    if way.offload == "none":
        return now.peak
    beside = {"encode": now.encode, "denoise": now.denoise, "control": now.denoise, "decode": now.decode}
    return max((_in_parts(one, size, way, beside[one.work], now.levels) for one, size in now.weights), default=now.activations)


def _in_parts(network: Network, size: int, way: Way, beside: int, levels: Sequence[int]) -> int:
    """Bytes of a network that comes to the device alone: the present weights, and its computation. A decoder computes the most on
    its last level, with the smallest weights: before that, pictures are at most half as large, and layers at most twice as wide.
    """
    if way.offload == "model" or not network.parameters:
        return size + beside
    ahead = way.ahead and network.work != "decode"
    stored = size - ITEM_BYTES["float32"] * network.tables

    def held(parts: Parts) -> int:
        blocks, layers = (parts.two_blocks, parts.two_layers) if ahead else (parts.block, parts.largest)
        return stored * (blocks if way.offload == "group" else layers) // network.parameters

    if network.work == "denoise" and len(levels) == len(network.stages) > 0:
        return max(held(stage) + level for stage, level in zip(network.stages, levels, strict=True))
    largest = held(Parts(network.two_blocks, network.two_layers, network.block, network.largest))
    if network.work == "decode" and network.stages:
        return max(held(network.stages[-1]) + beside, largest + beside // 2)
    return largest + beside


WAYS: Final = (
    PLAIN,
    Way("none", tiled=True),
    Way("model"),
    Way("model", tiled=True),
    Way("group"),
    Way("group", tiled=True),
    Way("sequential"),
    Way("sequential", tiled=True),
    Way("sequential", ahead=False),
    Way("sequential", tiled=True, ahead=False),
)
"""The cheapest first: tiles cost a little at the end of a picture, each offload more of every step."""


def allowed(tiling: VaeTiling, offload: Offload, *, on_cpu: bool, can_tile: bool) -> tuple[Way, ...]:
    """The ways that the settings and the device leave, the cheapest first. On a CPU there is nothing to offload from."""
    tiles = {"auto": (False, True), "always": (True,), "never": (False,)}[tiling if can_tile else "never"]
    kinds = ("none",) if on_cpu else ("none", "model", "group", "sequential") if offload == "auto" else (offload,)
    return tuple(way for way in WAYS if way.tiled in tiles and way.offload in kinds)


def tiles(networks: Iterable[Network]) -> bool:
    """Whether what decodes can do so in tiles."""
    return any(one.work == "decode" and one.kind not in _AT_ONCE for one in networks)


def choose(ways: Sequence[Way], plain: Need, tiled: Need, free: int | None) -> Way:
    """The cheapest way that fits into the free bytes; where none does, the one that needs the least. free: None: not known."""
    if free is None:
        return ways[0]
    fitting = next((way for way in ways if fit(bytes_in(plain, tiled, way), free) == "fits"), None)
    return fitting or min(ways, key=lambda way: bytes_in(plain, tiled, way))


def from_first_fit(
    modes: Sequence[OffloadMode], plain: Need, decoded_in_tiles: Need, free: int, *, tiled: bool
) -> tuple[OffloadMode, ...]:
    """The modes from the first fitting one on, the cheapest first. Where none fits: the last alone; nothing without a choice."""
    for index, mode in enumerate(modes):
        if bytes_in(plain, decoded_in_tiles, Way(mode, tiled)) <= free:
            return tuple(modes[index:])
    return tuple(modes[1:][-1:])


def in_blocks(sizes: Mapping[str, int], free: int, *, on_cpu: bool) -> set[str]:
    """Networks that a check computes block by block: those that would take much of the free bytes whole in float32, or are large
    on a processor, and then others that are not small: they are there at once. sizes: numbers of each.
    """
    wide = free / ITEM_BYTES["float32"]
    much = min(_MUCH * wide, _LARGE) if on_cpu else TIGHT * wide
    least = much / 4 if any(size > much for size in sizes.values()) else much
    return {name for name, size in sizes.items() if size > least}


def fit(peak: int, free: int) -> Fit:
    """Whether so many bytes fit into the free ones."""
    return "fits" if peak <= TIGHT * free else "tight" if peak <= free else "no"


def tile_edge(size: counts.Size, scale: int = 8) -> int:
    """Edge of a tile in pixels: 512, of smaller pictures about half; a multiple of one latent."""
    half = max(size.width, size.height) // 2
    return max(8 * scale, min(512, half) // (8 * scale) * 8 * scale)


class Measured(NamedTuple):
    """A finished picture: its computed need, and its measured peak."""

    computed: Need
    peak: int


class Prediction(NamedTuple):
    """Bytes, and the number of pictures of this kind in the measurement; 0: computed."""

    peak: int
    pictures: int = 0


def predict(computed: Need, measured: Iterable[Measured]) -> Prediction:
    """The measured peak of pictures with the same needs, else the computed one, corrected by the nearest measurement."""
    known = [one for one in measured if one.peak > 0 and one.computed.resident == computed.resident]
    same = [one.peak for one in known if one.computed.activations == computed.activations]
    if same:
        return Prediction(max(same), len(same))
    near = min(known, key=lambda one: abs(one.computed.activations - computed.activations), default=None)
    if near is None or not near.computed.activations:
        return Prediction(computed.peak)
    ratio = (near.peak - near.computed.resident) / near.computed.activations
    return Prediction(computed.resident + round(computed.activations * min(2.0, max(0.5, ratio))))


def largest_size(size: counts.Size, free: int, peak_of: Callable[[counts.Size], int], multiple: int = 64) -> counts.Size | None:
    """The largest fitting picture of about the same shape; None where not even the smallest fits. multiple: of its edges."""

    def scaled(area: float) -> counts.Size:
        factor = sqrt(area / size.pixels)
        width, height = (max(multiple, floor(edge * factor / multiple) * multiple) for edge in (size.width, size.height))
        return counts.Size(width, height, size.frames)

    low, high = float(multiple**2), float(size.pixels)
    if peak_of(scaled(low)) > TIGHT * free:
        return None
    while high - low > multiple**2:
        middle = (low + high) / 2
        low, high = (middle, high) if peak_of(scaled(middle)) <= TIGHT * free else (low, middle)
    return scaled(low)


def decoder_scale(networks: Iterable[Network]) -> int:
    """Pixels per latent along one edge."""
    return counts.latent_scale(next((one for one in networks if one.work == "decode"), None))
