"""A VAE of another file in the place of the model's own: everything else stays in memory, and the own one can come back."""

import logging
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import init_empty_weights
from safetensors import safe_open
from torch import nn

from halftone.engine.basics.tensors import NAMES
from halftone.engine.loading.folder_parts import no_deeper_than_weights
from halftone.engine.loading.load import Loaded, component_from, make_ready, narrowest, told_loading
from halftone.engine.weights.precision import ComponentState
from halftone.library.add_ons.vaes import VAE, names_in, vae_config, vae_file
from halftone.library.files.header import UsedFile, path_version, read_header

log = logging.getLogger(__name__)


def put_vae(loaded: Loaded, path: str | None) -> None:
    """Replace the VAE by this one; None: restore its own. Raises vae-* and model-load-failed; then nothing is changed."""
    wanted = None if path is None else UsedFile(path, path_version(path))
    if wanted == loaded.vae:
        return
    module = component_from(loaded, VAE, Path(loaded.facts.path)) if path is None else read_vae(loaded, path)
    dtype = next(module.parameters()).dtype
    make_ready(loaded, VAE, module, dtype)
    # nothing from here on can fail
    loaded.pipe.register_modules(vae=module)
    loaded.stored[VAE] = dtype
    loaded.states[VAE] = ComponentState(dtype=NAMES[dtype])
    if path is None:
        loaded.sources.pop(VAE, None)
    else:
        loaded.sources[VAE] = partial(read_vae, loaded, path)
    loaded.forget_sizes()
    loaded.vae = wanted
    log.info("VAE: %s", path or "the model's own")


def read_vae(loaded: Loaded, path: str) -> nn.Module:
    """Read the VAE of a folder or file, on the CPU, in its stored dtype. Raises vae-*, model-load-failed."""
    kind, config, file = cast("Any", type(loaded.modules[VAE])), vae_config(path, loaded.facts), vae_file(path)
    names = names_in(path)
    dtype = narrowest({tensor.dtype for tensor in read_header(file).tensors if tensor.name in names})
    with told_loading(loaded.facts, Path(path)):
        place = Path(path)
        limit = no_deeper_than_weights(place, config, len(names)) if place.is_dir() else nullcontext()
        with limit, init_empty_weights(include_buffers=False):
            module = cast("nn.Module", kind.from_config(config))
        wanted = {name: value.shape for name, value in module.state_dict().items()}
        with safe_open(file, "pt") as opened:
            found = {ours: held(opened.get_tensor(name), dtype) for name, ours in names.items()}
        # a linear layer may stand there as a convolution of one pixel, which is the same numbers in another shape
        fitting = {name: value.reshape(wanted[name]) for name, value in found.items() if name in wanted}
        module.load_state_dict(fitting, assign=True)
        return module


def held(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A copy of its own. Counters stay whole numbers."""
    return value.to(dtype if value.is_floating_point() else value.dtype, copy=True)
