"""Pickles that write a file when they are opened, so that a test sees whether anything opened them."""

import pickle
from pathlib import Path
from typing import Any, Final, Literal

MARK: Final = "ran"
"""The file that code from a model writes, beside the model."""


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.mark, "w")


def hostile(path: Path, mark: Path, form: Literal["pickle", "torch"] = "torch") -> None:
    """A file that runs code when it is unpickled, as pickle or torch write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "pickle":
        path.write_bytes(pickle.dumps({"state_dict": Hostile(mark)}))
    else:
        import torch

        torch.save({"weight": Hostile(mark)}, path)
