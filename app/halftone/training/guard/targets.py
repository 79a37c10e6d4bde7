"""Reads from what autograd keeps for the way back what a loss function was given, and where a softmax in it gave NaN. A target is
no output of any network.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch

from halftone.measure.stats import peak

_FAR: Final = 32
"""Operations behind the loss that are looked at; a loss function has fewer."""
_SAVED: Final = "_raw_saved_"
_RESULTS: Final = ("result", "output", "logsumexp", "mean", "std")
"""In names of what an operation made itself (an exponential keeps its own result)."""
_NAMES: Final[dict[type, tuple[str, ...]]] = {}
"""What each kind of operation keeps, by the name of the attribute: found once for each kind."""


_SOFTMAX: Final = frozenset(("SoftmaxBackward0", "LogSoftmaxBackward0"))
_SIGN: Final = 2**63
"""Dimensions counted from the end are kept as unsigned numbers above it."""


class Behind(NamedTuple):
    """What lies behind a loss. targets: tensors that it was computed from and that no gradient goes to; rows: of each softmax the
    first number of each row, which is NaN where the whole row is.
    """

    targets: list[torch.Tensor]
    rows: list[torch.Tensor]


def behind(loss: torch.Tensor) -> Behind:
    """Look behind a loss. Only before backward: the graph is freed there. Looks at no number; what is kept packed (by
    checkpointing, or on the host) is not unpacked.
    """
    found = Behind([], [])
    waiting: deque[Any] = deque([loss.grad_fn])
    for _ in range(_FAR):
        if not waiting:
            break
        node = waiting.popleft()
        if node is None:
            continue
        found.targets.extend(value for value in map(_held, _kept(node)) if value is not None)
        if node.name() in _SOFTMAX:
            found.rows.extend(_rows(node))
        waiting.extend(following for following, _ in node.next_functions)
    return found


def any_row_nan(rows: Sequence[torch.Tensor]) -> bool:
    """Whether a softmax gave a whole row of NaN. Waits for the device."""
    return any(bool(row.isnan().any()) for row in rows)


def any_bad(targets: Sequence[torch.Tensor]) -> bool:
    """Whether one of them is not finite. Waits for the device."""
    return any(not math.isfinite(peak(target)) for target in targets)


def _rows(node: Any) -> list[torch.Tensor]:
    """The first number of each row that a softmax gave, copied: the rest need not be kept for it."""
    result, along = _plain(node._raw_saved_result), node._saved_dim  # noqa: SLF001 - how autograd names what it keeps
    if result is None or not result.numel():
        return []
    return [result.detach().select(along - 2 * _SIGN if along >= _SIGN else along, 0).clone()]


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


def _plain(saved: Any) -> torch.Tensor | None:
    """The tensor itself, where it is kept as it is."""
    value = None if getattr(saved, "unpack_hook", None) is not None else getattr(saved, "data", None)
    return value if isinstance(value, torch.Tensor) else None


def _held(saved: Any) -> torch.Tensor | None:
    """The tensor itself, where it is kept as it is and nothing behind it is trained."""
    value = _plain(saved)
    if value is None or not value.is_floating_point() or value.requires_grad or value.grad_fn is not None:
        return None
    return value
