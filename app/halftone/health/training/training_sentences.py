"""A training in sentences: what was stopped and why, what Halftone did about it and what that costs, and what is foreseen."""

from collections.abc import Sequence
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
"""Pictures of a step that are named; of more, their number is told."""

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
    "data-nonfinite": Words("What was read for this step held a bad number ({0})."),
    "weights-nonfinite": Words("{0} held a bad number before the step began."),
    "weights-changed": Words("Other code wrote into {0} between two steps."),
    "activation-overflow": Words("{0} reached {1}, above the {2} limit of {3}."),
    "activation-nonfinite": Words("{0} made a number that no type can hold, such as 0 divided by 0."),
    "loss-overflow": Words("The loss reached {1}, above the {2} limit of {3}."),
    "loss-nonfinite": Words("The loss became NaN or infinite after the last layer, in what it is computed from."),
    "gradient-overflow": Words("The gradient of {0} reached {1}, above the {2} limit of {3}."),
    "gradient-nonfinite": Words("The gradient of {0} was a bad number, though all before it was sound."),
    "loss-scale": Words("The loss scale was too large: only through it the gradient of {0} passed the {2} limit of {3}."),
    "optimizer-epsilon": Words("The optimiser divided by zero in {0}: its epsilon is zero in {2}."),
    "optimizer-state": Words("What the optimiser remembers of {0} was a bad number before the step."),
    "optimizer-overflow": Words("What the optimiser remembers of {0} passed the {2} limit of {3}."),
    "learning-rate": Words("The learning rate made the step of {0} too large."),
    "cast-outside": Words("Other code changed the type or place of {0} between two steps: it was {4} and is {5}."),
    "mode-outside": Words("Other code switched {0} between training and use: it was {4} and is {5}."),
    "frozen-outside": Words("Other code changed whether {0} is trained: it was {4} and is {5}."),
    "random-outside": Words("Other code set the random numbers back to where an earlier step began: the same noise comes again."),
    "autocast-outside": Words("Other code changed the automatic choice of types: it was {4} and is {5}."),
    "state-outside": Words("Other code changed what the optimiser remembers of {0}."),
    "gradient-outside": Words("Other code left NaN or infinity in the gradient of {0}."),
    "buffer-nonfinite": Words("{0} became NaN or infinite, though loss and gradients did not."),
}
_IMPOSSIBLE_RATE: Final = Words("The learning rate was {5}, and no step can be made with it.")
_EMPTY_ROW: Final = Words(
    "The loss became NaN after the last layer: a softmax gave a row of NaN, as it does where a row is all −inf."
)
_RESTORED: Final[dict[Cause, Words]] = {
    "gradient-outside": Words("The gathered gradients were thrown away, and training goes on."),
    "buffer-nonfinite": Words("It was put back to its last good value, and training goes on."),
}
"""Used where something other than weights and moments was put right."""
_WHY_UNMEASURED: Final[dict[Cause, Words]] = {
    "activation-overflow": Words("{0} made a number too large for {2}."),
    "loss-overflow": Words("The loss became too large for {2}."),
    "gradient-overflow": Words("The gradient of {0} became too large for {2}."),
    "loss-scale": Words("The loss scale was too large: only through it the gradient of {0} became too large for {2}."),
    "optimizer-overflow": Words("What the optimiser remembers of {0} became too large for {2}."),
}
"""Where the largest number or the limit is not known."""

_REPEATED: Final[dict[TrainCure, Words]] = {
    "none": Words("The step was thrown away before it touched the LoRA, then repeated, and was good."),
    "float32-module": Words("The step was thrown away before it touched the LoRA, then repeated with that layer in FP32."),
    "float32-block": Words("The step was thrown away before it touched the LoRA, then repeated with that block in FP32."),
    "bfloat16-all": Words("The step was thrown away before it touched the LoRA, then repeated in BF16."),
    "float32-all": Words("The step was thrown away before it touched the LoRA, then repeated in FP32."),
    "loss-scale-down": Words("The step was thrown away before it touched the LoRA, then repeated with a smaller loss scale."),
    "clip": Words("The step was thrown away before it touched the LoRA, then repeated with its gradients clipped."),
    "epsilon-up": Words("The step was thrown away before it touched the LoRA, then repeated with a larger epsilon."),
    "float32-states": Words(
        "The step was thrown away before it touched the LoRA, then repeated with what the optimiser remembers in FP32."
    ),
    "put-back": Words("What was changed was set as it had been, and the step was made again."),
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
    "put-back": Words("what was changed is put back"),
}
"""What later steps run with."""


