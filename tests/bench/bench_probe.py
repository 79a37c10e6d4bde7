"""What the probe costs: forward of a UNet2DConditionModel under the probe over the bare forward, in several precisions.

Run: `PYTHONPATH=app:. python tests/bench/bench_probe.py [--threads N] [--device cuda:0]`. Ratios compare; absolute times do not.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import nn

from halftone.measure.probe import Probe


def build(device: str, dtype: torch.dtype, width: int) -> UNet2DConditionModel:
    """Stable Diffusion 1.5 in depth; it has that width with 320."""
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    unet = UNet2DConditionModel(
        sample_size=64,
        block_out_channels=(width, 2 * width, 4 * width, 4 * width),
        cross_attention_dim=768,
        attention_head_dim=8,
        norm_num_groups=32,
    )
    torch.set_default_dtype(torch.float32)
    nn.Module.to(unet, device=device)
    return unet.eval()


def timed(run: Callable[[], object], device: str) -> float:
    """Seconds; on a CPU with one thread those that the process really had, so that a busy machine matters less."""
    clock = time.process_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    run()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return clock() - start


def measure(device: str, dtype: torch.dtype, width: int, latent: int, rounds: int) -> str:
    unet = build(device, dtype, width)
    inputs = (
        torch.randn(2, 4, latent, latent, device=device, dtype=dtype),
        torch.tensor(500, device=device),
        torch.randn(2, 77, 768, device=device, dtype=dtype),
    )
    bare: list[float] = []
    probed: list[float] = []
    modules = 0
    with torch.no_grad():
        unet(*inputs)
        for _ in range(rounds):  # in turns, so that a busy machine disturbs both alike
            bare.append(timed(lambda: unet(*inputs), device))
            with Probe(unet, "unet") as probe:
                probed.append(timed(lambda: (unet(*inputs), probe.readings()), device))
            modules = len(probe.readings())
    ratio = statistics.median(p / b for p, b in zip(probed, bare, strict=True))
    size = sum(parameter.numel() for parameter in unet.parameters()) / 1e6
    head = f"{dtype}: {size:.0f} M parameters, {modules} modules, {latent} x {latent}"
    return f"{head}: bare {min(bare):.3f} s, probed {min(probed):.3f} s, ratio {ratio:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--latent", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], help="float16 is very slow on some processors")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for dtype in (getattr(torch, name) for name in options.dtypes):
        sys.stdout.write(measure(options.device, dtype, options.width, options.latent, options.rounds) + "\n")


if __name__ == "__main__":
    main()
