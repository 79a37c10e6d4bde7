"""A training in sentences: what was stopped and why, what Halftone did and its cost, and what is foreseen."""

from typing import Final, Literal

from halftone.contract.training import (
    Caught,
    Cause,
    Foreseen,
    Omen,
    Remedy,
    TrainCure,
    TrainPicture,
    TrainReport,
    Watched,
    WiderType,
)
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.contract.wording import Words, number
from halftone.health.part_names import elapsed, module_words, percent
from halftone.settings.disk import size_text

_NAMED: Final = 3
"""Pictures of a step that are named; of more, only their number."""

ROWS: Final[dict[Watched, Words]] = {
    "loss": Words("Loss"),
    "activations": Words("Activations"),
    "gradients": Words("Gradients"),
    "optimizer": Words("Optimiser"),
    "weights": Words("LoRA weights"),
}
"""Names of the rows of the guard's strip."""

# {0} what, {1} largest number, {2} type, {3} its limit, {4} how it was, {5} how it is now.
_WHY: Final[dict[Cause, Words]] = {
    "data-nonfinite": Words("The input of this step contained NaN ({0})."),
    "weights-nonfinite": Words("{0} was NaN before the step."),
    "weights-changed": Words("Other code modified {0} between steps."),
    "activation-overflow": Words("{0} reached {1}, above the {2} limit of {3}."),
    "activation-nonfinite": Words("{0} computed an undefined value, such as 0 / 0."),
    "loss-overflow": Words("The loss reached {1}, above the {2} limit of {3}."),
    "loss-nonfinite": Words("The loss became NaN or infinite after the last layer."),
    "gradient-overflow": Words("The gradient of {0} reached {1}, above the {2} limit of {3}."),
    "gradient-nonfinite": Words("The gradient of {0} was the first NaN."),
    "loss-scale": Words("The loss scale pushed the gradient of {0} past the {2} limit of {3}."),
    "optimizer-epsilon": Words("The optimiser divided by zero in {0}: its epsilon is zero in {2}."),
    "optimizer-state": Words("The optimiser state of {0} was NaN before the step."),
    "optimizer-overflow": Words("The optimiser state of {0} passed the {2} limit of {3}."),
    "learning-rate": Words("The learning rate made the update of {0} too large."),
    "cast-outside": Words("Other code changed the dtype or device of {0}: {4} → {5}."),
    "mode-outside": Words("Other code switched {0} between train and eval mode: {4} → {5}."),
    "frozen-outside": Words("Other code froze or unfroze {0}: {4} → {5}."),
    "random-outside": Words("Other code reset the random state, so the same noise repeats."),
    "autocast-outside": Words("Other code changed autocast: {4} → {5}."),
    "state-outside": Words("Other code changed the optimiser state of {0}."),
    "gradient-outside": Words("Other code left NaN or infinity in the gradient of {0}."),
    "buffer-nonfinite": Words("{0} became NaN or infinite, though loss and gradients did not."),
}
_IMPOSSIBLE_RATE: Final = Words("A learning rate of {5} cannot be used.")
_EMPTY_ROW: Final = Words("The loss became NaN after the last layer: a softmax gave NaN, as for a row of −inf.")
_RESTORED: Final[dict[Cause, Words]] = {
    "gradient-outside": Words("The accumulated gradients were discarded. Training continues."),
    "buffer-nonfinite": Words("It was put back to its last good value. Training continues."),
}
"""Used where something other than weights and moments was put right."""
_WHY_UNMEASURED: Final[dict[Cause, Words]] = {
    "activation-overflow": Words("{0} overflowed in {2}."),
    "loss-overflow": Words("The loss overflowed in {2}."),
    "gradient-overflow": Words("The gradient of {0} overflowed in {2}."),
    "loss-scale": Words("The loss scale made the gradient of {0} overflow in {2}."),
    "optimizer-overflow": Words("The optimiser state of {0} overflowed in {2}."),
}
"""Where the largest number or the limit is not known."""

_REPEATED: Final[dict[TrainCure, Words]] = {
    "none": Words("The step was discarded before it touched the LoRA. Repeated, it was fine."),
    "put-back": Words("The change was undone and the step repeated."),
}
CURES: Final[dict[TrainCure, Words]] = {
    "none": Words("none"),
    "float32-module": Words("one layer in FP32"),
    "float32-block": Words("one block in FP32"),
    "bfloat16-all": Words("everything in BF16"),
    "float32-all": Words("everything in FP32"),
    "loss-scale-down": Words("a smaller loss scale"),
    "clip": Words("gradients clipped"),
    "epsilon-up": Words("a larger epsilon"),
    "float32-states": Words("optimiser states in FP32"),
    "put-back": Words("the change undone"),
}
"""What later steps run with."""