def caught_title(caught: Caught, *, asks: bool = False) -> Words:
    """What happened. asks: the training waits for an answer."""
    if caught.in_a_row > 1 and (asks or caught.did == "stopped"):
        paused = Words("Training paused at step {0}: {1} bad steps in a row.", (caught.step, caught.in_a_row))
        return (
            paused if asks else Words("{1} bad steps in a row stopped the training at step {0}.", (caught.step, caught.in_a_row))
        )
    if asks:
        return Words("Training paused at step {0}: the same bad number came back.", (caught.step,))
    if caught.cause.endswith("-outside"):
        return Words("Something was changed from outside, noticed at step {0}.", (caught.step,))
    if caught.did == "stopped":
        return Words("A bad number stopped the training at step {0}.", (caught.step,))
    if caught.did == "warned":
        return Words("Something was noticed at step {0}.", (caught.step,))
    if caught.did == "skipped" or _goes_back(caught):
        return Words("A bad number was stopped at step {0}.", (caught.step,))
    return Words("A bad number was stopped at step {0}. Nothing was lost.", (caught.step,))


def _goes_back(caught: Caught) -> bool:
    """Whether steps have to be made again, since only an older state was there to go back to."""
    return caught.restored_to is not None and caught.restored_to < caught.step - 1


def safe_words(saved: int | None) -> Words:
    """Which state of the LoRA nothing can happen to. saved: the step it was last saved at."""
    return Words("The LoRA from step {0} is safe.", (saved,)) if saved else Words("The LoRA is as it was before this step.")


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
    return (Words(said.template, values), *_pictures(caught.items))


def _pictures(items: Sequence[str]) -> tuple[Words, ...]:
    if not items:
        return ()
    if len(items) == 1:
        return (Words("The step was made from the picture {0}.", (items[0],)),)
    if len(items) > _NAMED:
        return (Words("The step was made from {0} pictures.", (len(items),)),)
    return (Words("The step was made from the pictures {0}.", (", ".join(items),)),)


def place_words(name: str, *, begins: bool = False) -> Words:
    """A module or parameter in plain words; what no model of diffusers or transformers has is told as it stands, and a name that
    is only numbers as that of a layer. begins: a sentence begins with it.
    """
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
            return Words("Halftone noted it and changed nothing.")
        case "skipped" if caught.tries == 1:
            return Words("Halftone tried one cure, which did not help, and left the step out before it touched the LoRA.")
        case "skipped" if caught.tries:
            return Words(
                "Halftone tried {0} cures, none of which helped, and left the step out before it touched the LoRA.",
                (caught.tries,),
            )
        case "skipped":
            return Words("The step was left out before it touched the LoRA.")
        case "restored" if caught.cause in _RESTORED:
            return _RESTORED[caught.cause]
        case "repeated" if not _goes_back(caught):
            return _REPEATED[caught.cure]
        case "repeated" | "restored" if caught.restored_to is not None:
            return Words(
                "The LoRA was put back to how it was after step {0}, and training goes on from there.", (caught.restored_to,)
            )
        case "repeated" | "restored":
            return Words("The LoRA was put back to its last good state, and training goes on from there.")
        case "stopped" if caught.tries == 0:
            return Words("Halftone stopped before it touched the LoRA.")
        case "stopped" if caught.tries == 1:
            return Words("Halftone tried once and stopped before it touched the LoRA.")
        case "stopped":
            return Words("Halftone tried {0} times and stopped before it touched the LoRA.", (caught.tries,))


