"""ControlNets that were trained for several kinds of pictures: which kinds there are."""

import re
from collections.abc import Mapping
from typing import Any, Final

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.contract.wording import Words

UNION: Final = "ControlNetUnionModel"
"""The class in diffusers."""
UNION_MARK: Final = "task_embedding"
"""A tensor that only these have, with a row for each kind."""
_EDGES: Final = "canny"
KINDS: Final = ("openpose", "depth", "scribble", "canny", "normal", "segment", "tile", "repaint")
"""In the order of their numbers (xinsir/controlnet-union-sdxl-1.0): scribble has soft edges, too, canny line art. Only the later
file knows the last two.
"""


FLUX_KINDS: Final = ("canny", "tile", "depth", "blur", "openpose", "gray", "low quality")
"""In the order of their numbers (InstantX/FLUX.1-dev-Controlnet-Union)."""
ALL_KINDS: Final = tuple(dict.fromkeys((*KINDS, *FLUX_KINDS)))


def kinds_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The kinds that one knows; none for a plain ControlNet."""
    if config.get("num_mode"):
        return FLUX_KINDS[: int(config["num_mode"])]
    return KINDS[: int(config["num_control_type"])] if config.get("num_control_type") else ()


def mode_of(control: Control, config: Mapping[str, Any]) -> int | None:
    """The number of its kind; None for a plain ControlNet. Where none is given it is edges, which a check makes up."""
    kinds = kinds_of(config)
    return kinds.index(control.kind or _EDGES) if kinds else None


def check_kind(control: Control, config: Mapping[str, Any]) -> None:
    """Raise setting-bad-value where a kind is missing, unknown, or given to a ControlNet that was trained for one kind."""
    kinds = kinds_of(config)
    drawn = control.canny or not control.image
    if control.kind in kinds or (not control.kind and (drawn or not kinds)):
        return
    raise HalftoneError(
        "setting-bad-value",
        name=Words("The kind of picture of the ControlNet {0}", (control.name,)),
        value=control.kind or Words("none"),
        allowed=kinds or Words("none, as it was trained for one kind of picture"),
    )


def union_config(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """What shapes tell of it beside what they tell of any ControlNet; nothing for a plain one. shapes: by the names in
    diffusers.
    """
    if UNION_MARK not in shapes:
        return {}
    kinds, width = shapes[UNION_MARK]
    layers = {match[1] for name in shapes if (match := re.match(r"transformer_layes\.(\d+)\.", name))}
    return {"num_control_type": kinds, "num_trans_channel": width, "num_proj_channel": width, "num_trans_layer": len(layers)}
