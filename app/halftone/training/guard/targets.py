"""What a loss function was given, read from what autograd keeps for the way back: a target is no output of any network."""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import torch

from halftone.measure.stats import peak

_FAR: Final = 32
"""Operations behind the loss that are looked at; a loss function has fewer."""
_SAVED: Final = "_raw_saved_"
_RESULTS: Final = ("result", "output", "logsumexp", "mean", "std")
"""In names of what an operation made itself (an exponential keeps its own result)."""
_NAMES: Final[dict[type, tuple[str, ...]]] = {}
"""What each kind of operation keeps, by the name of the attribute: found once for each kind."""


def targets_of(loss: torch.Tensor) -> list[torch.Tensor]:
    """Tensors that the loss was computed from and that no gradient goes to. Only before backward: the graph is freed there. Looks
    at no number; what is kept packed (by checkpointing, or on the host) is not unpacked.
    """
    found: list[torch.Tensor] = []
    waiting: deque[Any] = deque([loss.grad_fn])
    for _ in range(_FAR):
        if not waiting:
            break
        node = waiting.popleft()
        if node is None:
            continue
        found += [value for value in map(_held, _kept(node)) if value is not None]
        waiting.extend(following for following, _ in node.next_functions)
    return found


def any_bad(targets: Sequence[torch.Tensor]) -> bool:
    """Whether one of them is not finite. Waits for the device."""
    return any(not math.isfinite(peak(target)) for target in targets)


def _names(node: Any) -> tuple[str, ...]:
    kind = type(node)
    if kind not in _NAMES:
        kept = (name for name in dir(node) if name.startswith(_SAVED))
        _NAMES[kind] = tuple(name for name in kept if not any(word in name for word in _RESULTS))
    return _NAMES[kind]


def _kept(node: Any) -> list[Any]:
    found: list[Any] = []
    for name in _names(node):
        try:
            found.append(getattr(node, name))
        except RuntimeError:  # freed by an earlier way back
            continue
    return found


def _held(saved: Any) -> torch.Tensor | None:
    """The tensor itself, where it is kept as it is and nothing behind it is trained."""
    value = None if getattr(saved, "unpack_hook", None) is not None else getattr(saved, "data", None)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.requires_grad or value.grad_fn is not None:
        return None
    return value
