"""What a step of a LoRA training keeps for the way back, against the estimate of it (`halftone.health.training.training_memory`).

python -m tests.bench.bench_train_memory [measured]

Networks of the published shapes of Stable Diffusion 1.5, SDXL, SD 3, FLUX.1 and Sana on torch's meta device, where nothing is
computed: every tensor that autograd saves is counted once, in numbers. Attention is counted as fused attention keeps it: queries,
keys, values and the result. Also: how many numbers the LoRA has.

measured: a file of Stable Diffusion 1.5 at its published size is trained for two steps on the processor, in FP32 at 256 pixels;
what is told before the start is held against the largest memory of the process that no file stands behind.
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import psutil
import torch
from diffusers import FluxTransformer2DModel, SanaTransformer2DModel, SD3Transformer2DModel, UNet2DConditionModel
from PIL import Image
from tests.bench.published import write_published
from tests.helpers.trainings import Directed, train
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from halftone.contract.training import TrainConfig
from halftone.health.training.training_memory import kept_numbers, lora_numbers, training_room
from halftone.library.families.networks import Network
from halftone.library.models import describe
from halftone.training.lora.bases import Base, Flux, Sana, StableDiffusion, StableDiffusion3, StableDiffusionXL, Tensors
from halftone.training.lora.network import put_lora

RANK: Final = 16
_NEAR: Final = 0.1


class Case(NamedTuple):
    """told: what the network is told, as `Base.predict` takes it; latents: of one picture of edge x edge pixels."""

    name: str
    network: Any
    base: Base
    edge: int
    latents: tuple[int, ...]
    told: dict[str, tuple[int, ...]]


def cases() -> Iterator[Case]:
    """One after the other: each is large even without weights."""
    sd15: Any = {"sample_size": 64, "cross_attention_dim": 768}
    yield Case("SD 1.5", UNet2DConditionModel(**sd15), StableDiffusion(), 512, (4, 64, 64), {"words": (77, 768)})
    sdxl: Any = {
        "block_out_channels": (320, 640, 1280),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": (1, 2, 10),
        "attention_head_dim": (5, 10, 20),
        "cross_attention_dim": 2048,
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816,
        "sample_size": 128,
    }
    told = {"words": (77, 2048), "pooled": (1280,)}
    yield Case("SDXL", UNet2DConditionModel(**sdxl), StableDiffusionXL(), 1024, (4, 128, 128), told)
    sd3: Any = {
        "sample_size": 128,
        "num_layers": 24,
        "num_attention_heads": 24,
        "joint_attention_dim": 4096,
        "caption_projection_dim": 1536,
        "pos_embed_max_size": 192,
    }
    told = {"words": (333, 4096), "pooled": (2048,)}
    yield Case("SD 3", SD3Transformer2DModel(**sd3), StableDiffusion3(), 1024, (16, 128, 128), told)
    flux: Any = {"guidance_embeds": True}
    told = {"words": (512, 4096), "pooled": (768,)}
    yield Case("FLUX.1", FluxTransformer2DModel(**flux), Flux(), 1024, (4096, 64), told)
    told = {"words": (300, 2304), "mask": (300,)}
    yield Case("Sana", SanaTransformer2DModel(), Sana(), 1024, (32, 32, 32), told)


class _Attention(torch.autograd.Function):
    """Keeps what fused attention keeps (Dao et al., arXiv 2205.14135)."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        result = query.new_empty(*query.shape[:-1], value.shape[-1])
        ctx.save_for_backward(query, key, value, result)
        return result

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        return ctx.saved_tensors[:3]


