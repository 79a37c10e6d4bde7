"""Rewrites the weights of a pickle file as safetensors. Nothing that the file names is run: what needs code is refused.

Two readers look at it: `scan` reads the pickle without building anything and refuses names that it does not know, then torch
reads it with weights_only. torch reads only names and shapes of a zip; the bytes of its tensors are copied from their places in
the file, so that a file of any size needs little memory.
"""

import json
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final, cast

import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.files.header import quoted
from halftone.library.files.pickle_scan import Scan, ScanError, largest_output, scan
from halftone.settings.disk import system_words

_INSIDE: Final = (
    "state_dict", "params_ema", "params-ema", "params", "model_state_dict", "model", "net", "weights", "string_to_param",
)  # fmt: skip
"""Where trainers put the weights, beside what they need to resume."""
_DEEPEST: Final = 6
_LONGEST: Final = 60
"""Letters of a place that is named."""
_CHUNK: Final = 2**24
_TYPES: Final = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.complex64: "C64",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.bool: "BOOL",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.uint8: "U8",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
}  # fmt: skip
_DAMAGE: Final = (
    EOFError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError,
)  # fmt: skip
"""What torch raises at damage."""
_WHY: Final = {
    "damaged": Words("the file is damaged"),
    "bomb": Words("it unpacks to many times its size"),
    "script": Words("it is a TorchScript program"),
    "tar": Words("a PyTorch older than 0.2 wrote it"),
    "memory": Words("it needs more memory than its conversion may use"),
    "no-pickle": Words("it is a zip file with no PyTorch weights"),
}


def rewrite(source: BinaryIO, size: int, output: BinaryIO, progress: Callable[[int, int], object]) -> tuple[int, dict[str, int]]:
    """Write the weights of an open file into another. Returns how many tensors, and how many were left out: place -> number.

    Tensors keep their types and names.

    size: of the file in bytes; progress: hears of bytes done and all. The errors name no path, as this process knows none.
    Raises HalftoneError pickle-needs-code, pickle-no-weights, pickle-unread, output-failed.
    """
    try:
        found = scan(source, size)
    except ScanError as error:
        raise _unread(_WHY[error.why]) from error
    except OSError as error:
        raise _unread(system_words(error)) from error
    if found.forbidden:
        raise HalftoneError("pickle-needs-code", path="", name=found.forbidden)
    if found.unusual:
        raise _unread(Words("safetensors cannot hold its kind of tensor ({0})", (found.unusual,)))
    try:
        weights, left = weights_in(_loaded(source, found, "meta" if found.places else "cpu"))
        if not all(_has_place(tensor, found) for tensor in weights.values()):
            weights, left = weights_in(_loaded(source, found, "cpu"))
        total = sum(tensor.nbytes for tensor in weights.values())
        if total > largest_output(size):
            raise _unread(_WHY["bomb"])
        write(weights, output, lambda tensor: _bytes_of(tensor, source), lambda done: progress(done, total))
    except MemoryError as error:
        raise _unread(_WHY["memory"]) from error
    except _DAMAGE as error:
        raise _unread(_WHY["memory" if "allocate memory" in str(error) else "damaged"]) from error
    return len(weights), left


def _unread(detail: Words) -> HalftoneError:
    return HalftoneError("pickle-unread", path="", detail=detail)


# --- reading --------------------------------------------------------------------------------------------------------------------


class Blank:
    """Stands in for an object beside the weights. It takes what it is given, and keeps only what a module may hold."""

    def __new__(cls, *_arguments: object) -> "Blank":
        return super().__new__(cls)

    def __init__(self, *_arguments: object) -> None:
        self.parts: Mapping[object, object] = {}

    def __setstate__(self, state: object) -> None:
        known = cast("dict[object, object]", state) if isinstance(state, dict) else {}
        self.parts = {}
        for name in ("_parameters", "_buffers", "_modules"):
            if isinstance(part := known.get(name), dict):
                self.parts |= cast("dict[object, object]", part)


class _BlankDict:
    """Stands in for a dictionary with a class of its own: becomes a plain one, the only kind that torch fills."""

    def __new__(cls, *_arguments: object) -> Any:
        return OrderedDict[object, object]()


def _is_dictionary(name: str) -> bool:
    return name.lower().endswith("dict") and not name.startswith("torch.")


