"""Watches the layers' outputs while they run: one reduction each, read when the step is judged.

In float32 that is the 2-norm, which reads every number once: not finite where a number is not, and infinite where the squares of
finite ones pass the limit. In 16 bits on a CPU it is the peak, which is faster there. What a layer makes on purpose, and the
layers behind it remove again, is watched no more.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from halftone.measure.probe import floating_outputs
from halftone.measure.stats import has_values
from halftone.training.guard.finite import ALL, INFINITE, NONE, Kinds, largest, looked_at, without
from halftone.training.guard.networks import joined

_PASS_ON: Final = (nn.Identity, nn.Dropout, nn.Flatten, nn.Unflatten)
"""Layers that make no number that was not there."""


class ActivationWatch:
    """Watches the outputs of every layer (a module without children, or with parameters of its own) and of each network."""

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        self._names: list[str] = []
        self._handles: list[RemovableHandle] = []
        seen: set[int] = set()
        for network, root in networks.items():
            for name, module in root.named_modules():
                if id(module) in seen or not (module is root or _is_layer(module)):
                    continue
                seen.add(id(module))
                note = cast("Any", partial(self._note, len(self._names)))
                self._names.append(joined(network, name))
                self._handles.append(module.register_forward_hook(note))
        self._seen: list[tuple[int, torch.Tensor | float]] = []
        self._meant: dict[int, Kinds] = {}
        self.narrow = False
        """Whether a layer gave 16-bit numbers since `begin`: then infinity may stand for a number that was too large."""
        self.paused = False

    def allow(self, kinds: Mapping[str, Kinds]) -> None:
        """These layers give such numbers on purpose: from now on only others of theirs count."""
        for place, name in enumerate(self._names):
            if name in kinds:
                self._meant[place] = self._meant.get(place, NONE) | kinds[name]

    def allow_seen(self, layers: Collection[str], kinds: Mapping[str, Kinds]) -> None:
        """Allow these layers what they were seen to make. kinds: for each layer that could be run again.

        A layer that could not is allowed infinity; noticed once more, it makes NaN.
        """
        meant = self.meant
        self.allow({name: kinds.get(name, ALL if meant.get(name, NONE) >= INFINITE else INFINITE) for name in layers})

    @property
    def meant(self) -> dict[str, Kinds]:
        """What each layer was found to give on purpose."""
        return {self._names[place]: kinds for place, kinds in self._meant.items()}

    def begin(self) -> None:
        """Forget what was seen: a step begins."""
        self._seen.clear()
        self.narrow = False

    def waiting(self) -> list[torch.Tensor]:
        """Scalars that are still to be read."""
        return [found for _, found in self._seen if isinstance(found, torch.Tensor)]

    @property
    def known_bad(self) -> bool:
        """Whether a layer's output is known not to be finite before anything is read."""
        return any(isinstance(found, float) and not math.isfinite(found) for _, found in self._seen)

    def bad(self, found: Sequence[float]) -> list[str]:
        """Layers whose outputs were not finite, in running order. found: what the scalars say."""
        numbers = iter(found)
        values = [(place, next(numbers) if isinstance(one, torch.Tensor) else one) for place, one in self._seen]
        return list(dict.fromkeys(self._names[place] for place, value in values if not math.isfinite(value)))

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _note(self, place: int, _module: nn.Module, _args: object, output: object) -> None:
        if self.paused:
            return
        for made in floating_outputs(output):
            self.narrow = self.narrow or made.itemsize < 4
            meant = self._meant.get(place)
            if meant != ALL and has_values(made):
                self._seen.append((place, looked_at(made) if meant is None else largest(without(made, meant))))


def _is_layer(module: nn.Module) -> bool:
    if isinstance(module, _PASS_ON):
        return False
    return next(module.children(), None) is None or next(module.parameters(recurse=False), None) is not None
