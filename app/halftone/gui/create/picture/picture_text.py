"""A finished picture in words: the banners M1 to M5, its receipt, and the price of the cure."""

from collections.abc import Sequence

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import CheckReport, GuardEvent, PictureFacts, SheetFacts, Shortage
from halftone.contract.request import model_stem
from halftone.contract.vocabulary import DTYPE_NAMES, FLOAT_LIMITS
from halftone.contract.wording import Words
from halftone.gui.create.picture.picture_details import cure_name, details, earlier, elapsed
from halftone.gui.i18n import catalogue, listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.message_bars import Act, Message
from halftone.gui.text import error_remedy, error_sentence
from halftone.health.explain import note_for, too_large
from halftone.health.forecasts.timing import is_measurable
from halftone.health.part_names import capital, module_words, plain_component
from halftone.health.pictures.frame_lists import frame_list
from halftone.health.pictures.lora_sentences import cause_words, named
from halftone.health.pictures.passes import kept_words, step_words
from halftone.health.pictures.shortage_sentences import shortage_note


def main_event(picture: PictureFacts) -> GuardEvent | None:
    """The event that decided how the picture ended."""
    return picture.events[-1] if picture.events else None


def picture_message(picture: PictureFacts, price: str = "", steps: int = 0) -> Message | None:
    """The banner of a picture: M1 to M6, None for a clean one. price: of the cure, "" if nothing was measured yet."""
    if picture.sheet is not None:
        return None  # each picture of a grid has its own
    if picture.shortages and (picture.state in ("clean", "unwatched") or picture.shortages[-1].then == "stopped"):
        return _short_of_memory(picture, picture.shortages[-1])
    if picture.upscaled is not None:
        return None  # the receipt tells all there is
    if picture.cut_short is not None:
        return _cut_short(picture, picture.cut_short)
    event = main_event(picture)
    if event is not None and event.action == "kept":
        return _one_colour(event)
    if picture.state == "recovered" and event is not None:
        if len(picture.events) > 1:
            return _recovered_often(picture, event, price)
        return _recovered_steps(event, price) if event.step is not None else _recovered_decode(event, price, steps)
    if picture.state == "asking":
        return _asking(picture, event)
    if picture.state == "not-recovered":
        return _stopped(picture, event, price)
    if picture.dark:
        return Message(
            level="info",
            title=tr("Dark picture, but finite."),
            text=tr("Possible causes: the prompt, high guidance."),
            actions=(Act("dismiss", tr("Show anyway"), "", "quiet"),),
        )
    return None


def _short_of_memory(picture: PictureFacts, shortage: Shortage) -> Message:
    """M6."""
    note = shortage_note(shortage)
    if shortage.then != "stopped":
        folded = (Act("fold", tr("Close"), "", "quiet"),)
        return Message(level=note.level, title=note.title.text(catalogue()), text=note.text.text(catalogue()), actions=folded)
    use = () if shortage.fits is None else (Act("use-size", tr("Use {0} × {1}", *shortage.fits), "", "primary"),)
    go_on = () if picture.latents is None else (Act("recover", tr("Try again"), "rotate-ccw", ""),)
    return Message(
        level=note.level,
        title=note.title.text(catalogue()),
        text=note.text.text(catalogue()),
        strong=_what_is_kept(picture),
        actions=(*use, *go_on, Act("fold", tr("Not now"), "", "quiet")),
    )


def _cut_short(picture: PictureFacts, why: ErrorFacts) -> Message:
    in_vain = picture.latents is None or why.facts.get("why") in ("no-cure", "sampler")
    go_on = () if in_vain else (Act("recover", tr("Try again"), "rotate-ccw", ""),)
    return Message(
        level="warn",
        title=sentences(tr("The second pass failed."), tr("The first picture is saved.") if picture.path else ""),
        text=sentences(error_sentence(why), error_remedy(why)),
        strong="" if picture.path else _what_is_kept(picture),
        actions=(*go_on, Act("fold", tr("Close"), "", "quiet")),
    )


def _one_colour(event: GuardEvent) -> Message:
    """Full precision gave nothing better, where that was tried."""
    compared = event.sound_in_float32 is False
    title = tr("This picture is one flat colour.")
    if event.frames:
        title = tr("Flat frames, kept as is: {0}.", frame_list(event.frames))
    elif compared:
        title = tr("This picture is one flat colour, even in FP32.")
    no_cure = tr("{0}.", tr("Finite values, no cure can help")) if compared else ""
    return Message(
        level="danger",
        title=title,
        text=sentences(no_cure, tr("Check the prompt, LoRAs, VAE and model file.")),
        strong=tr("Picture and seed are kept."),
        actions=(Act("check", tr("Check the model"), "activity", "primary"), Act("copy", tr("Copy details"), "copy", "quiet")),
        details=details(event),
    )