def caught_title(caught: Caught, *, asks: bool = False) -> Words:
    """What happened. asks: the training waits for an answer."""
    if caught.in_a_row > 1 and (asks or caught.did == "stopped"):
        paused = Words("Training paused at step {0}: {1} bad steps in a row.", (caught.step, caught.in_a_row))
        return paused if asks else Words("Training stopped at step {0}: {1} bad steps in a row.", (caught.step, caught.in_a_row))
    if asks:
        return Words("Training paused at step {0}: the same NaN came back.", (caught.step,))
    if caught.cause.endswith("-outside"):
        return Words("Other code changed something, noticed at step {0}.", (caught.step,))
    if caught.did == "stopped":
        return Words("A NaN stopped training at step {0}.", (caught.step,))
    if caught.did == "warned":
        return Words("Warning at step {0}.", (caught.step,))
    if caught.did == "skipped" or _goes_back(caught):
        return Words("A NaN was stopped at step {0}.", (caught.step,))
    return Words("A NaN was stopped at step {0}. Nothing was lost.", (caught.step,))


def _goes_back(caught: Caught) -> bool:
    """Whether steps have to be made again, since only an older state was there to go back to."""
    return caught.restored_to is not None and caught.restored_to < caught.step - 1


def safe_words(saved: int | None) -> Words:
    """Which state of the LoRA is safe. saved: the step of its last save."""
    return Words("The LoRA from step {0} is safe.", (saved,)) if saved else Words("This step did not change the LoRA.")


def why_words(caught: Caught) -> tuple[Words, ...]:
    """Why it happened: a sentence, and one that names the pictures of the step."""
    measured = caught.peak is not None and caught.limit is not None
    said = _WHY[caught.cause] if measured else _WHY_UNMEASURED.get(caught.cause, _WHY[caught.cause])
    if caught.cause == "learning-rate" and caught.now:
        said = _IMPOSSIBLE_RATE
    if caught.cause == "loss-nonfinite" and caught.kind == "softmax":
        said = _EMPTY_ROW
    values = (
        place_words(caught.name, begins=said.template.startswith("{0}")),
        number(caught.peak or 0.0),
        DTYPE_NAMES[caught.dtype] if caught.dtype else Words("its type"),
        number(caught.limit or 0.0),
        caught.was,
        caught.now,
    )
    pictures = len(caught.items) if len(caught.items) > _NAMED else ", ".join(caught.items)
    named = Words("Pictures in this step: {0}.", (pictures,))
    return (Words(said.template, values), named) if caught.items else (Words(said.template, values),)


def place_words(name: str, *, begins: bool = False) -> Words:
    """A module or parameter in plain words; unknown names as they are. begins: a sentence begins with it."""
    parts = name.removeprefix("base_model.model.").split(".")
    if all(part.isdigit() for part in parts):
        return Words('Layer "{0}"' if begins else 'layer "{0}"', (name,))
    head = parts[0]
    if head == "transformer" and _DENOISER_PARTS.isdisjoint(parts[1:2]):
        return Words("{0}", (name,))  # language models call their trunk so, too
    if head.startswith(("unet", "transformer", "vae", "text_encoder", "controlnet")) and head != "transformer_blocks":
        return module_words(head, ".".join(parts[1:]))
    if head in ("down_blocks", "up_blocks", "mid_block"):  # an encoder or decoder has such blocks inside of it
        return module_words("unet", ".".join(parts))
    if any(part.endswith("transformer_blocks") for part in parts):
        return module_words("transformer", ".".join(parts))
    return Words("{0}", (name,)) if name else Words("A part of the model")


_DENOISER_PARTS: Final = frozenset(
    (
        "transformer_blocks", "single_transformer_blocks", "x_embedder", "context_embedder", "pos_embed",
        "patch_embed", "proj_in", "proj_out", "norm_out", "time_embed", "time_text_embed", "condition_embedder",
        "caption_projection", "caption_norm", "adaln_single", "img_in", "txt_in", "txt_norm",
    )
)  # fmt: skip
"""First parts of a module's name in the transformers of diffusers, and in no language model."""


