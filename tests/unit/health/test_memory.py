"""What a picture needs of the memory, whether it fits, and the way that is chosen: tables of what was counted and measured."""

from typing import Any

import pytest
from msgspec import structs

from halftone.contract.vocabulary import DType, OffloadMode
from halftone.health.forecasts.activations import Size, decoding, denoising, latent_frames, latent_scale, way_up
from halftone.health.forecasts.memory_forecast import (
    PLAIN,
    WAYS,
    Job,
    Measured,
    Need,
    Prediction,
    Way,
    allowed,
    bytes_in,
    choose,
    fit,
    from_first_fit,
    in_blocks,
    largest_size,
    need,
    predict,
    tile_edge,
)
from halftone.library.families.networks import Network, Parts

SD1: dict[str, Any] = {
    "block_out_channels": [320, 640, 1280, 1280],
    "layers_per_block": 2,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
}
SDXL: dict[str, Any] = {
    "block_out_channels": [320, 640, 1280],
    "layers_per_block": 2,
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
}
KL: dict[str, Any] = {"block_out_channels": [128, 256, 512, 512]}
HUNYUAN: dict[str, Any] = {"block_out_channels": [128, 256, 512, 512, 1024, 1024], "spatial_compression_ratio": 32}
SD3: dict[str, Any] = {"patch_size": 2, "num_attention_heads": 24, "attention_head_dim": 64}
FLUX: dict[str, Any] = {"patch_size": 1, "num_attention_heads": 24, "attention_head_dim": 128}


def network(work: Any, kind: str, parameters: int, config: dict[str, Any], **more: Any) -> Network:
    return Network(name=work, work=work, kind=kind, parameters=parameters, config=config, **more)


VAE = network(
    "decode",
    "AutoencoderKL",
    80_000_000,
    KL,
    largest=2_400_000,
    block=8_000_000,
    two_layers=4_800_000,
    two_blocks=16_000_000,
    blocks=10,
)
STAGES = (
    Parts(75_000_000, 44_000_000, 40_000_000, 29_000_000),
    Parts(30_000_000, 20_000_000, 20_000_000, 10_000_000),
    Parts(20_000_000, 9_000_000, 10_000_000, 5_000_000),
    Parts(8_000_000, 3_000_000, 4_000_000, 2_000_000),
)
UNET = network(
    "denoise",
    "UNet2DConditionModel",
    860_000_000,
    SD1,
    largest=29_000_000,
    block=40_000_000,
    two_layers=44_000_000,
    two_blocks=75_000_000,
    stages=STAGES,
    blocks=20,
)
TEXT = network(
    "encode",
    "CLIPTextModel",
    120_000_000,
    {},
    largest=38_000_000,
    block=38_000_000,
    two_layers=40_000_000,
    two_blocks=45_000_000,
    blocks=12,
)
MODEL = (TEXT, UNET, VAE)