_FIX = "fix"


def _fix_actions() -> tuple[Act, ...]:
    return (
        Act(_FIX, tr("Fix this model"), "bandage", "primary"),
        Act("health", tr("See model health"), "activity", ""),
        Act("copy", tr("Copy details"), "copy", "quiet"),
        Act("fold", tr("Not now"), "", "quiet"),
    )


def _recovered_often(picture: PictureFacts, event: GuardEvent, price: str) -> Message:
    """All repairs in their order, and what they took together; the details are of the last one, a row for each before it."""
    return Message(
        level="warn",
        title=tr("Recovered after {0} repairs.", len(picture.events)),
        text=sentences(_why_often(picture.events), _causes(picture.events)),
        actions=_fix_actions(),
        price=price,
        details=(
            _story(*(_repair(alike) for alike in _alike(picture.events)), *_kept_in_mind(picture.events)),
            *details(event),
            *earlier(picture),
        ),
    )


def _title(event: GuardEvent, title: str) -> str:
    """Add the LoRAs that are the cause to a title."""
    return named(event, Words(title)).text(catalogue())


def _causes(events: Sequence[GuardEvent]) -> str:
    """What LoRAs did, each thing once."""
    causes = dict.fromkeys(event.lora for event in events if event.lora is not None)
    return "".join(words.text(catalogue()) for cause in causes for words in cause_words(cause))


def _why_often(events: Sequence[GuardEvent]) -> str:
    """The cause in one sentence: the parts that overflowed, else those that failed in another way, and the time."""
    over = [event for event in events if too_large(event)]
    worst = over or [event for event in events if event.kind == "nonfinite"] or events
    parts = listed(*dict.fromkeys(plain_component(event.component, event.module).text(catalogue()) for event in worst))
    took = elapsed(sum(event.seconds for event in events))
    if over:
        limit = DTYPE_NAMES["float16" if all((event.limit or 0.0) <= FLOAT_LIMITS["float16"] for event in over) else "bfloat16"]
        return tr("{0}: values passed the {1} limit; it took {2} longer.", parts, limit, took)
    if worst[0].kind == "nonfinite":
        return tr("{0}: NaN values; it took {1} longer.", parts, took)
    return tr("{0}: lost values; it took {1} longer.", parts, took)


def _alike(events: Sequence[GuardEvent]) -> list[list[GuardEvent]]:
    """Events by what was done to which part, in the order of the first of each."""
    found: dict[tuple[str, str, str, str], list[GuardEvent]] = {}
    for event in events:
        found.setdefault((event.action, event.component, event.module, event.cure), []).append(event)
    return list(found.values())


def _repair(alike: Sequence[GuardEvent]) -> str:
    """What happened and what Halftone did: once, or in the same way at several steps."""
    first = alike[0]
    if first.step is None:
        return _decode_words(first)
    steps = [step_words(event).text(catalogue()) for event in alike if event.step is not None]
    at = tr(
        "NaN at steps {1}. Halftone repeated each step.",
        len(steps),
        listed(*steps),
        one="NaN at step {1}. Halftone repeated the step.",
    )
    return sentences(at, _step_cure(first))


def _kept_in_mind(events: Sequence[GuardEvent]) -> tuple[str, ...]:
    """Whether a cure is in use from the next picture on."""
    return (tr("Your next pictures use it too."),) if any(event.remembered for event in events) else ()


def _story(*parts: str) -> tuple[str, str]:
    """What Halftone did, as the first row of the details: the banner itself has two sentences."""
    return tr("What happened"), sentences(*parts)


def _took(seconds: float) -> str:
    return tr("It took {0} longer.", elapsed(seconds))


def _recovered_decode(event: GuardEvent, price: str, steps: int) -> Message:
    return Message(
        level="warn",
        title=_title(event, _recovered_title(event)),
        text=_causes((event,)),
        actions=_fix_actions(),
        price=price,
        details=(_story(_decode_words(event), *_kept_in_mind((event,))), *details(event, steps)),
    )


def _recovered_title(event: GuardEvent) -> str:
    if event.frames:
        return tr("Recovered black frames: {0}.", frame_list(event.frames))
    return tr("This picture came out black. Halftone recovered it.")


