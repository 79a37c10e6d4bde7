"""Tensors of a file, mapped and not yet read, and how an empty network takes them; what is packed in the file stays packed."""

import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import torch
from torch import nn

from halftone.contract.echoes import echo
from halftone.contract.wording import Words
from halftone.engine.weights.mapped import UnfitFile, empty, fits
from halftone.engine.weights.packed import FLOAT8, Packed, PackedLinear, shape_of
from halftone.engine.weights.stored_tables import compute_missing_tables, tables_left_empty
from halftone.library.add_ons.denoisers import is_scale, stays_packed
from halftone.library.families.gguf_names import is_turned
from halftone.library.families.original_names import Place
from halftone.library.files.gguf_header import GGUF, PACKED, read_gguf
from halftone.library.files.header import COMFY_QUANT, Header, TensorInfo

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
_FORMATS: Final = ("float8_e4m3fn", "float8_e5m2")
"""Of those that ComfyUI's notes name: quant_ops.py there."""


class _Note(msgspec.Struct):
    """convrot: the weights are rotated, too. Whether a layer multiplies in full precision, as it does here, is said as well."""

    format: str = ""
    convrot: bool = False


_TURNED: Final = re.compile(r"\.self_attn\.[qk]_proj\.")
_WEIGHT: Final = ".weight"
_LEARNED: Final = (".running_mean", ".running_var")
"""Buffers that a network needs from its file."""
_BLOCKS: Final = re.compile(
    r"(?:(?:model\.)?diffusion_model\.|(?:first_stage_model|vae)\.(?=(?:en|de)coder\.))?"
    r"(?:\w+blocks?|\w+layers|(?:en|de)coder|position_net)\.\w+\."
)
"""Beginnings of the names of layers, in denoisers and VAEs."""


def mapped(path: Path, named: Iterable[tuple[str, TensorInfo]]) -> dict[str, torch.Tensor]:
    """The tensors of a file by the names given, without the scales of 8-bit numbers, which belong to those that they scale."""
    # private: a write would stay in memory and never reach the file
    whole = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    tensors = dict(named)
    for name, tensor in tensors.items():
        if name.endswith(COMFY_QUANT):
            _check_note(name, bytes(whole[tensor.start : tensor.end].numpy()))
    scales = {name: _numbers(whole, one) for name, one in tensors.items() if is_scale(name) and not name.endswith(COMFY_QUANT)}
    return {name: _tensor(whole, name, tensor, scales) for name, tensor in tensors.items() if not is_scale(name)}


def _check_note(name: str, note: bytes) -> None:
    """Raise UnfitFile where ComfyUI's note on a layer says more than that its weight is of 8-bit numbers with a factor."""
    try:
        said = msgspec.json.decode(note, type=_Note)
    except msgspec.MsgspecError as error:
        raise UnfitFile(Words("{0} cannot be read", (name,))) from error
    if said.format not in _FORMATS or said.convrot:
        scheme = f"{said.format}, convrot" if said.convrot else said.format
        raise UnfitFile(Words("its weights are quantised ({0}), which Halftone does not read", (echo(scheme, 60),)))


def _tensor(whole: torch.Tensor, name: str, tensor: TensorInfo, scales: Mapping[str, torch.Tensor]) -> torch.Tensor:
    if tensor.dtype not in PACKED and tensor.dtype not in FLOAT8:
        return _numbers(whole, tensor)
    data, shape = whole[tensor.start : tensor.end], tensor.shape
    owner = name.removesuffix(_WEIGHT)
    scale = next((scales[key] for key in (f"{owner}.scale_weight", f"{owner}.weight_scale") if key in scales), None)
    rows = shape[0] if len(shape) > 1 else 1
    if scale is not None and scale.numel() not in (1, rows):
        raise UnfitFile(
            Words("the factors of its 8-bit tensor {0} are neither one for all numbers nor one for each row", (name,))
        )
    packed = Packed.of(data.reshape(rows, -1), tensor.dtype, None if scale is None else scale.reshape(-1, 1))
    return packed if stays_packed(name, tensor) else packed.unpacked().reshape(shape)


def _numbers(whole: torch.Tensor, tensor: TensorInfo) -> torch.Tensor:
    data = whole[tensor.start : tensor.end]
    if tensor.dtype not in _TYPES:
        raise UnfitFile(Words("diffusers cannot unpack its {0} weights", (tensor.dtype,)))
    dtype = _TYPES[tensor.dtype]
    if tensor.start % dtype.itemsize:
        data = data.clone()  # only what begins at a multiple of its size can be looked at as numbers
    return data.view(dtype).reshape(tensor.shape)


