"""Watches the backward pass: the order in which parameters got their gradients, and which are bad. Also what autograd keeps for
it: a loss function's inputs, and softmaxes that gave NaN.
"""

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch.utils.hooks import RemovableHandle

from halftone.measure.stats import peak
from halftone.training.guard.finite import bad_among, plain


class GradientWatch:
    """Notes the order in which gradients arrive; costs no call of Python. What is frozen is watched once it is thawed."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self._all = dict(parameters)
        self._frozen: list[torch.Tensor] = []
        self._order: list[torch.Tensor] = []
        self._handles: list[RemovableHandle] = []
        self._left: dict[str, tuple[int, int]] = {}
        """Identity and version of each gradient that waits for more of its step."""
        self._watch(list(parameters.values()))

    @property
    def parameters(self) -> Collection[torch.Tensor]:
        """What is watched, in the order of the networks."""
        return self._parameters.values()

    def begin(self) -> None:
        """A step begins."""
        self._order.clear()
        if any(parameter.requires_grad for parameter in self._frozen):
            self._watch(self._frozen)

    def know(self, further: Mapping[str, torch.Tensor]) -> None:
        """Parameters that came later."""
        self._all |= further
        self._watch([*self._frozen, *further.values()])

    def norm(self, own: Collection[int]) -> torch.Tensor:
        """2-norm of the gradients of parameters with these identities. Does not wait."""
        return torch.nn.utils.get_total_norm([plain(g) for p, g in self._pairs() if id(p) in own])

    def exact_norm(self, own: Collection[int]) -> float:
        """The norm of finite gradients whose squares pass the limit of their type. Waits for the device."""
        return math.hypot(*(float(torch.linalg.vector_norm(plain(g).double())) for p, g in self._pairs() if id(p) in own))

    def take(self) -> dict[str, torch.Tensor]:
        """The gradients gathered so far, taken away: the next way back begins with none."""
        gathered = self._gradients()
        for parameter in self._parameters.values():
            parameter.grad = None
        return gathered

    def foreign(self, gathered: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The gathered gradients that are not as `give_back` left them: other code wrote there."""
        return {name: g for name, g in gathered.items() if self._left.get(name) != (id(g), g._version)}  # noqa: SLF001

    def give_back(self, gathered: Mapping[str, torch.Tensor], *, add: bool, waits: bool = True) -> None:
        """What was gathered, with what came in the meantime (`add`) or without it. waits: whether more of its step may come."""
        for name, parameter in self._parameters.items():
            before = gathered.get(name)
            if before is not None:
                parameter.grad = before if not add or parameter.grad is None else before.add_(parameter.grad)
            elif not add:
                parameter.grad = None
        if waits:
            self._left = {name: (id(g), g._version) for name, g in self._gradients().items()}  # noqa: SLF001

    def scale(self, factor: float) -> None:
        """What was gathered, multiplied."""
        for name, gradient in self._gradients().items():
            known = self._left.get(name) == (id(gradient), gradient._version)  # noqa: SLF001
            gradient.mul_(factor)
            if known:
                self._left[name] = id(gradient), gradient._version  # noqa: SLF001

    def clear(self) -> None:
        """The gradients were used, or are not wanted."""
        self._left.clear()
        for parameter in self._parameters.values():
            parameter.grad = None

    def peak(self, name: str) -> float:
        """Largest |x| of one gradient; 0.0 where there is none."""
        gradient = self._gradients().get(name)
        return 0.0 if gradient is None else peak(plain(gradient))

    def bad(self, own: Collection[int]) -> list[str]:
        """Parameters among these identities whose gradients are not finite, in backward order."""
        bad = set(bad_among({self._names[id(p)]: gradient for p, gradient in self._pairs() if id(p) in own}))
        arrived = [name for p in self._order if (name := self._names[id(p)]) in bad]
        return [*arrived, *(name for name in reversed(self._parameters) if name in bad and name not in arrived)]

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()

    def _watch(self, parameters: list[torch.Tensor]) -> None:
        """Watch the trained ones of these; the others wait."""
        self._frozen = [parameter for parameter in parameters if not parameter.requires_grad]
        self._handles += [p.register_post_accumulate_grad_hook(self._order.append) for p in parameters if p.requires_grad]
        waiting = {id(parameter) for parameter in self._frozen}
        self._parameters = {name: parameter for name, parameter in self._all.items() if id(parameter) not in waiting}
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}

    def _pairs(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return ((p, p.grad) for p in self._parameters.values() if p.grad is not None)

    def _gradients(self) -> dict[str, torch.Tensor]:
        return {name: p.grad for name, p in self._parameters.items() if p.grad is not None}


_FAR: Final = 32
"""Operations behind the loss that are looked at; a loss function has fewer."""
_SAVED: Final = "_raw_saved_"
_RESULTS: Final = ("result", "output", "logsumexp", "mean", "std")
"""Marks an operation's own results by name (an exponential keeps its own result)."""
_NAMES: Final[dict[type, tuple[str, ...]]] = {}
"""What each kind of operation keeps, by the name of the attribute: found once for each kind."""


_SOFTMAX: Final = frozenset(("SoftmaxBackward0", "LogSoftmaxBackward0"))
_SIGN: Final = 2**63
"""Dimensions counted from the end are kept as unsigned numbers above it."""


class Behind(NamedTuple):
    """The inputs of a loss. targets: tensors without gradients that it was computed from; rows: the first number of each row of
    each softmax, NaN where the whole row is.
    """

    targets: list[torch.Tensor]
    rows: list[torch.Tensor]


def behind(loss: torch.Tensor) -> Behind:
    """Look behind a loss before backward frees the graph, without reading values or unpacking what is packed."""
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