class _Autocast(TorchFunctionMode):
    """What autocast does on CUDA, on the meta device, which has none: products narrow, norms wide."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        to = torch.float16 if func in _NARROW else torch.float32 if func in _WIDE else None
        if to is None:
            return func(*args, **kwargs)

        def cast(value: Any) -> Any:
            return value.to(to) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        return func(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})


_NARROW: Final = {functional.linear, functional.conv2d, torch.conv2d, torch.matmul, torch.bmm, torch.baddbmm}
_WIDE: Final = {functional.layer_norm, functional.group_norm, torch.rms_norm, functional.rms_norm, functional.softmax}


@contextmanager
def _fused() -> Generator[None]:
    original = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda query, key, value, *_, **__: _Attention.apply(query, key, value)
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = original


def saved(case: Case, *, mixed: bool) -> int:
    """Bytes that autograd keeps of one picture, weights left out. mixed: in FP16 under autocast, else in FP32."""
    weights = {parameter.untyped_storage()._cdata for parameter in case.network.parameters()}
    kept: dict[int, tuple[torch.Tensor, int]] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = (tensor, storage.nbytes())
        return tensor

    dtype = torch.float16 if mixed else torch.float32
    told: Tensors = {name: torch.empty(1, *shape, dtype=dtype, device="meta") for name, shape in case.told.items()}
    noisy, time = torch.empty(1, *case.latents, dtype=dtype, device="meta"), torch.empty(1, device="meta")
    cast = _Autocast() if mixed else nullcontext()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), _fused(), cast:
        result = case.base.predict(case.network, noisy, time, told, (case.edge, case.edge))
    del result
    return sum(numbers for _, numbers in kept.values())


def network_of(case: Case, module: nn.Module) -> Network:
    numbers = sum(parameter.numel() for parameter in module.parameters())
    config = {name: list(value) if isinstance(value, tuple) else value for name, value in case.network.config.items()}
    return Network(name=case.base.denoiser, work="denoise", kind=type(module).__name__, parameters=numbers, config=config)


def vae_of(case: Case) -> Network:
    """Of as many levels as its latents need."""
    if case.name == "Sana":
        return Network(
            name="vae",
            work="decode",
            kind="AutoencoderDC",
            parameters=1,
            config={"decoder_block_out_channels": [128, 256, 512, 512, 1024, 1024]},
        )
    return Network(
        name="vae", work="decode", kind="AutoencoderKL", parameters=1, config={"block_out_channels": [128, 256, 512, 512]}
    )


def measured() -> int:
    """1 where it is off by more than 15 %."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_published(Path(folder), "sd1")
        pictures = Path(folder) / "pictures"
        pictures.mkdir()
        for index in range(2):
            noise = np.random.default_rng(index).integers(0, 255, (256, 256, 3), dtype=np.uint8)
            Image.fromarray(noise).save(pictures / f"{index}.png")
        config = TrainConfig(
            model=str(path), pictures=str(pictures), output=folder, precision="float32", steps=2, batch=1, size=256, test_every=0
        )
        room = training_room(config, describe(str(path)), "float32", on_cpu=True)
        assert room is not None
        largest, ended = 0, threading.Event()

        def watch() -> None:
            nonlocal largest
            process = psutil.Process()
            while not ended.wait(0.02):
                told = process.memory_info()
                largest = max(largest, told.rss - told.shared)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            train(config, Directed())
        finally:
            ended.set()
            thread.join()
    ratio = room.peak / largest
    print(f"SD 1.5, 256 px, FP32: told {room.peak / 1e9:.2f} GB, measured {largest / 1e9:.2f} GB: {ratio:.2f}")
    return 0 if 0.85 <= ratio <= 1.15 else 1


def main() -> int:
    """1 where an estimate is off by more than a tenth."""
    good = True
    with torch.device("meta"):
        for case in cases():
            network = network_of(case, case.network)
            lora = put_lora(case.network, case.base, rank=RANK, alpha=RANK, seed=0)
            vae, numbers = vae_of(case), lora_numbers(network, RANK) / lora.size
            wide = kept_numbers(network, vae, case.edge, mixed=False) * 4 / (kept := saved(case, mixed=False))
            for parameter in case.network.parameters():
                parameter.data = parameter.data if parameter.requires_grad else parameter.data.half()
            mixed = kept_numbers(network, vae, case.edge, mixed=True) * 2 / (kept_mixed := saved(case, mixed=True))
            right = all(abs(told - 1) < _NEAR for told in (wide, mixed, numbers))
            good &= right
            print(
                f"{case.name:8} {case.edge} px: kept in FP32 {kept / 1e9:5.2f} GB, told {wide:.2f} of it; mixed FP16 "
                f"{kept_mixed / 1e9:5.2f} GB, told {mixed:.2f}; LoRA of rank {RANK} {lora.size / 1e6:5.1f} M numbers, told "
                f"{numbers:.2f}{'' if right else '  NO'}"
            )
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("counted", "measured"), default="counted", help="default: %(default)s")
    sys.exit(measured() if parser.parse_args().what == "measured" else main())