def _loaded(source: BinaryIO, found: Scan, device: str) -> Any:
    known = [(_BlankDict if _is_dictionary(name) else Blank, name) for name in found.inert]
    source.seek(0)
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(cast("list[Any]", known)):
            warnings.simplefilter("ignore")  # about a newer protocol: what torch cannot read it refuses
            return torch.load(source, map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        if "Unsupported operand" in str(error):
            raise _unread(Words("its form of pickle is one that PyTorch refuses to read")) from error
        if "Can only" in str(error):
            raise _unread(Words("it holds objects beside its weights that cannot be skipped")) from error
        raise _unread(_WHY["damaged"]) from error
    except OSError as error:
        raise _unread(system_words(error)) from error


def _has_place(tensor: torch.Tensor, found: Scan) -> bool:
    """Whether its bytes are here, or torch says where they are in the file, as it does since 2.11."""
    if tensor.device.type != "meta":
        return True
    storage = tensor.untyped_storage()
    return found.places.get(getattr(storage, "_checkpoint_offset", -1)) == storage.nbytes()


def weights_in(loaded: object) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    """Return the tensors by the names that readers know, and how many lie beside them: place -> number.

    Raises HalftoneError pickle-no-weights, pickle-unread.
    """
    content, embedding = loaded, False
    left, before = dict[str, int](), ""
    for _depth in range(_DEEPEST):
        here = dict(_inside(content))
        named = next((name for name in _INSIDE if isinstance(here.get(name), (dict, Blank))), "")
        if not named or any(isinstance(value, torch.Tensor) for value in here.values()):
            break
        left |= _beside(here, named, before)
        content, embedding, before = here[named], named == "string_to_param", f"{before}{named}."
    found: dict[str, torch.Tensor] = {}
    for name, tensor in _tensors(content, "", _DEEPEST):
        if name in found:
            raise _unread(Words("it contains the name {0} twice", (quoted(name),)))
        found[name] = tensor.detach()
    if not found:
        raise HalftoneError("pickle-no-weights", path="")
    if embedding and len(found) > 1:
        names = ", ".join(map(quoted, found))
        raise _unread(Words("it holds several embeddings ({0}), and a safetensors file has a place for one", (names,)))
    if embedding:
        return {"emb_params": next(iter(found.values()))}, left  # the only word of such a file has no name
    return found, left


def _beside(here: Mapping[object, object], named: str, before: str) -> dict[str, int]:
    """How many tensors lie beside the weights, by their place. Numbers of words are no weights."""
    others = {_text(name): inner for name, inner in here.items() if name not in (named, "string_to_token")}
    counts = {name: sum(1 for _ in _tensors(inner, "", _DEEPEST)) for name, inner in others.items()}
    return {f"{before}{name}"[:_LONGEST]: count for name, count in counts.items() if count}


def _inside(value: object) -> Iterable[tuple[object, object]]:
    match value:
        case dict():
            return cast("dict[object, object]", value).items()
        case list() | tuple():
            return enumerate(cast("list[object]", value))
        case Blank():
            return value.parts.items()
        case _:
            return ()


def _tensors(value: object, before: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Those of dictionaries in dictionaries get names with points, as those of an IP-Adapter have in safetensors."""
    for name, inner in _inside(value):
        if isinstance(inner, torch.Tensor):
            yield f"{before}{_text(name)}", inner
        elif depth:
            yield from _tensors(inner, f"{before}{_text(name)}.", depth - 1)


def _text(name: object) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)  # Python 2 wrote bytes


# --- writing --------------------------------------------------------------------------------------------------------------------


def _bytes_of(tensor: torch.Tensor, source: BinaryIO) -> Iterator[bytes | memoryview]:
    """The numbers in order, in pieces."""
    if tensor.is_conj() or tensor.is_neg():
        raise _unread(Words("safetensors cannot hold its kind of tensor ({0})", ("conj",)))
    if tensor.device.type != "meta":
        yield _flat(tensor)
        return
    storage = tensor.untyped_storage()
    place = int(cast("Any", storage)._checkpoint_offset)  # noqa: SLF001 - where torch says that it lies in the file
    width = tensor.element_size()
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    count = 1 + sum((length - 1) * step for length, step in steps) if tensor.numel() else 0
    start = int(tensor.storage_offset()) * width
    if start < 0 or start + count * width > storage.nbytes():
        raise ValueError("a tensor reaches out of its storage")
    source.seek(place + start)
    if tensor.is_contiguous():
        yield from _pieces(source, count * width)
        return
    held = bytearray(b"".join(_pieces(source, count * width)))
    turned = torch.frombuffer(held, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride(), 0)
    yield _flat(turned)


def _flat(tensor: torch.Tensor) -> memoryview:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data


def _pieces(source: BinaryIO, count: int) -> Iterator[bytes]:
    while count:
        piece = source.read(min(count, _CHUNK))
        if not piece:
            raise EOFError
        count -= len(piece)
        yield piece


def write(
    weights: Mapping[str, torch.Tensor],
    output: BinaryIO,
    bytes_of: Callable[[torch.Tensor], Iterable[bytes | memoryview]],
    progress: Callable[[int], object],
) -> None:
    """Write a safetensors file, wider types first, so that every tensor lies at a multiple of its type's width."""
    ordered = sorted(weights.items(), key=lambda one: (-one[1].element_size(), one[0]))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in ordered:
        if tensor.dtype not in _TYPES or tensor.layout != torch.strided:
            raise _unread(Words("safetensors cannot hold its kind of tensor ({0})", (str(tensor.dtype),)))
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + tensor.nbytes]}
        end += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    done = 0
    try:
        output.write(len(text).to_bytes(8, "little") + text)
        for _name, tensor in ordered:
            for piece in bytes_of(tensor):
                output.write(piece)
                done += len(piece)
                progress(done)
        output.flush()
    except OSError as error:
        raise HalftoneError("output-failed", path="", detail=system_words(error)) from error
