"""Weights that stay packed: the numbers they stand for are GGUF's own, and a plan acts on them as on any others."""

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from torch import nn

from halftone.engine.weights.packed import Packed, PackedLinear, unpacked
from halftone.engine.weights.parts import parameter_count
from halftone.engine.weights.precision import ComponentState, damaged, exact_weights, realise, upcast_parameters
from halftone.library.add_ons.denoiser_files import CONVERTED, FLOAT8
from halftone.library.files.gguf_header import PACKED
from halftone.library.files.scan import tally_blocks

SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}
"""Where the float16 scales lie in a block of the kinds that GGUF's own tools cannot write."""


def blocks(kind: str, rows: int = 3, each: int = 2) -> torch.Tensor:
    """Any bytes, with scales as a model has."""
    rng = np.random.default_rng(3)
    size = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    if kind not in SCALES:
        width = each * gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]][0]
        values = rng.normal(size=(rows, width)).astype(np.float32)
        return torch.from_numpy(gguf.quants.quantize(values, GGMLQuantizationType[kind]))
    data = rng.integers(0, 256, (rows, each, size), dtype=np.uint8)
    for place in SCALES[kind]:
        data[..., place : place + 2] = rng.normal(scale=1e-3, size=(rows, each, 1)).astype(np.float16).view(np.uint8)
    return torch.from_numpy(data.reshape(rows, each * size))


@pytest.mark.parametrize("kind", sorted(PACKED))
def test_every_kind_is_unpacked_as_gguf_itself_does(kind: str) -> None:
    data = blocks(kind)
    ours = unpacked(data, kind).numpy()
    theirs = gguf.quants.dequantize(data.numpy(), GGMLQuantizationType[kind])
    assert ours.dtype == np.float32
    assert ours.shape == theirs.shape
    assert np.array_equal(ours, theirs)
    assert np.abs(ours).max() > 0


def test_the_kinds_are_all_that_diffusers_knows() -> None:
    from diffusers.quantizers.gguf.utils import SUPPORTED_GGUF_QUANT_TYPES

    assert {kind.name for kind in SUPPORTED_GGUF_QUANT_TYPES} == PACKED | {"BF16"}


def test_the_families_are_those_whose_names_diffusers_can_turn() -> None:
    import diffusers
    from diffusers.loaders.single_file_model import SINGLE_FILE_LOADABLE_CLASSES

    from halftone.library.families.known_families import BY_NAME

    classes = [name for name in SINGLE_FILE_LOADABLE_CLASSES if "Transformer" in name or "UNet" in name]
    assert {"SD3Transformer2DModel", "FluxTransformer2DModel", "UNet2DConditionModel"} <= set(classes)
    assert all(hasattr(diffusers, name) for name in classes)
    assert set(BY_NAME) >= CONVERTED


@pytest.mark.parametrize("kind", sorted(FLOAT8))
def test_eight_bit_numbers_have_their_factor(kind: str) -> None:
    dtype = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}[kind]
    numbers = torch.randn(4, 6).to(dtype)
    assert torch.equal(unpacked(numbers.view(torch.uint8), kind), numbers.float())
    assert torch.equal(unpacked(numbers.view(torch.uint8), kind, torch.tensor(0.5)), numbers.float() / 2)


def test_rows_taken_apart_and_put_together_again_stay_packed() -> None:
    whole = Packed.of(blocks("Q8_0", rows=6), "Q8_0")
    first, second, third = torch.chunk(whole, 3, dim=0)
    back = torch.cat([first, second, third])
    assert isinstance(second, Packed)
    assert isinstance(back, Packed)
    assert torch.equal(back.unpacked(), whole.unpacked())
    assert torch.equal(second.unpacked(), whole.unpacked()[2:4])
    with pytest.raises(ValueError, match="several types"):
        torch.cat([first, Packed.of(blocks("Q4_0", rows=6), "Q4_0")])


def numbers_of(tensor: torch.Tensor) -> torch.Tensor:
    assert isinstance(tensor, Packed)
    return tensor.unpacked()


