"""The doctor's sentences as templates with values: troubles, signs, causes, advice."""

from typing import Final

from halftone.contract.wording import NARROW, Words, number
from halftone.health.doctor.flags import flag
from halftone.health.doctor.found import Advice, First, Sign, SignCode, Suspect, Suspicion, Trouble, TroubleCode, Where
from halftone.library.run_logs.series import NoteCode, Quantity
from halftone.library.run_logs.trainer import Trainer

QUANTITIES: Final[dict[Quantity, str]] = {
    "loss": "The loss",
    "gradient": "The gradient norm",
    "rate": "The learning rate",
    "scale": "The loss scale",
    "validation": "The validation loss",
}

TROUBLES: Final[dict[TroubleCode, str]] = {
    "nonfinite": "{0} is not finite from step {1} on.",
    "weights": "The checkpoint holds numbers that are not finite, in {0} tensors, the first of them {1}.",
    "latents": "Pictures became latents that are not numbers: “{1}”, said {0} times.",
    "scale-floor": "The loss scale fell to its floor.",
    "scale-gone": "The loss scale fell from {0} in step {1} to {2} in step {3}.",
    "diverged": "The loss was down to {0} and ended at {1}: the training came apart, with finite numbers.",
    "jumped": (
        "The loss leapt from around {0} to around {1} at step {2} and stayed there; the gradient norm leapt to {3} in step {4}."
    ),
    "nothing-learnt": "The loss is {0} from the first step to the last, in all of {1} numbers: nothing was learnt.",
    "rate-zero": "The learning rate is 0 in every step: nothing was learnt.",
    "validation": "The validation loss {0} is not finite, while the training's own numbers are.",
    "stopped": "The run ended with an error: “{0}”.",
}

_ONCE: Final = "{0} is not finite at step {1} only"
_A_WHILE: Final = "{0} is not finite from step {1} to {4}"
_APART: Final = "{0} is not finite at {2} steps, the first of them {1}"
_EVERY: Final = "From step {2} on every step overflowed: {0} of {1}."
_SOME: Final = "{0} of {1} steps overflowed, the first of them step {2}."
_SINGLE: Final[dict[TroubleCode, str]] = {
    "weights": "The checkpoint holds numbers that are not finite, in the tensor {1}.",
    "latents": "A picture became latents that are not numbers: “{1}”.",
}

