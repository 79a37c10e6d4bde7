"""Transformers and UNets that take the place of a model's own: one .gguf or .safetensors file, quantised or not.

Only names, shapes and types are looked at, before anything is loaded; no weight is read.
"""

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words
from halftone.library.add_ons.denoiser_files import FLOAT8, denoiser_tensors, unreadable
from halftone.library.add_ons.named_files import reading, refuse_folder
from halftone.library.add_ons.vaes import vae_name
from halftone.library.families.recognise import Recognised, base_of, denoiser_in, recognise
from halftone.library.families.single_files import SINGLES, component_of
from halftone.library.families.split_files import model_header
from halftone.library.files.folder import read_part
from halftone.library.files.gguf_header import GGUF, PACKED, read_any
from halftone.library.files.header import Header, TensorInfo, count_numbers, path_version
from halftone.library.kinds.marks import View, view_of

ENDINGS: Final = (".safetensors", ".sft", GGUF)
NAMES: Final = ("transformer", "unet")
"""The component's names in the libraries."""
_STAY: Final = PACKED | FLOAT8
_SCALES: Final = re.compile(r"(?:^|\.)(?:scale_weight|weight_scale|scale_input|input_scale|scaled_fp8|comfy_quant)$")
"""Factors beside the weights of a file in scaled 8-bit numbers, and notes on them."""
_NEAR: Final = 0.01
"""Share by which two files of the same network may differ in size: some leave out tables that can be computed."""


def check_transformer(path: str | None) -> None:
    """Raise HalftoneError transformer-missing, transformer-not-one, model-truncated or model-bad-header. Reads
    its header only.
    """
    if path is not None:
        _read(path)


def check_transformer_fit(path: str | None, model: ModelFacts) -> None:
    """Raise HalftoneError transformer-other-model (family, base or size differ), and as `check_transformer`."""
    if path is None:
        return
    header, found = _read(path)
    why = _difference(header, found, model)
    if why is not None:
        family = model.family
        raise HalftoneError("transformer-other-model", name=vae_name(path), model=model.name, detail=why, family=family)


def host_of(path: str, models: Iterable[ModelFacts]) -> ModelFacts | None:
    """The first of the models whose other parts the transformer's file can run with."""
    for model in models:
        if (model.format == "diffusers" or model.pipeline) and not model.why and model.path != path:
            try:
                check_transformer_fit(path, model)
            except HalftoneError:
                continue
            return model
    return None


def denoiser_name(model: ModelFacts) -> str | None:
    """The component that a file can take the place of; None where there is none, or more than one."""
    found = [name for name in model.components if name in NAMES or name.removesuffix("_2") in NAMES]
    return found[0] if len(found) == 1 else None


def read_transformer(path: str) -> Header:
    """Its header. Raises as `check_transformer`."""
    return _read(path)[0]


def _read(path: str) -> tuple[Header, Recognised]:
    unfit: ErrorCode = "transformer-not-one"
    with reading(path, "transformer-missing", unfit) as place:
        refuse_folder(path, unfit, Words("it is a folder; choose the file inside it"))
        if place.suffix.lower() not in ENDINGS and os.path.exists(place):
            raise HalftoneError(unfit, path=path, detail=Words("it is not a .gguf or .safetensors file"))
        header = read_any(place)
    found = recognise(header, place.stem)
    if (why := unreadable(header, found)) is not None:
        raise HalftoneError(unfit, path=path, detail=why)
    return header, found


def stored_denoiser(model: ModelFacts, transformer: str | None) -> str:
    """The type that most bytes of the denoiser in use are stored in, spelled as in `ModelFacts.stored_dtype`. transformer: the
    file in its place; one that cannot be read counts as none.
    """
    if transformer is not None and (stored := _stored_at(transformer, path_version(transformer))):
        return stored
    return model.stored.get(denoiser_name(model) or "", model.stored_dtype)


@lru_cache(maxsize=8)
def _stored_at(path: str, version: str) -> str:
    """version: of `path_version`, so that a rewritten file is read again."""
    del version
    try:
        return _read(path)[1].dtype
    except HalftoneError:
        return ""


def _difference(header: Header, found: Recognised, model: ModelFacts) -> Words | None:
    """Why it cannot take the place of the model's own denoiser, as the end of a sentence."""
    component = denoiser_name(model)
    if component is None:
        several = any(name.endswith("_2") and name.removesuffix("_2") in NAMES for name in model.components)
        return Words("the model has two of them") if several else Words("the model has none to replace")
    if found.family != model.family:
        return Words("it is {0}, and the model is {1}", (found.base, model.base or model.family))
    own = _own_tensors(model, component)
    if not own:
        return None  # the model lacks its own: only its configuration tells, when it is built
    here, there = (_shape_base(view) for view in (view_of(header.tensors), View(dict(own))))
    if here != there:
        return Words("it is {0}, the model's own is {1}", (here, there))
    given = [(name, tensor.shape) for name, tensor in denoiser_tensors(header) if not is_scale(name)]
    numbers = [sum(count_numbers(shape) for _, shape in shapes) for shapes in (given, own)]
    if abs(numbers[0] - numbers[1]) > _NEAR * numbers[1]:
        return Words("it holds {0} values, the model's own {1}", (f"{numbers[0]:,}", f"{numbers[1]:,}"))
    return None


def _own_tensors(model: ModelFacts, component: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(name, shape) of the model's own denoiser, by the names in its files."""
    path = Path(model.path)
    if os.path.isdir(path):
        return tuple((tensor.name, tensor.shape) for _, header in read_part(path, component).files for tensor in header.tensors)
    if model.family not in SINGLES:
        return ()
    tensors = model_header(model).tensors
    return tuple((tensor.name, tensor.shape) for tensor in tensors if component_of(model.family, tensor.name) == component)


def is_scale(name: str) -> bool:
    """Whether a tensor is a factor of 8-bit numbers or of a layer's input, and no weight."""
    return _SCALES.search(name) is not None


def stays_packed(name: str, tensor: TensorInfo) -> bool:
    """Whether a weight stays packed in memory; others are few numbers, and are unpacked once."""
    return len(tensor.shape) == 2 and name.endswith(".weight") and tensor.dtype in _STAY


def _shape_base(view: View) -> str:
    """Which model of its family it is by shapes alone, whatever its title says."""
    found = denoiser_in(view)
    return "" if found is None else base_of(view.below(found[0]), found[1], {}, "")[0].name
