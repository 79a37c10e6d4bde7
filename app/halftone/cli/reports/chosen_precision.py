"""The precision that a job was given, as the terminal shows it."""

from typing import NamedTuple

from halftone.cli.terminal.command_lines import command_line
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.contract.wording import Words
from halftone.health.precision import AS_SET, is_measured, is_set


class ChosenPrecision(NamedTuple):
    """dtype: what was to run; measured: Auto took it from the self-test of this device."""

    dtype: DType
    reason: Words
    measured: bool

    def other_check(self, *, overflows: bool = False) -> str:
        """How FP16 is checked where Auto chose a type that hides what overflows in it; else empty. overflows: the check in that
        type met numbers that FP16 cannot hold.
        """
        hides = self.dtype == "float32" and not is_set(self.reason)
        return "To check FP16: --precision float16" if hides or overflows else ""

    def brief(self) -> str:
        """The sentence that stands below each picture: what the self-test measured is the same for all of them."""
        if not (self.measured and is_measured(self.reason)):
            return self.line()
        return f"Precision: {DTYPE_NAMES[self.dtype]}, measured on this device. Why: {command_line('devices')}"

    def line(self) -> str:
        """The sentence for people; empty for a plain wish, which needs no echo."""
        if self.measured:
            return f"Precision, as measured on this device: {self.reason}"
        return "" if self.reason.template == AS_SET else f"Precision: {self.reason}"
