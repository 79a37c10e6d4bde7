"""A VAE of another file in the place of the model's own: everything else stays in memory, and the own one can come back."""

import logging
from functools import partial
from pathlib import Path
from typing import Any, cast

from accelerate import init_empty_weights
from safetensors import safe_open
from torch import nn

from halftone.engine.load import Loaded, component_from, narrowest, settle, told_loading
from halftone.library.header import read_header
from halftone.library.vaes import VAE, VaeFile, parameter_names, vae_config, vae_file, vae_version

log = logging.getLogger(__name__)


def put_vae(loaded: Loaded, path: str | None) -> None:
    """Let this VAE take the place of the model's own; None: the own one comes back. What is there already is not read again.

    Raises HalftoneError vae-* and model-load-failed; then nothing is changed.
    """
    wanted = None if path is None else VaeFile(path, vae_version(path))
    if wanted == loaded.vae:
        return
    if path is None:
        module = component_from(loaded, VAE, Path(loaded.facts.path))
        loaded.sources.pop(VAE, None)
    else:
        module = read_vae(loaded, path)
        loaded.sources[VAE] = partial(read_vae, loaded, path)
    loaded.vae = wanted
    loaded.stored[VAE] = next(module.parameters()).dtype
    loaded.pipe.register_modules(vae=module)
    vars(loaded).pop("sizes", None)  # counted of the one before
    settle(loaded, VAE, module)
    log.info("VAE: %s", path or "the model's own")


def read_vae(loaded: Loaded, path: str) -> nn.Module:
    """The VAE of a folder or a file as a component of this model, on the CPU, in its stored dtype. Raises vae-*,
    model-load-failed.
    """
    kind, config, file = cast("Any", type(loaded.modules[VAE])), vae_config(path, loaded.facts), vae_file(path)
    header = read_header(file)
    names = parameter_names(header)
    dtype = narrowest({tensor.dtype for tensor in header.tensors if tensor.name in names})
    with told_loading(loaded.facts, Path(path)):
        with init_empty_weights(include_buffers=False):
            module = cast("nn.Module", kind.from_config(config))
        wanted = {name: parameter.shape for name, parameter in module.named_parameters()}
        with safe_open(file, "pt") as opened:
            found = {ours: opened.get_tensor(name).to(dtype, copy=True) for name, ours in names.items()}
        # a linear layer may stand there as a convolution of one pixel, which is the same numbers in another shape
        fitting = {name: value.reshape(wanted[name]) for name, value in found.items() if name in wanted}
        module.load_state_dict(fitting, assign=True)
        return module
