"""Looks at every weight of a file: whether it can be used as it is stored."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.library.files.scan import TensorScan, scan_files
from halftone.library.index.facts import Weights
from halftone.library.models import describe, weight_files

_NAMED: Final = 20
"""Tensors that are named."""


def weights_of(path: str, progress: Callable[[int, int], None] = lambda _done, _of: None) -> Weights:
    """Look at every weight of a file, or of a folder that is one model. progress: gets bytes done, bytes in all."""
    try:
        files = weight_files(describe(path)) if Path(path).is_dir() else (("model", Path(path)),)
        return judged(scan_files(files, progress=progress))
    except HalftoneError as error:
        return Weights(error=error.as_facts())


def judged(scans: tuple[TensorScan, ...]) -> Weights:
    """Count what the scans of all tensors found."""
    bad = [scan for scan in scans if scan.nonfinite or scan.clipped]
    return Weights(
        tensors=len(scans),
        nonfinite=sum(1 for scan in scans if scan.nonfinite),
        clipped=sum(1 for scan in scans if scan.clipped),
        peak=max((scan.peak for scan in scans), default=0.0),
        named=tuple(scan.tensor for scan in bad[:_NAMED]),
    )
