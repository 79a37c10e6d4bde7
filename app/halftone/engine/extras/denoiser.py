"""A transformer or UNet of one file in place of the model's own: .gguf or .safetensors; packed weights stay packed."""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import init_empty_weights
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import NAMES
from halftone.engine.extras.own_names import converted
from halftone.engine.loading.load import Loaded, component_from, make_ready, told_loading
from halftone.engine.loading.plans import HALF_DONE
from halftone.engine.patches.lora import changed_components
from halftone.engine.weights.file_tensors import fill, mapped, misfit, one_type, unread
from halftone.engine.weights.precision import ComponentState
from halftone.engine.weights.stored_tables import compute_missing_tables, tables_left_empty
from halftone.library.add_ons.denoisers import (
    check_transformer_fit,
    denoiser_name,
    denoiser_tensors,
    read_transformer,
)
from halftone.library.add_ons.vaes import vae_name
from halftone.library.files.header import UsedFile, path_version

log = logging.getLogger(__name__)


def put_transformer(loaded: Loaded, path: str | None) -> None:
    """Replace the denoiser by this file; None: restore its own. Raises transformer-*, model-load-failed, nothing changed."""
    wanted = None if path is None else UsedFile(path, path_version(path))
    name = denoiser_name(loaded.facts)
    if wanted == loaded.transformer or name is None:
        return
    read = partial(read_denoiser, loaded, name, path) if path is not None else None
    module = component_from(loaded, name, Path(loaded.facts.path)) if read is None else read()
    dtype = one_type(module.parameters())
    make_ready(loaded, name, module, dtype)
    # nothing from here on can fail
    loaded.pipe.register_modules(**{name: module})
    loaded.stored[name] = dtype
    as_read = name not in changed_components(loaded.patched) and not (read is None and loaded.fp8)
    loaded.states[name] = ComponentState(dtype=NAMES[dtype]) if as_read else HALF_DONE
    if read is None:
        loaded.sources.pop(name, None)
        loaded.file_names.pop(name, None)
    else:
        loaded.sources[name] = read
    loaded.forget_sizes()
    loaded.transformer = wanted
    log.info("%s: %s", name, path or "the model's own")


def told_as_it_is(loaded: Loaded) -> tuple[Words, ...]:
    """Say that FP8 storage does nothing with a file of its own."""
    if not loaded.fp8 or loaded.transformer is None:
        return ()
    return (Words("FP8 storage leaves a transformer of its own file as that file has it.", about="run"),)


def read_denoiser(loaded: Loaded, name: str, path: str) -> nn.Module:
    """Read the denoiser of a file as a component, on the CPU, packed weights mapped. Raises transformer-*, model-load-failed."""
    check_transformer_fit(path, loaded.facts)
    own = cast("Any", loaded.modules[name])
    with told_loading(loaded.facts, Path(path)):
        with init_empty_weights(include_buffers=False), tables_left_empty():
            made = cast("nn.Module", type(own).from_config(own.config))
        tensors = mapped(Path(path), denoiser_tensors(read_transformer(path)))  # by the names of the file
        found = converted(made, tensors)
        where = places_in_file(made, tensors)
        if (why := misfit(made, found) or (unread(tensors, where) if where else None)) is not None:
            model, family = loaded.facts.name, loaded.facts.family
            raise HalftoneError("transformer-other-model", name=vae_name(path), model=model, detail=why, family=family)
        loaded.file_names[name] = where
        fill(made, found)
        compute_missing_tables(made)
    return made


def places_in_file(made: nn.Module, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Tensor of the file -> its parameter; of several that lie in one tensor, the first. {} where that is unknown."""
    names = list(tensors)
    tags = {
        name: torch.full((value.shape[0] if value.dim() else 1, *(1,) * (value.dim() - 1)), float(index), dtype=torch.float64)
        for index, (name, value) in enumerate(tensors.items())
    }
    try:
        found = converted(made, tags)
    except (RuntimeError, ValueError, KeyError, IndexError, TypeError):
        return {}
    places: dict[str, str] = {}
    for name in made.state_dict():
        if name in found:
            places.setdefault(names[int(found[name].reshape(-1)[0])], name)
    return places
