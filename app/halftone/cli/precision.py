"""The precision that a job was given, as the terminal tells it."""

from typing import NamedTuple

from halftone.contract.words import DTYPE_NAMES, DType


class ChosenPrecision(NamedTuple):
    """dtype: what was to run; reason: a sentence; measured: Auto took it from the self-test of this device."""

    dtype: DType
    reason: str
    measured: bool

    def line(self) -> str:
        """The sentence for people; empty for a plain wish, which needs no echo."""
        name = DTYPE_NAMES[self.dtype]
        if self.measured:
            return f"Precision: {name}, measured on this device: {self.reason.removeprefix(f'{name}: ')}"
        return "" if self.reason == f"{name}, as set." else f"Precision: {self.reason}"
