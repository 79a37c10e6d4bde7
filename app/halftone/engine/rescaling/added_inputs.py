"""Inputs that a ControlNet or an adapter adds to a call of a rescaled component, and whether the rescaling is exact with them.

A residual of a ControlNet is added to a stream: where the stream is kept 2**k times as small, the residual must be, too. Which
power of two an input needs is found by running the call in a wide type, with and without the rescaling. An input must show in the
result to prove anything, so it is made stronger or weaker until it does.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, Final, cast

import torch
from torch import nn

from halftone.contract.plan import input_of, is_input, stored_in
from halftone.engine.basics.tensors import map_tensors, relative_error, tensors_in
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import Call

EXACT: Final[Mapping[torch.dtype, float]] = {torch.float32: 0.02, torch.bfloat16: 0.04}
"""Largest relative error that a rescaling may cost in a type with room: the epsilon of norms that see smaller numbers."""
_SHOWS: Final = (0.1, 0.6)
"""Share of the result that an input must change to prove something: a wrong power of two would cost half of it or more. Where it
changes nearly all, norms hide a wrong one.
"""
_STEP: Final = 4.0
_STEPS: Final = 10
"""An input is made that much stronger or weaker, so many times at most."""
_SAME: Final = 0.02
"""Relative change of a small share below which a factor changes nothing."""
_FAINT: Final = 0.005
"""Share below which an input proves nothing."""
_OF_SHARE: Final = 0.25
"""Largest error as a share of what the weakest input changes: a power of two too much or too little costs half of that."""
_POWERS: Final = 3
"""Different powers of two that are tried, the most frequent ones of the rescaling."""
_APART: Final = 3
"""Inputs that may need different powers."""
_OWN: Final = re.compile(
    r"sample|hidden_states|latents?|x|t|r|\w*timestep\w*|sigmas?|guidance\w*|encoder_hidden_states\w*|pooled_\w+|text_\w+|txt_\w+"
    r"|prompt_\w+|cap_\w+|clip_text\w*|\w+_ids|\w*mask\w*|\w*rotary\w*|freqs\w*|class_labels|resolution|aspect_ratio|style"
    r"|image_meta_size|fps|scale"
)
"""Arguments by which a pipeline gives a network its latents, time and words: every call, and so any check of a rescaling, has
them. All other arguments are looked at.
"""


def added_inputs(call: Call, module: nn.Module) -> dict[str, Any]:
    """Arguments of a call of forward that hold non-zero numbers and are not the model's own; in a dict by both names:
    "added_cond_kwargs.image_embeds". Waits for the device once, where there are any.
    """
    return acting(passed_inputs(call, module))


def passed_inputs(call: Call, module: nn.Module) -> dict[str, Any]:
    """The same, zeros included: nothing is read from the device."""
    if call.method != "forward":
        return {}
    found: dict[str, Any] = {}
    for name, value in _by_name(call, module).items():
        inside = {f"{name}.{key}": item for key, item in cast("dict[Any, Any]", value).items()} if type(value) is dict else None
        found |= {name: value} if inside is None else inside
    return {path: value for path, value in found.items() if not _OWN.fullmatch(path.rpartition(".")[2]) and _has_tensors(value)}


def acting(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with non-zero numbers, read with one wait."""
    named = [(path, tensor) for path, value in inputs.items() for tensor in tensors_in(value)]
    if not named:
        return {}
    # one device for all, not the CPU where another is in use: a copy to the CPU would be another wait
    device = max((tensor.device for _, tensor in named), key=lambda device: device.type != "cpu")
    flags: list[bool] = torch.stack([tensor.any().to(device) for _, tensor in named]).tolist()
    names = {path for (path, _), flag in zip(named, flags, strict=True) if flag}
    return {path: value for path, value in inputs.items() if path in names}


def _has_tensors(value: Any) -> bool:
    return next(tensors_in(value), None) is not None


def _by_name(call: Call, module: nn.Module) -> dict[str, Any]:
    return dict(zip(_arguments_of(type(module)), call.args, strict=False)) | call.kwargs


@lru_cache(maxsize=64)
def _arguments_of(kind: type[nn.Module]) -> tuple[str, ...]:
    """Names of the arguments of forward. To read them takes longer than all else that is done before a call."""
    return tuple(inspect.signature(kind.forward).parameters)[1:]


