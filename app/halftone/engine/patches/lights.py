"""Layers of ControlNet-LLLite inside a UNet: each shows the control picture to a layer of its attention.

While attached they are part of the UNet's exact weights, as IP-Adapters are: every one has a name, is watched and can be cured.
Formulas: sd-scripts, networks/control_net_lllite.py. No rescaling changes what they read: it is what a norm gives.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors.torch import load_file
from torch import nn

from halftone.engine.weights.borders import forget_input_casts
from halftone.engine.weights.offload import forget_place
from halftone.library.add_ons.lllite import layers_in, light_parts

_ADDED: Final = "lllite_{0}_{1}"
"""Name of what is added to an attention: number of the file, projection whose input it changes."""
_ATTACHED: Final = "_halftone_lllites"

Shown = tuple[torch.Tensor, torch.Tensor]
"""The picture as a layer reads it (pictures, tokens, channels), and how strongly (pictures, 1, 1)."""
Lights = Sequence[Mapping[str, Shown]]
"""Of each file, by the layer's name there."""


class Light(nn.Module):
    """Changes what a layer reads by what it sees of the picture."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """tensors: weight and bias of down.0, mid.0 and up.0."""
        super().__init__()
        self.down: nn.Module
        self.mid: nn.Module
        self.up: nn.Module
        for part in ("down", "mid", "up"):
            weight, bias = tensors[f"{part}.0.weight"], tensors[f"{part}.0.bias"]
            layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
            layer.load_state_dict({"weight": weight, "bias": bias}, assign=True)
            setattr(self, part, layer)
        self.width = len(tensors["up.0.bias"])

    def forward(self, given: torch.Tensor, shown: Shown) -> torch.Tensor:
        """given: (pictures, tokens, width). A call for the prompt alone reads the last half of what was read for both."""
        seen, strength = (value[-len(given) :] for value in shown)
        own = torch.relu(self.down(given))
        made = self.up(torch.relu(self.mid(torch.cat([seen.to(own), own], dim=2))))
        return given + made * strength.to(made)


Attached = dict[tuple[int, str], tuple[Light, nn.Module]]
"""(number of the file, the layer's name there) -> (what is added, the layer whose input it changes)."""


def attach_lights(unet: Any, files: Sequence[Path]) -> None:
    """Add what these files hold for the layers of a UNet, in their stored types, on the CPU.

    Raises RuntimeError, KeyError or ValueError where the sizes or layers differ; then nothing is changed.
    """
    places = layers_in((name for name, _ in unet.named_modules()), int(unet.config.layers_per_block))
    made: Attached = {}
    for number, file in enumerate(files):
        for layer, tensors in _by_layer(load_file(file)).items():
            changed = unet.get_submodule(places[layer])
            light = Light(tensors).eval().requires_grad_(False)
            if light.width != changed.in_features:
                raise ValueError(f"{layer}: {light.width} beside {changed.in_features}")
            made[number, layer] = (light, changed)
    for (number, layer), (light, _) in made.items():
        attention, _, projection = places[layer].rpartition(".")
        unet.get_submodule(attention).add_module(_ADDED.format(number, projection), light)
    unet.__dict__[_ATTACHED] = made
    _forget(unet)


def _by_layer(tensors: Mapping[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    found = dict[str, dict[str, torch.Tensor]]()
    for name, tensor in tensors.items():
        layer, own = light_parts(name)
        found.setdefault(layer, {})[own] = tensor
    return found


def detach_lights(unet: nn.Module) -> None:
    """Undo `attach_lights`."""
    if has_lights(unet):
        del unet.__dict__[_ATTACHED]
        for module in [*unet.modules()]:
            for name in [name for name, child in module.named_children() if isinstance(child, Light)]:
                delattr(module, name)
        _forget(unet)


def has_lights(unet: nn.Module) -> bool:
    """Whether something is attached to it."""
    return _ATTACHED in unet.__dict__


def _forget(unet: nn.Module) -> None:
    forget_input_casts(unet)
    forget_place(unet)


@contextmanager
def lit(unet: nn.Module, lights: Lights) -> Generator[None]:
    """Show the control pictures to the layers for the length of a block. Several change a layer's input one after the other."""
    attached, found = cast("Attached", unet.__dict__[_ATTACHED]), dict[nn.Module, list[tuple[Light, Shown]]]()
    for number, of_file in enumerate(lights):
        for layer, shown in of_file.items():
            light, changed = attached[number, layer]
            found.setdefault(changed, []).append((light, shown))
    # first: a layer's input may be scaled or cast afterwards
    handles = [layer.register_forward_pre_hook(partial(_enter, parts), prepend=True) for layer, parts in found.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _enter(parts: Sequence[tuple[Light, Shown]], _layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    given = cast("torch.Tensor", args[0])
    for light, shown in parts:
        given = light(given, shown)
    return (given, *args[1:])