def _decode_words(event: GuardEvent) -> str:
    """What went wrong outside the steps, and how it was done again."""
    parts = {"enlarged-again": tr("upscale model"), "encoded-again": tr("text encoder")}
    part = parts.get(event.action, tr("VAE decoder"))
    if event.kind != "nonfinite" and event.action not in parts:
        what = tr("The {0} lost values, leaving flat areas.", part)
    elif too_large(event) and event.action != "enlarged-again":
        what = tr("The {0} overflowed in half precision.", part)
    else:
        what = tr("The {0} produced NaN.", part)
    return sentences(what, tr("Halftone ran it again {0}.", _how(event)))


def _how(event: GuardEvent) -> str:
    """How it was done again, by the cure that was taken."""
    return {
        "none": tr("unchanged, and it worked"),
        "read-again": tr("after reloading damaged weights"),
        "rescale": tr("with values rescaled by powers of two"),
        "setting": tr("with a safer setting"),
        "upcast-region": tr("with the affected parts in FP32"),
        "bfloat16": tr("in BF16"),
        "float32-component": tr("in FP32"),
        "float32-all": tr("in FP32"),
    }.get(event.cure, tr("in another way"))


def _step_cure(event: GuardEvent) -> str:
    part = module_words(event.component, event.module).text(catalogue())
    return {
        "none": tr("Repeating the step was enough."),
        "read-again": tr("Halftone reloaded weights damaged in memory."),
        "upcast-region": tr("{0}: switched to {1} for this picture.", part, "FP32"),
        "float32-component": tr("{0}: switched to {1} for this picture.", part, "FP32"),
        "float32-all": tr("{0}: switched to {1} for this picture.", tr("Everything"), "FP32"),
        "rescale": tr("{0}: rescaled for this picture.", part),
        "setting": tr("{0}: a safer setting for this picture.", part),
        "bfloat16": tr("{0}: switched to {1} for this picture.", part, "BF16"),
    }.get(event.cure, tr("{0}: computed in another way.", part))


def _recovered_steps(event: GuardEvent, price: str) -> Message:
    title = tr("Recovered from NaN at step {0}.", step_words(event))
    return Message(
        level="warn",
        title=_title(event, title),
        text=sentences(_took(event.seconds), _causes((event,))),
        actions=_fix_actions(),
        price=price,
        details=(_story(_step_cure(event), *_kept_in_mind((event,))), *details(event)),
    )


def _stopped(picture: PictureFacts, event: GuardEvent | None, price: str) -> Message:
    """M3, and pictures that were stopped: the words are those of `explain`, the actions follow from what is known."""
    if event is None:
        return Message("danger", tr("This picture could not be recovered."), strong=tr("Prompt and seed are kept."))
    note = note_for(event)
    if event.why == "sampler":  # the model has no fault, and the same steps would end there again
        return Message(note.level, note.title.text(catalogue()), note.text.text(catalogue()), details=details(event))
    curable = event.sound_in_float32 is True and event.why != "no-cure"
    check = (
        Act("check", tr("Check the model"), "activity", "primary"),
        Act("copy", tr("Copy details"), "copy", "quiet"),
        Act("fold", tr("Not now"), "", "quiet"),
    )
    recover = (*_recover_actions(), *check[1:])
    return Message(
        level=note.level,
        title=note.title.text(catalogue()),
        text=note.text.text(catalogue()),
        strong=_what_is_kept(picture),
        actions=check if not curable else recover if picture.latents is not None else _fix_actions(),
        price=price if curable else "",
        details=details(event),
    )


def _what_is_kept(picture: PictureFacts) -> str:
    """Say what is saved of a picture that is not finished."""
    if picture.not_kept:
        return tr("This model and sampler cannot resume it.")
    if picture.latents is None:
        return ""
    if picture.kept_step is None:
        return tr("The latents are saved. You can retry decoding.")
    return sentences(tr("Saved after step {0}.", kept_words(picture)), tr("You can resume later."))


def _recover_actions() -> tuple[Act, Act]:
    return (
        Act("recover", tr("Recover"), "rotate-ccw", "primary"),
        Act("recover-fix", tr("Recover and fix this model"), "bandage", ""),
    )


