"""The words of training: what is wanted, what the guard found and did, what was foreseen, what a run leaves.

Everything here is plain facts; sentences are composed by `halftone.health`.
"""

from typing import Final, Literal, get_args

import msgspec

from halftone.contract.errors import ErrorFacts
from halftone.contract.vocabulary import DType, Precision

Optimizer = Literal["adamw", "adamw8bit", "prodigy"]
Schedule = Literal["constant", "linear", "cosine"]
LossScale = Literal["auto", "off"]
Guarding = Literal["every-step", "off"]

Watched = Literal["loss", "activations", "gradients", "optimizer", "weights"]
"""The rows of the guard's strip."""
WATCHED: Final[tuple[Watched, ...]] = get_args(Watched)

Cause = Literal[
    "data-nonfinite",
    "weights-nonfinite",
    "weights-changed",
    "activation-overflow",
    "activation-nonfinite",
    "loss-overflow",
    "loss-nonfinite",
    "gradient-overflow",
    "gradient-nonfinite",
    "loss-scale",
    "optimizer-epsilon",
    "optimizer-state",
    "optimizer-overflow",
    "learning-rate",
    "cast-outside",
    "mode-outside",
    "frozen-outside",
    "random-outside",
    "autocast-outside",
    "state-outside",
    "gradient-outside",
    "buffer-nonfinite",
]
"""Why a step was stopped, or what other code did between two steps.

data-nonfinite: what the script fed the model; weights-nonfinite: a parameter that was bad before the step; weights-changed: other
code wrote into a parameter between two steps; activation-overflow: a module made a number above its dtype's limit from finite
inputs; activation-nonfinite: it made one that no dtype would hold (0/0, a logarithm of nothing); loss-*: the loss function, of
finite outputs; gradient-*: the way back; loss-scale: only the factor of the loss made a gradient overflow; optimizer-epsilon: the
denominator of the update is zero in the dtype of the weights; optimizer-state: a moment was bad before the step; optimizer-
overflow: a moment or the update leaves the range of its dtype; learning-rate: the update is too large by the rate alone;
*-outside: dtype or place of parameters, train / eval mode, requires-grad, random numbers, autocast, moments changed
between steps, or a gradient that is not finite left behind; buffer-nonfinite: a running mean or the like became bad, though loss
and gradients did not.
"""

Deed = Literal["warned", "skipped", "repeated", "restored", "stopped"]
"""What the guard did: only warned; left the step out; repeated it under a cure; restored the last good state; stopped."""

TrainCure = Literal[
    "none",
    "float32-module",
    "float32-block",
    "bfloat16-all",
    "float32-all",
    "loss-scale-down",
    "clip",
    "epsilon-up",
    "float32-states",
    "put-back",
]
"""What made a repeated step good, from the cheapest. put-back: what other code changed was set as it had been."""

TrainChoice = Literal["keep-cure", "leave-out", "float32-block", "stop", "save-in"]
"""What the user may answer to a stop, or ask for on the way. save-in: from now on, save in another folder."""

Foreseen = Literal[
    "epsilon-zero",
    "epsilon-subnormal",
    "second-moment-underflow",
    "no-master-weights",
    "rate-below-resolution",
    "rate-too-high",
    "no-loss-scale",
    "loss-scale-range",
    "loss-scale-useless",
    "no-clipping",
    "clip-too-large",
    "norm-epsilon-zero",
    "weights-nonfinite",
    "data-nonfinite",
    "data-not-normalised",
]
Remedy = Literal[
    "epsilon-1e-4",
    "amsgrad",
    "float32-states",
    "float32-master",
    "grad-scaler",
    "bfloat16",
    "clip-1",
    "warm-up",
    "cosine",
    "lower-rate",
    "norm-epsilon-up",
    "normalise",
    "mend-file",
]


