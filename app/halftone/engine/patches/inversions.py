"""Textual inversions: vectors behind those of a text encoder's vocabulary, part of its exact weights as a LoRA is.

Their tokens count from the end: -1 is the last vector. So the vocabulary's tokens keep their places, and an encoder that finds
the end of a prompt by its largest token still does.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words
from halftone.engine.patches.embeddings import clip_encoders, takes_weights
from halftone.engine.weights.precision import changes_by_tensor, rescaled
from halftone.library.add_ons.inversions import (
    Inversion,
    bundled_inversions,
    inversion_name,
    matched,
    matching,
    places,
    read_inversion,
)
from halftone.library.files.header import file_stamp

log = logging.getLogger(__name__)

_WEIGHT: Final = "weight"


@dataclass(frozen=True)
class Learned:
    """An inversion that was read. vectors: component -> (vectors, width) in float32; version: of the file."""

    inversion: Inversion
    version: str
    vectors: Mapping[str, torch.Tensor] = field(compare=False)


class Vocabulary(nn.Embedding):
    """Tokens below 0 are places from the end."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name that torch gives it
        return super().forward(torch.where(input < 0, input + self.weight.shape[0], input))


def read_inversions(
    pipe: Any, model: ModelFacts, paths: Iterable[str], known: Sequence[Learned] = (), bundled: Iterable[Learned] = ()
) -> tuple[Learned, ...]:
    """Read inversions; the first of a name counts. known: read into this pipeline before, and not read again; bundled: in LoRAs,
    which count after the files.

    Raises HalftoneError inversion-missing, inversion-not-one, inversion-other-base or inversion-broken.
    """
    at_hand = {(one.inversion.path, one.version): one for one in known if not one.inversion.bundled}
    by_name: dict[str, str] = {}
    for path in paths:
        by_name.setdefault(inversion_name(path).casefold(), path)
    found = {name: at_hand.get((path, file_stamp(path))) or _read(pipe, model, path) for name, path in by_name.items()}
    for one in bundled:
        found.setdefault(one.inversion.name.casefold(), one)
    return tuple(found.values())


def _read(pipe: Any, model: ModelFacts, path: str) -> Learned:
    version, inversion = file_stamp(path), read_inversion(path)
    encoders = clip_encoders(pipe)
    vectors = _vectors(inversion, encoders, matching(inversion, _widths(encoders), model))
    if not _finite(vectors):
        raise HalftoneError("inversion-broken", name=inversion.name)
    return Learned(inversion, version, vectors)


def bundled_in(pipe: Any, path: str) -> tuple[tuple[Learned, ...], tuple[str, ...]]:
    """The embeddings in the file of a LoRA, and the names of those that do not fit the model. Raises HalftoneError."""
    version, encoders = file_stamp(path), clip_encoders(pipe) if takes_weights(pipe) else {}
    found: list[Learned] = []
    unfit: list[str] = []
    for name, inversion in bundled_inversions(path).items():
        tensors = matched(inversion, _widths(encoders)) if inversion is not None else None
        vectors = _vectors(inversion, encoders, tensors) if inversion is not None and tensors is not None else {}
        if inversion is not None and vectors and _finite(vectors):  # numbers that are not finite are the LoRA's damage
            found.append(Learned(inversion, version, vectors))
        else:
            unfit.append(name)
    return tuple(found), tuple(unfit)


def _widths(encoders: Mapping[str, Any]) -> list[int]:
    return [encoder.config.hidden_size for encoder in encoders.values()]


def _vectors(inversion: Inversion, encoders: Iterable[str], tensors: Iterable[str]) -> dict[str, torch.Tensor]:
    return {component: _tensor(inversion, tensor) for component, tensor in zip(encoders, tensors, strict=True)}


def _finite(vectors: Mapping[str, torch.Tensor]) -> bool:
    return all(bool(found.isfinite().all()) for found in vectors.values())


def _tensor(inversion: Inversion, name: str) -> torch.Tensor:
    try:
        with safe_open(inversion.path, "pt") as file:
            tensor: torch.Tensor = file.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise HalftoneError("inversion-not-one", str(error), path=inversion.path, detail=Words("it cannot be read")) from error
    return tensor.reshape(-1, tensor.shape[-1]).float()


def words_key(inversions: Iterable[Learned]) -> tuple[tuple[str, str, str], ...]:
    """Changes with the files, and when one of them is rewritten."""
    return tuple((one.inversion.name, one.inversion.path, one.version) for one in inversions)


def told_components(inversions: Iterable[Learned]) -> set[str]:
    """Components that learn words."""
    return {name for one in inversions for name in one.vectors}


def learned_tokens(inversions: Iterable[Learned], component: str) -> dict[str, tuple[int, ...]]:
    """Name -> its tokens for one text encoder."""
    return places({one.inversion.name: len(one.vectors[component]) for one in inversions if component in one.vectors})


def take_from_end(encoder: Any) -> None:
    """Let a text encoder read tokens below 0."""
    encoder.get_input_embeddings().__class__ = Vocabulary


@torch.no_grad()
def add_words(inversions: Iterable[Learned], component: str, encoder: Any, exponents: Mapping[str, int] | None = None) -> None:
    """Put the vectors behind those of a text encoder's vocabulary, which becomes float32.

    exponents: tensor -> k where the encoder's weights are 2**k times those that the vectors were made for.
    """
    rows = [one.vectors[component] for one in inversions if component in one.vectors]
    if not rows:
        return
    table: nn.Embedding = encoder.get_input_embeddings()
    name = next(name for name, module in encoder.named_modules() if module is table)
    added = rescaled(torch.cat(rows), changes_by_tensor(exponents or {}).get(f"{name}.{_WEIGHT}", ()))
    table.weight = nn.Parameter(torch.cat([table.weight.float(), added.to(table.weight.device)]), requires_grad=False)
    take_from_end(encoder)
    log.info("%s reads %d words from files", component, len(rows))
