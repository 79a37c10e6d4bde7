"""A transformer or UNet of one file in the place of the model's own: .gguf or .safetensors, quantised or not.

Names are turned into diffusers' by diffusers itself; weights that are packed in the file stay so in memory.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import torch
from accelerate import init_empty_weights
from diffusers.loaders import single_file_model
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.engine.load import Loaded, component_from, make_ready, told_loading
from halftone.engine.lora import changed_components
from halftone.engine.packed import FLOAT8, Packed, PackedLinear, shape_of
from halftone.engine.plans import HALF_DONE
from halftone.engine.precision import ComponentState
from halftone.engine.tensors import NAMES
from halftone.library.denoisers import (
    TransformerFile,
    check_transformer_fit,
    denoiser_name,
    denoiser_tensors,
    is_scale,
    read_transformer,
    stays_packed,
    transformer_name,
    transformer_version,
)
from halftone.library.gguf_header import PACKED
from halftone.library.header import TensorInfo

log = logging.getLogger(__name__)

_TYPES: Final = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "BOOL": torch.bool,
    **FLOAT8,
}
_WEIGHT: Final = ".weight"
_START: Final = "model.diffusion_model."
"""Before the names of a UNet, where diffusers' reader of its own names looks for them."""


def put_transformer(loaded: Loaded, path: str | None) -> None:
    """Let this file take the place of the model's own denoiser; None: the own one comes back. What is there already is not read
    again.

    Raises HalftoneError transformer-* and model-load-failed; then nothing is changed.
    """
    wanted = None if path is None else TransformerFile(path, transformer_version(path))
    name = denoiser_name(loaded.facts)
    if wanted == loaded.transformer or name is None:
        return
    read = partial(read_denoiser, loaded, name, path) if path is not None else None
    module = component_from(loaded, name, Path(loaded.facts.path)) if read is None else read()
    dtype = _one_type(module.parameters())
    make_ready(loaded, name, module, dtype)
    # nothing from here on can fail
    loaded.pipe.register_modules(**{name: module})
    loaded.stored[name] = dtype
    as_read = name not in changed_components(loaded.adapters) and not (read is None and loaded.fp8)
    loaded.states[name] = ComponentState(dtype=NAMES[dtype]) if as_read else HALF_DONE
    if read is None:
        loaded.sources.pop(name, None)
        loaded.file_names.pop(name, None)
    else:
        loaded.sources[name] = read
    vars(loaded).pop("sizes", None)  # counted of the one before
    loaded.transformer = wanted
    log.info("%s: %s", name, path or "the model's own")


def told_as_it_is(loaded: Loaded) -> tuple[str, ...]:
    """That FP8 storage does nothing with a file of its own."""
    if not loaded.fp8 or loaded.transformer is None:
        return ()
    return ("FP8 storage leaves a transformer of its own file as that file has it.",)


def read_denoiser(loaded: Loaded, name: str, path: str) -> nn.Module:
    """The denoiser of a file as a component of this model, on the CPU; what is packed in the file stays mapped from it.

    Raises transformer-*, model-load-failed.
    """
    check_transformer_fit(path, loaded.facts)
    own = cast("Any", loaded.modules[name])
    with told_loading(loaded.facts, Path(path)):
        with init_empty_weights(include_buffers=False):
            made = cast("nn.Module", type(own).from_config(own.config))
        tensors = _read(path)
        found = _converted(made, tensors)
        if (why := _misfit(made, found)) is not None:
            model, family = loaded.facts.name, loaded.facts.family
            raise HalftoneError("transformer-other-model", name=transformer_name(path), model=model, detail=why, family=family)
        loaded.file_names[name] = _places(made, tensors)
        _fill(made, found)
    return made


def _read(path: str) -> dict[str, torch.Tensor]:
    """The denoiser's tensors under the names of the file, mapped and not yet read."""
    header = read_transformer(path)
    # private: a write would stay in memory and never reach the file
    whole = torch.from_file(path, shared=False, size=Path(path).stat().st_size, dtype=torch.uint8)
    tensors = dict(denoiser_tensors(header))
    scales = {name: _numbers(whole, tensor) for name, tensor in tensors.items() if is_scale(name)}
    return {name: _tensor(whole, name, tensor, scales) for name, tensor in tensors.items() if not is_scale(name)}


