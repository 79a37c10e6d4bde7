"""What is said of findings and of what the sentinel did: what happened, what Halftone did, what can be done.

All of it is `Words`, so that the window translates the templates and the command line prints the English.
"""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from halftone.contract.facts import Finding, GuardEvent, RepairReport
from halftone.contract.vocabulary import DTYPE_NAMES, CureKind, FindingCode
from halftone.contract.wording import Words, number
from halftone.health.device_faults import OPERATIONS
from halftone.health.judge import came_once, headroom_bits
from halftone.health.part_names import bits, elapsed, module_words, plain_component
from halftone.health.pictures.frame_lists import frame_list
from halftone.health.pictures.lora_sentences import cause_words, damaged_words, finding_cause, named
from halftone.health.pictures.passes import step_words

NoteLevel = Literal["warn", "danger", "info"]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A message about a picture."""

    level: NoteLevel
    title: Words
    text: Words


def finding_words(finding: Finding) -> tuple[Words, Words]:
    """(what happened, what can be done) as templates. Numbers that were not measured are left out of the sentence."""
    where = module_words(finding.component, finding.module)
    with_numbers, without, remedy = _FINDINGS[finding.code]
    source = (str(finding.facts.get("file", "")), str(finding.facts.get("tensor", "")))
    count = number(float(finding.facts.get("count", 0)))
    values = (where, DTYPE_NAMES[finding.dtype], _peak(finding), _limit(finding), _room(finding), *source, count)
    measured = finding.peak is not None and finding.limit is not None
    known = all(source) if finding.code in ("weights-nonfinite", "weights-clipped") else measured
    message = _offset_words(finding, where) if "shows" in finding.facts else Words(with_numbers if known else without, values)
    if finding.failing is not None and (operation := OPERATIONS.get(finding.failing.operation)):
        message = Words(_FAILED_AT, (DTYPE_NAMES[finding.dtype], Words(operation), finding.failing.size))
    if came_once(finding):
        return Words(_CAME_ONCE, values), Words(_CAME_ONCE_REMEDY)
    if "lora" in finding.facts:
        return damaged_words(finding) if finding.code == "weights-nonfinite" else finding_cause(finding, message)
    return message, Words(remedy, values)


_CAME_ONCE: Final = "{0}: a wrong result came once, and not again when the same was computed again. It is not the model's."
_CAME_ONCE_REMEDY: Final = "If it happens again, look at overclocking, heat and memory."
_FAILED_AT: Final = "This device computes wrongly in {0}. It failed at: {1}, {2}."


def _offset_words(finding: Finding, where: Words) -> Words:
    """Say what happened at a layer whose offset leaves no bits for the picture. shows: the module where that is seen first."""
    shows = module_words(finding.component, str(finding.facts["shows"]))
    template = _FLAT_BY_OFFSET if finding.code == "flat-output" else _WRONG_BY_OFFSET
    return Words(template, (where, DTYPE_NAMES[finding.dtype], _peak(finding), shows))


def further_words(finding: Finding) -> Words | None:
    """How many more layers share the trouble and how far they go; None where there are none."""
    if not finding.further:
        return None
    one, more = _FURTHER_TIGHT if finding.code == "tight" else _FURTHER_OVER
    count = len(finding.further)
    return Words(one if count == 1 else more, (count, number(max(layer.peak for layer in finding.further))))


def note_for(event: GuardEvent) -> Note:
    """The message for one act of the sentinel; it names the LoRAs that are the cause."""
    note = _NOTES.get(event.action, _stopped)(event)
    if event.lora is None:
        return note
    said = Words("{0}{1}{2}", (note.text, *cause_words(event.lora)))
    return msgspec.structs.replace(note, title=named(event, note.title), text=said)


def remembered(component: str, kind: CureKind) -> Words:
    """Why a picture starts with a cure that nobody applied."""
    how = Words(_CURES.get(kind, "in another way"))
    return Words("{0}: computed {1}, as that gave a sound picture before on this device.", (module_words(component, ""), how))


def not_exact(component: str) -> Words:
    """Why a rescaling is not used: the plan was found without what is used now."""
    text = "{0}: the rescaling is not used, as it is not exact with the ControlNet, adapter or LoRA in use."
    return Words(text, (module_words(component, ""),))


def not_proven(component: str) -> Words:
    """Why a rescaling is not used: the memory did not hold the runs that would show whether it is exact."""
    text = "{0}: the rescaling is not used, as memory ran out while it was tested with the ControlNet, adapter or LoRA in use."
    return Words(text, (module_words(component, ""),))


def copy_limits(report: RepairReport) -> Words | None:
    """Say what a repaired copy is no use for in other programs; None where it is as good as its original."""
    if not report.without_add_ons:
        return None
    text = (
        "{0}: the copy works with smaller numbers than LoRAs, ControlNets and IP-Adapters expect. Halftone scales what they add; "
        "in other programs, use the original with them."
    )
    names = [plain_component(name) for name in report.without_add_ons]
    return Words(text, (Words(", ".join(f"{{{index}}}" for index in range(len(names))), tuple(names)),))


def _peak(finding: Finding) -> str:
    return "" if finding.peak is None else number(finding.peak)


def _limit(finding: Finding) -> str:
    return "" if finding.limit is None else number(finding.limit)


def _room(finding: Finding) -> str:
    room = headroom_bits(finding.peak, finding.dtype)
    return "" if room is None else bits(room)


_CURES: Final[dict[str, str]] = {
    "none": "as it was, and came out right",
    "read-again": "after the model was read again from its file, as its numbers in memory had been damaged",
    "rescale": "with its layers rescaled",
    "setting": "with a safer setting",
    "upcast-region": "with the failing parts in full precision",
    "bfloat16": "in BF16",
    "float32-component": "in full precision",
    "float32-all": "with the whole model in full precision",
}

# {0} the layer, {1} type, {2} its peak, {3} where it shows
_FLAT_BY_OFFSET: Final = (
    "{0}: it adds an offset of up to {2}, and {1} has no bits left for the picture beside it. The result has only one colour. "
    "It shows first in: {3}."
)
_WRONG_BY_OFFSET: Final = (
    "{0}: it adds an offset of up to {2}, and {1} has no bits left for the detail beside it. The result is finite but wrong. "
    "It shows first in: {3}."
)

# {0} how many, {1} their largest peak: for one, for several
_FURTHER_OVER: Final = (
    "1 further layer after it passes the limit too, with a peak of {1}.",
    "{0} further layers after it pass the limit too, with peaks of up to {1}.",
)
_FURTHER_TIGHT: Final = (
    "1 further layer is tight, with a peak of {1}.",
    "{0} further layers are tight, with peaks of up to {1}.",
)

# {0} where, {1} type, {2} peak, {3} limit, {4} room, {5} file, {6} tensor, {7} how many: with numbers, without, remedy
_FINDINGS: Final[dict[FindingCode, tuple[str, str, str]]] = {
    "weights-nonfinite": (
        "{0}: the file {5} holds numbers that are not numbers, in its tensor {6}.",
        "{0}: the file holds numbers that are not numbers.",
        "No setting can cure that. Download the file again.",
    ),
    "weights-clipped": (
        "{0}: numbers in the tensor {6} of the file {5} stand at exactly the largest value of FP16 (count: {7}). They were "
        "most likely larger, cut off when the file was converted.",
        "{0}: numbers in the file stand at exactly the largest value of FP16: most likely larger ones, cut off when it was "
        "converted.",
        "Every precision computes with the numbers in the file. Look for this model in BF16 or FP32.",
    ),
    "weights-overflow": (
        "{0}: a stored value of {2} is above the {1} limit of {3}.",
        "{0}: a stored value is above the {1} limit.",
        "Apply the cure: the value is scaled, or this block runs in a wider type.",
    ),
    "activation-overflow": (
        "{0}: a value of {2} is above the {1} limit of {3}, {4} bits of room.",
        "{0}: a value passed the {1} limit.",
        "Apply the cure, or save a repaired copy if the layer can be rescaled.",
    ),
    "attention-overflow": (
        "{0}: attention scores of {2} are above the {1} limit of {3}.",
        "{0}: attention scores passed the {1} limit.",
        "Apply the cure, or set Upcast cross-attention to Always.",
    ),
    "accumulation-overflow": (
        "{0}: a sum of products passed the {1} limit of {3}, though its result of {2} fits.",
        "{0}: a sum of products passed the {1} limit.",
        "Apply the cure, or turn FP16 accumulation off.",
    ),
    "underflow": (
        "{0}: values are so small that {1} turns them into zero (peak {2}).",
        "{0}: values are so small that {1} turns them into zero.",
        "Apply the cure: this part runs in a wider type.",
    ),
    "flat-output": (
        "{0}: the result is finite but has only one colour.",
        "{0}: the result is finite but has only one colour.",
        "Apply the cure. Also check that the VAE belongs to this model.",
    ),
    "saturated-output": (
        "{0}: values stop at the {1} limit of {3} and the result is wrong, though finite.",
        "{0}: values stop at the {1} limit and the result is wrong, though finite.",
        "Apply the cure: this part runs in a wider type.",
    ),
    "inexact-output": (
        "{0}: the result is finite but wrong: it is rounded too much in {1}, although no value passes the limit of {3}.",
        "{0}: the result is finite but wrong: it is rounded too much in {1}.",
        "Apply the cure: this part runs in a wider type.",
    ),
    "nonfinite-output": (
        "{0}: a bad number came out, and no layer inside shows where it began.",
        "{0}: a bad number came out, and no layer inside shows where it began.",
        "Apply the cure. If it comes back in FP32 too, check the model file, LoRA or VAE for damage.",
    ),
    "tight": (
        "{0}: a value of {2} is close to the {1} limit of {3}, {4} bits of room.",
        "{0}: values come close to the {1} limit.",
        "Nothing needs to be done. Halftone watches this layer while it makes pictures.",
    ),
    "device-fault": (
        "This device computes wrongly in {1}.",
        "This device computes wrongly in {1}.",
        "Use another precision. Check again after a driver update.",
    ),
    "memory-damage": (
        "{0}: numbers in memory differ from the file.",
        "{0}: numbers in memory differ from the file.",
        "Halftone read them again. If it happens again, look at overclocking, heat and memory.",
    ),
}


def _decoded_again(event: GuardEvent) -> Note:
    again = cure_words(event)
    return Note(
        level="warn",
        title=Words("Frames of this video came out black: {0}. Halftone recovered them.", (frame_list(event.frames),))
        if event.frames
        else Words("This picture came out black. Halftone recovered it."),
        text=Words(
            "The part of the model that turns its result into a picture (the VAE decoder) {0}. The result before that step was "
            "still in memory, so Halftone decoded it again {1}. Nothing was lost. It took {2} more.",
            (Words(damage(event)), again, elapsed(event.seconds)),
        ),
    )


def _went_back(event: GuardEvent) -> Note:
    again = cure_words(event)
    where = module_words(event.component, event.module)
    return Note(
        level="warn",
        title=Words(
            "A bad number appeared at step {0}. Halftone went back one step and finished the picture.", (step_words(event),)
        ),
        text=Words("{0}: this part was computed again {1}. It took {2} more.", (where, again, elapsed(event.seconds))),
    )


def _encoded_again(event: GuardEvent) -> Note:
    again = cure_words(event)
    where = module_words(event.component, event.module)
    return Note(
        level="warn",
        title=Words("A bad number appeared before the first step. Halftone computed that part again and went on."),
        text=Words("{0}: this part was computed again {1}. It took {2} more.", (where, again, elapsed(event.seconds))),
    )


def _stopped(event: GuardEvent) -> Note:
    """Only what was tried is said of FP32."""
    if event.why == "sampler":
        title = "This picture could not be recovered."
        text = "The sampler's own arithmetic is not finite {0}. Use another number of steps, or another sampler."
    elif event.sound_in_float32 is False:
        title = "This picture could not be recovered."
        text = "The numbers were already broken {0}, also in FP32. This usually means a damaged model file, LoRA or VAE."
        if event.lora is not None and event.lora.alone:
            text = "The numbers were already broken {0}, also in FP32."
    elif event.why == "setting":
        title = "This picture came out black. Halftone stopped it, as set."
        if event.step is not None or not _decoding(event):
            title = "This picture would have come out black. Halftone stopped it, as set."
        text = "A bad number appeared {0}. The setting for black pictures says to stop there."
    elif event.why == "no-cure":
        title = "This picture could not be recovered."
        text = "A bad number appeared {0}, and no cure that Halftone tried held."
    else:
        title = "This picture was stopped at a bad number."
        text = "A bad number appeared {0}."
    return Note(
        level="warn" if event.why == "setting" and event.sound_in_float32 is not False else "danger",
        title=Words(title),
        text=Words("{0}{1} Your prompt and seed are kept.", (Words(text, (_when(event),)), _in_float32(event))),
    )


def _in_float32(event: GuardEvent) -> Words | str:
    if not event.sound_in_float32 or event.why == "sampler":
        return ""
    if event.peak is None or headroom_bits(event.peak, "float32") is None:
        return Words(" In FP32 the same numbers stay in range.")
    return Words(" In FP32 the same numbers stay in range, with a peak of {0}.", (number(event.peak),))


def _kept(event: GuardEvent) -> Note:
    text = "Your prompt and seed are kept."
    if event.sound_in_float32 is False:
        text = "FP32 gives nothing better, so no cure helps. This usually means a damaged model file or VAE. " + text
    title = Words("This picture has only one colour. It was kept as it is.")
    if event.frames:
        title = Words("Frames of this video have only one colour: {0}. They were kept as they are.", (frame_list(event.frames),))
    return Note(level="danger", title=title, text=Words(text))


def _asked(event: GuardEvent) -> Note:
    if event.step is not None:
        title = Words("A bad number appeared at step {0}.", (step_words(event),))
        text = Words("Halftone can go back one step and finish the picture with a cure.")
    elif _decoding(event):
        title = Words("This picture came out black.")
        text = Words("Halftone can decode it again from the saved result, with a cure.")
    else:
        title = Words("A bad number appeared before the first step.")
        text = Words("Halftone can compute that part again with a cure and go on.")
    return Note(level="warn", title=title, text=text)


def cure_words(event: GuardEvent) -> Words:
    """How a part was done again: "with its layers rescaled"."""
    return Words(_CURES.get(event.cure, "in another way"))


def _when(event: GuardEvent) -> Words:
    if event.step is not None:
        return Words("at step {0}", (step_words(event),))
    return Words("while the picture was decoded") if _decoding(event) else Words("before the first step")


def _decoding(event: GuardEvent) -> bool:
    return event.component.startswith("vae") and not event.module.startswith(("encoder", "quant_conv"))


def too_large(event: GuardEvent) -> bool:
    """Whether a number above the limit was measured. Done again in the same type, and right: it was not."""
    known = event.peak is not None and event.limit is not None and event.peak > event.limit
    return known and event.cure not in ("none", "read-again")


def damage(event: GuardEvent) -> str:
    """What the decoder did, as far as it is known."""
    if event.kind in _DAMAGE:
        return _DAMAGE[event.kind]
    return "made numbers too large for half precision, so every pixel was lost" if too_large(event) else "gave bad numbers"


_DAMAGE: Final[dict[str, str]] = {
    "flat": "gave a picture of one single colour",
    "flat-tiles": "gave tiles of one single colour",
}
_NOTES: Final[dict[str, Callable[[GuardEvent], Note]]] = {
    "decoded-again": _decoded_again,
    "went-back-one-step": _went_back,
    "encoded-again": _encoded_again,
    "stopped": _stopped,
    "kept": _kept,
    "asked": _asked,
}