def cost_words(caught: Caught) -> Words:
    """What it costs later steps, or what it took."""
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
    "epsilon-zero": Words("The optimiser's epsilon {1} is zero in {2}, so it would divide by zero in {0}."),
    "epsilon-subnormal": Words("The optimiser's epsilon {1} lies below the smallest full number of {2}, {3}."),
    "second-moment-underflow": Words("Small gradients of {0} vanish in {2} when they are squared."),
    "no-master-weights": Words("The trained weights are in {2} and have no FP32 copy, so small steps are lost."),
    "rate-below-resolution": Words("The learning rate {1} is too small to change weights in {2}: steps below {3} are lost."),
    "rate-too-high": Words("The learning rate {1} is high: one step can change weights by that much, and they are around {3}."),
    "no-loss-scale": Words("The loss is not scaled, so small gradients vanish in {2}."),
    "loss-scale-range": Words("The loss scale {1} is outside of what {2} can hold."),
    "loss-scale-useless": Words("The loss is scaled, though {2} does not need it."),
    "no-clipping": Words("Gradients are not clipped, so one bad picture can throw the LoRA off."),
    "clip-too-large": Words("Gradients are clipped only above {1}, so one bad picture can throw the LoRA off."),
    "norm-epsilon-zero": Words("The epsilon of {0} is zero in {2}, so it can divide by zero."),
    "weights-nonfinite": Words("The model's file holds bad numbers in {0}."),
    "data-nonfinite": Words("What is trained on holds bad numbers: {0}."),
    "data-not-normalised": Words("What is trained on is not within the usual range: {0} is {1} on average."),
}
_RATE_WITHOUT_LIMIT: Final = Words("The learning rate {1} is more than any weight can take.")
REMEDIES: Final[dict[Remedy, Words]] = {
    "epsilon-1e-4": Words("an epsilon of 0.0001"),
    "amsgrad": Words("AMSGrad"),
    "float32-states": Words("optimiser states in FP32"),
    "float32-master": Words("LoRA weights in FP32"),
    "grad-scaler": Words("an automatic loss scale"),
    "bfloat16": Words("BF16 as precision"),
    "clip-1": Words("gradient clipping at 1.0"),
    "warm-up": Words("some steps of warm-up"),
    "cosine": Words("the cosine schedule"),
    "lower-rate": Words("a lower learning rate"),
    "norm-epsilon-up": Words("a larger epsilon in the norm"),
    "normalise": Words("normalised pictures"),
    "mend-file": Words("a sound file: download it again"),
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
    """As `number`, with rates written out: 0.0005."""
    return f"{value:.7f}".rstrip("0") if 1e-6 <= value < 1e-3 else number(value)


def remedy_words(omen: Omen) -> Words | None:
    """What helps, the cheapest first; None where nothing is known."""
    if not omen.remedies:
        return None
    listed = Words("{0}", (REMEDIES[omen.remedies[0]],))
    for remedy in omen.remedies[1:]:
        listed = Words("{0}, or {1}", (listed, REMEDIES[remedy]))
    return Words("What helps: {0}.", (listed,))


_NOTES: Final[dict[str, Words]] = {
    "no-caption": Words("no caption"),
    "white": Words("uniformly white"),
    "black": Words("uniformly black"),
    "small": Words("smaller than the training size"),
    "unreadable": Words("cannot be read"),
    "too-small": Words("far too small"),
    "caption-unreadable": Words("its caption cannot be read"),
    "caption-long": Words("only the beginning of its caption is read"),
    "latents": Words("the VAE makes a bad number of it, in FP32 as well"),
}


def wider_words(wider: WiderType) -> Words:
    """Say which layer keeps a training out of the type that was asked for, and why."""
    template = _WIDER[wider.source]
    if wider.source == "check" and wider.peak is not None and wider.limit is not None:
        template = _TIGHT if wider.peak <= wider.limit else _MEASURED
    types = (DTYPE_NAMES[wider.used], DTYPE_NAMES[wider.asked])
    return Words(template.template, (*types, place_words(wider.name), number(wider.peak or 0.0), number(wider.limit or 0.0)))


# {0} type that is used, {1} type that was asked for, {2} layer, {3} its largest number, {4} the limit
_MEASURED: Final = Words(
    "It trains in {0} instead of {1}: the check found that {2} reaches {3}, above the {1} limit of {4}. The cure for that is for "
    "pictures; a LoRA is trained on the model as it is."
)
_TIGHT: Final = Words(
    "It trains in {0} instead of {1}: the check found that {2} reaches {3}, close to the {1} limit of {4}. The cure for that is "
    "for pictures; a LoRA is trained on the model as it is."
)
_WIDER: Final[dict[Literal["check", "picture"], Words]] = {
    "check": Words(
        "It trains in {0} instead of {1}: the check found that {2} needs a cure in {1}. That cure is for pictures; a LoRA is "
        "trained on the model as it is."
    ),
    "picture": Words(
        "It trains in {0} instead of {1}: {2} needed a cure in {1} when a picture was made. That cure is for pictures; a LoRA is "
        "trained on the model as it is."
    ),
}


def picture_words(picture: TrainPicture) -> Words | None:
    """What is to be said of a picture of the folder, None of a sound one."""
    code = picture.problem or picture.note
    return _NOTES.get(code, Words("{0}", (code,))) if code else None


def report_words(report: TrainReport) -> Words:
    """How a training ended, in a sentence."""
    if not report.path:
        ended = Words("Training stopped at step {0} of {1}.", (report.steps, report.steps_wanted))
        return Words("{0} Nothing was learned, so nothing was saved.", (ended,))
    if not report.guarded:
        return _unwatched(report)
    stopped = sum(1 for one in report.caught if one.did != "warned")
    if report.steps >= report.steps_wanted:
        if stopped == 0:
            return Words("Training finished, {0} steps, no bad number.", (report.steps,))
        if stopped == 1:
            return Words("Training finished, {0} steps, 1 bad number stopped.", (report.steps,))
        return Words("Training finished, {0} steps, {1} bad numbers stopped.", (report.steps, stopped))
    if stopped == 0:
        return Words("Training stopped at step {0} of {1}, no bad number.", (report.steps, report.steps_wanted))
    if stopped == 1:
        return Words("Training stopped at step {0} of {1}, 1 bad number stopped.", (report.steps, report.steps_wanted))
    return Words("Training stopped at step {0} of {1}, {2} bad numbers stopped.", (report.steps, report.steps_wanted, stopped))


def _unwatched(report: TrainReport) -> Words:
    """Without the guard no more is known than what the losses were."""
    if report.steps >= report.steps_wanted:
        ended = Words("Training finished, {0} steps, not watched: the guard was off.", (report.steps,))
    else:
        ended = Words("Training stopped at step {0} of {1}, not watched: the guard was off.", (report.steps, report.steps_wanted))
    if report.bad_losses == 0:
        return ended
    if report.bad_losses == 1:
        return Words("{0} The loss was a bad number in 1 step.", (ended,))
    return Words("{0} The loss was a bad number in {1} steps.", (ended, report.bad_losses))