def shape_of(path: str, value: Any) -> str:
    """An input for the key of what is remembered: how many tensors it holds may decide where they go."""
    return f"{path}[{len(list(tensors_in(value)))}]"


def without_added(call: Call, module: nn.Module) -> Call:
    """The call with zeros in the place of what is added to it directly."""
    return _times(call, module, {path: 0.0 for path in added_inputs(call, module) if "." not in path})


def _times(call: Call, module: nn.Module, factors: Mapping[str, float]) -> Call:
    """The call with these inputs multiplied."""
    if all(factor == 1.0 for factor in factors.values()):
        return call

    def changed(name: str, value: Any) -> Any:
        if type(value) is dict:
            return {key: changed(f"{name}.{key}", item) for key, item in cast("dict[Any, Any]", value).items()}
        return map_tensors(value, lambda tensor: tensor * factors[name]) if name in factors else value

    return replace(call, args=(), kwargs={name: changed(name, value) for name, value in _by_name(call, module).items()})


@dataclass(frozen=True)
class Proof:
    """rescale: with the exponents of the added inputs, None if none is exact; lasting: holds for other calls, too."""

    rescale: dict[str, int] | None
    lasting: bool


def prove(
    call: Call, module: nn.Module, rescale: Mapping[str, int], run: Callable[[Mapping[str, int], Call], Any]
) -> Proof | None:
    """Whether a rescaling, or which completion of it, is exact. None: the call is not finite in a wide type, which has nothing to
    do with scale.

    run: the call's result in a wide type, under a rescaling.
    """
    added = tuple(added_inputs(call, module))
    if not is_finite(run({}, call)):
        return None

    def with_factors(factors: Mapping[str, float]) -> Any:
        return run({}, _times(call, module, {**dict.fromkeys(added, 0.0), **factors}))

    shown = {name: _shown(name, with_factors) for name in added}
    strong = _times(call, module, {name: factor for name, (factor, _) in shown.items()})
    reference = run({}, strong)
    weakest = min((share for _, share in shown.values()), default=1.0)
    lasting = weakest >= _FAINT
    limit = EXACT.get(next(tensors_in(reference)).dtype, EXACT[torch.bfloat16])
    limit = min(limit, _OF_SHARE * weakest) if lasting else limit
    for proposal in _proposals(rescale, [name for name in added if "." not in name]):
        if relative_error(run(proposal, strong), reference) <= limit:
            return Proof(proposal, lasting=lasting)
    return Proof(None, lasting=lasting)


def _shown(name: str, run: Callable[[Mapping[str, float]], Any]) -> tuple[float, float]:
    """(factor with which an input shows in the result, share of the result that it then changes): alone, as the others might hide
    it. An adapter's words are normed before they are read: no factor changes their effect.

    run: the result with some inputs times a factor, and without all others.
    """
    without = run({})
    factor, share = 1.0, relative_error(without, run({name: 1.0}))
    for _ in range(_STEPS):
        if _SHOWS[0] <= share <= _SHOWS[1]:
            break
        faint = share < _SHOWS[0]
        more = factor * (_STEP if faint else 1 / _STEP)
        found = relative_error(without, run({name: more}))
        if not found < float("inf") or (faint and share > 0 and abs(found - share) < _SAME * share):
            break
        factor, share = more, found
    return factor, share


def _proposals(rescale: Mapping[str, int], names: list[str]) -> Iterator[dict[str, int]]:
    """The rescaling as it is, then with other powers of two for these inputs: one for all, then apart."""
    yield dict(rescale)
    tensors = {name: k for name, k in rescale.items() if not is_input(name)}
    powers = [k for k, _ in Counter(k for k in stored_in(rescale).values() if k < 0).most_common(_POWERS)]
    choices = [(k,) * len(names) for k in powers]
    if 1 < len(names) <= _APART:
        choices += list(product((0, *powers[:1]), repeat=len(names)))
    tried = [dict(rescale)]
    for choice in choices if names else ():
        found = tensors | {input_of(name): k for name, k in zip(names, choice, strict=True) if k}
        if found not in tried:
            tried.append(found)
            yield found
