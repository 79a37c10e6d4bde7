"""ControlNet-LLLite in one file (kohya's sd-scripts, networks/control_net_lllite.py): small networks that show the control
picture to single layers of a UNet's attention.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from halftone.contract.wording import Words
from halftone.library.families.original_names import original_unet_names

LLLITE: Final = "ControlNetLLLite"
"""The class in sd-scripts; diffusers has none."""
_START: Final = "lllite_unet_"
_PICTURE: Final = "conditioning1."
_ATTENTION: Final = re.compile(r".*_attn(1_to_[qkv]|2_to_q)")
_CONVOLUTION: Final = 4
"""Dimensions of its weight."""
LEVELS: Final = {1: 8, 2: 16, 3: 32}
"""Depth of a network that reads the picture -> how often the picture's edge holds that of its result."""


def light_parts(name: str) -> tuple[str, str]:
    """(layer of the UNet in the original names, joined by "_"; parameter within its network). ("", "") for another tensor."""
    layer, _, own = name.partition(".")
    return (layer.removeprefix(_START), own) if layer.startswith(_START) else ("", "")


def light_names(names: Iterable[str]) -> dict[str, str]:
    """Tensor of the file -> parameter of what reads the picture; what changes the UNet's layers is no part of that."""
    parts = {name: light_parts(name) for name in names}
    return {
        name: f"readers.{layer}.{own.removeprefix(_PICTURE)}" for name, (layer, own) in parts.items() if own.startswith(_PICTURE)
    }


def light_config(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The widths of what reads the picture for each layer. shapes: by the names in the file. Raises KeyError."""
    found = dict[str, dict[str, tuple[int, ...]]]()
    for name, shape in shapes.items():
        layer, own = light_parts(name)
        found.setdefault(layer, {})[own] = shape
    return {"_class_name": LLLITE, "layers": {layer: _sizes(layer, own) for layer, own in sorted(found.items()) if layer}}


def _sizes(layer: str, parts: Mapping[str, tuple[int, ...]]) -> list[int]:
    """Depth, inner width and width of what reads the picture for a layer, as ComfyUI's node tells them."""
    last = max((int(own.split(".")[1]) for own in parts if own.startswith(_PICTURE)), default=0)
    try:
        first, other = parts["conditioning1.0.weight"], parts[f"conditioning1.{last}.weight"]
    except KeyError as error:
        raise KeyError(f"{_START}{layer}.{error.args[0]}") from error
    return [3 if last == 4 else 2 if other[-1] == 4 else 1, first[0], other[0]]


def layers_in(unet_layers: Iterable[str], per_level: int) -> dict[str, str]:
    """Layer by its name in the file -> by that in diffusers. per_level: residual blocks of a level on the way down."""
    return {theirs.replace(".", "_"): ours for theirs, ours in original_unet_names(unet_layers, per_level).items()}


def unread_light(shapes: Mapping[str, tuple[int, ...]]) -> Words | None:
    """Why one of this form is not run; None for one that is. shapes: by the names in the file."""
    parts = {light_parts(name): shape for name, shape in shapes.items()}
    layers = {layer for layer, _ in parts}
    other = next((layer for layer in sorted(layers) if not _ATTENTION.fullmatch(layer)), None)
    if other is not None:
        return Words(
            "it is a ControlNet-LLLite that changes the layer {0}, and Halftone reads those that change attention", (other,)
        )
    return None
