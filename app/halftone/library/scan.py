"""Looks at every weight of a model without torch: bad numbers, peaks, zeros, and what a run dtype would flush.

The numbers are read as the integers of their bits: with the sign bit cleared they sort like the absolute values, so one
maximum gives the peak and tells whether everything is finite, at the speed of memory.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import ModelFacts
from halftone.contract.words import DType
from halftone.library.header import Header, TensorInfo, read_header
from halftone.library.models import weight_files

CHUNK: Final = 2**20
"""Bytes looked at in one go: they stay in the processor's cache between the passes."""

_THREADS: Final = 2
_LOT: Final = 2**26
"""Bytes between two looks at `cancelled`."""

_SMALLEST_EXPONENT: Final[dict[DType, int]] = {"float16": -14, "bfloat16": -126, "float32": -126}
"""Of the smallest normal number; what is smaller has fewer bits, and GPUs often flush it to zero."""


class TensorScan(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor of floating-point numbers. dtype: as stored ("F16").

    nonfinite: how many are NaN or infinite; peak: largest absolute value of the finite ones; zeros: share that is zero;
    subnormals_in_run_dtype: share that is not zero but below the run dtype's smallest normal number; constant: all equal.
    """

    component: str
    file: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    nonfinite: int
    peak: float
    zeros: float
    subnormals_in_run_dtype: float
    constant: bool


class _Format(msgspec.Struct, frozen=True):
    """A stored format: unsigned integer of its bits, exponent bias, mantissa bits, first pattern that is not finite."""

    bits: type[np.unsignedinteger[Any]]
    bias: int
    mantissa: int
    nonfinite: int

    @property
    def magnitude(self) -> int:
        return int(np.iinfo(self.bits).max) >> 1


_FORMATS: Final[dict[str, _Format]] = {
    "F64": _Format(np.uint64, 1023, 52, 0x7FF0_0000_0000_0000),
    "F32": _Format(np.uint32, 127, 23, 0x7F80_0000),
    "F16": _Format(np.uint16, 15, 10, 0x7C00),
    "BF16": _Format(np.uint16, 127, 7, 0x7F80),
    "F8_E5M2": _Format(np.uint8, 15, 2, 0x7C),
    "F8_E4M3": _Format(np.uint8, 7, 3, 0x7F),
}
"""IEEE 754 binary64, binary32, binary16; bfloat16; OCP 8-bit floating point 1.0, whose E4M3 has no infinity and one NaN."""


class _Tally:
    """What the chunks of one tensor add up to; buffers are reused from chunk to chunk."""

    def __init__(self, kind: _Format, run: DType) -> None:
        self.kind = kind
        self.small = _pattern_below(kind, _SMALLEST_EXPONENT[run])
        self.nonfinite = self.nonzero = self.below = self.peak = 0
        numbers = CHUNK // np.dtype(kind.bits).itemsize
        self._magnitudes = np.empty(numbers, kind.bits)
        self._flags = np.empty(numbers, np.bool_)

    def add(self, values: NDArray[np.unsignedinteger[Any]]) -> None:
        magnitudes, flags = self._magnitudes[: values.size], self._flags[: values.size]
        np.bitwise_and(values, self.kind.bits(self.kind.magnitude), out=magnitudes)
        highest = int(magnitudes.max())
        if highest >= self.kind.nonfinite:
            finite = magnitudes < self.kind.bits(self.kind.nonfinite)
            self.nonfinite += values.size - int(np.count_nonzero(finite))
            highest = int(magnitudes[finite].max(initial=0))
        self.peak = max(self.peak, highest)
        self.nonzero += int(np.count_nonzero(magnitudes))
        if self.small > 1:
            self.below += int(np.count_nonzero(np.less(magnitudes, self.kind.bits(self.small), out=flags)))


def scan_weights(
    facts: ModelFacts,
    dtype: DType,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[TensorScan, ...]:
    """Every floating-point tensor of the model's weight files; see `scan_files`."""
    return scan_files(weight_files(facts), dtype, cancelled, progress)


def scan_files(
    files: Iterable[tuple[str, Path]],
    dtype: DType,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[TensorScan, ...]:
    """Every floating-point tensor of these files (component, path), in their order; integers are left out.

    dtype: what the model is to run in. progress: called with bytes done and bytes in all, from the calling thread.
    Raises JobCancelled; HalftoneError as `read_header`, and model-load-failed if a file cannot be read.
    """
    scans: list[TensorScan] = []
    sources = [_Source(component, path, read_header(path)) for component, path in files]
    total = sum(info.end - info.start for source in sources for info in source.header.tensors)
    done = 0
    with ThreadPoolExecutor(_THREADS, "scan") as pool:
        for source in sources:
            look = _looker(source, dtype)
            for lot in _lots(source.header.tensors, _LOT):
                if cancelled():
                    raise JobCancelled
                size = sum(info.end - info.start for info in lot)
                for part in pool.map(look, _lots(lot, size // _THREADS + 1)):
                    scans += part
                done += size
                progress(done, total)
    return tuple(scans)


class _Source(msgspec.Struct, frozen=True):
    component: str
    path: Path
    header: Header


def _looker(source: _Source, run: DType) -> Callable[[Sequence[TensorInfo]], list[TensorScan]]:
    """Opens the file once, for all its tensors."""
    try:
        data: NDArray[np.uint8] = np.memmap(source.path, np.uint8, "r")
    except OSError as error:
        raise HalftoneError("model-load-failed", path=str(source.path), detail=error.strerror or "it cannot be read") from error

    def look(lot: Sequence[TensorInfo]) -> list[TensorScan]:
        return [_scan(data[info.start : info.end], info, run, source) for info in lot if info.dtype in _FORMATS]

    return look


def _lots(tensors: Sequence[TensorInfo], size: int) -> list[list[TensorInfo]]:
    """Neighbouring tensors in lots of about `size` bytes."""
    lots: list[list[TensorInfo]] = [[]]
    filled = 0
    for info in tensors:
        if filled >= size:
            lots.append([])
            filled = 0
        lots[-1].append(info)
        filled += info.end - info.start
    return lots


def _scan(data: NDArray[np.uint8], info: TensorInfo, run: DType, source: _Source) -> TensorScan:
    """data: the tensor's bytes. An empty tensor has peak 0 and nothing else."""
    kind = _FORMATS[info.dtype]
    values = data.view(kind.bits)
    tally = _Tally(kind, run)
    step = CHUNK // values.itemsize
    for start in range(0, values.size, step):
        tally.add(values[start : start + step])
    count = max(values.size, 1)
    zeros = values.size - tally.nonzero
    return TensorScan(
        component=source.component,
        file=str(source.path),
        tensor=info.name,
        dtype=info.dtype,
        shape=info.shape,
        nonfinite=tally.nonfinite,
        peak=_value(tally.peak, kind),
        zeros=zeros / count,
        subnormals_in_run_dtype=max(tally.below - zeros, 0) / count,
        constant=_is_constant(values),
    )


def _is_constant(values: NDArray[np.unsignedinteger[Any]]) -> bool:
    """Nearly every tensor is told by its first and last number; only the others are read to the end."""
    if values.size < 2 or values[0] != values[-1]:
        return False
    step = CHUNK // values.itemsize
    return all(bool((values[start : start + step] == values[0]).all()) for start in range(0, values.size, step))


def _pattern_below(kind: _Format, exponent: int) -> int:
    """The bits of 2**exponent in the stored format: everything below is smaller. At most 1 if nothing but zero can be."""
    biased = exponent + kind.bias
    if biased >= 1:
        return biased << kind.mantissa
    steps = biased - 1 + kind.mantissa
    return 1 << steps if steps >= 0 else 0


def _value(pattern: int, kind: _Format) -> float:
    """The number that the bits of a finite magnitude stand for."""
    exponent, fraction = divmod(pattern, 1 << kind.mantissa)
    if exponent:
        fraction += 1 << kind.mantissa
    return math.ldexp(fraction, max(exponent, 1) - kind.bias - kind.mantissa)