def filled_component(kind: Any, config: dict[str, Any], path: Path, header: Header, places: Mapping[str, Place]) -> nn.Module:
    """A mapped component of a whole model in one file, packed where its file is.

    kind: a model class of diffusers or transformers; places: parameter -> where it lies. Raises UnfitFile where the file lacks a
    parameter or has it in another shape.
    """
    with tables_left_empty():
        made = empty(kind, config)
    if config.get("tie_last_hidden_states") is False:  # cut off after the last layer that is read, without the norm behind it
        made.norm = nn.Identity()
    needed = {name.removeprefix("text_model.") for name in made.state_dict()}  # some text encoders are wrapped
    wanted = {place.tensor for name, place in places.items() if name.removeprefix("text_model.") in needed}
    owners = {name.removesuffix(_WEIGHT) for name in wanted}
    own = [one for one in header.tensors if one.name in wanted or (is_scale(one.name) and one.name.rpartition(".")[0] in owners)]
    tensors = mapped(path, [(one.name, one) for one in own])
    found: dict[str, torch.Tensor] = {}
    turned = path.suffix.lower() == GGUF and is_turned(read_gguf(path))
    for name in made.state_dict():
        place = places.get(name) or places.get(name.removeprefix("text_model."))
        if place is not None:
            value = tensors[place.tensor]
            value = value[slice(*place.rows)] if place.rows else value
            value = value[_order(name, value.shape[0], made)] if turned and _TURNED.search(name) else value
            value = value.T if place.tensor.endswith("text_projection") else value  # OpenCLIP multiplies from the left
            found[name] = torch.cat(value.chunk(2)[::-1]) if place.swapped else value
    if (why := misfit(made, found)) is not None:
        raise UnfitFile(why)
    fill(made, found)
    compute_missing_tables(made)
    for layer in made.modules():
        if isinstance(layer, nn.BatchNorm2d) and (count := layer.num_batches_tracked) is not None and count.is_meta:
            layer.num_batches_tracked = torch.zeros((), dtype=torch.long)  # training alone counts
    if hasattr(made, "get_input_embeddings"):  # T5 has its table of words in two places
        cast("Any", made).set_input_embeddings(cast("Any", made).get_input_embeddings())
    return made


def _order(name: str, rows: int, made: Any) -> torch.Tensor:
    """The rows of queries or keys, which llama.cpp keeps with the halves of each head in turns, in transformers' order."""
    heads = made.config.num_attention_heads if "q_proj" in name else made.config.num_key_value_heads
    return torch.arange(rows).view(heads, -1, 2).transpose(1, 2).flatten()


def misfit(made: nn.Module, found: Mapping[str, torch.Tensor]) -> Words | None:
    """What the network needs that was not found in its shape, as the end of a sentence."""
    for name, parameter in made.named_parameters():
        if name not in found:
            return Words("it has no tensor {0}", (name,))
        held, wanted = shape_of(found[name]), tuple(parameter.shape)
        if not fits(held, wanted):
            return Words("its tensor {0} is {1}, and the model's own is {2}", (name, _times(held), _times(wanted)))
    learned = (name for name in made.state_dict() if name.endswith(_LEARNED) and name not in found)
    lost = next(learned, None)
    return None if lost is None else Words("it has no tensor {0}", (lost,))


def unread(names: Iterable[str], placed: Container[str]) -> Words | None:
    """The first layer of a network's blocks that has no place, as the end of a sentence. names: of tensors; placed: those that a
    network reads. Beside its blocks a file may hold tables that are computed here, and notes.
    """
    left = (name for name in names if name not in placed and not is_scale(name) and _BLOCKS.match(name))
    layer = next((name.removesuffix(_WEIGHT) for name in left), None)
    return None if layer is None else Words("it has the layer {0}, which diffusers does not build", (layer,))


def _times(shape: tuple[int, ...]) -> Words | str:
    return " × ".join(map(str, shape)) or Words("one number")


def fill(made: nn.Module, found: Mapping[str, torch.Tensor]) -> None:
    """Give the tensors to an empty network."""
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
    dtype = one_type(held.values())
    shapes = {name: value.shape for name, value in made.state_dict().items()}
    fitting = {
        name: value.to(dtype if value.is_floating_point() else value.dtype).reshape(shapes[name])
        for name, value in held.items()
        if name in shapes
    }
    made.load_state_dict(fitting, strict=False, assign=True)
    for layer in layers:
        layer.dtype = dtype


def one_type(tensors: Iterable[torch.Tensor]) -> torch.dtype:
    """That holds all numbers that are not packed; packed ones are unpacked into any type."""
    found = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return found.pop() if len(found) == 1 and found <= {torch.float16, torch.bfloat16} else torch.float32
