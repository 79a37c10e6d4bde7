"""Offsets that all channels share, planted in one layer of a VAE decoder or a UNet: the picture in float32 stays what it was.

A norm takes the offset off again. Where the stream goes on, the layer after the first norm takes it off, so that float32 sees
nothing of it and float16 rounds the picture away in between. Each place is proven by plain torch before it counts.

Run: `PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.faults.offsets`: how many of the layers are named exactly.
"""

import argparse
import copy
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from tests.bench.faults import truth
from tests.bench.faults.families import FAMILIES, Sound, make_sound
from tests.helpers.engine_runs import check
from torch import nn

from halftone.contract.facts import Finding
from halftone.engine.service import DiffusersEngine
from halftone.worker.environment import prepare

SIZES: Final = (60000.0, 30000.0, 8000.0)
"""Offsets that are tried, the largest first."""
_SAME: Final = 0.02
_WRONG: Final = 0.1

Change = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Place:
    """A layer whose bias gets the offset. undone: bias of a later layer -> how much of the offset it takes off, by channel."""

    layer: str
    undone: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])


@dataclass(frozen=True)
class Offset:
    """A place that is proven to be a fault."""

    layer: str
    size: float
    undone: dict[str, torch.Tensor]

    def plant(self, network: nn.Module) -> None:
        with torch.no_grad():
            network.get_parameter(f"{self.layer}.bias").add_(self.size)
            for name, share in self.undone.items():
                network.get_parameter(name).sub_(self.size * share)


def places(network: nn.Module) -> Iterator[Place]:
    """List where a decoder (`decoder.` of an autoencoder) or a UNet can take an offset."""
    for name, block in network.named_modules():
        owner: Any = block
        if isinstance(getattr(owner, "conv1", None), nn.Conv2d) and isinstance(getattr(owner, "norm2", None), nn.GroupNorm):
            if name.startswith("encoder"):
                continue
            yield Place(f"{name}.conv1")
            if isinstance(getattr(owner, "time_emb_proj", None), nn.Linear):
                yield Place(f"{name}.time_emb_proj")
    half: Any = getattr(network, "decoder", network)
    prefix = "decoder." if half is not network else ""
    yield from _in_stream(half, prefix, network)


def _in_stream(half: Any, prefix: str, network: nn.Module) -> Iterator[Place]:
    ups = list(half.up_blocks)
    mid = _writers(half.mid_block, f"{prefix}mid_block")
    first = f"{prefix}conv_in"
    runs = [[first, *mid, *_writers(ups[0], f"{prefix}up_blocks.0")]] if prefix else [mid]
    for index, block in enumerate(ups):
        if prefix and index == 0:
            continue
        above = ups[index - 1].upsamplers
        begin = [f"{prefix}up_blocks.{index - 1}.upsamplers.0.conv"] if above else []
        runs.append([*begin, *_writers(block, f"{prefix}up_blocks.{index}")])
    last = runs[-1][-1]
    for run in runs:
        for layer, following in pairwise(run):
            yield Place(layer, _undone(network, layer, following))
    yield Place(last)


def _writers(block: Any, prefix: str) -> list[str]:
    """List what is added to the stream in a block, in running order."""
    found: list[str] = []
    attentions = list(getattr(block, "attentions", None) or ())
    for index in range(len(block.resnets)):
        found.append(f"{prefix}.resnets.{index}.conv2")
        if index < len(attentions) and attentions[index] is not None:
            inside = "to_out.0" if hasattr(attentions[index], "to_out") else "proj_out"
            found.append(f"{prefix}.attentions.{index}.{inside}")
    return found


def _undone(network: nn.Module, layer: str, following: str) -> dict[str, torch.Tensor]:
    """The bias that takes the offset off: of the shortcut where the stream goes through one, else of the next writer."""
    owner: Any = network.get_submodule(following.rpartition(".")[0])
    bias = network.get_parameter(f"{following}.bias")
    shortcut = getattr(owner, "conv_shortcut", None)
    if shortcut is None:
        return {f"{following}.bias": torch.ones_like(bias)}
    channels = network.get_parameter(f"{layer}.bias").numel()  # a UNet's stream comes first, what it joins after it
    share = shortcut.weight.detach()[:, :channels].sum(dim=(1, 2, 3))
    return {f"{following.rpartition('.')[0]}.conv_shortcut.bias": share}


def offsets(network: nn.Module, call: truth.Called, layer: str = "") -> Iterator[Offset]:
    """Places where float32 gives what it gave and float16, as the libraries load it, does not. layer: only this one."""
    sound = _run(network, call)
    for place in places(network):
        if layer not in ("", place.layer):
            continue
        for size in SIZES:
            offset = Offset(place.layer, size, place.undone)
            planted = copy.deepcopy(network)
            offset.plant(planted)
            if truth.relative(_run(planted, call), sound) > _SAME:
                continue
            half = copy.deepcopy(planted).half()
            result = truth.repeat(call, half)
            finite = all(truth.finite(tensor) for tensor in truth.tensors(result))
            if finite and truth.relative(result, sound) > _WRONG:
                yield offset
                break


def _run(network: nn.Module, call: truth.Called) -> Any:
    with torch.no_grad():
        return getattr(network, call.method)(*call.args, **call.kwargs)


def cases(sound: Sound, component: str, method: str, layer: str = "") -> list[Offset]:
    """Every proven place of one component of a sound model. layer: only this one."""
    call = next(call for call in sound.run.calls if (call.component, call.method) == (component, method))
    return list(offsets(truth.networks(sound.pipe)[component], call, layer))


def planted(sound: Sound, component: str, offset: Offset, folder: Path) -> Path:
    """The model with the offset, as a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound.folder, folder)
    network: Any = copy.deepcopy(truth.networks(sound.pipe)[component])
    offset.plant(network)
    network.save_pretrained(folder / component)
    return folder


def named(engine: DiffusersEngine, folder: Path, component: str) -> Finding | None:
    """Return what a check finds first in a component."""
    report, _ = check(engine, folder)
    return next((finding for finding in report.findings if finding.component == component), None)


def main() -> None:
    prepare()
    torch.set_num_threads(1)
    right = total = 0
    with tempfile.TemporaryDirectory(prefix="halftone-offsets-") as folder:
        os.environ["HALFTONE_DATA"] = str(Path(folder) / "data")
        engine = DiffusersEngine()
        for family, seed in ((name, seed) for name in ("sd15", "sdxl", "sd3") for seed in range(2)):
            sound = make_sound(FAMILIES[family], Path(folder) / "models", seed)
            for component, method in (("vae", "decode"), ("unet", "forward")):
                if component not in truth.networks(sound.pipe):
                    continue
                for offset in cases(sound, component, method):
                    found = named(engine, planted(sound, component, offset, Path(folder) / "planted"), component)
                    total += 1
                    right += found is not None and found.module == offset.layer
                    words = "nothing" if found is None else f"{found.code} {found.module}"
                    print(f"{family} {seed} {component}.{offset.layer} {offset.size:g}: {words}", flush=True)
    print(f"offsets named exactly: {right}/{total}")
    sys.exit(right < total)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
