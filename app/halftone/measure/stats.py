"""One reduction per tensor that gives its peak and whether it is finite.

IEEE bit patterns are ordered like the numbers they stand for once the sign bit is cleared, and infinity and NaN stand above every
finite number. So the maximum of the integer view says both how large the largest value is and whether anything was not finite.

Which exact form is fastest was measured on a CPU with one thread, microseconds for 2 x 4096 x 320 values:

    form                          float16   bfloat16   float32
    torch.aminmax                     291        288       270
    integer view, mask, amax          194        189       603
    abs().max()                       312        315       555
    isfinite().all() alone           5085       6091      5129
    linalg.vector_norm(ord=inf)      6860       7136      6724

With more threads the integer form opens two parallel regions where aminmax opens one, and it writes a temporary; so on a CPU
aminmax is taken (one read, no temporary, NaN propagates), and on accelerators the integer form, whose two kernels exist
everywhere and need neither a synchronisation nor a float comparison.
"""

import math
from typing import Final

import torch

_INTEGERS: Final[dict[int, torch.dtype]] = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_UNORDERED: Final[frozenset[torch.dtype]] = frozenset(
    dtype
    for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if isinstance(dtype := getattr(torch, name, None), torch.dtype)
)
"""One-byte formats whose NaN does not stand above all numbers once the sign bit is cleared."""
_CHUNK: Final = 4096


_PLAIN: Final = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
"""Formats that a CPU compares as they are."""


def has_values(tensor: torch.Tensor) -> bool:
    """False for empty tensors and for those that hold no data (meta device)."""
    return tensor.numel() > 0 and tensor.device.type != "meta"


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
    """Bit patterns (any shape) of `peak_bits` back to float64 values on the CPU. dtype: what `ordered_dtype` said of the
    tensor.
    """
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
    if tensor.device.type == "cpu":
        return _cpu_peak(tensor)
    return float(bits_to_float(peak_bits(tensor), ordered_dtype(tensor)))


class PeakBuffer:
    """Peaks of many tensors, kept on `device` and read once.

    n: slots to start with (`add` makes more). Tensors of another device are reduced there and only the result moves. On a CPU the
    value is taken at once: there is nothing to wait for.
    """

    def __init__(self, n: int, device: torch.device | str) -> None:
        self._device = torch.device(device)
        self._values: list[float] = [0.0] * n
        self._pending: dict[int, torch.dtype] = {}
        self._chunks: dict[torch.dtype, list[torch.Tensor]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def add(self, tensor: torch.Tensor) -> int:
        """Write into a new slot and return its index."""
        index = len(self._values)
        if tensor.device.type == "cpu":
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
        elif tensor.device.type == "cpu":
            self._values[index] = _cpu_peak(tensor)
        else:
            dtype = ordered_dtype(tensor)
            self._write_bits(index, _as_ordered_float(tensor), dtype)
            self._pending[index] = dtype

    def at_once(self, index: int) -> float | None:
        """The value of a slot if it is here already; None while it waits on an accelerator."""
        return None if index in self._pending else self._values[index]

    def read(self) -> list[float]:
        """All slots in order; nan and inf are kept. One transfer per 4096 slots and number type."""
        host = {dtype: [bits_to_float(chunk, dtype).tolist() for chunk in chunks] for dtype, chunks in self._chunks.items()}
        for index, dtype in self._pending.items():
            self._values[index] = host[dtype][index // _CHUNK][index % _CHUNK]
        self._pending.clear()
        return list(self._values)

    def _write_bits(self, index: int, values: torch.Tensor, dtype: torch.dtype) -> None:
        integer = _INTEGERS[values.element_size()]
        chunks = self._chunks.setdefault(dtype, [])
        while len(chunks) <= index // _CHUNK:
            chunks.append(torch.zeros(_CHUNK, dtype=integer, device=self._device))
        slot = chunks[index // _CHUNK][index % _CHUNK]
        bits = values.view(integer) & torch.iinfo(integer).max
        if slot.device == bits.device:
            torch.amax(bits, dim=(), out=slot)
        else:
            slot.copy_(bits.amax(), non_blocking=True)


def _as_ordered_float(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    if values.layout is not torch.strided:
        values = values.to_dense()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    dtype = ordered_dtype(values)
    return values if values.dtype is dtype else values.to(dtype)


def _cpu_peak(tensor: torch.Tensor) -> float:
    values = tensor if tensor.grad_fn is None else tensor.detach()
    if values.dtype not in _PLAIN or values.layout is not torch.strided:
        values = _comparable(values)
    low, high = torch.aminmax(values)
    lowest, highest = low.item(), high.item()
    return math.nan if lowest != lowest or highest != highest else max(-lowest, highest, 0.0)


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in a format that a CPU has comparisons for."""
    values = _as_ordered_float(tensor) if tensor.is_floating_point() or tensor.is_complex() else tensor
    return values.to(torch.float32) if values.element_size() == 1 and values.is_floating_point() else values
