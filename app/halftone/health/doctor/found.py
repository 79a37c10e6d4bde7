"""The doctor's findings as plain facts; `sentences` makes sentences of them."""

from typing import Final, Literal, NamedTuple

import msgspec

from halftone.contract.training import Remedy
from halftone.library.run_logs.series import Point, Quantity, Track

Verdict = Literal["sound", "trouble", "silent"]
"""silent: nothing in the files shows the course of the run."""

TroubleCode = Literal[
    "nonfinite",
    "weights",
    "latents",
    "scale-floor",
    "scale-gone",
    "diverged",
    "jumped",
    "nothing-learnt",
    "rate-zero",
    "validation",
    "stopped",
]

SignCode = Literal[
    "first-step",
    "first-logged",
    "second-step",
    "finite-then",
    "steady",
    "loss-exploding",
    "loss-rising",
    "loss-jump",
    "loss-hidden",
    "loss-zero",
    "level-jump",
    "level-rise",
    "gradient-spike",
    "gradient-rising",
    "gradient-steady",
    "gradient-first",
    "gradient-skips",
    "recovers",
    "scale-falling",
    "scale-floor",
    "scale-gone",
    "scale-growing",
    "steps-skipped",
    "after-validation",
    "after-validation-again",
    "after-checkpoint",
    "after-resume",
    "warm-up-end",
    "rate-high",
    "rate-low",
    "half",
    "half-weights",
    "bfloat16",
    "float32",
    "precision-untold",
    "epsilon-zero",
    "no-clip",
    "nan-latents",
    "sdxl-half-vae",
    "weights-half-bad",
    "weights-all-bad",
    "weights-some-bad",
    "weights-bad-before",
    "weights-sound",
    "averaged",
    "error",
]

LOOK: Final[frozenset[SignCode]] = frozenset(("loss-zero", "level-jump", "level-rise"))
"""Signs for which a run without trouble is worth a look."""

Suspicion = Literal[
    "data-nonfinite",
    "weights-nonfinite",
    "activation-overflow",
    "gradient-overflow",
    "loss-scale",
    "optimizer-epsilon",
    "optimizer-state",
    "learning-rate",
    "vae-overflow",
    "validation",
]
"""The values of `Cause` that a log can show, and two more. vae-overflow: the picture encoder leaves the range of float16, so that
the latents are no numbers; validation: it changed the model.
"""

Advice = Remedy | Literal["vae-float32", "validate-apart", "earlier-checkpoint", "new-optimizer-state", "watch"]
"""watch: train with Halftone's guard, which names the layer."""


class Where(NamedTuple):
    """A place in a log. line: 0 where the file has no lines; step: None: unknown; counted: the log has no steps, so its step is
    the count of its entries.
    """

    file: str
    line: int = 0
    step: int | None = None
    counted: bool = False


class First(msgspec.Struct, frozen=True, kw_only=True):
    """The first number that is not finite. tag: its name in the log; wall: seconds since 1970, None: unknown."""

    quantity: Quantity
    tag: str
    value: float
    where: Where
    wall: float | None = None


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """One observation, with its numbers and their place."""

    code: SignCode
    where: Where | None = None
    values: tuple[float | int | str, ...] = ()


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    code: TroubleCode
    where: Where | None = None
    values: tuple[float | int | str, ...] = ()


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A likely cause. score: points of its signs, less those against it."""

    cause: Suspicion
    score: int
    signs: tuple[Sign, ...]
    against: tuple[Sign, ...] = ()
    advice: tuple[Advice, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """troubles: the gravest first; signs: all; suspects: the likeliest first; last_sound: the checkpoint to go back to, "" for
    none; steps: (first, last) in the files.
    """

    verdict: Verdict
    troubles: tuple[Trouble, ...] = ()
    first: First | None = None
    signs: tuple[Sign, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    last_sound: str = ""
    steps: tuple[int, int] | None = None
    last_loss: float | None = None


class Bad(NamedTuple):
    """A number that is not finite. place: its index in the track; since: the beginning of the unbroken steps before it."""

    track: Track
    place: int
    since: int

    @property
    def point(self) -> Point:
        return self.track[self.place]


HALF_LEAST: Final = 2.0**-24
"""The smallest number above zero in float16; half of it and less is zero there."""
