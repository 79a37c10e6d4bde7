"""The blocks of a component for the planner: in measured running order, with sizes and the readers of skip connections."""

from collections.abc import Mapping
from typing import Any, cast

from torch import nn

from halftone.engine.weights.parts import parameter_count, units
from halftone.health.planning.planner import Region


def component_regions(component: str, module: nn.Module, order: Mapping[str, int]) -> tuple[Region, ...]:
    """One region per unit that ran. order: module name -> rank of its first completion, from a probe."""
    readers = _skip_readers(cast("Any", module))
    ran = sorted((pair for pair in units(module) if pair[0] in order), key=lambda pair: order[pair[0]])
    return tuple(
        Region(component=component, name=name, modules=(name,), parameters=parameter_count(unit), readers=readers.get(name, ()))
        for name, unit in ran
    )


def _skip_readers(module: Any) -> dict[str, tuple[str, ...]]:
    """Which later residual block reads the output of each producer of a UNet's skip connections."""
    if not (hasattr(module, "down_blocks") and hasattr(module, "up_blocks") and hasattr(module, "conv_in")):
        return {}
    producers = ["conv_in"]
    for index, block in enumerate(module.down_blocks):
        attentions = getattr(block, "attentions", None)
        for number, _ in enumerate(getattr(block, "resnets", ())):
            kind = "attentions" if attentions is not None and number < len(attentions) else "resnets"
            producers.append(f"down_blocks.{index}.{kind}.{number}")
        producers += [f"down_blocks.{index}.downsamplers.0"] if getattr(block, "downsamplers", None) is not None else []
    readers: dict[str, tuple[str, ...]] = {}
    for index, block in enumerate(module.up_blocks):
        for number, _ in enumerate(getattr(block, "resnets", ())):
            if producers:
                readers[producers.pop()] = (f"up_blocks.{index}.resnets.{number}",)
    return readers
