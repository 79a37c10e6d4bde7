"""The state that a training of Halftone saves in the folder of its run: losses, gradient norms and the steps left out."""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from halftone.contract.errors import HalftoneError
from halftone.contract.training import Caught
from halftone.contract.wording import Words
from halftone.library.files.header import parse_header
from halftone.library.run_logs.series import Collector, Numbers
from halftone.settings.regular_files import open_regular

_NAME: Final = "state.safetensors"
_NOTE: Final = "halftone.training"
_CURVE: Final = "curve"
"""The trainer's names. [2, steps] in float32: losses and gradient norms, NaN where one is not known."""


class _Note(msgspec.Struct, frozen=True):
    caught: tuple[Caught, ...] = ()


def is_own_state(path: Path) -> bool:
    return path.name == _NAME


def read_own_state(path: Path, into: Collector) -> None:
    """Read the state of a run; a file of this name from another program is left out. Raises OSError."""
    try:
        with open_regular(path) as file:
            header = parse_header(file, path.stat().st_size, path)
            if _NOTE not in header.metadata:
                return
            note = msgspec.json.decode(header.metadata[_NOTE], type=_Note)
            curve = next((tensor for tensor in header.tensors if tensor.name == _CURVE), None)
            if curve is not None:
                file.seek(curve.start)
                losses, norms = np.frombuffer(file.read(curve.end - curve.start), "<f4").reshape(2, -1).astype(np.float64)
                begin = int(np.isfinite(losses).argmax())  # 0 where none is: an older run's first losses are not known
                into.put_many("loss", "loss", _at(np.arange(begin, len(losses)), losses))
                into.put_many("grad_norm", "gradient", _at(np.flatnonzero(~np.isnan(norms)), norms))
    except (HalftoneError, msgspec.MsgspecError, ValueError):
        into.note("damaged", Words("it is incomplete"))
        return
    for seat, caught in enumerate(note.caught):
        if caught.did == "skipped":
            into.happened("skipped-step", caught.step, 0, seat, f"{caught.cause}: {caught.name}")


def _at(places: "NDArray[np.int64]", values: "NDArray[np.float64]") -> Numbers:
    none = np.zeros(len(places), np.int64)
    return Numbers(places + 1, values[places], none, places, none.astype(np.float64))