SIGNS: Final[dict[SignCode, str]] = {
    "first-step": "It was bad from the very first step.",
    "first-logged": "The first number in the log, of step {0}, is bad already.",
    "second-step": "The first step was sound ({0}), the next one was not: it went wrong in the first update, or right after it.",
    "finite-then": "{0} finite numbers stand before it, the last of step {1}: {2}.",
    "steady": "The loss was steady to the end: {0} in the last steps, {1} in those before.",
    "loss-exploding": "The loss exploded: around {0} before, it was {2} in step {1} and {4} in step {3}.",
    "loss-rising": "The loss had been rising: from {0} to {1} in step {2}.",
    "loss-jump": "The loss had jumped: from around {0} to {1}.",
    "loss-hidden": "The loss is told as exactly 0 from there on ({0} times): transformers' Trainer writes that for a bad one.",
    "loss-zero": "The loss is exactly 0 from step {1} to the end, in {0} numbers; it was around {2} before.",
    "level-jump": "The loss rose from around {0} to around {1} at step {2} and stayed there.",
    "level-rise": "The loss rose step by step: from around {0} to around {1} at the end.",
    "gradient-spike": "The gradient norm had leapt to {0} in step {1}; {2} was usual.",
    "gradient-rising": "The gradient norm had been rising: from {0} to {1} in step {2}.",
    "gradient-steady": "The gradient norm was as usual to the end: {1}, around {0} before.",
    "gradient-first": "The gradient norm was bad first, in step {0}, while the loss was still finite: it arose on the way back.",
    "gradient-skips": "Gradient norms that are not finite: {0} of {1}; a loss scale leaves such steps out.",
    "recovers": "{1} finite numbers follow the first that is not finite; not finite in all: {0}.",
    "scale-falling": "The loss scale had fallen from {0} in step {1} to {2} in step {3}.",
    "scale-floor": "The loss scale reached its floor.",
    "scale-gone": "The loss scale had fallen to almost nothing: from {0} in step {1} to {2} in step {3}.",
    "scale-growing": "The loss scale grew from {0} to {1} and found no limit: the gradients are tiny, or nothing.",
    "steps-skipped": "{0} steps were skipped because a gradient overflowed, the first of them after step {1}.",
    "after-validation": "A validation ran right before, for the first time: “{0}”.",
    "after-validation-again": "A validation ran right before; {1} earlier ones did no harm.",
    "after-checkpoint": "A checkpoint was saved right before.",
    "after-resume": "The run had just been resumed: “{0}”.",
    "warm-up-end": "The warm-up had just ended: the learning rate was at its top, {1}, from step {0} on.",
    "rate-high": "The learning rate is {0}, which is high for Adam.",
    "rate-low": "The learning rate is {0}, which is low for Adam.",
    "half": "It was trained in FP16.",
    "half-weights": "The weights themselves were in FP16.",
    "bfloat16": "It was trained in BF16, which has the range of FP32.",
    "float32": "It was trained in FP32.",
    "precision-untold": "Nothing that was read tells the precision.",
    "epsilon-zero": "The optimizer's epsilon, {0}, is 0 in FP16, so that its update may be 0 divided by 0.",
    "no-clip": "Gradients were not clipped.",
    "nan-latents": "The trainer said so itself: “{0}”.",
    "sdxl-half-vae": "The model is an SDXL; its own VAE overflows in FP16, and no other one or FP32 was asked for.",
    "weights-half-bad": "All FP16 tensors of the checkpoint ({0}) are bad, and all FP32 tensors ({1}) are sound.",
    "weights-all-bad": "All {1} tensors of the checkpoint are bad.",
    "weights-some-bad": "{0} of {1} tensors of the checkpoint are bad, the first of them {2}.",
    "weights-bad-before": "The checkpoint it was resumed from was bad already.",
    "weights-sound": "A later checkpoint is sound: the bad numbers did not reach the weights.",
    "averaged": "{0} is an average: one bad step stays in it, so the steps after it may have been sound.",
    "error": "The program ended with: “{0}”.",
}
_EXPLODED_AT_ONCE: Final = "The loss exploded: around {0} before, it was {2} in step {1}."
_SCALE_FLOOR: Final = "The loss scale had fallen to its floor: from {0} in step {1} to {2} in step {3}."
_ALL_ZERO: Final = "The loss is exactly 0 in all of {0} numbers."
_SKIPPED_EARLY: Final = "{0} steps were skipped because a gradient overflowed, the first of them before the first logged step."
_DEFAULT_EPSILON: Final = (
    "The optimizer's epsilon is not told; the usual {0} is 0 in FP16, so that its update may be 0 divided by 0."
)

CAUSES: Final[dict[Suspicion, str]] = {
    "data-nonfinite": "A picture, a caption or a latent that was fed is broken.",
    "weights-nonfinite": "The weights it started from were broken already.",
    "activation-overflow": f"A layer made a number above 65{NARROW}504, the limit of FP16.",
    "gradient-overflow": "Gradients overflowed on the way back.",
    "loss-scale": "Gradients overflowed however small the loss scale was made.",
    "optimizer-epsilon": "The optimizer's epsilon is 0 in FP16, and its first update divided 0 by 0.",
    "optimizer-state": "What was resumed does not go on as it was: the optimizer's state is bad, or does not fit.",
    "learning-rate": "The learning rate is too high.",
    "validation": "The validation changed the model: its type, its mode or a shared part were not put back.",
    "vae-overflow": "The VAE overflowed in FP16 when it encoded the pictures.",
}

_IF_HALF: Final = f"If it was trained in FP16, a layer made a number above its limit, 65{NARROW}504."

ADVICE: Final[dict[Advice, str]] = {
    "epsilon-1e-4": "Set the optimizer's epsilon to 1e-4",
    "amsgrad": "use AMSGrad",
    "float32-states": "keep the optimizer's state in FP32",
    "float32-master": "keep a copy of the weights in FP32",
    "grad-scaler": "scale the loss",
    "bfloat16": "train in BF16, if your device can",
    "clip-1": "clip gradients at 1",
    "warm-up": "warm the learning rate up over a few hundred steps",
    "cosine": "let the learning rate fall by a cosine",
    "lower-rate": "divide the learning rate by 3 to 10",
    "normalise": "check that pictures are scaled to −1 … 1",
    "mend-file": "look at the pictures of that step, and take broken ones out",
    "vae-float32": "delete cached latents and encode in FP32, or use the SDXL VAE mended for FP16",
    "validate-apart": "leave the validation out once to be sure, then validate with a copy of the model",
    "earlier-checkpoint": "go back to a checkpoint that is sound",
    "new-optimizer-state": "start the optimizer anew from the weights alone",
    "watch": "train with Halftone's guard, which names the layer and stops before the weights are touched",
}

