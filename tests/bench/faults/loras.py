"""LoRAs as faults: what one adds to the layers of a sound model, and the file that holds it."""

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from tests.bench.faults import structure, truth
from tests.bench.faults.families import Sound
from torch import nn

MILD: Final = 0.05
"""Of the size of a layer's own weights."""
RANK: Final = 2

Deltas = dict[str, torch.Tensor]
"""Linear layer of one component -> what is added to its weight."""


def denoisers(sound: Sound) -> list[str]:
    """Components that run at every step and whose LoRAs diffusers can read."""
    if not callable(getattr(sound.pipe, "load_lora_weights", None)):
        return []
    names = getattr(type(sound.pipe), "_lora_loadable_modules", [])
    found = {name: network for name, network in truth.networks(sound.pipe).items() if name in names}
    return [name for name, network in found.items() if "encoder" not in name and hasattr(network, "load_lora_adapter")]


def strong(sound: Sound, rng: random.Random, site: structure.Site) -> Deltas:
    """A multiple of the values' own weights that carries their output over the limit; what reads them gives as much less."""
    peak = max(sound.peaks.get((site.component, name), 0.0) for name in site.watch)
    factor = 2.0 ** (math.ceil(math.log2(truth.LIMIT / peak)) + rng.uniform(0.5, 2.5))
    network = truth.networks(sound.pipe)[site.component]
    found: Deltas = {}
    for names, times in ((site.grow, factor), (site.shrink, 1 / factor)):
        for name in (name for name in names if name.endswith(".weight")):
            layer = network.get_submodule(name.removesuffix(".weight"))
            if isinstance(layer, nn.Linear):
                found[name.removesuffix(".weight")] = layer.weight.detach() * (times - 1)
    return found if all(float(delta.abs().max()) < truth.LIMIT / 2 for delta in found.values()) else {}


def mild(sound: Sound, rng: random.Random, component: str) -> Deltas:
    """A little random addition of low rank to every projection of the attentions."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    found: Deltas = {}
    for name, layer in _attention_layers(truth.networks(sound.pipe)[component]):
        rows, columns = layer.weight.shape
        delta = torch.randn((rows, RANK), generator=generator) @ torch.randn((RANK, columns), generator=generator)
        found[name] = delta * (MILD * layer.weight.detach().norm() / delta.norm())
    return found


def _attention_layers(network: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear) and name.endswith((".to_q", ".to_k", ".to_v", ".to_out.0")):
            yield name, layer


def write(component: str, deltas: Deltas, file: Path) -> Path:
    """The LoRA in diffusers' form: each delta as itself times one."""
    tensors: dict[str, torch.Tensor] = {}
    for name, delta in deltas.items():
        tensors[f"{component}.{name}.lora_A.weight"] = torch.eye(delta.shape[1])
        tensors[f"{component}.{name}.lora_B.weight"] = delta.contiguous()
    save_file(tensors, file)
    return file
