"""What the probe costs: the forward of a UNet under it over the bare forward; and under transformers' own watch, beside it.

    PYTHONPATH=app:. python tests/bench/bench_probe.py [--device cuda:0] [--small]

Float32, one thread, classifier-free guidance (a batch of two), latents of two sizes. The probe's time holds the reading of all
its peaks. `DebugUnderflowOverflow` is put on the same network for the same call; it is slow, so it has few turns.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from tests.bench.common import Options, Row, alone, in_turns, judged, large_unet, one_thread, parameters, ratio
from torch import nn
from transformers.debug_utils import DebugUnderflowOverflow

from halftone.measure.probe import Probe

GOAL = 1.10


def rows(options: Options) -> list[Row]:
    with one_thread(), torch.no_grad():
        unet = large_unet(small=options.small)
        nn.Module.to(unet, options.device)
        sizes = ((8, 2, 1),) if options.small else ((32, 15, 2), (64, 5, 1))
        return [row for latent, rounds, few in sizes for row in _at(unet, latent, rounds, few, options)]


def _at(unet: Any, latent: int, rounds: int, few: int, options: Options) -> list[Row]:
    device = options.device

    def forward() -> Any:
        return unet(*inputs)

    def probed() -> Any:
        with Probe(unet, "unet") as probe:
            forward()
        return probe.readings()

    def debugged() -> Any:
        with _transformers(unet):
            forward()

    generator = torch.Generator().manual_seed(0)
    sample, context = (torch.randn(shape, generator=generator).to(device) for shape in ((2, 4, latent, latent), (2, 77, 768)))
    inputs = (sample, torch.tensor(500, device=device), context)
    forward()
    modules = len(probed())
    ours = in_turns({"bare": forward, "probed": probed}, rounds)
    theirs = in_turns({"bare": forward, "debugged": debugged}, few)
    found, other = ratio(ours["probed"], ours["bare"]), ratio(theirs["debugged"], theirs["bare"])
    size = f"UNet of {parameters(unet) / 1e6:.0f} M parameters, {modules} modules, latents {latent} x {latent}"
    return [
        (f"probe over bare forward, {size}", str(found), f"at most {GOAL:.2f}", judged(found.median <= GOAL, options.small)),
        ("  DebugUnderflowOverflow of transformers over the same", str(other), "", None),
    ]


@contextmanager
def _transformers(module: nn.Module) -> Generator[None]:
    """Its hooks stay for ever, so they are taken off here."""
    before = {child: list(child._forward_hooks) for child in module.modules()}
    DebugUnderflowOverflow(module)
    try:
        yield
    finally:
        for child, kept in before.items():
            for key in [key for key in child._forward_hooks if key not in kept]:
                child._forward_hooks.pop(key)


if __name__ == "__main__":
    alone(rows, __doc__)
