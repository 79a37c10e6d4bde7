"""What the training guard costs: seconds of a step with it over seconds without, in one run, on 200 million parameters.

    OMP_NUM_THREADS=2 python tests/bench/bench_guard.py [--tokens 2048] [--rounds 5] [--half]

Beside it torch.autograd.detect_anomaly, which looks at the way back alone and stops at the first NaN. Every round makes one step
each way, in turn, so that what else the machine does falls on all.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from tests.helpers.training_faults import Block
from torch import Tensor, nn
from torch.nn import functional

from halftone.training.guard import TrainingGuard


class Large(nn.Module):
    """A transformer of `depth` blocks; with 28 of width 1024, and a feed-forward part twice as wide, 200 million parameters."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def bare(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
    """A step as a script makes it."""
    value = loss()
    value.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    value.item()


def timed(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=28)
    parser.add_argument("--lora", action="store_true", help="train one matrix in each block, as a LoRA does")
    wanted = parser.parse_args()
    torch.manual_seed(0)
    network = Large(wanted.width, wanted.depth)
    if wanted.lora:
        network.requires_grad_(False)
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(name.endswith("norm1.weight"))
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)
    x = torch.randn(max(1, wanted.tokens // 512), min(512, wanted.tokens), wanted.width)

    def loss() -> Tensor:
        return functional.mse_loss(network(x), x)

    def anomaly() -> None:
        with torch.autograd.detect_anomaly():
            bare(network, optimizer, loss)

    ways: dict[str, list[float]] = {"bare": [], "guard": [], "detect_anomaly": []}
    for turn in range(wanted.rounds + 1):
        taken = {"bare": timed(lambda: bare(network, optimizer, loss))}
        guard = TrainingGuard(network, optimizer, clip=1.0, keep_every=0, forecast="off")
        guard.step(loss)  # the first one writes down how everything stands
        taken["guard"] = timed(lambda guard=guard: guard.step(loss))
        guard.remove()
        taken["detect_anomaly"] = timed(anomaly)
        if turn:
            for way, seconds in taken.items():
                ways[way].append(seconds)
            print({way: f"{seconds:.2f} s" for way, seconds in taken.items()}, flush=True)
    count = sum(p.numel() for p in network.parameters())
    base = ways["bare"]
    print(f"\n{count / 1e6:.0f} M parameters, {sum(p.numel() for p in trained) / 1e6:.2f} M trained, {wanted.tokens} tokens")
    for way in ("guard", "detect_anomaly"):
        ratios = [with_it / without for with_it, without in zip(ways[way], base, strict=True)]
        print(f"{way}: {statistics.median(ratios):.3f} of a bare step ({min(ratios):.3f} to {max(ratios):.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