def test_factors_of_rows_go_with_their_rows() -> None:
    numbers = torch.arange(1.0, 13.0).reshape(6, 2).to(torch.float8_e4m3fn).view(torch.uint8)
    rows = torch.logspace(-2, 1, 6).reshape(-1, 1)
    whole = Packed.of(numbers, "F8_E4M3", rows)
    wide = whole.unpacked()
    assert torch.equal(numbers_of(whole[2:5]), wide[2:5])
    assert torch.equal(numbers_of(torch.cat(whole.chunk(2)[::-1])), torch.cat(wide.chunk(2)[::-1]))
    one = Packed.of(numbers, "F8_E4M3", torch.tensor([[0.5]]))
    assert torch.equal(numbers_of(torch.cat([one[:2], whole[2:]])), torch.cat([one.unpacked()[:2], wide[2:]]))


def network(kind: str = "Q8_0") -> nn.Sequential:
    made = nn.Sequential(nn.LayerNorm(64), PackedLinear(Packed.of(blocks(kind, rows=8), kind), torch.zeros(8), torch.float32))
    made.requires_grad_(False)
    return made


def test_a_plan_scales_and_rounds_what_the_bytes_stand_for_and_the_bytes_stay() -> None:
    module = network()
    layer = module[1]
    assert isinstance(layer, PackedLinear)
    exact, before = layer.exact, layer.packed.clone()
    realise(module, exact_weights(module), ComponentState(dtype="float16", rescale={"1.weight[:4]": -3, "1.bias": -3}))
    wanted = exact.clone()
    wanted[:4] /= 8
    assert layer.weight.dtype == torch.float16
    assert torch.equal(layer.weight, wanted.half())
    assert torch.equal(layer.packed, before)
    assert type(layer.packed) is torch.Tensor
    assert module(torch.randn(2, 64).half()).dtype == torch.float16
    held = ComponentState(dtype="float16", rescale={"1.weight[:4]": -3, "1.bias": -3})
    realise(module, exact_weights(network()), ComponentState(dtype="float16"), held)  # only what is scaled otherwise
    assert torch.equal(layer.weight, exact.half())


def test_a_region_in_float32_computes_in_it_and_takes_no_more_memory() -> None:
    module = network()
    state = ComponentState(dtype="bfloat16", upcast=("1",))
    realise(module, exact_weights(module), state)
    layer = module[1]
    assert isinstance(layer, PackedLinear)
    assert (layer.weight.dtype, layer.packed.dtype) == (torch.float32, torch.uint8)
    assert module(torch.randn(2, 64).bfloat16()).dtype == torch.float32
    assert upcast_parameters(module, state) == 8 * 64 + 8
    assert parameter_count(module) == 2 * 64 + 8 * 64 + 8


def test_bytes_that_changed_in_memory_are_seen() -> None:
    module, state = network(), ComponentState(dtype="float32")
    assert damaged(module, exact_weights(network()), state) == []
    layer = module[1]
    assert isinstance(layer, PackedLinear)
    layer.packed[2, 5] ^= 8
    assert damaged(module, exact_weights(network()), state) == ["1.weight"]


@pytest.mark.parametrize("kind", sorted(PACKED))
def test_a_scan_finds_the_peak_that_is_there_without_torch(kind: str) -> None:
    data = blocks(kind, rows=700)
    assert tally_blocks(data.numpy().reshape(-1), kind) == (0, float(unpacked(data, kind).abs().max()))
    place = SCALES.get(kind, (0,))[0]
    size = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    spoilt = data.numpy().reshape(-1, size).copy()
    spoilt[5, place : place + 2] = np.array([np.inf], np.float16).view(np.uint8)
    bad, peak = tally_blocks(spoilt.reshape(-1), kind)
    rest = np.delete(spoilt, 5, axis=0)
    assert bad == gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]][0]
    assert peak == float(np.abs(gguf.quants.dequantize(rest, GGMLQuantizationType[kind])).max())
