"""Sentences on findings and on acts of the sentinel: what happened, what Halftone did, what can be done.

All are `Words`, so that the window translates the templates and the command line prints the English.
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
    """(what happened, what can be done) as templates. Numbers that were not measured are left out."""
    where = module_words(finding.component, finding.module)
    with_numbers, without, remedy = _FINDINGS[finding.code]
    source = (str(finding.facts.get("file", "")), str(finding.facts.get("tensor", "")))
    count = number(float(finding.facts.get("count", 0)))
    limit = "" if finding.limit is None else number(finding.limit)
    room = headroom_bits(finding.peak, finding.dtype)
    values = (where, DTYPE_NAMES[finding.dtype], _peak(finding), limit, "" if room is None else bits(room), *source, count)
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


_CAME_ONCE: Final = "{0}: one wrong result, which did not repeat. The model is not the cause."
_CAME_ONCE_REMEDY: Final = "If it repeats, check overclocking, temperature and memory."
_FAILED_AT: Final = "{0} is faulty on this device. Failed test: {1}, {2}."


def _offset_words(finding: Finding, where: Words) -> Words:
    """The sentence for a layer whose offset leaves no bits for the picture. shows: the module that shows it first."""
    shows = module_words(finding.component, str(finding.facts["shows"]))
    template = _FLAT_BY_OFFSET if finding.code == "flat-output" else _WRONG_BY_OFFSET
    return Words(template, (where, DTYPE_NAMES[finding.dtype], _peak(finding), shows))


def further_words(finding: Finding) -> Words | None:
    """How many more layers have the trouble, and their peaks; None for none."""
    if not finding.further:
        return None
    one, more = _FURTHER_TIGHT if finding.code == "tight" else _FURTHER_OVER
    count = len(finding.further)
    return Words(one if count == 1 else more, (count, number(max(layer.peak for layer in finding.further))))


def note_for(event: GuardEvent) -> Note:
    """The message for one act of the sentinel; it names the LoRAs that cause it."""
    note = _NOTES.get(event.action, _stopped)(event)
    if event.lora is None:
        return note
    said = Words("{0}{1}{2}", (note.text, *cause_words(event.lora)))
    return msgspec.structs.replace(note, title=named(event, note.title), text=said)


def remembered(component: str, kind: CureKind) -> Words:
    """Why a picture starts with a cure that nobody applied."""
    how = Words(_CURES.get(kind, "in another way"))
    return Words("{0}: computed {1}, which worked before on this device.", (module_words(component, ""), how))


def not_exact(component: str) -> Words:
    """Why a rescaling is not used: its plan was found with other add-ons."""
    text = "{0}: not rescaled, as that is not exact with this ControlNet, adapter or LoRA."
    return Words(text, (module_words(component, ""),))


def not_proven(component: str) -> Words:
    """Why a rescaling is not used: memory ran out in the proof that it is exact."""
    text = "{0}: not rescaled, as memory ran out while testing it with this ControlNet, adapter or LoRA."
    return Words(text, (module_words(component, ""),))


def copy_limits(report: RepairReport) -> Words | None:
    """Limits of a repaired copy in other programs; None where it is as good as its original."""
    if not report.without_add_ons:
        return None
    text = "{0}: Halftone adapts LoRAs, ControlNets and IP-Adapters to this copy. In other programs, use them with the original."
    names = [plain_component(name) for name in report.without_add_ons]
    return Words(text, (Words(", ".join(f"{{{index}}}" for index in range(len(names))), tuple(names)),))


def _peak(finding: Finding) -> str:
    return "" if finding.peak is None else number(finding.peak)


_CURES: Final[dict[str, str]] = {
    "none": "unchanged, and it worked",
    "read-again": "after reloading weights that were damaged in memory",
    "rescale": "with rescaled layers",
    "setting": "with a safer setting",
    "upcast-region": "with the failing parts in FP32",
    "bfloat16": "in BF16",
    "float32-component": "in FP32",
    "float32-all": "with the whole model in FP32",
}

# {0} the layer, {1} type, {2} its peak, {3} where it shows
_FLAT_BY_OFFSET: Final = (
    "{0}: an offset of up to {2} leaves {1} no bits for the picture, so only one colour comes out. First seen in: {3}."
)
_WRONG_BY_OFFSET: Final = "{0}: an offset of up to {2} leaves {1} no bits for detail, so the result is wrong. First seen in: {3}."

# {0} how many, {1} their largest peak: for one, for several
_FURTHER_OVER: Final = (
    "1 later layer overflows too, peak {1}.",
    "{0} later layers overflow too, peaks up to {1}.",
)
_FURTHER_TIGHT: Final = (
    "1 more layer is tight, peak {1}.",
    "{0} more layers are tight, peaks up to {1}.",
)

# {0} where, {1} type, {2} peak, {3} limit, {4} room, {5} file, {6} tensor, {7} how many: with numbers, without, remedy
_FINDINGS: Final[dict[FindingCode, tuple[str, str, str]]] = {
    "weights-nonfinite": (
        "{0}: NaN in tensor {6} of {5}.",
        "{0}: NaN in the file.",
        "No setting can fix that. Download the file again.",
    ),
    "weights-clipped": (
        "{0}: values in tensor {6} of {5} sit at the FP16 limit (count: {7}), probably clipped when the file was converted.",
        "{0}: values in the file sit at the FP16 limit, probably clipped when it was converted.",
        "No precision restores them. Look for this model in BF16 or FP32.",
    ),
    "weights-overflow": (
        "{0}: a weight of {2} exceeds the {1} limit of {3}.",
        "{0}: a weight exceeds the {1} limit.",
        "Apply the cure.",
    ),
    "activation-overflow": (
        "{0}: {2} exceeds the {1} limit of {3}, {4} bits of headroom.",
        "{0}: a value exceeds the {1} limit.",
        "Apply the cure, or save a repaired copy.",
    ),
    "attention-overflow": (
        "{0}: attention scores of {2} exceed the {1} limit of {3}.",
        "{0}: attention scores exceed the {1} limit.",
        "Apply the cure, or set Upcast cross-attention to Always.",
    ),
    "accumulation-overflow": (
        "{0}: a sum exceeds the {1} limit of {3}, though its result of {2} fits.",
        "{0}: a sum exceeds the {1} limit.",
        "Apply the cure, or turn FP16 accumulation off.",
    ),
    "underflow": (
        "{0}: values underflow to zero in {1} (peak {2}).",
        "{0}: values underflow to zero in {1}.",
        "Apply the cure.",
    ),
    "flat-output": (
        "{0}: the result has only one colour.",
        "{0}: the result has only one colour.",
        "Apply the cure, and check that the VAE belongs to this model.",
    ),
    "saturated-output": (
        "{0}: values are clamped at the {1} limit of {3}, so the result is wrong.",
        "{0}: values are clamped at the {1} limit, so the result is wrong.",
        "Apply the cure.",
    ),
    "inexact-output": (
        "{0}: {1} rounds too much. The result is wrong though no value exceeds {3}.",
        "{0}: {1} rounds too much, so the result is wrong.",
        "Apply the cure.",
    ),
    "nonfinite-output": (
        "{0}: NaN came out, and no layer inside shows where it began.",
        "{0}: NaN came out, and no layer inside shows where it began.",
        "Apply the cure. If FP32 fails too, check the model file, LoRA or VAE for damage.",
    ),
    "tight": (
        "{0}: {2} is close to the {1} limit of {3}, {4} bits of headroom.",
        "{0}: values come close to the {1} limit.",
        "Nothing to do. Halftone watches this layer.",
    ),
    "device-fault": (
        "{1} is faulty on this device.",
        "{1} is faulty on this device.",
        "Use another precision, and check again after a driver update.",
    ),
    "memory-damage": (
        "{0}: weights in memory differ from the file.",
        "{0}: weights in memory differ from the file.",
        "Halftone reread them. If it repeats, check overclocking, temperature and memory.",
    ),
}


def _decoded_again(event: GuardEvent) -> Note:
    title = Words("This picture came out black. Halftone recovered it.")
    if event.frames:
        title = Words("Frames of this video came out black: {0}. Halftone recovered them.", (frame_list(event.frames),))
    values = (Words(damage(event)), cure_words(event), elapsed(event.seconds))
    text = Words("The VAE decoder {0}. Halftone decoded the latents again {1}. It took {2} longer.", values)
    return Note(level="warn", title=title, text=text)


def _computed_again(event: GuardEvent) -> Note:
    title = Words("NaN before the first step. Halftone computed that part again and continued.")
    if event.step is not None:
        title = Words("Recovered from NaN at step {0}.", (step_words(event),))
    values = (module_words(event.component, event.module), cure_words(event), elapsed(event.seconds))
    return Note(level="warn", title=title, text=Words("{0}: computed again {1}. It took {2} longer.", values))


def _stopped(event: GuardEvent) -> Note:
    """FP32 is mentioned only if it was tried."""
    if event.why == "sampler":
        title = "This picture could not be recovered."
        text = "The sampler itself produced NaN or infinity {0}. Try other steps or another sampler."
    elif event.sound_in_float32 is False:
        title = "This picture could not be recovered."
        text = "NaN {0}, even in FP32. Usually the model file, LoRA or VAE is damaged."
        if event.lora is not None and event.lora.alone:
            text = "NaN {0}, even in FP32."
    elif event.why == "setting":
        title = "This picture came out black. Halftone stopped, as your settings say."
        if event.step is not None or not _decoding(event):
            title = "This picture would have come out black. Halftone stopped, as your settings say."
        text = "NaN {0}. Your setting for black pictures stopped it."
    elif event.why == "no-cure":
        title = "This picture could not be recovered."
        text = "NaN {0}, and no cure helped."
    else:
        title = "This picture was stopped at a NaN."
        text = "NaN {0}."
    return Note(
        level="warn" if event.why == "setting" and event.sound_in_float32 is not False else "danger",
        title=Words(title),
        text=Words("{0}{1} Prompt and seed are kept.", (Words(text, (_when(event),)), _in_float32(event))),
    )


def _in_float32(event: GuardEvent) -> Words | str:
    if not event.sound_in_float32 or event.why == "sampler":
        return ""
    if event.peak is None or headroom_bits(event.peak, "float32") is None:
        return Words(" FP32 stays in range.")
    return Words(" FP32 stays in range, peak {0}.", (number(event.peak),))


def _kept(event: GuardEvent) -> Note:
    text = "Prompt and seed are kept."
    if event.sound_in_float32 is False:
        text = "FP32 is no better, so no cure helps. Usually the model file or VAE is damaged. " + text
    title = Words("This picture has only one colour. It was kept.")
    if event.frames:
        title = Words("Flat frames, kept as is: {0}.", (frame_list(event.frames),))
    return Note(level="danger", title=title, text=Words(text))


def _asked(event: GuardEvent) -> Note:
    if event.step is not None:
        title = Words("NaN at step {0}.", (step_words(event),))
        text = Words("Halftone can go back one step and finish with a cure.")
    elif _decoding(event):
        title = Words("This picture came out black.")
        text = Words("Halftone can decode the saved latents again with a cure.")
    else:
        title = Words("NaN before the first step.")
        text = Words("Halftone can compute that part again with a cure.")
    return Note(level="warn", title=title, text=text)


def cure_words(event: GuardEvent) -> Words:
    """How a part was computed again: "with its layers rescaled"."""
    return Words(_CURES.get(event.cure, "in another way"))


def _when(event: GuardEvent) -> Words:
    if event.step is not None:
        return Words("at step {0}", (step_words(event),))
    return Words("during decoding") if _decoding(event) else Words("before the first step")


def _decoding(event: GuardEvent) -> bool:
    return event.component.startswith("vae") and not event.module.startswith(("encoder", "quant_conv"))


def too_large(event: GuardEvent) -> bool:
    """Whether a number above the limit was measured; not if the same type gave a good result later."""
    known = event.peak is not None and event.limit is not None and event.peak > event.limit
    return known and event.cure not in ("none", "read-again")


def damage(event: GuardEvent) -> str:
    """The decoder's failure, as far as it is known."""
    if event.kind in _DAMAGE:
        return _DAMAGE[event.kind]
    return "overflowed in half precision" if too_large(event) else "produced NaN"


_DAMAGE: Final[dict[str, str]] = {
    "flat": "gave a picture of one colour",
    "flat-tiles": "gave tiles of one colour",
}
_NOTES: Final[dict[str, Callable[[GuardEvent], Note]]] = {
    "decoded-again": _decoded_again,
    "went-back-one-step": _computed_again,
    "encoded-again": _computed_again,
    "stopped": _stopped,
    "kept": _kept,
    "asked": _asked,
}