def latents(edge: int) -> int:
    """Bytes of a guided pair's latents that lie beside what is called."""
    return 4 * 15 * 4 * (edge // 8) ** 2


def half(_: Network) -> DType:
    return "float16"


@pytest.mark.parametrize(
    ("kind", "config", "latents", "counted"),
    [
        ("UNet2DConditionModel", SD1, 32, 8383.3),
        ("UNet2DConditionModel", SD1, 64, 8338.8),
        ("UNet2DConditionModel", SD1, 128, 8327.7),
        ("UNet2DConditionModel", SDXL, 64, 5083.2),
        ("UNet2DConditionModel", SDXL, 128, 5053.8),
    ],
)
def test_a_unet_needs_what_a_tally_of_its_tensors_counted(
    kind: str, config: dict[str, Any], latents: int, counted: float
) -> None:
    """counted: numbers per latent pixel and picture of the guided pair, on torch's meta device."""
    size = Size(8 * latents, 8 * latents)
    told = denoising(network("denoise", kind, 1, config), VAE, size, guided=True)
    assert told / (2 * latents**2) == pytest.approx(counted, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "config", "guided", "counted"),
    [
        ("SD3Transformer2DModel", SD3, True, 2 * 12.45 * (4096 + 333) * 1536),
        ("FluxTransformer2DModel", FLUX, True, 17.34 * (4096 + 512) * 3072),
        ("PixArtTransformer2DModel", {**SD3, "num_attention_heads": 16, "attention_head_dim": 72}, True, 2 * 12.15 * 4096 * 1152),
        ("SD3Transformer2DModel", SD3, False, 12.45 * (4096 + 333) * 1536),
    ],
)
def test_a_transformer_needs_what_a_tally_of_its_tensors_counted(
    kind: str, config: dict[str, Any], guided: bool, counted: float
) -> None:
    told = denoising(network("denoise", kind, 1, config), VAE, Size(1024, 1024), guided=guided)
    assert told == pytest.approx(counted, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "config", "counted"),
    [
        ("AutoencoderKL", KL, 768.06),
        ("AutoencoderDC", {"decoder_block_out_channels": [128, 256, 512, 512, 1024, 1024]}, 833.0),
        ("AutoencoderKLWan", {"base_dim": 96}, 1733.0),
        ("AutoencoderKL", {"block_out_channels": [128, 128, 128, 128]}, 640.06),
        ("VQModel", {"block_out_channels": [128, 256, 256, 512], "norm_type": "spatial"}, 1284.06),
        ("AutoencoderKLHunyuanImage", HUNYUAN, 448.05),
    ],
)
def test_a_decoder_needs_what_a_tally_of_its_tensors_counted(kind: str, config: dict[str, Any], counted: float) -> None:
    told = decoding(network("decode", kind, 1, config), Size(256, 256))
    assert told / 256**2 == pytest.approx(counted, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "config", "frames", "counted"),
    [
        ("AutoencoderKLWan", {"base_dim": 96, "scale_factor_temporal": 4}, 5, 4872.0),
        ("AutoencoderKLWan", {"base_dim": 96, "scale_factor_temporal": 4}, 33, 5161.75),
        ("AutoencoderKLLTXVideo", {"block_out_channels": [128, 256, 512, 512], "patch_size": 4}, 25, 25 * 50.42),
        ("AutoencoderKLCogVideoX", {"block_out_channels": [128, 256, 256, 512], "temporal_compression_ratio": 4}, 9, 17187.25),
        ("AutoencoderKLCogVideoX", {"block_out_channels": [128, 256, 256, 512], "temporal_compression_ratio": 4}, 33, 22892.25),
    ],
)
def test_a_video_needs_what_a_tally_of_its_decoder_counted(
    kind: str, config: dict[str, Any], frames: int, counted: float
) -> None:
    """counted: numbers per pixel of a frame, whatever their number: they are decoded some at a time."""
    told = decoding(network("decode", kind, 1, config), Size(256, 256, frames))
    assert told / 256**2 == pytest.approx(counted, rel=0.05)


def test_the_latents_of_a_video_are_as_small_as_its_decoder_says() -> None:
    """Of LTX-Video: 32 pixels and 8 frames, told by its levels and patches."""
    scaling = {"spatio_temporal_scaling": [True, True, True, False], "patch_size": 4, "patch_size_t": 1}
    decoder = network("decode", "AutoencoderKLLTXVideo", 1, {**scaling, "block_out_channels": [128, 256, 512, 512]})
    assert (latent_scale(decoder), latent_frames(decoder, 97)) == (32, 13)


@pytest.mark.parametrize(("edge", "measured"), [(512, 1_023_602_688), (768, 2_257_907_712)])
def test_a_decoder_on_a_processor_needs_what_the_system_counted(edge: int, measured: int) -> None:
    """Resident bytes in FP32 beyond those of the weights."""
    told = need((VAE,), Job(Size(edge, edge)), lambda _: "float32", "cpu")
    assert told.decode == pytest.approx(measured, rel=0.05)


def test_weights_count_in_the_type_that_they_run_in() -> None:
    mixed = need(MODEL, Job(Size(512, 512)), lambda one: "float32" if one.work == "decode" else "float16", "cuda")
    assert mixed.resident == 2 * (120_000_000 + 860_000_000) + 4 * 80_000_000
    assert mixed.decode == 4 * 768 * 512**2 + latents(512)
    assert mixed.peak == mixed.resident + max(mixed.denoise, mixed.decode)


def test_tiles_need_one_tile_and_the_picture() -> None:
    whole, tiled = (need(MODEL, Job(Size(2048, 2048), tile=tile), half, "cuda") for tile in (0, 512))
    assert tiled.decode == 2 * (768 * 512**2 + 9 * 2048**2) + latents(2048)
    assert whole.decode > 6 * tiled.decode
    assert need(MODEL, Job(Size(512, 512), tile=512), half, "cuda").decode == 2 * 768 * 512**2 + latents(512)