def did_words(caught: Caught) -> Words:
    """What Halftone did."""
    match caught.did:
        case "warned":
            return Words("Halftone changed nothing.")
        case "skipped" if caught.tries:
            return Words(
                "{0} cures failed. The step was skipped before it touched the LoRA.",
                (caught.tries,),
                one="1 cure failed. The step was skipped before it touched the LoRA.",
            )
        case "skipped":
            return Words("The step was skipped before it touched the LoRA.")
        case "restored" if caught.cause in _RESTORED:
            return _RESTORED[caught.cause]
        case "repeated" if not _goes_back(caught):
            again = Words("The step was discarded before it touched the LoRA, then repeated with {0}.", (CURES[caught.cure],))
            return _REPEATED.get(caught.cure, again)
        case "repeated" | "restored" if caught.restored_to is not None:
            return Words("The LoRA was restored to step {0}. Training continues from there.", (caught.restored_to,))
        case "repeated" | "restored":
            return Words("The LoRA was restored to its last good state. Training continues.")
        case "stopped" if caught.tries == 0:
            return Words("Halftone stopped before it touched the LoRA.")
        case "stopped":
            return Words(
                "{0} cures failed. Halftone stopped before it touched the LoRA.",
                (caught.tries,),
                one="1 cure failed. Halftone stopped before it touched the LoRA.",
            )


def cost_words(caught: Caught) -> Words:
    """The cost for later steps, or the time it took."""
    if caught.cure == "none":
        return Words("{0} for this step.", (elapsed(caught.seconds),)) if caught.seconds else Words("nothing more.")
    time = Words("{0} time", (percent(caught.time_ratio - 1),)) if caught.time_ratio is not None else Words("time not measured")
    if not caught.memory:
        return Words("{0}.", (time,))
    return Words("{0}, +{1}.", (time, size_text(caught.memory)))


def detail_words(caught: Caught) -> tuple[tuple[Words, Words], ...]:
    """Technical details, name and value."""
    rows: list[tuple[str, str]] = [("Where", caught.name)]
    rows += [("Class", caught.kind)] if caught.kind else []
    rows += [("Type", DTYPE_NAMES[caught.dtype])] if caught.dtype else []
    rows += [("Peak", number(caught.peak))] if caught.peak is not None else []
    rows += [("Limit", number(caught.limit))] if caught.limit is not None else []
    rows += [("Cause", caught.cause), ("Cure", ""), ("Tries", str(caught.tries))]
    rows += [("Was, is now", f"{caught.was} → {caught.now}")] if caught.was or caught.now else []
    rows += [("Pictures", ", ".join(caught.items))] if caught.items else []
    rows += [("Also bad", ", ".join(caught.further))] if caught.further else []
    return tuple((Words(name), CURES[caught.cure] if name == "Cure" else Words("{0}", (value,))) for name, value in rows)


def caught_line(caught: Caught) -> Words:
    """The event as one line of a list."""
    return Words("{0} {1}", (why_words(caught)[0], did_words(caught)))


# {0} what, {1} its value, {2} type, {3} limit, {4} how many.
_FORESEEN: Final[dict[Foreseen, Words]] = {
    "epsilon-zero": Words("Epsilon {1} is zero in {2}: the optimiser would divide by zero in {0}."),
    "epsilon-subnormal": Words("Epsilon {1} is below the smallest normal {2} number, {3}."),
    "second-moment-underflow": Words("Small gradients of {0} vanish in {2} when squared."),
    "no-master-weights": Words("The trained {2} weights have no FP32 copy, so small updates are lost."),
    "rate-below-resolution": Words("Learning rate {1} is too low for {2} weights: updates below {3} are lost."),
    "rate-too-high": Words("Learning rate {1} is high: one step can change weights by that much; they are around {3}."),
    "no-loss-scale": Words("Without a loss scale, small gradients vanish in {2}."),
    "loss-scale-range": Words("Loss scale {1} is outside the {2} range."),
    "loss-scale-useless": Words("{2} does not need a loss scale."),
    "no-clipping": Words("Without gradient clipping, one bad picture can ruin the LoRA."),
    "clip-too-large": Words("Gradients are clipped only above {1}: one bad picture can ruin the LoRA."),
    "norm-epsilon-zero": Words("The epsilon of {0} is zero in {2}: it can divide by zero."),
    "weights-nonfinite": Words("The model file has NaN in {0}."),
    "data-nonfinite": Words("The training data has NaN: {0}."),
    "data-not-normalised": Words("The training data is out of range: {0} averages {1}."),
}
_RATE_WITHOUT_LIMIT: Final = Words("Learning rate {1} is too high for any weight.")
REMEDIES: Final[dict[Remedy, Words]] = {
    "epsilon-1e-4": Words("an epsilon of 0.0001"),
    "amsgrad": Words("AMSGrad"),
    "float32-states": Words("optimiser states in FP32"),
    "float32-master": Words("LoRA weights in FP32"),
    "grad-scaler": Words("automatic loss scaling"),
    "bfloat16": Words("BF16 precision"),
    "clip-1": Words("gradient clipping at 1.0"),
    "warm-up": Words("warm-up steps"),
    "cosine": Words("the cosine scheduler"),
    "lower-rate": Words("a lower learning rate"),
    "norm-epsilon-up": Words("a larger norm epsilon"),
    "normalise": Words("normalised pictures"),
    "mend-file": Words("a fresh download of the file"),
}


