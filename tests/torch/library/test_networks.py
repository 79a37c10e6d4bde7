"""What of a model's networks its memory depends on, read from configurations and headers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import msgspec
import pytest
import torch
from tests.bench.families.table import CASES
from tests.helpers import samples
from tests.helpers.headers import header_of, write_sparse
from tests.helpers.originals import original_names, published
from torch import nn

from halftone.engine.weights.offload import blocks_of
from halftone.engine.weights.parts import components
from halftone.library.families.networks import Network, known_networks, network, networks_of
from halftone.library.files.header import TensorInfo
from halftone.library.models import describe


def test_a_folder_tells_each_network() -> None:
    found = {one.name: one for one in networks_of(describe("pocket"))}
    assert {name: one.work for name, one in found.items()} == {"text_encoder": "encode", "unet": "denoise", "vae": "decode"}
    assert found["vae"].kind == "AutoencoderKL"
    assert found["unet"].numbers("block_out_channels")
    for one in found.values():
        assert 0 < one.largest <= one.parameters
        assert one.blocks > 1


@pytest.mark.parametrize(("kind", "unet"), [("sd1", 859_520_964), ("sdxl", 2_567_463_684)])
def test_a_whole_file_tells_the_same_as_its_folder_would(tmp_path: Path, kind: str, unet: int) -> None:
    header = header_of({name: tuple(value.shape) for name, value in original_names(published(kind)).items()})
    file = tmp_path / "model.safetensors"
    write_sparse(file, header)
    found = {one.name: one for one in networks_of(describe(str(file)))}
    assert found["unet"].parameters == unet
    assert found["unet"].numbers("block_out_channels")[0] == 320
    assert found["vae"].parameters == pytest.approx(83_653_863)
    assert found["text_encoder"].parameters == pytest.approx(123_060_480, rel=0.01)


def test_what_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    assert known_networks(msgspec.structs.replace(samples.POCKET, path=str(tmp_path))) == ()
    assert known_networks(msgspec.structs.replace(samples.POCKET, path=str(tmp_path / "gone.safetensors"))) == ()


def family(name: str) -> Callable[[], dict[str, nn.Module]]:
    """Build the networks of a tiny model."""
    return lambda: components(next(case for case in CASES if case.name == name).build())


def published_network(kind: str, **config: Any) -> Callable[[], dict[str, nn.Module]]:
    """Build one network of its published shape, without numbers."""

    def build() -> dict[str, nn.Module]:
        with torch.device("meta"):
            return {kind: getattr(diffusers, kind)(**config)}

    return build


@pytest.mark.parametrize(
    "build",
    [
        *(family(name) for name in ("SDXL", "Sana", "Kandinsky 3", "Stable Cascade", "Z-Image", "Wan")),
        published_network("QwenImageTransformer2DModel", num_layers=1),
        published_network("WanAnimate2Transformer3DModel", num_layers=1),
        published_network("AutoencoderDC"),
        published_network("AutoencoderKLKVAEAudio"),
    ],
)
def test_names_tell_the_largest_part_that_the_engine_brings(build: Callable[[], dict[str, nn.Module]]) -> None:
    for name, module in build().items():
        tensors = [TensorInfo(own, "F16", tuple(value.shape), 0, 0) for own, value in module.state_dict().items()]
        brought = [sum(value.numel() for value in block[0].state_dict().values()) for block in blocks_of(module)]
        assert network(name, {"_class_name": type(module).__name__}, tensors).block == max(brought), type(module).__name__


def told(kind: str, **config: Any) -> Network:
    """One network of its published shape, as its headers tell it."""
    module = published_network(kind, **config)()[kind]
    tensors = [TensorInfo(own, "F16", tuple(value.shape), 0, 0) for own, value in module.state_dict().items()]
    return network(kind, {"_class_name": kind}, tensors)


def test_blocks_of_two_streams_and_of_one_are_told_apart() -> None:
    found = told("Flux2Transformer2DModel", num_layers=2, num_single_layers=2)
    two, one = found.stages
    assert two.block == pytest.approx(2 * one.block, rel=0.01)
    assert (two.two_blocks, one.two_blocks) == (2 * two.block, 2 * one.block)
    assert found.two_blocks == two.two_blocks


@pytest.mark.parametrize("kind", ["AutoencoderKL", "AutoencoderKLQwenImage", "AutoencoderKLWan"])
def test_a_decoder_is_smallest_on_its_last_level(kind: str) -> None:
    channels = {"block_out_channels": (128, 256, 512, 512), "up_block_types": ("UpDecoderBlock2D",) * 4}
    down = {"down_block_types": ("DownEncoderBlock2D",) * 4, "layers_per_block": 2}
    found = told(kind, **(channels | down if kind == "AutoencoderKL" else {}))
    assert len(found.stages) == 4
    assert found.stages[-1].block < found.block / 3


@pytest.mark.parametrize(
    ("kind", "config", "steering"),
    [
        ("FluxTransformer2DModel", {"num_layers": 1, "num_single_layers": 1}, ("norm1.linear", "norm1_context.linear")),
        ("SD3Transformer2DModel", {"num_layers": 2}, ("norm1.linear", "norm1_context.linear")),
        ("QwenImageTransformer2DModel", {"num_layers": 1}, ("img_mod.1", "txt_mod.1")),
        (
            "AuraFlowTransformer2DModel",
            {"num_mmdit_layers": 1, "num_single_dit_layers": 1},
            ("norm1.linear", "norm1_context.linear"),
        ),
    ],
)
def test_layers_that_are_given_the_time_alone_are_not_counted(
    kind: str, config: dict[str, Any], steering: tuple[str, ...]
) -> None:
    """They are the largest, and little is computed with them."""
    module = published_network(kind, **config)()[kind]
    layers = {name: sum(own.numel() for own in part.parameters()) for name, part in module.named_modules()}
    block = "joint_transformer_blocks.0" if kind.startswith("Aura") else "transformer_blocks.0"
    assert told(kind, **config).two_layers < sum(layers[f"{block}.{name}"] for name in steering)
