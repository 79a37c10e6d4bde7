"""One reduction per tensor that gives its peak and whether it is finite.

IEEE bit patterns are ordered like the numbers they stand for once the sign bit is cleared, and infinity and NaN stand above every
finite number. So the maximum of the integer view says both how large the largest value is and whether anything was not finite.

Which exact form is fastest was measured on a CPU with one thread, microseconds for 1 MiB, in the cache:

    form                                    float16   bfloat16   float32
    torch.aminmax                                89         89        67
    two maxima of the bits, numpy                30         30        31
    integer view, mask, amax                     78         76       240
    linalg.vector_norm(ord=inf)                2700       2800      2650

So on a CPU with one or two threads the bits are read in pieces that stay in the cache: as signed integers their maximum is the
largest positive value, as unsigned ones the largest negative value, each the magnitude once its sign bit is cleared, and nothing
is written. (Of a small tensor that takes longer to begin than to do.) numpy runs on one thread; with more of them torch.aminmax
shares the work, and NaN propagates in it as well. On accelerators the integer form is taken, whose two kernels exist everywhere
and need neither a synchronisation nor a float comparison.
"""

import math
import struct
import sys
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

_INTEGERS: Final[dict[int, torch.dtype]] = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_UNORDERED: Final[frozenset[torch.dtype]] = frozenset(
    dtype
    for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if isinstance(dtype := getattr(torch, name, None), torch.dtype)
)
"""One-byte formats whose NaN does not stand above all numbers once the sign bit is cleared."""
_CHUNK: Final = 4096


class _Bits(NamedTuple):
    """How the bits of a format are read: as which integers, and once shifted up as a number of `code` (see `struct`)."""

    signed: torch.dtype
    unsigned: type[np.unsignedinteger[Any]]
    code: str
    shift: int = 0


_PLAIN: Final = {
    torch.float16: _Bits(torch.int16, np.uint16, "e"),
    torch.bfloat16: _Bits(torch.int16, np.uint16, "f", 16),
    torch.float32: _Bits(torch.int32, np.uint32, "f"),
    torch.float64: _Bits(torch.int64, np.uint64, "d"),
}
"""Formats that a CPU compares as they are."""
_PIECE: Final = 2**20
"""Bytes read twice in a row: they stay in the processor's cache in between."""
_SMALL: Final = 2**17
"""Up to so many bytes torch.aminmax, which is called at once, is done sooner."""
_FEW_THREADS: Final = 2
"""Up to so many one thread that reads the bits is as fast as all of them that compare numbers."""


def has_values(tensor: torch.Tensor) -> bool:
    """False for empty tensors and for those that hold no data (meta device)."""
    return tensor.numel() > 0 and not tensor.is_meta


def ceiling(dtype: torch.dtype) -> float:
    """The magnitude that no sound number of a narrow type has: its largest finite one, which clipping devices and settings give
    instead of infinity. Infinity for wider types, whose range nothing here fills.
    """
    return torch.finfo(dtype).max if dtype in (torch.float16, torch.bfloat16) else math.inf


def peak_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Bit pattern of the largest |x| of a strided tensor of any shape, as a 0-dim integer tensor on the same device; no
    synchronisation.

    The integer is as wide as the floating type (`bits_to_float` turns it back). An empty tensor gives 0; a complex one the
    larger of its parts; booleans and integers are taken as float32. NaN and infinity stay visible: all exponent bits are set.
    """
    values = _as_ordered_float(tensor)
    integer = _INTEGERS[values.element_size()]
    if values.numel() == 0:
        return torch.zeros((), dtype=integer, device=values.device)
    return (values.view(integer) & torch.iinfo(integer).max).amax()


def bits_to_float(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Bit patterns (any shape) of `peak_bits` as float64 on the CPU. dtype: as `ordered_dtype` says of the tensor."""
    return bits.cpu().view(dtype).to(torch.float64)


def ordered_dtype(tensor: torch.Tensor) -> torch.dtype:
    """The floating type in which `peak_bits` reads this tensor."""
    dtype = tensor.dtype
    if dtype.is_complex:
        return dtype.to_real()
    return torch.float32 if not dtype.is_floating_point or dtype in _UNORDERED else dtype


