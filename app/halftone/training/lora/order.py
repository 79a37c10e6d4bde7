"""The order of pictures. Everything random of a training is drawn here or from its generator: one state holds it all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from halftone.contract.training import TrainPicture

Batch = tuple[str, ...]
Item = TypeVar("Item")


@dataclass
class Order:
    """Batches of one shape, each picture `repeats` times per round. left: batches of this round, by picture names."""

    pictures: Mapping[str, TrainPicture]
    batch: int
    repeats: int
    generator: torch.Generator
    left: list[Batch] = field(default_factory=list[Batch])

    def next(self) -> Batch:
        """Names of the pictures of the next batch."""
        if not self.left:
            shapes: dict[tuple[int, int], list[str]] = {}
            for name, picture in self.pictures.items():
                shapes.setdefault(picture.shape, []).extend([name] * self.repeats)
            found = [batch for names in shapes.values() for batch in self._cut(self._shuffled(names))]
            self.left = self._shuffled(found)
        return self.left.pop(0)

    def without(self, name: str) -> None:
        """A picture no longer comes."""
        self.pictures = {own: picture for own, picture in self.pictures.items() if own != name}
        rest = (tuple(own for own in batch if own != name) for batch in self.left)
        self.left = [batch for batch in rest if batch]

    def _cut(self, names: Sequence[str]) -> list[Batch]:
        return [tuple(names[start : start + self.batch]) for start in range(0, len(names), self.batch)]

    def _shuffled(self, items: Sequence[Item]) -> list[Item]:
        return [items[place] for place in torch.randperm(len(items), generator=self.generator).tolist()]

    def happens(self, share: float) -> bool:
        """True with this probability; nothing is drawn where it is 0."""
        return share > 0 and float(torch.rand((), generator=self.generator)) < share
