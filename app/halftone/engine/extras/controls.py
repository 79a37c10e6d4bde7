"""ControlNets beside a loaded model: one more component, watched, checked and cured like any other."""

import inspect
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import diffusers
import torch
from accelerate import init_empty_weights
from safetensors import safe_open
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Control
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.tensors import NAMES
from halftone.engine.extras.control_nets import AdapterNet, ControlNets, PlainNet, UnionNet, set_modes
from halftone.engine.extras.derived_controls import with_own_weights
from halftone.engine.extras.lllite import LightNet
from halftone.engine.extras.vae import held
from halftone.engine.loading.folder_parts import no_deeper_than_weights
from halftone.engine.loading.load import Loaded, make_ready, narrowest, told_loading
from halftone.engine.loading.plans import HALF_DONE
from halftone.engine.patches.lights import attach_lights, detach_lights, has_lights
from halftone.engine.weights.file_tensors import one_type
from halftone.engine.weights.precision import ComponentState
from halftone.engine.weights.recipe import forget_base
from halftone.engine.weights.stored_tables import tables_left_empty
from halftone.health.faults import is_out_of_memory
from halftone.library.add_ons.control_kinds import UNION
from halftone.library.add_ons.controlnets import (
    CONTROLNET,
    UNETS,
    config_of,
    folder_config,
    form_of,
    parameter_names,
    stands_on_model,
    weight_files,
)
from halftone.library.add_ons.lllite import LLLITE
from halftone.library.add_ons.loras import lora_key
from halftone.library.add_ons.t2i_adapters import T2I
from halftone.library.files.header import read_header, used_files

log = logging.getLogger(__name__)

_SEVERAL: Final = {
    "SD3ControlNetModel": "SD3MultiControlNetModel",
    "FluxControlNetModel": "FluxMultiControlNetModel",
    "QwenImageControlNetModel": "QwenImageMultiControlNetModel",
    "HunyuanDiT2DControlNetModel": "HunyuanDiT2DMultiControlNetModel",
}
_OWN: Final[dict[str, Any]] = {UNETS: PlainNet, T2I: AdapterNet, UNION: UnionNet, LLLITE: LightNet}
"""Class in diffusers -> the one here that is called as a ControlNet is."""
_ALONE: Final = ("SanaPipeline", "HunyuanDiTPipeline")
"""Pipelines whose kin with a ControlNet diffusers' table of tasks leaves out."""


def with_controls(loaded: Loaded, controls: Sequence[Control]) -> Loaded:
    """The model with these ControlNets, as a pipeline over the same components; with none the model itself. Those in memory are
    not read again. Raises HalftoneError control-* and model-load-failed.
    """
    paths = tuple(control.path for control in controls)
    wanted = used_files(paths)
    below = _below(loaded, paths)
    unlit = bool(loaded.lights) and not has_lights(loaded.modules[loaded.reader])  # another UNet may be there now
    if (wanted, below) != (loaded.controls, loaded.below_controls) or unlit:
        _forget(loaded)
        if wanted:
            _take(loaded, paths)
            loaded.controls, loaded.below_controls = wanted, below
            log.info("ControlNets: %s", ", ".join(paths))
    if not wanted:
        return loaded
    set_modes(loaded.controlnet, controls)
    try:
        with quiet_libraries():
            pipe = _kin(loaded.pipe, loaded.controlnet)
    except (ValueError, TypeError) as error:
        detail = Words("Halftone has no ControlNet for {0} models", (loaded.facts.family,))
        raise HalftoneError("control-unsupported", str(error), model=loaded.facts.name, detail=detail) from error
    pipe.set_progress_bar_config(disable=True)
    return replace(loaded, pipe=pipe)


def _below(loaded: Loaded, paths: Sequence[str]) -> str:
    """Changes with the weights on which ControlNets stand that hold only changes of the model's; "" without such."""
    if not any(map(stands_on_model, paths)):
        return ""
    return f"{loaded.transformer}\0{lora_key(one.lora for one in loaded.patched)}"


def _kin(pipe: Any, net: Any) -> Any:
    """A pipeline with a ControlNet over the same components, none of them cast. Raises ValueError where there is none."""
    name = type(pipe).__name__
    if name in _ALONE:
        return getattr(diffusers, name.replace("Pipeline", "ControlNetPipeline"))(**pipe.components, controlnet=net)
    return diffusers.AutoPipelineForText2Image.from_pipe(pipe, controlnet=net)