def peak(tensor: torch.Tensor) -> float:
    """Largest |x| now; nan or inf when one is in it, 0.0 when empty or without data. Synchronises on an accelerator."""
    if not has_values(tensor):
        return 0.0
    if tensor.is_cpu:
        return _cpu_peak(tensor)
    return float(bits_to_float(peak_bits(tensor), ordered_dtype(tensor)))


_Kind = tuple[torch.device, torch.dtype]


class PeakBuffer:
    """Peaks of many tensors, kept on their devices and read once (on a CPU at once). n: slots to start with."""

    def __init__(self, n: int = 0) -> None:
        self._values: list[float] = [0.0] * n
        self._pending: dict[int, _Kind] = {}
        self._chunks: dict[_Kind, list[torch.Tensor]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def add(self, tensor: torch.Tensor) -> int:
        """Write into a new slot and return its index."""
        index = len(self._values)
        if tensor.is_cpu:
            self._values.append(_cpu_peak(tensor) if tensor.numel() else 0.0)
            return index
        self._values.append(0.0)
        self.write(index, tensor)
        return index

    def write(self, index: int, tensor: torch.Tensor) -> None:
        """Reduce `tensor` into slot `index`. A tensor without values reads as 0.0."""
        self._pending.pop(index, None)
        if not has_values(tensor):
            self._values[index] = 0.0
        elif tensor.is_cpu:
            self._values[index] = _cpu_peak(tensor)
        else:
            self._pending[index] = kind = tensor.device, ordered_dtype(tensor)
            self._write_bits(index, _as_ordered_float(tensor), kind)

    def at_once(self, index: int) -> float | None:
        """The value of a slot if it is here already; None while it waits on an accelerator."""
        return None if index in self._pending else self._values[index]

    def read(self) -> list[float]:
        """All slots in order; nan and inf are kept. One transfer per 4096 slots, device and number type."""
        host = {kind: [bits_to_float(chunk, kind[1]).tolist() for chunk in chunks] for kind, chunks in self._chunks.items()}
        for index, kind in self._pending.items():
            self._values[index] = host[kind][index // _CHUNK][index % _CHUNK]
        self._pending.clear()
        return list(self._values)

    def _write_bits(self, index: int, values: torch.Tensor, kind: _Kind) -> None:
        integer = _INTEGERS[values.element_size()]
        chunks = self._chunks.setdefault(kind, [])
        while len(chunks) <= index // _CHUNK:
            chunks.append(torch.zeros(_CHUNK, dtype=integer, device=kind[0]))
        bits = values.view(integer) & torch.iinfo(integer).max
        torch.amax(bits, dim=(), out=chunks[index // _CHUNK][index % _CHUNK])


def _as_ordered_float(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    if values.layout is not torch.strided:
        values = values.to_dense()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    values = values.resolve_neg()  # a sign that is still to be turned does not stand in the bits
    dtype = ordered_dtype(values)
    return values if values.dtype is dtype else values.to(dtype)


def _cpu_peak(tensor: torch.Tensor) -> float:
    values = tensor if tensor.grad_fn is None else tensor.detach()
    if values.dtype not in _PLAIN or values.layout is not torch.strided:
        values = _comparable(values)
    elif values.numel() * values.itemsize > _SMALL and torch.get_num_threads() <= _FEW_THREADS:
        return _peak_of_bits(values)
    low, high = torch.aminmax(values)
    lowest, highest = low.item(), high.item()
    return math.nan if lowest != lowest or highest != highest else max(-lowest, highest, 0.0)


def _peak_of_bits(values: torch.Tensor) -> float:
    """values: one of the plain formats, strided, at least one element."""
    kind = _PLAIN[values.dtype]
    signed: NDArray[np.signedinteger[Any]] = values.detach().resolve_neg().view(kind.signed).numpy().ravel("K")
    magnitude = torch.iinfo(kind.signed).max
    step = _PIECE // values.itemsize
    found = 0
    for start in range(0, signed.size, step):
        piece = signed[start : start + step]
        found = max(found, int(piece.max()) & magnitude, int(piece.view(kind.unsigned).max()) & magnitude)
    return struct.unpack(kind.code, (found << kind.shift).to_bytes(struct.calcsize(kind.code), sys.byteorder))[0]


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in a format that a CPU has comparisons for."""
    values = _as_ordered_float(tensor) if tensor.is_floating_point() or tensor.is_complex() else tensor
    return values.to(torch.float32) if values.element_size() == 1 and values.is_floating_point() else values
