"""A fix as it stands: its two steps, how far they are, and how it ended."""

from dataclasses import dataclass
from typing import Literal

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import CheckReport, PictureFacts
from halftone.contract.wording import Words

FixState = Literal["", "running", "fixed", "failed"]


@dataclass(frozen=True, kw_only=True)
class Fix:
    """The newest fix; state "" before the first, and when it was closed, cancelled or undone.

    key, facts: of the picture that is fixed; step: 1 checks the model, 2 makes the same picture again; job: of this step;
    share: of this step's job; report: the check whose cure is in use; clean: the picture that was made; likeness: dB between the
    two, infinity for the same pixels, None where they cannot be compared; why, error: of a failure.
    """

    state: FixState = ""
    key: str = ""
    facts: PictureFacts | None = None
    step: Literal[1, 2] = 1
    job: str = ""
    share: float = 0.0
    report: CheckReport | None = None
    clean: PictureFacts | None = None
    likeness: float | None = None
    why: Words | None = None
    error: ErrorFacts | None = None

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def progress(self) -> float:
        """From 0 to 1, over both steps."""
        return (self.step - 1 + self.share) / 2

    def concerns(self, key: str) -> bool:
        """Whether a picture is the one that is fixed, or the one that was made clean."""
        return self.state != "" and (key == self.key or self.is_clean(key))

    def is_clean(self, key: str) -> bool:
        return self.clean is not None and self.clean.path == key != ""