def _tensor(whole: torch.Tensor, name: str, tensor: TensorInfo, scales: Mapping[str, torch.Tensor]) -> torch.Tensor:
    if tensor.dtype not in PACKED and tensor.dtype not in FLOAT8:
        return _numbers(whole, tensor)
    data, shape = whole[tensor.start : tensor.end], tensor.shape
    owner = name.removesuffix(_WEIGHT)
    scale = next((scales[key] for key in (f"{owner}.scale_weight", f"{owner}.weight_scale") if key in scales), None)
    rows = shape[0] if len(shape) > 1 else 1
    packed = Packed.of(data.reshape(rows, -1), tensor.dtype, None if scale is None else scale.reshape(-1, 1))
    return packed if stays_packed(name, tensor) else packed.unpacked().reshape(shape)


def _numbers(whole: torch.Tensor, tensor: TensorInfo) -> torch.Tensor:
    data = whole[tensor.start : tensor.end]
    dtype = _TYPES[tensor.dtype]
    if tensor.start % dtype.itemsize:
        data = data.clone()  # only what begins at a multiple of its size can be looked at as numbers
    return data.view(dtype).reshape(tensor.shape)


def _converted(made: nn.Module, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors under diffusers' names."""
    if {name for name, _ in made.named_parameters()} <= tensors.keys():
        return tensors
    kinds = cast("dict[str, dict[str, Any]]", single_file_model.SINGLE_FILE_LOADABLE_CLASSES)
    kind = next((kind.__name__ for kind in type(made).__mro__ if kind.__name__ in kinds), None)
    if kind is None:
        return tensors
    convert = kinds[kind]["checkpoint_mapping_fn"]
    start = _START if kind == "UNet2DConditionModel" else ""
    given = {start + name: value for name, value in tensors.items()}
    return cast("dict[str, torch.Tensor]", convert(config=dict(cast("Any", made).config), checkpoint=given))


def _places(made: nn.Module, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Tensor of the file -> the parameter that it becomes; of several that lie in one tensor, the first. {} where that cannot be
    told.
    """
    names = list(tensors)
    tags = {
        name: torch.full((value.shape[0] if value.dim() else 1, *(1,) * (value.dim() - 1)), float(index), dtype=torch.float64)
        for index, (name, value) in enumerate(tensors.items())
    }
    try:
        found = _converted(made, tags)
    except (RuntimeError, ValueError, KeyError, IndexError, TypeError):
        return {}
    places: dict[str, str] = {}
    for name, tag in found.items():
        places.setdefault(names[int(tag.reshape(-1)[0])], name)
    return places


def _misfit(made: nn.Module, found: Mapping[str, torch.Tensor]) -> str | None:
    """What the network needs that was not found in its shape, as the end of a sentence."""
    for name, parameter in made.named_parameters():
        if name not in found:
            return f"it has no tensor {name}"
        held, wanted = shape_of(found[name]), tuple(parameter.shape)
        if held != wanted and math.prod(held) != math.prod(wanted):
            return f"its tensor {name} is {_times(held)}, and the model's own is {_times(wanted)}"
    return None


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _fill(made: nn.Module, found: Mapping[str, torch.Tensor]) -> None:
    """Give an empty network the tensors."""
    held: dict[str, torch.Tensor] = {}
    layers: list[PackedLinear] = []
    for name, value in found.items():
        holder, _, own = name.removesuffix(_WEIGHT).rpartition(".")
        if not isinstance(value, Packed):
            held[name] = value
        elif type(linear := made.get_submodule(name.removesuffix(_WEIGHT))) is nn.Linear:
            layers.append(PackedLinear(value, linear.bias, torch.float32))
            setattr(made.get_submodule(holder), own, layers[-1])
        else:
            held[name] = value.unpacked()
    dtype = _one_type(held.values())
    shapes = {name: value.shape for name, value in made.state_dict().items()}
    fitting = {
        name: value.to(dtype if value.is_floating_point() else value.dtype).reshape(shapes[name])
        for name, value in held.items()
        if name in shapes
    }
    made.load_state_dict(fitting, strict=False, assign=True)
    for layer in layers:
        layer.dtype = dtype


def _one_type(tensors: Iterable[torch.Tensor]) -> torch.dtype:
    """That holds all numbers that are not packed; packed ones are unpacked into any type."""
    found = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return found.pop() if len(found) == 1 and found <= {torch.float16, torch.bfloat16} else torch.float32
