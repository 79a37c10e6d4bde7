"""What the sentinel did to a picture, one line each: what happened → what Halftone did; and what the person can do."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from halftone.cli.terminal.command_lines import command_line, extra_words
from halftone.contract.facts import CheckReport, GuardEvent, PictureFacts
from halftone.contract.plan import Cure
from halftone.contract.request import ALONE, Extras
from halftone.contract.vocabulary import DType
from halftone.health.explain import cure_words, damage, note_for
from halftone.health.part_names import elapsed, plain_component, plain_module
from halftone.health.pictures.frame_lists import frame_list
from halftone.health.pictures.lora_sentences import cause_words
from halftone.health.pictures.passes import step_words

_DONE: Final[dict[str, str]] = {
    "decoded-again": "Halftone decoded the latents again",
    "went-back-one-step": "Halftone went back one step and ran it again",
    "encoded-again": "Halftone ran it again",
    "enlarged-again": "Halftone ran it again",
}
_NO_FAULT_OF_THE_MODEL: Final = frozenset({"none", "read-again"})


def event_line(event: GuardEvent) -> str:
    """Describe an event in one line; what could not be recovered, in the window's words."""
    if event.action not in _DONE:
        note = note_for(event)
        return f"{note.title.text()} {note.text.text()}"
    line = f"{_happened(event)} → {_DONE[event.action]} {cure_words(event).text()}. It took {elapsed(event.seconds)} more."
    if event.remembered:
        line += " Your next pictures use this cure too."
    causes = () if event.lora is None else cause_words(event.lora)
    return "".join((line, *(words.text() for words in causes)))


def what_to_do(events: Iterable[GuardEvent], model: str, dtype: DType, extras: Extras = ALONE) -> str:
    """The command that spares the model its recoveries, or finds what is damaged; empty where nothing was the model's fault."""
    events, used = tuple(events), extra_words(extras)
    if any(event.action not in _DONE for event in events):
        return command_line("check", model, *used, "--precision", dtype)
    own = [event for event in events if event.action in _DONE and event.action != "enlarged-again"]
    cures = {event.cure for event in own} - _NO_FAULT_OF_THE_MODEL
    if not cures:
        return ""
    if cures == {"rescale"} and dtype == "float16" and extras.can_be_copied:
        return command_line("repair", model, *used, "--output", repaired_name(model))
    return command_line("check", model, *used, "--precision", dtype, "--apply")


def cure_command(report: CheckReport, cure: Cure) -> str | None:
    """The command that puts a cure of a check to use: only the suggested one, or FP32 for all."""
    name, used = report.model.id, extra_words(report.extras)
    if cure.refusal is not None:
        return None
    if cure.suggested:
        return command_line("check", name, *used, "--precision", report.precision, "--apply")
    return command_line("generate", "PROMPT", "-m", name, *used, "--precision", "float32") if cure.kind == "float32-all" else None


def how_to_finish(picture: PictureFacts) -> str:
    """The command that finishes a saved picture; empty where nothing is saved, or where it would fail again."""
    last = picture.events[-1] if picture.events else None
    unfinished = picture.cut_short is not None or picture.state in ("asking", "not-recovered")
    if picture.latents is None or not unfinished or (last and last.sound_in_float32 is False):
        return ""
    why = picture.cut_short.facts.get("why") if picture.cut_short is not None else last and last.why
    if why == "sampler":
        return ""
    wide = ("--precision", "float32") if why == "no-cure" else ()
    return command_line("generate", "--latents", picture.latents, "--on-black", "recover", *wide)


def repaired_name(model: str) -> str:
    """A folder to write the repaired copy into, where the person is."""
    return f"{Path(model).name}-repaired"


def _happened(event: GuardEvent) -> str:
    if event.action == "decoded-again":
        where = plain_component(event.component, event.module or "decoder").text()
        what = f"frames of the video ({frame_list(event.frames)}) were" if event.frames else "the picture was"
        return f"While {what} decoded: {where} {damage(event)}"
    if event.action == "enlarged-again":
        return "While upscaling: the upscale model produced NaN"
    when = "Before the first step" if event.step is None else f"At step {step_words(event).text()}"
    return f"{when}: {plain_module(event.component, event.module)} produced NaN"
