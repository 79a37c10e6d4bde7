"""Reads every weight of a model without torch: bad numbers and peaks.

Numbers are read as the integers of their bits, which sort like the numbers but for the sign bit: the largest signed integer is
the largest positive number, the largest unsigned one the largest negative number. Two maxima give the peak and show whether all
is finite, at the speed of memory. The file is mapped window by window, so memory does not grow with it.

GGUF packs numbers in blocks of small whole numbers and one or two factors in float16. They are finite where the factors are, and
bounded by them, so only the few blocks that could hold the largest number are unpacked.
"""

import math
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import ModelFacts
from halftone.contract.request import ALONE, Extras
from halftone.library.add_ons.extras import extra_files
from halftone.library.families.single_files import SINGLES
from halftone.library.families.split_files import names_in_files
from halftone.library.files.gguf_header import BLOCKS, read_any
from halftone.library.files.header import TensorInfo
from halftone.library.models import weight_files
from halftone.settings.disk import no_right, unread_words
from halftone.settings.regular_files import open_regular

_SIZES: Final = {name: (numbers, size) for name, numbers, size in BLOCKS.values()}
_UNPACKED: Final = 256
"""Blocks that are unpacked at a time."""

BOUNDS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "Q4_0": ((0, 8),),
    "Q4_1": ((0, 15), (2, 1)),
    "Q5_0": ((0, 16),),
    "Q5_1": ((0, 31), (2, 1)),
    "Q8_0": ((0, 128),),
    "Q2_K": ((80, 15 * 3), (82, 15)),
    "Q3_K": ((108, 32 * 4),),
    "Q4_K": ((0, 63 * 15), (2, 63)),
    "Q5_K": ((0, 63 * 31), (2, 63)),
    "Q6_K": ((208, 128 * 32),),
    "IQ4_NL": ((0, 127),),
    "IQ4_XS": ((0, 32 * 127),),
}
"""By type: where its float16 factors lie in a block, and the largest whole number that each is multiplied with."""


def whole_blocks(kind: str, most: int) -> int:
    """Bytes of as many whole blocks as fit into `most`."""
    size = _SIZES[kind][1] if kind in BOUNDS else 1
    return most // size * size


def tally_blocks(data: NDArray[np.uint8], kind: str) -> tuple[int, float]:
    """(numbers that are not finite, the largest finite magnitude). data: bytes of whole blocks."""
    numbers, size = _SIZES[kind]
    blocks = data.reshape(-1, size)
    bounds = np.zeros(len(blocks), np.float32)
    for place, largest in BOUNDS[kind]:
        factors = np.ascontiguousarray(blocks[:, place : place + 2]).view(np.float16)[:, 0]
        bounds += np.abs(factors.astype(np.float32)) * largest
    bad = ~np.isfinite(bounds)
    bounds[bad] = -1
    return int(bad.sum()) * numbers, _block_peak(blocks, bounds, kind)


def _block_peak(blocks: NDArray[np.uint8], bounds: NDArray[np.float32], kind: str) -> float:
    """bounds: limits of the blocks' numbers; below zero for a block that is left out."""
    from gguf import GGMLQuantizationType, quants

    found = 0.0
    while (left := np.flatnonzero(bounds > found)).size:
        chosen = left[np.argsort(bounds[left])[-_UNPACKED:]]
        unpacked = cast("Any", quants).dequantize(blocks[chosen], GGMLQuantizationType[kind])
        found = max(found, float(np.abs(unpacked).max()))
        bounds[chosen] = -1
    return found


CHUNK: Final = 2**20
"""Bytes looked at in one go: they stay in the processor's cache between the passes."""

THREADS: Final = 2
WINDOW: Final = 2**25
"""Bytes of the file that one thread maps at a time."""
_LOT: Final = 2
"""Windows between two looks at `cancelled`."""


