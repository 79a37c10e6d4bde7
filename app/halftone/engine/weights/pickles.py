"""Rewrites the weights of a pickle file as safetensors. Nothing that the file names is run: what needs code is refused."""

import pickle
import pickletools
import re
import warnings
import zipfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors.torch import save_file

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.settings.disk import need_room, no_right, system_words
from halftone.settings.folders import new_file

_INSIDE: Final = ("state_dict", "params_ema", "params", "model_state_dict", "model", "string_to_param")
"""Where trainers put the weights, beside what they need to resume."""
_NAMED: Final = re.compile(r"(?:GLOBAL|global) ([\w.]+)")


def convert(source: Path, target: Path) -> int:
    """Write the weights of `source` into the new file `target`; how many tensors. Tensors keep their types and names.

    Raises HalftoneError pickle-needs-code, pickle-no-weights, model-load-failed, output-exists, disk-full.
    """
    if target.exists():
        raise HalftoneError("output-exists", path=str(target))
    weights = _weights(_loaded(source), source)
    need_room(target, target.parent, sum(tensor.nbytes for tensor in weights.values()))
    try:
        with new_file(target) as part:
            save_file(weights, part, {"format": "pt"})
    except FileExistsError as error:
        raise HalftoneError("output-exists", path=str(target)) from error
    except OSError as error:
        raise HalftoneError("output-failed", path=str(target), detail=system_words(error)) from error
    return len(weights)


def _loaded(source: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a newer protocol: what it cannot read it refuses
            return torch.load(source, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(source))
    except PermissionError as error:
        raise no_right(error, source) from error
    except OSError as error:
        raise HalftoneError("model-load-failed", path=str(source), detail=system_words(error)) from error
    except pickle.UnpicklingError as error:
        found = _NAMED.search(str(error))
        name = found[1] if found is not None else _code_in(source)
        if name:
            raise HalftoneError("pickle-needs-code", path=str(source), name=name) from error
        raise _damaged(source) from error
    except (RuntimeError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise _damaged(source) from error


def _code_in(source: Path) -> str:
    """The first function or class that a bare pickle names; "" for none. Its opcodes are read, and none is run."""
    last: deque[str] = deque(maxlen=2)
    with suppress(ValueError, OSError), source.open("rb") as file:
        for opcode, argument, _place in pickletools.genops(file):
            if opcode.name in ("GLOBAL", "INST"):
                return str(argument).replace(" ", ".")
            if opcode.name == "STACK_GLOBAL":
                return ".".join(last)
            if isinstance(argument, str):
                last.append(argument)
    return ""


def _damaged(source: Path) -> HalftoneError:
    return HalftoneError("model-load-failed", path=str(source), detail=Words("the file is damaged"))


def _weights(loaded: Any, source: Path) -> dict[str, torch.Tensor]:
    """The tensors, each with memory of its own."""
    content = cast("dict[object, Any]", loaded) if isinstance(loaded, dict) else {}
    inside = next((content[name] for name in _INSIDE if isinstance(content.get(name), dict)), content)
    found = {str(name): tensor for name, tensor in inside.items() if isinstance(tensor, torch.Tensor)}
    if not found:
        raise HalftoneError("pickle-no-weights", path=str(source))
    if inside is content.get("string_to_param"):
        found = {"emb_params": next(iter(found.values()))}  # an embedding of A1111: its only word has no name
    seen = set[int]()
    for name, tensor in found.items():
        place = tensor.untyped_storage().data_ptr()
        whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
        found[name] = tensor.detach() if whole and place not in seen else tensor.detach().contiguous().clone()
        seen.add(place)
    return found
