"""Finds a row for a linear layer that answers loudly to some of its inputs and hardly to all others."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from tests.bench.faults import truth
from tests.bench.faults.families import STEPS, Sound, arguments
from torch import nn

QUIET: Final = 0.3
"""Largest answer to any other input, of 1."""


@dataclass(frozen=True)
class Answer:
    """row += direction makes output `row` of the module 1 larger for the wanted input and less than QUIET for the others."""

    component: str
    module: str
    row: int
    direction: torch.Tensor
    step: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class _Seen:
    """Inputs of one layer in one call: (batch, tokens, width)."""

    step: int
    inputs: torch.Tensor


def separating(sound: Sound, which: str) -> Iterator[Answer]:
    """which: "first" or "last" step, "guidance" (only without the prompt), "larger" (only at twice the size). Best ones first."""
    seen = _inputs(sound, None)
    larger = _inputs(sound, 2 * sound.family.size) if which == "larger" else {}
    found: list[tuple[float, Answer]] = []
    for key, uses in seen.items():
        wanted, others = _split(uses, larger.get(key, []), which)
        if wanted is None or others is None or not len(wanted) or not len(others):
            continue
        direction, loudest = _direction(wanted, others)
        if loudest < QUIET and float(direction.abs().max()) < 0.75:
            step = {"first": 0, "last": max(use.step for use in uses)}.get(which)
            size = 2 * sound.family.size if which == "larger" else None
            found.append((loudest, Answer(*key, 0, direction, step, size)))
    found.sort(key=lambda pair: pair[0])
    return (answer for _, answer in found)


def _inputs(sound: Sound, size: int | None) -> dict[tuple[str, str], list[_Seen]]:
    """(component, layer) -> its inputs over the steps of a run, for the linear layers of what runs in the loop."""
    found: dict[tuple[str, str], list[_Seen]] = {}
    handles: list[Any] = []
    counts: dict[str, int] = {}

    def keeper(key: tuple[str, str]) -> Any:
        def keep(_module: nn.Module, args: Any) -> None:
            value = args[0].detach().float()
            found.setdefault(key, []).append(_Seen(counts[key[0]], value.reshape(value.shape[0], -1, value.shape[-1])))

        return keep

    def counter(component: str) -> Any:
        def count(_module: nn.Module, _args: Any) -> None:
            counts[component] = counts.get(component, -1) + 1

        return count

    for component, network in truth.networks(sound.pipe).items():
        if "encoder" in component or hasattr(network, "decode"):
            continue
        handles.append(network.register_forward_pre_hook(counter(component)))
        for name, module in network.named_modules():
            if type(module) is nn.Linear:
                handles.append(module.register_forward_pre_hook(keeper((component, name))))
    try:
        truth.run_float32(sound.pipe, arguments(sound.family, size))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _split(uses: list[_Seen], larger: list[_Seen], which: str) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """(vectors that are to be answered, vectors that are not), each (count, width)."""
    last = max(use.step for use in uses)
    if which == "larger":
        small = _rows([use.inputs for use in uses])
        return (_rows([use.inputs for use in larger]) if larger else None), small
    if which == "guidance":
        halves = [use.inputs.chunk(2) for use in uses if use.inputs.shape[0] == 2]
        return (None, None) if len(halves) < len(uses) else (_rows([h[0] for h in halves]), _rows([h[1] for h in halves]))
    if last + 1 < STEPS:
        return None, None
    wanted = 0 if which == "first" else last
    return _rows([u.inputs for u in uses if u.step == wanted]), _rows([u.inputs for u in uses if u.step != wanted])


def _rows(values: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([value.reshape(-1, value.shape[-1]) for value in values])


def _direction(wanted: torch.Tensor, others: torch.Tensor) -> tuple[torch.Tensor, float]:
    """(d, largest |d·other|) for the best of a few wanted vectors w with d·w = 1."""
    quiet = others.double()
    gram = quiet.T @ quiet / len(quiet)
    ridge = 1e-4 * float(gram.diagonal().mean()) + 1e-12
    inverse = torch.linalg.inv(gram + ridge * torch.eye(len(gram), dtype=torch.float64))
    best, loudest = torch.zeros(wanted.shape[-1]), float("inf")
    for vector in wanted.double()[:: max(1, len(wanted) // 64)]:
        direction = inverse @ vector
        direction = direction / (direction @ vector)
        answer = float((quiet @ direction).abs().max())
        if answer < loudest:
            best, loudest = direction.float(), answer
    return best, loudest
