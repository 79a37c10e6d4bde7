"""T2I-Adapters in one file, in diffusers' names or TencentARC's: what their names and shapes tell."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from halftone.contract.wording import Words

T2I: Final = "T2IAdapter"
"""The class of diffusers' folders."""
_PREFIX: Final = "adapter."
_LIGHT: Final = "adapter.body.0.out_conv.weight"
_PART: Final = re.compile(r"body\.(\d+)\.(?:body\.(\d+)\.)?(.*)")
_EACH: Final = 2
"""Residual blocks of a level in TencentARC's full adapters, whose blocks are numbered through."""
_SDXL_INPUTS: Final = (256, 768)
"""Channels of a picture, grey or in colour, that is folded by 16; those for SD 1.x fold it by 8."""


def adapter_names(names: Iterable[str]) -> dict[str, str]:
    """Tensor of the file -> name of the parameter in diffusers."""
    given = tuple(names)
    if any(".resnets." in name for name in given):
        return {name: name for name in given}
    plain = {name: name.removeprefix(_PREFIX) for name in given}
    light = "body.0.out_conv.weight" in plain.values()
    return {name: _PREFIX + _ours(own, light=light) for name, own in plain.items()}


def _ours(name: str, *, light: bool) -> str:
    match = _PART.fullmatch(name)
    if match is None:
        return name
    index, inner, rest = int(match[1]), match[2], match[3]
    if inner is not None:
        return f"body.{index}.resnets.{inner}.{rest}"
    if light:
        return name
    within = f"resnets.{index % _EACH}." if rest.startswith("block") else ""
    return f"body.{index // _EACH}.{within}{rest}"


def adapter_config(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """What diffusers needs to know. shapes: by the names in diffusers. Raises KeyError for a tensor that is missing."""
    found = [re.match(r"adapter\.body\.(\d+)\.resnets\.(\d+)\.", name) for name in shapes]
    places = [(int(match[1]), int(match[2])) for match in found if match]
    levels = sorted({level for level, _ in places})
    shared = {"num_res_blocks": 1 + max((block for _, block in places), default=0)}
    if _LIGHT in shapes:
        channels = [shapes[f"adapter.body.{level}.out_conv.weight"][0] for level in levels]
        width = shapes["adapter.body.0.in_conv.weight"][1]
        return {**shared, **_folded(width, 8), "adapter_type": "light_adapter", "channels": channels[:-1]}
    channels = [shapes[f"adapter.body.{level}.resnets.0.block1.weight"][0] for level in levels]
    width = shapes["adapter.conv_in.weight"][1]
    if width in _SDXL_INPUTS:
        return {**shared, **_folded(width, 16), "adapter_type": "full_adapter_xl", "channels": channels}
    return {**shared, **_folded(width, 8), "adapter_type": "full_adapter", "channels": channels}


def _folded(width: int, factor: int) -> dict[str, int]:
    return {"in_channels": max(1, width // factor**2), "downscale_factor": factor}


def adapter_traits(config: Mapping[str, Any]) -> dict[str, Any]:
    """Widths of the UNet to which it adds, and whether that is SDXL's."""
    channels = [int(width) for width in config.get("channels", ())]
    kind = config.get("adapter_type", "full_adapter")
    if kind == "light_adapter":
        channels += channels[-1:]  # its last block is not listed
    large = kind == "full_adapter_xl"
    # SDXL has one level fewer: the last features are added in its middle
    return {"layers": " + ".join(map(str, channels[:-1] if large else channels)), "sizes": "SDXL" if large else None}


def unread_adapter(shapes: Mapping[str, tuple[int, ...]]) -> Words | None:
    """Why an adapter of this form is not run; None for one that is. shapes: by the names in diffusers."""
    if any(name.endswith((".down_opt.op.weight", ".skep.weight")) for name in shapes):
        return Words("it is a T2I-Adapter with convolutions that diffusers' T2I-Adapter does not have")
    wide = any(name.endswith(".block2.weight") and shape[2:] != (1, 1) for name, shape in shapes.items())
    if wide and _LIGHT not in shapes:
        return Words("it is a T2I-Adapter with convolutions that diffusers' T2I-Adapter does not have")
    return None