class TensorScan(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor of floating-point numbers. dtype: as stored ("F16"); nonfinite: how many are NaN or infinite; peak: largest
    absolute value of the finite ones; clipped: how many are exactly the limit of float16, where it is the peak.
    """

    component: str
    file: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    nonfinite: int
    peak: float
    clipped: int = 0


class _Format(msgspec.Struct, frozen=True):
    """A stored format: its bits as unsigned and signed integers, exponent bias, mantissa bits, first pattern that is not finite.
    half: the pattern of float16's limit, 0 for none.
    """

    bits: type[np.unsignedinteger[Any]]
    signed: type[np.signedinteger[Any]]
    bias: int
    mantissa: int
    nonfinite: int
    half: int = 0

    @property
    def magnitude(self) -> int:
        return int(np.iinfo(self.bits).max) >> 1


_FORMATS: Final[dict[str, _Format]] = {
    "F64": _Format(np.uint64, np.int64, 1023, 52, 0x7FF0_0000_0000_0000),
    "F32": _Format(np.uint32, np.int32, 127, 23, 0x7F80_0000, half=0x477F_E000),
    "F16": _Format(np.uint16, np.int16, 15, 10, 0x7C00, half=0x7BFF),
    "BF16": _Format(np.uint16, np.int16, 127, 7, 0x7F80),
    "F8_E5M2": _Format(np.uint8, np.int8, 15, 2, 0x7C),
    "F8_E4M3": _Format(np.uint8, np.int8, 7, 3, 0x7F),
}
"""IEEE 754 binary64, binary32, binary16; bfloat16; OCP 8-bit floating point 1.0, whose E4M3 has no infinity and one NaN."""


class _Part(NamedTuple):
    """Bytes start to end of the file: a tensor, or as much of it as fits into a window. tensor: its place in the header."""

    tensor: int
    start: int
    end: int


class _Tally(NamedTuple):
    """Counts over some numbers of one tensor. peak: bits of the largest finite magnitude, or that magnitude of packed numbers;
    clipped: how many are at the limit of float16.
    """

    nonfinite: int = 0
    peak: float = 0
    clipped: int = 0


def scan_weights(
    facts: ModelFacts,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    threads: int = THREADS,
    extras: Extras = ALONE,
) -> tuple[TensorScan, ...]:
    """Every floating-point tensor of the model's parts, and of what replaces one; see `scan_files`."""
    others = {str(extra.path): extra for extra in extra_files(extras, facts)}
    replaced = {extra.component for extra in others.values()}
    files = [(name, path) for name, path in weight_files(facts) if name not in replaced]
    found = scan_files((*files, *((extra.component, extra.path) for extra in others.values())), cancelled, progress, threads)
    single = facts.format == "single-file" and facts.family in SINGLES
    names = names_in_files(facts) if single else {}
    scans: list[TensorScan] = []
    for scan in found:
        place: tuple[str, str] | None = (scan.component, scan.tensor)
        if (extra := others.get(scan.file)) is not None:
            place = (scan.component, extra.names[scan.tensor]) if scan.tensor in extra.names else None
        elif single:
            place = names.get((scan.file, scan.tensor))
            place = None if place is None or place[0] in replaced else place
        if place is not None:
            scans.append(msgspec.structs.replace(scan, component=place[0], tensor=place[1]))
    return tuple(scans)


def scan_files(
    files: Iterable[tuple[str, Path]],
    cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    threads: int = THREADS,
) -> tuple[TensorScan, ...]:
    """Every floating-point tensor of these files (component, path), in their order; integers are left out.

    progress: called with bytes done and bytes in all, from the calling thread.
    Raises JobCancelled; HalftoneError as `read_header`, and model-load-failed if a file cannot be read.
    """
    sources = [_Source(component, path, read_any(path).tensors) for component, path in files]
    total = sum(info.end - info.start for source in sources for info in source.tensors if _is_looked_at(info))
    scans: list[TensorScan] = []
    done = 0
    with ThreadPoolExecutor(threads, "scan") as pool:
        for source in sources:
            tallies: dict[int, list[_Tally]] = {}
            windows = _windows(source.tensors)
            while lot := list(islice(windows, _LOT)):
                if cancelled():
                    raise JobCancelled
                for window, found in zip(lot, pool.map(partial(_look, source), lot), strict=True):
                    for part, tally in zip(window, found, strict=True):
                        tallies.setdefault(part.tensor, []).append(tally)
                        done += part.end - part.start
                progress(done, total)
            scans += [
                _told(source, info, tallies.get(index, [])) for index, info in enumerate(source.tensors) if _is_looked_at(info)
            ]
    return tuple(scans)


class _Source(NamedTuple):
    component: str
    path: Path
    tensors: tuple[TensorInfo, ...]


def _windows(tensors: Sequence[TensorInfo]) -> Iterator[list[_Part]]:
    """Neighbouring tensors, and pieces of long ones, that together lie in at most WINDOW bytes of the file."""
    window: list[_Part] = []
    for index, info in enumerate(tensors):
        if not _is_looked_at(info):
            continue
        step = whole_blocks(info.dtype, WINDOW)
        for start in range(info.start, info.end, step):
            part = _Part(index, start, min(start + step, info.end))
            if window and part.end - window[0].start > WINDOW:
                yield window
                window = []
            window.append(part)
    if window:
        yield window


def _is_looked_at(info: TensorInfo) -> bool:
    return info.dtype in _FORMATS or info.dtype in BOUNDS


def _look(source: _Source, window: list[_Part]) -> list[_Tally]:
    """Tally each part, in order."""
    first = window[0].start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    try:
        mapped = _mapped(source.path, first, window[-1].end)
    except PermissionError as error:
        raise no_right(error, source.path) from error
    except (OSError, ValueError) as error:  # the second where the file became shorter meanwhile
        raise HalftoneError("model-load-failed", path=str(source.path), detail=unread_words(error)) from error
    data = np.frombuffer(mapped, np.uint8)
    tallies: list[_Tally] = []
    for part in window:
        own, dtype = data[part.start - first : part.end - first], source.tensors[part.tensor].dtype
        kind = _FORMATS.get(dtype)
        tallies.append(_Tally(*tally_blocks(own, dtype)) if kind is None else _tally(own.view(kind.bits), kind))
    return tallies


def _mapped(path: Path, start: int, end: int) -> mmap.mmap:
    """These bytes of a file, to be read only; unmapped when nothing refers to them any more."""
    with open_regular(path) as file:
        if sys.platform == "linux":  # all pages in one go: a fault for each 64 KiB would cost 7 % of the scan
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            return mmap.mmap(file.fileno(), end - start, flags=flags, prot=mmap.PROT_READ, offset=start)
        return mmap.mmap(file.fileno(), end - start, access=mmap.ACCESS_READ, offset=start)


def _tally(values: NDArray[np.unsignedinteger[Any]], kind: _Format) -> _Tally:
    """values: bits, at least one."""
    step = CHUNK // values.itemsize
    nonfinite = peak = clipped = 0
    for start in range(0, values.size, step):
        chunk = values[start : start + step]
        highest = max(int(chunk.view(kind.signed).max()) & kind.magnitude, int(chunk.max()) & kind.magnitude)
        if highest >= kind.nonfinite:
            magnitudes = chunk & kind.bits(kind.magnitude)
            finite = magnitudes[magnitudes < kind.bits(kind.nonfinite)]
            nonfinite += chunk.size - finite.size
            highest = int(finite.max(initial=0))
        if kind.half and highest == kind.half:
            clipped += int(np.count_nonzero((chunk & kind.bits(kind.magnitude)) == kind.bits(kind.half)))
        peak = max(peak, highest)
    return _Tally(nonfinite, peak, clipped)


def _told(source: _Source, info: TensorInfo, tallies: Sequence[_Tally]) -> TensorScan:
    """tallies: of the tensor's parts; an empty tensor has none, and peak 0."""
    peak, kind = max((tally.peak for tally in tallies), default=0), _FORMATS.get(info.dtype)
    return TensorScan(
        component=source.component,
        file=str(source.path),
        tensor=info.name,
        dtype=info.dtype,
        shape=info.shape,
        nonfinite=sum(tally.nonfinite for tally in tallies),
        peak=peak if kind is None else _value(int(peak), kind),
        clipped=sum(tally.clipped for tally in tallies) if kind is not None and kind.half and peak == kind.half else 0,
    )


def _value(pattern: int, kind: _Format) -> float:
    """The number that the bits of a finite magnitude stand for."""
    exponent, fraction = divmod(pattern, 1 << kind.mantissa)
    if exponent:
        fraction += 1 << kind.mantissa
    return math.ldexp(fraction, max(exponent, 1) - kind.bias - kind.mantissa)