@pytest.mark.parametrize(
    ("edges", "scale", "edge"),
    [
        ((1024, 1024), 8, 512),
        ((512, 512), 8, 256),
        ((768, 1344), 8, 512),
        ((32, 32), 2, 16),
        ((64, 64), 8, 64),
        ((2048, 512), 32, 512),
    ],
)
def test_a_tile_is_smaller_than_the_picture(edges: tuple[int, int], scale: int, edge: int) -> None:
    assert tile_edge(Size(*edges), scale) == edge


def test_each_way_holds_less_than_the_one_before_it() -> None:
    plain, tiled = (need(MODEL, Job(Size(1024, 1024), tile=tile), half, "cuda") for tile in (0, 512))
    untiled = [bytes_in(plain, tiled, way) for way in WAYS if not way.tiled]
    in_tiles = [bytes_in(plain, tiled, way) for way in WAYS if way.tiled]
    assert untiled == sorted(untiled, reverse=True)
    assert in_tiles == sorted(in_tiles, reverse=True)
    model = bytes_in(plain, tiled, Way("model", tiled=True))
    assert model == 2 * 860_000_000 + tiled.denoise
    assert tiled.levels[0] < tiled.levels[-1] == tiled.denoise
    assert bytes_in(plain, tiled, Way("group", tiled=True)) == 2 * 8_000_000 + tiled.denoise, "the last blocks compute the most"
    assert bytes_in(plain, tiled, Way("sequential", tiled=True, ahead=False)) == 2 * 2_000_000 + tiled.denoise


def test_a_transformer_holds_two_of_its_blocks_wherever_it_computes() -> None:
    flux = network("denoise", "FluxTransformer2DModel", 10**9, FLUX, two_blocks=10**8, two_layers=10**7)
    told = need((flux,), Job(Size(1024, 1024)), half, "cuda")
    assert bytes_in(told, told, Way("group")) == 2 * 10**8 + told.denoise
    assert bytes_in(told, told, Way("sequential")) == 2 * 10**7 + told.denoise


def test_blocks_of_two_streams_are_larger_and_compute_less() -> None:
    """FLUX.2's: what was counted on the card, a width of the tokens of 4608 of 512 numbers and the bytes of blocks."""
    stages = Parts(10_224_640, 3_407_872, 6_816_768, 2_359_296), Parts(6_815_744, 3_407_872, 3_407_872, 2_359_296)
    config = {"num_attention_heads": 32, "attention_head_dim": 16}
    flux2 = network("denoise", "Flux2Transformer2DModel", 15_000_000, config, two_blocks=10_224_640, stages=stages)
    told = need((flux2,), Job(Size(1024, 1024), guided=False), half, "cuda")
    two_streams, one = told.levels
    assert (two_streams - latents(1024) * 9 / 15) / (one - latents(1024) * 9 / 15) == pytest.approx(73.9 / 100.6, rel=0.02)
    held = bytes_in(told, told, Way("group"))
    assert held == max(two_streams + 2 * 10_224_640, one + 2 * 6_815_744) < told.denoise + 2 * 10_224_640


def test_a_video_that_begins_with_a_picture_is_told_a_time_for_each_token() -> None:
    """LTX-Video's, as the card counted them: numbers for a token and its width."""
    ltx = network("denoise", "LTXVideoTransformer3DModel", 1, {"num_attention_heads": 32, "attention_head_dim": 64})
    scaling = {"spatio_temporal_scaling": [True, True, True, False], "patch_size": 4, "patch_size_t": 1}
    decoder = network("decode", "AutoencoderKLLTXVideo", 1, {**scaling, "block_out_channels": [128, 256, 512, 512]})
    begun, alone = (need((ltx, decoder), Job(Size(512, 512, 97), begun=begun), half, "cuda") for begun in (True, False))
    assert (begun.denoise - alone.denoise) / (2 * 2 * 13 * 16**2 * 2048) == pytest.approx(29.1 - 16.3, rel=0.02)
    assert begun.decode == alone.decode


def test_a_unet_whose_attention_stands_alone_computes_less_where_its_blocks_are_large() -> None:
    """Kandinsky 2.2's: what the card counted for a latent pixel of one of the guided pair, on both levels of the way up."""
    config = {
        "block_out_channels": [128, 256],
        "layers_per_block": 1,
        "up_block_types": ["SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"],
    }
    told = way_up(network("denoise", "UNet2DConditionModel", 1, config))
    assert told == pytest.approx((1512, 1680), rel=0.05)


