"""What a loss function was given, read from what autograd keeps for the way back: a target is no output of any network."""

import math
from collections import deque
from typing import Any, Final

import torch

from halftone.measure.stats import peak

_FAR: Final = 32
"""Operations behind the loss that are looked at; a loss function has fewer."""
_SAVED: Final = "_saved_"


def bad_target(loss: torch.Tensor) -> bool:
    """Whether a tensor that the loss was computed from, and that no gradient goes to, is not finite. Only before backward: the
    graph is freed there.
    """
    waiting: deque[Any] = deque([loss.grad_fn])
    for _ in range(_FAR):
        if not waiting:
            return False
        node = waiting.popleft()
        if node is None:
            continue
        if any(not saved.requires_grad and not math.isfinite(peak(saved)) and _is_leaf(node, saved) for saved in _saved(node)):
            return True
        waiting.extend(following for following, _ in node.next_functions)
    return False


def _saved(node: Any) -> list[torch.Tensor]:
    names = [name for name in dir(node) if name.startswith(_SAVED) and not name.startswith("_saved_self_sym")]
    found: list[torch.Tensor] = []
    for name in names:
        try:
            value = getattr(node, name)
        except RuntimeError:  # freed by an earlier way back
            continue
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            found.append(value)
    return found


def _is_leaf(node: Any, saved: torch.Tensor) -> bool:
    """Given from outside: not the result of this operation itself (an exponential keeps its own result)."""
    return "_result" not in type(node).__name__ and saved.grad_fn is None
