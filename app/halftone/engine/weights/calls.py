"""A call of one component, as the pipeline made it: kept to be run again in another precision."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import torch
from torch import nn
from torch.utils._pytree import tree_flatten  # the nests that torch itself walks

from halftone.contract.vocabulary import DType
from halftone.engine.weights.offload import offload
from halftone.engine.weights.precision import invoke
from halftone.health.planning.recovery_policy import Where

Within = Callable[[nn.Module], AbstractContextManager[None]]
"""Changes a network for the length of a block."""
CLOSE: Final = 0.1
"""Largest relative error against float32 that counts as the same picture; float16 gives about 0.002, bfloat16 0.02."""


def plainly(_network: nn.Module) -> AbstractContextManager[None]:
    """Change nothing."""
    return nullcontext()


def both(one: Within, other: Within) -> Within:
    """One change inside the other."""
    if plainly in (one, other):
        return other if one is plainly else one
    return partial(_both, one, other)


@contextmanager
def _both(one: Within, other: Within, network: nn.Module) -> Generator[None]:
    with one(network), other(network):
        yield


@dataclass(frozen=True)
class Call:
    """A call as the pipeline made it, its arguments copied. step: 0-based denoising step, None outside the loop. within: what
    changed the network for this call.
    """

    component: str
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    step: int | None = None
    within: Within = plainly

    def is_like(self, other: "Call") -> bool:
        """Whether the other asks the same of the same component, number for number."""
        if (self.component, self.method) != (other.component, other.method):
            return False
        mine, shape = tree_flatten((self.args, self.kwargs))
        theirs, other_shape = tree_flatten((other.args, other.kwargs))
        return shape == other_shape and all(_equal(*pair) for pair in zip(mine, theirs, strict=True))

    @property
    def where(self) -> Where:
        """The stage of the picture it belongs to; encoding an input image counts as encoding."""
        if self.method == "decode":
            return "decode"
        return "encode" if self.step is None else "step"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _own_containers(value: Any) -> Any:
    """The same tensors in lists and dicts that may be written into: a UNet takes what a T2I-Adapter adds out of its list."""
    if type(value) is dict:
        return {key: _own_containers(item) for key, item in cast("dict[Any, Any]", value).items()}
    if type(value) in (list, tuple):
        return type(value)(_own_containers(item) for item in cast("list[Any]", value))
    return value


def run_call(call: Call, module: nn.Module, dtype: DType) -> Any:
    """Repeat a call with the module as it is now; the result has the pipeline's dtype. Offloaded modules are at home afterwards:
    whoever repeats calls writes weights between them.
    """
    # the class's own forward, not a wrapper that a flight put on the instance; hooks of the network's parts run either way
    function = getattr(type(module), call.method).__get__(module)
    args, kwargs = _own_containers((call.args, call.kwargs))
    try:
        with call.within(module):
            return invoke(module, function, dtype, args, kwargs, torch.float32 if call.method == "decode" else None)
    finally:
        offload(module)