def test_a_decoder_computes_the_most_beside_its_smallest_weights() -> None:
    """Qwen-Image's, as it is published."""
    stages = Parts(16_000_000, 8_000_000, 8_000_000, 4_000_000), Parts(2_000_000, 1_000_000, 1_000_000, 500_000)
    decoder = structs.replace(VAE, stages=stages)
    small, large = (need((decoder,), Job(Size(edge, edge)), half, "cuda") for edge in (64, 1024))
    assert bytes_in(large, large, Way("group")) == 2 * 1_000_000 + large.decode
    assert bytes_in(large, large, Way("sequential")) == 2 * 500_000 + large.decode
    assert bytes_in(small, small, Way("group")) == 2 * 8_000_000 + small.decode // 2


def test_a_table_of_places_does_not_come_with_the_blocks() -> None:
    small, large = (
        network("denoise", "PixArtTransformer2DModel", 10**7, SD3, two_blocks=10**6, tables=tables) for tables in (0, 10**7)
    )
    one, other = (need((pixart,), Job(Size(512, 512)), half, "cuda") for pixart in (small, large))
    assert bytes_in(one, one, Way("group")) == bytes_in(other, other, Way("group")) == 2 * 10**6 + one.denoise


def test_a_prompt_waits_until_the_denoiser_reads_it() -> None:
    """The refiner's, as the card counted it: a pair of 77 tokens in float32 three times, and once as it is read."""
    reading, none = (network("denoise", "UNet2DConditionModel", 1, {**SD1, "cross_attention_dim": width}) for width in (1280, 0))
    told, other = (need((unet,), Job(Size(512, 512)), half, "cuda") for unet in (reading, none))
    assert told.denoise - other.denoise == told.decode - other.decode == pytest.approx(3 * 788_480 + 394_240)


def test_the_prompt_of_lumina_2_runs_beside_the_picture() -> None:
    lumina = network("denoise", "Lumina2Transformer2DModel", 1, {"patch_size": 2, "hidden_size": 2304})
    short, long = (denoising(lumina, VAE, Size(1024, 1024), guided=False, text=words) for words in (64, 64 + 4096))
    assert long == pytest.approx(2 * short, rel=0.02)


def test_a_picture_that_is_edited_counts_with_the_one_that_is_made() -> None:
    """A megapixel is encoded, and its tokens run beside those of a smaller picture."""
    qwen = network("denoise", "QwenImageTransformer2DModel", 1, {**FLUX, "patch_size": 2})
    decoder = network("decode", "AutoencoderKLQwenImage", 1, {"base_dim": 96})
    alone, edited = (need((qwen, decoder), Job(Size(256, 256), joined=given), half, "cuda") for given in (None, Size(1024, 1024)))
    assert edited.denoise > 4 * alone.denoise
    assert edited.decode > 9 * 2 * 96 * 1024**2 > 4 * alone.decode


G = 10**9
_NEED = Need(((UNET, 6 * G), (VAE, G)), 2 * G, 8 * G)
_TILED = Need(_NEED.weights, 2 * G, G)


@pytest.mark.parametrize(
    ("free", "tiling", "offload", "on_cpu", "way"),
    [
        (None, "auto", "auto", False, PLAIN),
        (20 * G, "auto", "auto", False, PLAIN),
        (15 * G, "auto", "auto", False, Way(tiled=True)),
        (15 * G, "never", "auto", False, Way("model")),
        (15 * G, "never", "none", False, PLAIN),
        (20 * G, "always", "auto", False, Way(tiled=True)),
        (9 * G, "auto", "auto", False, Way("model", tiled=True)),
        (5 * G, "auto", "auto", False, Way("group", tiled=True)),
        (9 * G, "auto", "auto", True, Way(tiled=True)),
        (G, "auto", "auto", True, Way(tiled=True)),
        (G, "never", "auto", True, PLAIN),
        (20 * G, "auto", "sequential", False, Way("sequential")),
    ],
)
def test_the_cheapest_way_that_fits_is_chosen(free: int | None, tiling: Any, offload: Any, on_cpu: bool, way: Way) -> None:
    assert choose(allowed(tiling, offload, on_cpu=on_cpu, can_tile=True), _NEED, _TILED, free) == way