def omen_words(omen: Omen) -> Words:
    """What is foreseen, in a sentence."""
    known = (
        place_words(omen.name),
        "?" if omen.value is None else _plain(omen.value),
        DTYPE_NAMES[omen.dtype] if omen.dtype else Words("its type"),
        "?" if omen.limit is None else _plain(omen.limit),
        omen.count,
    )
    if omen.code == "rate-too-high" and omen.limit is None:
        return Words(_RATE_WITHOUT_LIMIT.template, known)
    return Words(_FORESEEN[omen.code].template, known)


def _plain(value: float) -> str:
    """Format a number, with small rates written out: 0.0005."""
    return f"{value:.7f}".rstrip("0") if 1e-6 <= value < 1e-3 else number(value)


def remedy_words(omen: Omen) -> Words | None:
    """What helps, the cheapest first; None where nothing is known."""
    if not omen.remedies:
        return None
    listed = Words("{0}", (REMEDIES[omen.remedies[0]],))
    for remedy in omen.remedies[1:]:
        listed = Words("{0}, or {1}", (listed, REMEDIES[remedy]))
    return Words("Try {0}.", (listed,))


_NOTES: Final[dict[str, Words]] = {
    "no-caption": Words("no caption"),
    "white": Words("all white"),
    "black": Words("all black"),
    "small": Words("smaller than the training size"),
    "unreadable": Words("unreadable"),
    "too-small": Words("far too small"),
    "caption-unreadable": Words("unreadable caption"),
    "caption-long": Words("caption too long, only its start is used"),
    "latents": Words("the VAE turns it into NaN, even in FP32"),
}


def wider_words(wider: WiderType) -> Words:
    """Which layer keeps a training out of the wanted type, and why."""
    template = _WIDER[wider.source]
    if wider.source == "check" and wider.peak is not None and wider.limit is not None:
        template = _TIGHT if wider.peak <= wider.limit else _MEASURED
    types = (DTYPE_NAMES[wider.used], DTYPE_NAMES[wider.asked])
    return Words(template.template, (*types, place_words(wider.name), number(wider.peak or 0.0), number(wider.limit or 0.0)))


# {0} type that is used, {1} type that was asked for, {2} layer, {3} its largest number, {4} the limit
_MEASURED: Final = Words("Trains in {0}, not {1}: {2} reaches {3}, above the {1} limit of {4}. Its cure is for pictures only.")
_TIGHT: Final = Words("Trains in {0}, not {1}: {2} reaches {3}, close to the {1} limit of {4}. Its cure is for pictures only.")
_WIDER: Final[dict[Literal["check", "picture"], Words]] = {
    "check": Words("Trains in {0}, not {1}: in the check, {2} needed a cure in {1}, which is for pictures only."),
    "picture": Words("Trains in {0}, not {1}: in a picture, {2} needed a cure in {1}, which is for pictures only."),
}


def picture_words(picture: TrainPicture) -> Words | None:
    """The problem or note of a picture of the folder, None for a sound one."""
    code = picture.problem or picture.note
    return _NOTES.get(code, Words("{0}", (code,))) if code else None


def report_words(report: TrainReport) -> Words:
    """How a training ended, in a sentence."""
    ended = Words("Training stopped at step {0} of {1}", (report.steps, report.steps_wanted))
    if not report.path:
        return Words("{0}. Nothing was learned or saved.", (ended,))
    if report.steps >= report.steps_wanted:
        ended = Words("Training finished, {0} steps", (report.steps,))
    if not report.guarded:
        said = Words("{0}, {1}.", (ended, Words("guard off")))
        bad = Words("{1} The loss was NaN in {0} steps.", (report.bad_losses, said), one="{1} The loss was NaN in 1 step.")
        return bad if report.bad_losses else said
    stopped = sum(1 for one in report.caught if one.did != "warned")
    found = Words("{0} NaNs stopped", (stopped,), one="1 NaN stopped") if stopped else Words("no NaN")
    return Words("{0}, {1}.", (ended, found))
