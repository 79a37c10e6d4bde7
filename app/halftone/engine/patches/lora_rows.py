"""Finds what of a LoRA's file reaches the model where diffusers converts its names, so that all that a converter drops is
reported.

diffusers splits, joins and reorders layers of other programs' files, and drops what it does not know, DoRA's magnitudes among it,
with a warning at most. So the file is loaded twice: as it is, and with the row numbers as values. The numbers that arrive show
which row of the file became which row of the model.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import torch

from halftone.contract.wording import Words
from halftone.engine.patches.lycoris import Unusable, decomposed
from halftone.engine.weights.recipe import Delta

Tensors = Mapping[str, torch.Tensor]

_UP: Final = re.compile(r"(.+?)[._]lora(?:_up|_B|\.up|_linear_layer\.up)(?:\.default)?\.weight$")
_DOWN: Final = re.compile(r"(.+?)[._]lora(?:_down|_A|\.down|_linear_layer\.down)(?:\.default)?\.weight$")
_LENGTHS: Final = re.compile(r"(.+)\.(?:dora_scale|lora_magnitude_vector(?:\.default)?(?:\.weight)?)$")
_ALPHA: Final = re.compile(r"(.+)\.alpha$")
_CLOSE: Final = 0.02
"""Share of a row's length by which narrow types and a divided alpha may change it."""


@dataclass(frozen=True)
class FileLayer:
    """Describes a layer as its file has it. first: number of its first row, counted from 1 over the whole file."""

    up: str
    down: str
    first: int
    rows: int
    rank: int
    scale: float
    lengths: torch.Tensor | None