class Omen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trouble that is known before the first step. certain: it will happen; else it may. name: of the parameter, group or
    module; value, limit: the wrong number and its limit; remedies: the cheapest first.
    """

    code: Foreseen
    certain: bool
    name: str = ""
    dtype: DType | None = None
    value: float | None = None
    limit: float | None = None
    count: int = 1
    remedies: tuple[Remedy, ...] = ()


class Caught(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One bad number, stopped before it reached the weights, or one interference.

    step: from 1. watched: its row of the strip. name: the module (forward) or the parameter (backward, optimizer). peak: the
    largest number at its origin, in a type that holds it; limit: of `dtype`. tries: repeats until it was good. seconds: of the
    repeats; time_ratio: of later steps over earlier ones, None before it is known; memory: further bytes. items: names of the
    step's pictures. was, now: of an interference, or of an impossible learning rate.
    """

    step: int
    cause: Cause
    watched: Watched
    name: str
    did: Deed
    kind: str = ""
    """Class of the module, or of the optimizer; "softmax" where one after the last layer gave a row of NaN."""
    dtype: DType | None = None
    peak: float | None = None
    limit: float | None = None
    cure: TrainCure = "none"
    tries: int = 0
    seconds: float = 0.0
    time_ratio: float | None = None
    memory: int = 0
    items: tuple[str, ...] = ()
    was: str = ""
    now: str = ""
    restored_to: int | None = None
    further: tuple[str, ...] = ()
    """More modules or parameters that were bad at the same time, in running order."""
    in_a_row: int = 0
    """Bad steps in a row that were left out, this one included."""
    batch: int = 0
    """Which call of the guard's `step` it was, from 1, where that was left out: the number of the step stays the same then."""


class TrainConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything a LoRA training depends on. Paths as the user gave them.

    size: pixels of the longer edge of a square picture, 0: the model's own; shapes: number of aspect buckets of that area.
    learning_rate: of Prodigy, a factor. snr_gamma: 0: off (Min-SNR, arXiv 2303.09556). word: put before every caption. left_out:
    names of unused pictures. alpha: the LoRA counts alpha / rank. stop_after: bad steps in a row before the training asks.
    """

    model: str
    pictures: str
    output: str
    name: str = "lora"
    device: str = "auto"
    size: int = 0
    shapes: int = 3
    repeats: int = 1
    rank: int = 16
    alpha: float = 16.0
    steps: int = 1600
    batch: int = 2
    accumulate: int = 1
    learning_rate: float = 1e-4
    schedule: Schedule = "cosine"
    warm_up: int = 0
    optimizer: Optimizer = "adamw"
    weight_decay: float = 0.01
    clip: float = 1.0
    precision: Precision = "auto"
    loss_scale: LossScale = "auto"
    guard: Guarding = "every-step"
    stop_after: int = 5
    checkpointing: bool = False
    snr_gamma: float = 5.0
    caption_dropout: float = 0.05
    flip: bool = False
    word: str = ""
    save_every: int = 200
    test_every: int = 200
    test_prompt: str = ""
    test_seed: int = 7
    seed: int = 0
    left_out: tuple[str, ...] = ()


class WiderType(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a training computes in another type than the wanted one: the model needs a cure there, and a LoRA is trained without.

    name: the module that needs the cure, with its component; source: what found that; peak, limit: the module's largest number
    and the largest of the wanted type, where measured.
    """

    asked: DType
    used: DType
    name: str
    source: Literal["check", "picture"]
    peak: float | None = None
    limit: float | None = None


class TrainReport(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """loss: the mean of the last tenth. path: the LoRA's file; folder: of the run; both "" where nothing was learned."""

    name: str
    path: str
    folder: str
    steps: int
    steps_wanted: int
    loss: float
    seconds: float
    caught: tuple[Caught, ...]
    cures: tuple[TrainCure, ...] = ()
    dtype: DType = "float32"
    not_kept: ErrorFacts | None = None
    """Why the last state could not be saved; None when it was."""
    guarded: bool = True
    bad_losses: int = 0
    """Steps whose loss was not finite, of a training without the guard."""
    wider: WiderType | None = None
    """Why it was not computed in the type that was asked for."""


class TrainPicture(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One picture of the folder, as read before the start. problem: why it cannot be used ("unreadable", "too-small", "latents":
    the VAE gives NaN), "" for none. shape: the trained (width, height); note: a possible mistake ("white", "black",
    "caption-unreadable", "no-caption", "caption-long": only its beginning is read, "small").
    """

    name: str
    width: int = 0
    height: int = 0
    caption: str = ""
    shape: tuple[int, int] = (0, 0)
    problem: str = ""
    note: str = ""
