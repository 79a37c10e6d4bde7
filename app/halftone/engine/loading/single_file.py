"""Loads a whole model in one file: offline, every component built empty and given the mapped tensors.

What the file lacks (configurations, the scheduler, the tokenizer's words) comes with Halftone.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import nn

from halftone.contract.facts import ModelFacts
from halftone.engine.loading.small_tokenizers import small_tokenizer
from halftone.engine.weights.file_tensors import filled_component, one_type, unread
from halftone.engine.weights.mapped import UnfitFile, mapped_component
from halftone.engine.weights.packed import packed_layers
from halftone.engine.weights.precision import split_rows
from halftone.library.families.original_names import Place
from halftone.library.families.single_files import (
    Config,
    configs,
    holds_packed,
    of_component,
    own_options,
    own_schedule,
    place_of,
    places,
    tensors_by_component,
)
from halftone.library.families.split_files import model_header
from halftone.library.files.gguf_header import GGUF
from halftone.library.files.header import Header, read_header
from halftone.library.files.small_files import tokenizer_file
from halftone.library.prompts.tokens import merges, vocabulary


def load_single(facts: ModelFacts, stored: dict[str, torch.dtype]) -> Any:
    """The pipeline, every component in its stored dtype. Raises what the libraries raise."""
    import diffusers
    import transformers

    path = Path(facts.path)
    header = model_header(facts)
    found = configs(facts.family, header, facts.path)
    index = found.pop("model_index") | own_options(facts.base)
    found["scheduler"] |= own_schedule(facts.base)
    where = places(facts.family, header)
    held = {name: [one.name for one in tensors] for name, tensors in tensors_by_component(facts.family, header).items()}
    packed = _is_filled(facts, header)
    parts: dict[str, Any] = {}
    with nullcontext() if packed else _opened(path) as file:
        for name, value in index.items():
            if not isinstance(value, list):
                continue
            library, kind = cast("list[str | None]", value)
            if library is None or kind is None:
                parts[name] = None
            elif name.startswith("tokenizer"):
                parts[name] = _tokenizer(facts, name, kind, found[name])
            elif name == "scheduler":
                parts[name] = getattr(diffusers, kind).from_config(found[name])
            else:
                own = getattr(diffusers if library == "diffusers" else transformers, kind)
                places_there = of_component(where, name)
                if packed:
                    file_of = Path(facts.parts.get(name, path))
                    parts[name] = filled_component(own, found[name], file_of, header, places_there)
                    stored[name] = one_type(parts[name].parameters())
                else:
                    parts[name] = mapped_component(own, found[name], file, places_there, stored[name])
                if (why := unread(held[name], _read(parts[name], places_there))) is not None:
                    raise UnfitFile(why)
    options = {name: value for name, value in index.items() if not isinstance(value, list) and not name.startswith("_")}
    return getattr(diffusers, facts.pipeline)(**parts, **options)


def _read(module: nn.Module, where: Mapping[str, Place]) -> set[str]:
    """Tensors of the file that a component holds."""
    names = {*module.state_dict(), *(f"{name}.weight" for name in packed_layers(module))}
    return {place.tensor for name, place in where.items() if name in names}


def _is_filled(facts: ModelFacts, header: Header) -> bool:
    """Whether its components take what is packed in the file as it is, or come from several files."""
    return bool(facts.parts) or facts.path.lower().endswith(GGUF) or holds_packed(facts.family, header)


def component_from_file(facts: ModelFacts, path: Path, header: Header, name: str, kind: Any, dtype: torch.dtype) -> nn.Module:
    """One component of such a model. path: its file, be it the model's own or a copy; header: of the whole model there."""
    found = configs(facts.family, header, str(path))
    where = of_component(places(facts.family, header), name)
    if _is_filled(facts, header):
        return filled_component(kind, found[name], path, header, where)
    with _opened(path) as file:
        return mapped_component(kind, found[name], file, where, dtype)


def exponents_in_file(path: Path, family: str, rescale: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """What is rescaled (component -> parameter -> k), by the names that the file gives its tensors."""
    found = places(family, read_header(path))
    exponents: dict[str, int] = {}
    for component, own in rescale.items():
        for name, k in own.items():
            base, rows = split_rows(name)
            tensor, part, swapped = place_of(found, component, base)
            start, end = part or (0, None)
            first, last = start + (rows.start or 0), end if rows.stop is None else start + rows.stop
            if swapped and end is not None and last is not None and (first, last) != (start, end):
                moved = (first + (end - start) // 2) % end
                first, last = moved, moved + last - first
            exponents[tensor if (first, last) == (0, None) else f"{tensor}[{first}:{'' if last is None else last}]"] = k
    return exponents


def merged_in_file(path: Path, family: str, merged: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Values that take the place of the file's (component -> parameter -> value), by the file's names and in its shapes."""
    found = places(family, read_header(path))
    tensors: dict[str, torch.Tensor] = {}
    with _opened(path) as file:
        for component, own in merged.items():
            for name, value in own.items():
                tensor, rows, swapped = place_of(found, component, name)
                if tensor not in tensors:
                    tensors[tensor] = file.get_tensor(tensor).to(value.dtype, copy=True)
                part = tensors[tensor][slice(*rows)] if rows else tensors[tensor]
                given = torch.cat(value.chunk(2)[::-1]) if swapped else value
                part.copy_(given.T if tensor.endswith("text_projection") else given.reshape(part.shape))
    return tensors


@contextmanager
def _opened(path: Path) -> Generator[Any]:
    with safe_open(path, "pt") as file:
        yield file


def _tokenizer(facts: ModelFacts, name: str, kind: str, config: Config) -> Any:
    if kind != "CLIPTokenizer":
        return small_tokenizer(kind, config, tokenizer_file(facts, name))
    from transformers import CLIPTokenizer

    marks = {name: config[name] for name in ("bos_token", "eos_token", "unk_token", "pad_token", "model_max_length")}
    return CLIPTokenizer(vocab=vocabulary(), merges=cast("Any", merges()), **marks)