def _asking(picture: PictureFacts, event: GuardEvent | None) -> Message:
    """Ask whether to recover the picture; without saved latents it is made again."""
    again = tr("Halftone can recover it with the same seed.")
    title, text = tr("This picture came out black."), again
    if event is not None:
        note = note_for(event)
        title, text = note.title.text(catalogue()), note.text.text(catalogue()) if picture.latents is not None else again
    return Message(
        level="warn",
        title=title,
        text=text,
        strong=_what_is_kept(picture) if event is not None else "",
        actions=(*_recover_actions(), Act("leave", tr("Leave it"), "", "quiet")),
        details=details(event) if event is not None else (),
    )


def receipt(picture: PictureFacts) -> tuple[str, str, str, str]:
    """The receipt in short: icon, tone, word, sentence."""
    if picture.sheet is not None:
        return _sheet_receipt(picture.sheet)
    event = main_event(picture)
    match picture.state:
        case "clean" | "not-recovered" if picture.flat_frames and picture.path:
            bad = len(picture.flat_frames)
            return "octagon-alert", "danger", tr("Not recovered"), tr("{0} of {1} frames are flat", bad, picture.frames)
        case "clean" | "not-recovered" if picture.black and picture.path:
            return "octagon-alert", "danger", tr("One colour"), tr("Finite values, no cure can help")
        case "clean":
            return "circle-check", "ok", tr("Clean"), _clean_words(picture)
        case "recovered" if len(picture.events) > 1:
            took = elapsed(sum(event.seconds for event in picture.events))
            return "triangle-alert", "warn", tr("Recovered"), tr("{0} repairs, {1} longer", len(picture.events), took)
        case "recovered":
            return "triangle-alert", "warn", tr("Recovered"), _short_recovery(event)
        case "unwatched":
            return "eye-off", "warn", tr("Not monitored"), tr("NaN check off")
        case "asking":
            word = tr("Black") if event is None or event.step is None else tr("NaN")
            return "triangle-alert", "warn", word, tr("Waiting for your answer")
        case "not-recovered" if picture.shortages:
            return (
                "octagon-alert",
                "danger",
                tr("Not finished"),
                tr("Out of memory at {0} × {1}", picture.width, picture.height),
            )
        case "not-recovered":
            return "octagon-alert", "danger", tr("Not recovered"), tr("No picture to save")


def _sheet_receipt(sheet: SheetFacts) -> tuple[str, str, str, str]:
    if sheet.failed:
        return "octagon-alert", "danger", tr("Not finished"), tr("{0} of {1} pictures failed", sheet.failed, sheet.pictures)
    if sheet.recovered:
        return "triangle-alert", "warn", tr("Recovered"), tr("{0} of {1} pictures recovered", sheet.recovered, sheet.pictures)
    if sheet.unwatched:
        return "eye-off", "warn", tr("Not monitored"), tr("NaN check off")
    return "circle-check", "ok", tr("Clean"), tr("No NaN in {0} pictures", sheet.pictures, one="No NaN in 1 picture")


def _clean_words(picture: PictureFacts) -> str:
    if picture.upscaled is not None:
        how = picture.upscaled
        return tr("{0} × with {1}. Hold B to compare.", how.scale, model_stem(how.upscaler))
    if picture.dark:
        return tr("Dark, but finite")
    if picture.cures:
        return listed(tr("No NaN in {0} steps", picture.steps), tr("cure in use"))
    return tr("No NaN in {0} steps", picture.steps)


def _short_recovery(event: GuardEvent | None) -> str:
    if event is None:
        return ""
    if event.action == "went-back-one-step":
        return tr("Step {0} repeated after NaN", step_words(event))
    if event.cure == "read-again":
        return tr("Reloaded after memory damage")
    if event.action == "enlarged-again":
        return listed(tr("Upscaled again after NaN"), cure_name(event.cure))
    if event.action == "encoded-again":
        return tr("Prompt encoded again after overflow")
    return listed(tr("Decoded again after overflow"), cure_name(event.cure))


def price_line(report: CheckReport | None) -> str:
    """The measured price of the suggested cure; what was not measured is not named."""
    cure = next((cure for cure in report.cures if cure.suggested), None) if report is not None else None
    if report is None or cure is None:
        return tr("A check finds the cheapest cure and its cost.")
    parts: list[str] = []
    if cure.time_ratio is not None:
        shown = cure.time_ratio if is_measurable(cure.time_ratio, cure.time_spread) else 1.0
        parts.append(tr("about {0} time", figures.change(shown)))
    if cure.memory_bytes is not None:
        parts.append(tr("{0} memory", figures.size_change(cure.memory_bytes)))
    name = capital(cure_name(cure.kind))
    return tr("{0}: {1}", name, listed(*parts)) if parts else name