def _forget(loaded: Loaded) -> None:
    if loaded.lights:
        loaded.lights = ()
        detach_lights(loaded.modules[loaded.reader])
        _denoiser_changed(loaded)
    loaded.controls, loaded.below_controls, loaded.controlnet = (), "", None
    for known in (loaded.sources, loaded.states, loaded.stored):
        cast("dict[str, Any]", known).pop(CONTROLNET, None)


def _take(loaded: Loaded, paths: tuple[str, ...]) -> None:
    source = partial(read_controls, loaded, paths)
    module = source()
    dtype = one_type(module.parameters())
    make_ready(loaded, CONTROLNET, module, dtype)
    if lights := tuple(path for path in paths if config_of(path)["_class_name"] == LLLITE):
        try:
            attach_lights(loaded.modules[loaded.reader], list(map(Path, lights)))
        except (RuntimeError, KeyError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            raise _unfit(loaded.facts, Path(lights[0]), str(error)) from error
        loaded.lights = used_files(lights)
        _denoiser_changed(loaded)
    # nothing from here on can fail
    loaded.controlnet, loaded.sources[CONTROLNET], loaded.stored[CONTROLNET] = module, source, dtype
    loaded.states[CONTROLNET] = ComponentState(dtype=NAMES[dtype])


def _denoiser_changed(loaded: Loaded) -> None:
    loaded.states[loaded.reader] = HALF_DONE
    forget_base(loaded.modules[loaded.reader])
    loaded.forget_sizes()


def read_controls(loaded: Loaded, paths: Sequence[str]) -> nn.Module:
    """The ControlNets as one component, on the CPU, in their stored dtype. Raises control-other-base, model-load-failed."""
    nets = [_read(loaded, path) for path in paths]
    if len(nets) == 1:
        return nets[0]
    own = any(isinstance(net, tuple(_OWN.values())) for net in nets)
    several: Any = ControlNets if own else getattr(diffusers, _SEVERAL[type(nets[0]).__name__])
    made = cast("nn.Module", several(nets))
    return made.to(one_type(made.parameters()))


def _read(loaded: Loaded, path: str) -> nn.Module:
    place = Path(path)
    headers = {file: read_header(file) for file in weight_files(path)}
    dtype = narrowest({tensor.dtype for header in headers.values() for tensor in header.tensors})
    with told_loading(loaded.facts, place):
        tensors: dict[str, torch.Tensor] = {}
        for file, header in headers.items():
            with safe_open(file, "pt") as opened:
                found = ((ours, opened.get_tensor(name)) for name, ours in parameter_names(header).items())
                tensors |= {name: held(tensor, dtype) for name, tensor in found}
        if form := form_of(next(iter(headers.values()))):
            tensors = with_own_weights(loaded, form, tensors)
        config = folder_config(place)
        limit = no_deeper_than_weights(place, config, len(tensors)) if config else nullcontext()
        described = config_of(path)
        name = str(described["_class_name"])
        kind = _OWN.get(name) or getattr(diffusers, name)
        config = config or (
            described if name in (T2I, LLLITE) else _config_beside(kind, loaded.modules[loaded.reader], described)
        )
        with limit, init_empty_weights(include_buffers=False), tables_left_empty():
            net = cast("nn.Module", kind.from_config(config))
    try:
        shapes = {name: value.shape for name, value in net.state_dict().items()}
        net.load_state_dict({name: _shaped(value, shapes.get(name)) for name, value in tensors.items()}, assign=True)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise _unfit(loaded.facts, place, str(error)) from error
    return net


def _shaped(value: torch.Tensor, wanted: torch.Size | None) -> torch.Tensor:
    """A linear layer may stand in a file as a convolution of one pixel."""
    return value.reshape(wanted) if wanted is not None and value.numel() == wanted.numel() else value


def _config_beside(kind: Any, denoiser: Any, described: Mapping[str, Any]) -> dict[str, Any]:
    """Configure a ControlNet in one file as the denoiser beside which it runs, save for what its shapes tell."""
    known = inspect.signature(kind.__init__).parameters
    return {name: value for name, value in {**denoiser.config, **described}.items() if name in known}


def _unfit(model: ModelFacts, path: Path, details: str) -> HalftoneError:
    detail = Words("its tensors have other names or sizes than the model's")
    name = path.name.removesuffix(".safetensors")
    return HalftoneError("control-other-base", details, name=name, model=model.name, detail=detail, family=model.family)