def test_a_decoder_without_tiles_is_never_asked_for_them() -> None:
    assert all(not way.tiled for way in allowed("always", "auto", on_cpu=False, can_tile=False))


@pytest.mark.parametrize(("peak", "told"), [(89, "fits"), (95, "tight"), (100, "tight"), (101, "no")])
def test_near_the_end_of_the_memory_is_tight(peak: int, told: str) -> None:
    assert fit(peak, 100) == told


@pytest.mark.parametrize(
    ("sizes", "free", "on_cpu", "blocks"),
    [
        ({"unet": 440_000_000, "text": 123_000_000}, 14 * 2**30, True, set[str]()),
        ({"unet": 860_000_000, "text": 123_000_000}, 14 * 2**30, True, {"unet"}),  # whole it takes as long, and all of its room
        ({"unet": 860_000_000, "text": 123_000_000}, 60 * 2**30, True, {"unet"}),
        ({"unet": 2_570_000_000, "text": 123_000_000, "text_2": 695_000_000}, 20 * 2**30, True, {"unet", "text_2"}),
        ({"unet": 2_570_000_000, "text_2": 695_000_000}, 60 * 2**30, True, {"unet", "text_2"}),
        ({"transformer": 12 * 10**9, "vae": 84_000_000}, 80 * 2**30, True, {"transformer"}),
        ({"unet": 860_000_000}, 4 * 2**30, False, set[str]()),
        ({"unet": 2_570_000_000, "text_2": 695_000_000}, 12 * 2**30, False, set[str]()),
        ({"unet": 2_570_000_000, "text_2": 695_000_000}, 8 * 2**30, False, {"unet", "text_2"}),
        ({}, 2**30, True, set[str]()),
    ],
)
def test_networks_too_large_for_the_memory_are_checked_in_blocks(
    sizes: dict[str, int], free: int, on_cpu: bool, blocks: set[str]
) -> None:
    assert in_blocks(sizes, free, on_cpu=on_cpu) == blocks


def test_what_was_measured_goes_before_what_is_computed() -> None:
    small = Need(_NEED.weights, G, 2 * G)
    assert predict(_NEED, ()) == Prediction(15 * G)
    assert predict(_NEED, [Measured(_NEED, 14 * G), Measured(_NEED, 13 * G)]) == Prediction(14 * G, 2)
    assert predict(_NEED, [Measured(small, 10 * G)]) == Prediction(19 * G), "of another size: its ratio"
    assert predict(_NEED, [Measured(small, 40 * G)]) == Prediction(23 * G), "no ratio beyond twice is believed"
    other = Need(((UNET, G),), G, G)
    assert predict(_NEED, [Measured(other, 5 * G)]) == Prediction(15 * G), "other weights tell nothing"


def test_the_largest_size_fits_and_keeps_the_shape() -> None:
    def peak(size: Size) -> int:
        return need(MODEL, Job(size), half, "cuda").peak

    found = largest_size(Size(3072, 2048), 6 * G, peak)
    assert found is not None
    assert peak(found) <= 0.9 * 6 * G < peak(Size(found.width + 128, found.height + 128))
    assert (found.width % 64, found.height % 64) == (0, 0)
    assert found.width / found.height == pytest.approx(1.5, rel=0.1)
    assert largest_size(Size(1024, 1024), 2 * G, peak) is None, "the weights alone are too much"


@pytest.mark.parametrize(
    ("modes", "share", "tried"),
    [
        (("none", "model", "group", "sequential"), 1.0, ("none", "model", "group", "sequential")),
        (("none", "model", "group", "sequential"), 0.9, ("model", "group", "sequential")),
        (("none", "model", "group", "sequential"), 0.5, ("group", "sequential")),
        (("none", "model", "group", "sequential"), 0.01, ("sequential",)),
        (("none",), 1.0, ("none",)),
        (("none",), 0.9, ()),
    ],
)
def test_a_wide_type_is_tried_from_the_first_way_on_in_which_it_fits(
    modes: tuple[OffloadMode, ...], share: float, tried: tuple[OffloadMode, ...]
) -> None:
    """share: of what the whole picture at once would need."""
    plain = need(MODEL, Job(Size(512, 512)), lambda one: "float32" if one is UNET else "float16", "cuda")
    assert from_first_fit(modes, plain, plain, round(share * plain.peak), tiled=False) == tried