class Reading(Protocol):
    """A layer that was read by diffusers and peft."""

    @property
    def finite(self) -> bool: ...

    @property
    def has_bias(self) -> bool: ...

    def factors(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(rows, rank) and (rank, columns) in float32, alpha among them; None where it has no such two."""
        ...

    def pair(self, weight: float) -> tuple[torch.Tensor, torch.Tensor] | None: ...

    def delta(self, weight: float, like: torch.Tensor) -> Delta | None: ...

    def merged(self, held: Tensors, weight: float) -> Mapping[str, torch.Tensor]: ...


def file_layers(tensors: Tensors) -> tuple[FileLayer, ...]:
    """The layers of a file with two factors, in its order."""
    downs = {match[1]: name for name in tensors if (match := _DOWN.match(name))}
    lengths = {match[1]: tensor for name, tensor in tensors.items() if (match := _LENGTHS.match(name))}
    alphas = {
        match[1]: float(tensor) for name, tensor in tensors.items() if (match := _ALPHA.match(name)) and tensor.numel() == 1
    }
    found: list[FileLayer] = []
    first = 1
    for name, up in tensors.items():
        match = _UP.match(name)
        if match is None or match[1] not in downs:
            continue
        layer, rank = match[1], tensors[downs[match[1]]].shape[0]
        scale = alphas.get(layer, rank) / rank
        found.append(FileLayer(name, downs[layer], first, up.shape[0], rank, scale, lengths.get(layer)))
        first += up.shape[0]
    return tuple(found)


def further(tensors: Tensors) -> tuple[str, ...]:
    """Names of what is neither of the two factors, nor alpha, nor a length of DoRA."""
    return tuple(name for name in tensors if not any(known.match(name) for known in (_UP, _DOWN, _ALPHA, _LENGTHS)))


def without_lengths(tensors: Tensors) -> dict[str, torch.Tensor]:
    """The file as a plain LoRA."""
    return {name: tensor for name, tensor in tensors.items() if _LENGTHS.match(name) is None}


def numbered(tensors: Tensors, layers: Sequence[FileLayer]) -> dict[str, torch.Tensor]:
    """The file with the number of each row in the place of what its up factor holds, and an alpha that changes nothing."""
    made = {name: torch.zeros_like(tensor) for name, tensor in without_lengths(tensors).items()}
    made |= {name: torch.ones_like(tensor, dtype=torch.float32) for name, tensor in tensors.items() if _DOWN.match(name)}
    ranks: dict[str, int] = {}
    for layer in layers:
        up = tensors[layer.up]
        rows = torch.arange(layer.first, layer.first + layer.rows, dtype=torch.float32)
        made[layer.up] = rows.reshape(-1, *[1] * (up.dim() - 1)).expand(up.shape).contiguous()
        match = _UP.match(layer.up)
        assert match is not None, "the name of an up factor"
        ranks[match[1]] = layer.rank
    for name in tensors:
        if (match := _ALPHA.match(name)) and match[1] in ranks:
            made[name] = torch.tensor(float(ranks[match[1]]))
    return made


def rows_in(reading: Reading) -> torch.Tensor | None:
    """The file's row number for each row of a layer read from the numbered file; 0 for rows that come from none."""
    factors = reading.factors()
    return None if factors is None else factors[0].amax(1).round().long()


class Dora:
    """A layer of peft with DoRA's lengths, which diffusers leaves out. lengths: as `decomposed` takes them."""

    def __init__(self, layer: Reading, lengths: torch.Tensor) -> None:
        self._layer = layer
        self._lengths = lengths

    @property
    def finite(self) -> bool:
        return self._layer.finite and bool(self._lengths.isfinite().all())

    @property
    def has_bias(self) -> bool:
        return self._layer.has_bias

    def pair(self, weight: float) -> None:
        """It has none: the lengths depend on the weight that it is added to."""
        del weight

    def delta(self, weight: float, like: torch.Tensor) -> None:
        """Add nothing alone, as `pair`."""
        del weight, like

    def merged(self, held: Tensors, weight: float) -> Mapping[str, torch.Tensor]:
        found = dict(self._layer.merged(held, 1.0))
        added = decomposed(found["weight"], self._lengths.float()) - held["weight"]
        return {name: held[name] + weight * (value - held[name]) for name, value in found.items()} | {
            "weight": held["weight"] + weight * added
        }


def owners(rows: torch.Tensor, layers: Sequence[FileLayer]) -> Iterator[tuple[FileLayer, torch.Tensor]]:
    """The layers of the file of which a layer of the model has rows, and where in it they are, as a mask."""
    firsts = torch.tensor([layer.first for layer in layers])
    index = torch.searchsorted(firsts, rows, right=True) - 1
    for number in sorted(set(index.tolist()) - {-1}):
        yield layers[number], index == number


def arrived(rows: Iterable[torch.Tensor], layers: Sequence[FileLayer]) -> int:
    """How many layers of the file reached the model with all their rows."""
    seen = torch.cat([torch.empty(0, dtype=torch.long), *rows]).unique()
    return sum(int(own.sum()) == layer.rows for layer, own in owners(seen, layers))


def with_lengths(reading: Reading, rows: torch.Tensor, layers: Sequence[FileLayer]) -> "Reading | Dora":
    """The layer with the lengths of DoRA that belong to its rows. Raises Unusable where they have no place."""
    held = list(owners(rows, layers))
    if not any(layer.lengths is not None for layer, _ in held):
        return reading
    lengths = torch.empty(len(rows), 1)
    for layer, own in held:
        given = layer.lengths
        if given is None or not bool(rows.all()):
            raise Unusable(Words("it is a DoRA, and some rows of the model's layers would get no magnitude"))
        if given.numel() != layer.rows or (given.dim() > 1 and given.shape[0] != layer.rows):
            return _of_columns(reading, rows, held)
        lengths[own] = given.float().reshape(-1, 1)[rows[own] - layer.first]
    return Dora(reading, lengths)


def _of_columns(reading: Reading, rows: torch.Tensor, held: list[tuple[FileLayer, torch.Tensor]]) -> Dora:
    """Lengths of columns go over all rows of the layer in the file, and so they need all of them, and no others, together."""
    ((layer, own), *others) = held
    assert layer.lengths is not None
    if others or layer.rows != len(rows) or not bool(own.all()):
        raise Unusable(Words("it is a DoRA whose magnitudes span layers that this model keeps separate"))
    return Dora(reading, layer.lengths.float().reshape(1, -1))


def changed(reading: Reading, rows: torch.Tensor, tensors: Tensors, layers: Sequence[FileLayer]) -> bool:
    """Whether a layer holds something else than the rows of the file that it has: an alpha that was lost, for instance."""
    factors = reading.factors()
    if factors is None:
        return False
    made = _lengths_of(*factors)
    for layer, own in owners(rows, layers):
        up, down = (tensors[name].float().flatten(1) for name in (layer.up, layer.down))
        wanted = _lengths_of(up[rows[own] - layer.first] * layer.scale, down)
        if float((made[own] - wanted).abs().max()) > _CLOSE * float(wanted.max()):
            return True
    return False


def _lengths_of(up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Measure the rows of a product without making it."""
    return torch.einsum("ik,kl,il->i", up, down @ down.T, up).clamp_min(0).sqrt()
