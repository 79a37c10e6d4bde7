"""A component whose parameters are the tensors of a mapped file: nothing is drawn, or copied that the file has as it is.

diffusers and transformers have such readers, too; they convert every name once more, copy what OpenCLIP joined, and set each
parameter by itself, which takes longer than reading the file.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from halftone.contract.wording import Words
from halftone.engine.weights.stored_tables import compute_missing_tables, tables_left_empty
from halftone.library.families.single_files import Place


class UnfitFile(ValueError):  # noqa: N818 - a fact of the file
    """A file lacks what a network needs. words: what, as the end of a sentence."""

    def __init__(self, words: Words) -> None:
        super().__init__(words.text())
        self.words = words


def mapped_component(kind: Any, config: dict[str, Any], file: Any, places: Mapping[str, Place], dtype: torch.dtype) -> nn.Module:
    """Map a component. kind: a model class of diffusers or transformers; file: open, of safetensors; places: parameter -> where
    it lies. Tensors of another type than dtype are converted now.

    Raises UnfitFile where the file lacks a parameter or has it in another shape.
    """
    with tables_left_empty():
        module = empty(kind, config)
    for prefix, child in module.named_modules():
        for name, blank in list(child.named_parameters(recurse=False)):
            full = f"{prefix}.{name}" if prefix else name
            place = places.get(full) or places.get(full.removeprefix("text_model."))  # some text encoders are wrapped
            if place is None:
                raise UnfitFile(Words("the file lacks {0}", (full,)))
            value = _shaped(_tensor(file, place), blank.shape, place.tensor).to(dtype)
            child.register_parameter(name, nn.Parameter(value, requires_grad=False))
        for name, blank in [one for one in child.named_buffers(recurse=False) if one[1].is_meta]:
            full = f"{prefix}.{name}" if prefix else name
            if (place := places.get(full)) is not None:
                child.register_buffer(name, _shaped(_tensor(file, place), blank.shape, place.tensor).to(dtype))
    compute_missing_tables(module)
    return module.eval()


def empty(kind: Any, config: dict[str, Any]) -> nn.Module:
    """A network without memory for its parameters; what it computes when made (positions of a text encoder) is there."""
    from accelerate import init_empty_weights
    from transformers.initialization import no_init_weights

    with no_init_weights(), init_empty_weights(include_buffers=False):
        return kind.from_config(config) if hasattr(kind, "from_config") else kind(kind.config_class.from_dict(config))


def _tensor(file: Any, place: Place) -> torch.Tensor:
    tensor: torch.Tensor = file.get_tensor(place.tensor)
    if place.rows is not None:
        tensor = tensor[slice(*place.rows)]
    return tensor.T.contiguous() if place.tensor.endswith("text_projection") else tensor  # OpenCLIP multiplies from the left


def _shaped(tensor: torch.Tensor, shape: torch.Size, name: str) -> torch.Tensor:
    if not fits(tensor.shape, shape):
        raise UnfitFile(Words("{0} has the shape {1} where {2} is needed", (name, str(tuple(tensor.shape)), str(tuple(shape)))))
    return tensor if tensor.shape == shape else tensor.reshape(shape)


def fits(held: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether shapes match: a convolution over one point is a linear layer, and the other way round."""
    return [size for size in held if size != 1] == [size for size in wanted if size != 1]
