"""What the probe costs: forward of a UNet2DConditionModel under the probe over the bare forward, in three precisions.

Run: `PYTHONPATH=app:. python tests/bench/bench_probe.py [--threads N] [--device cuda:0]`. Ratios compare; absolute times do not.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from halftone.measure.probe import Probe


def build(device: str, dtype: torch.dtype) -> UNet2DConditionModel:
    """A third of the width of Stable Diffusion 1.5, with its depth: 686 modules."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=64,
        block_out_channels=(128, 256, 512, 512),
        cross_attention_dim=768,
        attention_head_dim=8,
        norm_num_groups=32,
    )
    return unet.to(device=device, dtype=dtype).eval()


def timed(run: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    run()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(device: str, dtype: torch.dtype, latent: int, rounds: int) -> str:
    unet = build(device, dtype)
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
    return f"{dtype}: {modules} modules, {latent} x {latent}: bare {min(bare):.3f} s, probed {min(probed):.3f} s, ratio {ratio:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--latent", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        sys.stdout.write(measure(options.device, dtype, options.latent, options.rounds) + "\n")


if __name__ == "__main__":
    main()