NOTES: Final[dict[NoteCode, str]] = {
    "cut-off": "{0} is cut off at its end; what stands before was read.",
    "damaged": "{0} is damaged ({1}); what stands before was read.",
    "unreadable": "{0} cannot be read: {1}.",
    "too-many": "{0} holds more than {1} files; the others were not read.",
    "too-large": "{0} is too large to be read.",
    "unknown-form": "{0} is no file of wandb in a form that is known here; {1}.",
}


def trouble_words(trouble: Trouble, first: First | None) -> Words:
    if trouble.code == "nonfinite" and first is not None:
        return Words(_how_long(trouble, first), (Words(QUANTITIES[first.quantity]), first.where.step or 0, *trouble.values))
    template = TROUBLES[trouble.code]
    if trouble.code in ("scale-floor", "scale-gone") and trouble.values[3:] in (("every",), ("some",)):
        counts = _EVERY if trouble.values[3] == "every" else _SOME
        template = f"{template} {counts}" if trouble.code == "scale-floor" else counts
    template = _entries(template, trouble.where)
    if trouble.values and trouble.values[0] == 1:
        template = _SINGLE.get(trouble.code, template)
    return Words(template, tuple(map(_told, trouble.values)))


def _how_long(trouble: Trouble, first: First) -> str:
    """The template for a number that is not finite, by how long it was not."""
    if not trouble.values:
        template = TROUBLES["nonfinite"]
    else:
        count, how, *again = trouble.values[0], trouble.values[1], *trouble.values[3:]
        template = _APART if how == "apart" else _ONCE if count == 1 else _A_WHILE
        template += "; it is finite again from step {5} on." if again else "."
    template = _entries(template, first.where)
    return f"{template[:-1]}; the log names no steps." if first.where.counted else template


def _entries(template: str, where: Where | None) -> str:
    """The template for a log without steps: it counts entries."""
    if where is None or not where.counted:
        return template
    return template.replace("step {", "entry {").replace("steps, the first of them {", "entries, the first of them {")


def cause_words(suspect: Suspect) -> str:
    """The limit of FP16 is mentioned with an "if" where the precision is unknown."""
    untold = suspect.cause == "activation-overflow" and any(sign.code == "precision-untold" for sign in suspect.against)
    return _IF_HALF if untold else CAUSES[suspect.cause]


def sign_words(sign: Sign) -> Words:
    template = SIGNS[sign.code]
    if sign.code == "scale-floor" and len(sign.values) == 4:
        template = _SCALE_FLOOR
    if sign.code == "loss-exploding" and sign.values[1] == sign.values[3]:
        template = _EXPLODED_AT_ONCE
    if sign.code == "epsilon-zero" and sign.values[1]:
        template = _DEFAULT_EPSILON
    if sign.code == "steps-skipped" and len(sign.values) == 1:
        template = _SKIPPED_EARLY
    if sign.code == "loss-zero" and len(sign.values) == 1:
        template = _ALL_ZERO
    return Words(_entries(template, sign.where), tuple(map(_told, sign.values)))


def _told(value: float | int | str) -> str:
    """Numbers of a training are small: four digits, where `number` has two."""
    if isinstance(value, str):
        return value
    return number(value) if isinstance(value, int) or value != value or abs(value) >= 100 or not value else f"{value:.4g}"


def advice_words(advice: tuple[Advice, ...], trainer: Trainer | None = None) -> str:
    """One sentence, the best advice first, in the trainer's names."""
    told = "; or ".join(f"{ADVICE[one]} ({name})" if (name := flag(one, trainer)) else ADVICE[one] for one in advice)
    return f"{told[:1].upper()}{told[1:]}."


def where_words(where: Where | None) -> str:
    """ "train.log, line 12", "events.out, step 3"; "" where nothing is known."""
    if where is None or not where.file:
        return ""
    if where.line:
        return f"{where.file}, line {where.line}"
    kind = "entry" if where.counted else "step"
    return where.file if where.step is None else f"{where.file}, {kind} {where.step}"


def value_words(value: float) -> str:
    """Spell a number as logs do: "nan", "inf", "-inf"."""
    return str(value)
