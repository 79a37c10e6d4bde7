"""Facts into words: what happened comes first, then what Halftone did, then what you can do."""

from collections.abc import Sequence
from pathlib import Path

from halftone.contract.echoes import harmless
from halftone.contract.errors import ErrorFacts, HalftoneError, remedy, sentence
from halftone.contract.messages import Generate, Upscale
from halftone.contract.request import Control, IpAdapter, Lora
from halftone.contract.vocabulary import DTYPE_NAMES, DType, Phase, Precision
from halftone.gui.device_names import names_apart
from halftone.gui.i18n import catalogue, listed, say, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.message_bars import Act, Message
from halftone.health.part_names import COMPONENT_NAMES, capital, plain_component
from halftone.library.add_ons.vaes import vae_name
from halftone.session.pictures.draft_problems import Problem
from halftone.session.state import AppState, Ended, Job, Notice, NoticeKind
from halftone.settings.disk import system_words

_LETTERS = 22
"""Letters of a name that is shown in a narrow place."""
_NAMED = 3
"""Files that a message names."""
TYPE_NAMES: dict[str, str] = {"auto": "Auto", **DTYPE_NAMES}


def error_sentence(error: ErrorFacts) -> str:
    """Say what happened, in the user's language."""
    return sentence(error, catalogue())


def error_remedy(error: ErrorFacts) -> str:
    """Say what the user can do, in the user's language."""
    return remedy(error, catalogue())


def problem_text(problem: Problem | None) -> str:
    """Say why no picture can be made; "" for nothing."""
    return sentences(error_sentence(problem), error_remedy(problem)) if isinstance(problem, ErrorFacts) else say(problem)


def problem(error: Exception) -> str:
    """Say in the user's language why a file could not be read or written."""
    if isinstance(error, HalftoneError):
        return problem_text(error.as_facts())
    return say(system_words(error)) if isinstance(error, OSError) else str(error)


def component_name(component: str) -> str:
    """The plain name of a model component."""
    return tr(COMPONENT_NAMES[component]) if component in COMPONENT_NAMES else component


def part_name(component: str) -> str:
    """Name any part of any model, capitalised."""
    known = component_name(component)
    return capital(known) if known != component else plain_component(component).text(catalogue())


def phase_name(phase: Phase) -> str:
    """The name of a phase on the transport panel."""
    return {
        "load": tr("Load"),
        "encode": tr("Encode prompt"),
        "denoise": tr("Denoise"),
        "decode": tr("Decode"),
        "upscale": tr("Upscale"),
        "save": tr("Save"),
    }.get(phase, phase)


# --- activity -------------------------------------------------------------------------------------------------------


def activity(state: AppState, device_words: str) -> tuple[str, str, str]:
    """What is going on: words, icon, colour token. device_words: the verdict on the device for the idle state."""
    job = next(iter(state.begun), None)
    if state.worker in ("lost", "refused") and job is None:
        return tr("The engine stopped"), "octagon-alert", "danger"
    if state.worker != "ready":
        return tr("Starting…"), "loader-circle", "text-muted"
    if job is None:
        if state.warming:
            return tr("Loading {0}", state.warming), "loader-circle", "text-secondary"
        if state.making:
            return tr("Creating the overflow demo model…"), "loader-circle", "text-secondary"
        if (left := _left_by(state.ended)) is not None:
            return left
        return (tr("Ready. {0}", device_words) if device_words else tr("Ready")), "circle-check", "ok"
    count = len({one.card for one in state.begun})
    gpus = tr("{0} GPUs at work", count) if count > 1 else names_apart(state.devices).get(job.card, "")
    return listed(*filter(None, (job_activity(job), gpus))), "circle-dot", "accent"


def _left_by(ended: Ended | None) -> tuple[str, str, str] | None:
    """Describe the last job until the next one: that it was cancelled, or that pictures were recovered."""
    if ended is None or not isinstance(ended.job.command, Generate | Upscale):
        return None
    if ended.outcome == "cancelled":
        return _cancelled(ended.job), "x", "text-secondary"
    recovered = sum(1 for picture in ended.job.pictures if picture.state == "recovered")
    if not recovered:
        return None
    count = tr("{0} pictures recovered", recovered, one="1 picture recovered")
    return count, "triangle-alert", "warn"


def _cancelled(job: Job) -> str:
    stepping = job.phase == "denoise" and job.total
    where = tr("Cancelled at step {0} of {1}", job.done, job.total) if stepping else tr("Cancelled")
    count = len(job.pictures)
    count_words = tr("{0} pictures kept", count, one="1 picture kept") if count else tr("nothing kept")
    return listed(where, count_words)


def job_activity(job: Job) -> str:
    """What a running job does."""
    if job.stopping == "cancel":
        return tr("Cancelling…")
    if job.kind == "SelfTest":
        return tr("Measuring, test {0} of {1}", job.done, job.total) if job.total else tr("Measuring your device")
    if job.kind == "Examine":
        return tr("Checking {0}", job.title)
    if job.kind == "Repair":
        return tr("Writing a repaired copy of {0}", job.title)
    if job.kind == "Train" and job.phase is None:
        done, total = figures.group(job.done), figures.group(job.total or 0)
        return tr("{0}, step {1} of {2}", tr("Training"), done, total) if job.total else tr("Training")
    if job.kind == "Train" and job.phase == "encode":
        return tr("Encoding captions and pictures")
    if job.phase == "upscale":
        return listed(phase_sentence("upscale"), tile_words(job))
    if job.phase == "denoise" and job.total:
        return step_sentence(job, tr("{0}, step {1} of {2}", tr("Denoising"), job.done, job.total))
    return phase_sentence(job.phase)


def tile_words(job: Job) -> str:
    """How many parts of a picture are made larger."""
    return tr("tile {0} of {1}", job.done, job.total) if job.total else ""


def step_sentence(job: Job, words: str) -> str:
    """Add the pass where the picture is made in several."""
    last = job.steps[-1] if job.steps else None
    return words if last is None or last.passes < 2 else listed(tr("Pass {0} of {1}", last.in_pass, last.passes), words)


def phase_sentence(phase: Phase | None) -> str:
    """What the worker does in a phase of a picture."""
    match phase:
        case None | "load":
            return tr("Loading the model")
        case "encode":
            return tr("Encoding the prompt")
        case "decode":
            return tr("Decoding the picture")
        case "upscale":
            return tr("Upscaling")
        case "save":
            return tr("Saving the picture")
        case "denoise":
            return tr("Denoising, first step")
        case _:
            return tr("Working")


def precision_words(wanted: Precision, auto: DType | None, *, measuring: bool) -> str:
    """A precision as it is set. auto: what Auto takes, None before the device was measured."""
    if wanted != "auto":
        return TYPE_NAMES[wanted]
    if auto is not None:
        return f"{tr('Auto')} → {TYPE_NAMES[auto]}"
    return listed(tr("Auto"), tr("measuring…") if measuring else tr("not measured yet"))


# --- notices --------------------------------------------------------------------------------------------------------


def notice_message(notice: Notice) -> Message:
    """A notice of the state in words."""
    if notice.kind == "failed" and notice.error is not None:
        return _failed(notice.error, notice.job)
    if notice.kind == "disk-full" and notice.error is not None:
        return Message(
            level="info",
            title=tr("Not enough disk space."),
            text=tr(
                "{0} needed, {1} free in {2}.",
                notice.error.facts.get("need", "?"),
                notice.error.facts.get("free", "?"),
                notice.error.facts.get("folder", "?"),
            ),
            actions=(Act("choose-folder", tr("Choose folder…")), Act("retry", tr("Try again"))),
        )
    if notice.kind == "update-damaged":
        again = tr("Halftone started a version that is whole. Install the update again.")
        mend = (Act("update", tr("Check for updates")),)
        return Message("warn", tr("An update is damaged: {0}.", *notice.facts[:1]), again, actions=mend, lasting=True)
    return _short_notice(notice)


def _short_notice(notice: Notice) -> Message:
    first = notice.facts[0] if notice.facts else ""
    undo = (Act("undo", tr("Undo")),)
    match notice.kind:
        case "saved":
            return Message("ok", tr("Saved as {0}.", first), *notice.facts[2:], actions=(Act("show-file", tr("Show file")),))
        case "saved-all":
            count = int(first) if first.isdecimal() else 0
            words = tr("Saved {1} pictures in {2}.", count, first, notice.facts[2], one="Saved {1} picture in {2}.")
            return Message("ok", words, actions=(Act("show-file", tr("Show file")),))
        case "deleted" | "models-deleted":
            return Message("ok", tr("Moved to the bin: {0}.", first), actions=undo if len(notice.facts) > 1 else ())
        case "not-deleted" | "not-restored" | "not-saved" | "not-checked" | "pictures-gone":
            return _not_checked(notice.refused) if notice.kind == "not-checked" else _left_notice(notice)
        case "copied" | "added":
            return Message("ok", tr("Added to the prompt: {0}.", first) if notice.kind == "added" else tr("Copied."))
        case (
            "removed"
            | "went-on"
            | "made-again"
            | "queue-left"
            | "queue-unread"
            | "queue-cleared"
            | "grid-made"
            | "grid-failed"
            | "serving"
            | "not-serving"
            | "web-picture"
        ):
            return _queue_notice(notice)
        case "worker-refused" | "worker-late" | "worker-lost" | "card-lost" | "no-farm" | "not-farmed":
            return _farm_notice(notice) if notice.kind in ("no-farm", "not-farmed") else _engine_notice(notice)
        case "cure-applied" | "cure-failed" | "cure-undone" | "cure-dropped" | "cure-unchecked":
            return _cure_notice(notice.kind, first)
        case (
            "fragile-begun"
            | "fragile-made"
            | "fragile-failed"
            | "other-model"
            | "models-gone"
            | "converting"
            | "converted"
            | "converted-open"
            | "converted-unknown"
        ):
            return _converted(notice) if notice.kind.startswith("converted") else _model_notice(notice.kind, notice.facts)
        case "not-kept":
            title = tr("Could not save the measurements of {0}.", first)
            used = tr("They are used until Halftone closes, then measured again.")
            return Message("warn", title, sentences(tr("{0}.", capital(say(notice.why))), used))
        case "model-refused" | "convert-failed" if notice.error is not None:
            reason = sentences(error_sentence(notice.error), error_remedy(notice.error))
            opens = notice.kind == "model-refused"
            return Message("warn", tr("Could not open {0}.", first) if opens else tr("Could not convert {0}.", first), reason)
        case _:
            remedy = error_remedy(notice.error) if notice.error is not None else ""
            sentence = error_sentence(notice.error) if notice.error is not None else say(notice.why) or first
            return Message("warn", tr("A file could not be written."), sentences(sentence, remedy))


def _left_notice(notice: Notice) -> Message:
    """Name the files that could not be moved, and say why."""
    if notice.kind == "pictures-gone":
        title = tr("Removed from the list: {0}.", _few(notice.facts))
        return Message("info", title, _why_left("gone", len(notice.facts) > 1))
    by_reason: dict[str, list[str]] = {}
    for name, why in zip(notice.facts[::2], notice.facts[1::2], strict=False):
        by_reason.setdefault(why, []).append(name)
    names = _few(notice.facts[::2])
    match notice.kind:
        case "not-deleted":
            title = tr("Not moved to the bin: {0}.", names)
        case "not-restored":
            title = tr("Not restored: {0}.", names)
        case _:
            title = tr("Not saved: {0}.", names)
    whys = [(_few(named), _why_left(why, len(named) > 1)) for why, named in by_reason.items()]
    return Message("warn", title, whys[0][1] if len(whys) == 1 else sentences(*(tr("{0}: {1}", *why) for why in whys)))


def _not_checked(refused: Sequence[tuple[str, ErrorFacts]]) -> Message:
    """Name the first models that could not be checked, and say why."""
    title = tr("{0} models were not checked.", len(refused), one="1 model was not checked.")
    whys = [tr("{0}: {1}", name, error_sentence(error)) for name, error in refused[:_NAMED]]
    more = len(refused) - _NAMED
    rest = (tr("And {0} more.", more, one="And 1 more."),) if more > 0 else ()
    return Message("warn", title, sentences(*whys, *rest), lasting=True)


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return tr("{0} and {1} more", listed(*names[:_NAMED]), str(more)) if more > 0 else listed(*names)


def _why_left(why: str, several: bool) -> str:
    """A reason of `Binned` or `Restored` in a sentence."""
    match why:
        case "gone":
            return tr("These files no longer exist.") if several else tr("The file no longer exists.")
        case "away":
            return tr("The folder is not there. Connect its drive, then try again.")
        case "no-right":
            return tr("You have no permission to change the folder.")
        case "not-in-bin":
            return tr("They are no longer in the bin.") if several else tr("It is no longer in the bin.")
        case "name-taken":
            return tr("Files with these names exist already.") if several else tr("A file with this name exists already.")
        case _:
            return sentences(tr("{0}.", why.removesuffix(".")), tr("Close programs that may use it, then try again."))


def _engine_notice(notice: Notice) -> Message:
    match notice.kind:
        case "card-lost":
            name, log, *_ = (*notice.facts, "", "")
            did = tr("Several restarts failed. Its jobs stay in the queue for the other GPUs.")
            do = tr("Update the graphics driver or restart the computer. Log: {0}.", log)
            return Message("danger", tr("The engine on {0} keeps stopping.", name), sentences(did, do))
        case "worker-refused" if notice.error is not None:
            reason = sentences(error_sentence(notice.error), error_remedy(notice.error))
            acts = (Act("restart", tr("Try again")), Act("copy", tr("Copy details")))
            return Message("danger", tr("The engine does not start."), reason, actions=acts)
        case "worker-late":
            did = tr("Halftone is still waiting for it. Queued jobs are kept.")
            do = tr("Restart the engine. If that does not help, restart the computer.")
            again = (Act("restart", tr("Restart")),)
            return Message("danger", tr("The engine is slow to start."), sentences(did, do), actions=again)
        case _:
            did = tr("Several restarts failed. Pictures and queued jobs are kept.")
            do = tr("Update the graphics driver or restart the computer. Log: {0}.", notice.facts[0] if notice.facts else "")
            again = (Act("restart", tr("Try again")),)
            return Message("danger", tr("The engine keeps stopping."), sentences(did, do), actions=again)


def _queue_notice(notice: Notice) -> Message:
    first = notice.facts[0] if notice.facts else ""
    match notice.kind:
        case "removed":
            return Message("info", tr("{0} removed from the queue.", first), actions=(Act("undo", tr("Undo")),))
        case "queue-left":
            count = int(first)
            waiting = tr(
                "{0} pictures were waiting when Halftone ended.", count, one="1 picture was waiting when Halftone ended."
            )
            choices = (Act("continue", tr("Continue")), Act("discard", tr("Discard")))
            return Message("info", waiting, actions=choices, lasting=True)
        case "queue-unread" | "made-again":
            return _unread_notice(notice)
        case "queue-cleared":
            gone = tr("{0} jobs removed from the queue.", int(first), one="1 job removed from the queue.")
            return Message("info", gone, actions=(Act("undo", tr("Undo")),))
        case "grid-made" if int(notice.facts[3]):
            lacking = tr("{0} of {1} pictures are missing. The sheet says why.", int(notice.facts[3]), int(notice.facts[2]))
            return Message("warn", tr("Grid saved as {0}.", first), lacking, actions=(Act("show-file", tr("Show file")),))
        case "grid-made":
            return Message("ok", tr("Grid saved as {0}.", first), actions=(Act("show-file", tr("Show file")),))
        case "web-picture":
            return Message("info", tr("Halftone downloads nothing: save the picture in the browser, then drop the file here."))
        case "serving":
            copy = (Act("copy-token", tr("Copy token")),)
            return Message("ok", tr("Local interface: {0}", first), tr("The token is the password."), actions=copy)
        case "not-serving":
            ports = notice.facts[1:]
            ask = (tr("Close the program that uses port {0}, then turn the setting on again.", port) for port in ports)
            return Message("warn", tr("The local interface did not start."), next(ask, first))
        case "grid-failed":
            why, remedy = (error_sentence(notice.error), error_remedy(notice.error)) if notice.error is not None else ("", "")
            if not notice.facts:
                return Message("danger", tr("The grid could not be saved."), sentences(why, remedy))
            choices = (Act("retry", tr("Try again")), Act("discard", tr("Discard")))
            text = sentences(why, tr("Its pictures are kept."), remedy)
            return Message("danger", tr("The grid could not be saved."), text, actions=choices, lasting=True)
        case _:
            why = error_sentence(notice.error) if notice.error is not None else ""
            return Message(
                "warn", tr("The engine was restarted. The queue continues."), why, actions=(Act("copy", tr("Copy details")),)
            )


def _farm_notice(notice: Notice) -> Message:
    """Say what to do where no head runs, else which jobs stay in the queue and why."""
    if notice.kind == "no-farm":
        how = tr("The jobs stay in the queue. The guide says how to start one.")
        return Message("info", tr("No head of a farm runs on this computer."), how, actions=(Act("farm", tr("Open the guide")),))
    if not notice.refused:
        return Message("warn", tr("The farm's jobs could not be read or changed."), "".join(notice.facts[:1]))
    whys = [tr("{0}: {1}", name, error_sentence(error)) for name, error in notice.refused[:_NAMED]]
    more = len(notice.refused) - _NAMED
    rest = (tr("And {0} more.", more, one="And 1 more."),) if more > 0 else ()
    title = tr("{0} jobs cannot go to the farm.", len(notice.refused), one="1 job cannot go to the farm.")
    return Message("warn", title, sentences(*whys, *rest), lasting=True)


def _unread_notice(notice: Notice) -> Message:
    if notice.kind == "queue-unread":
        return Message(
            "warn", tr("Could not read the queue of the last start ({0}), so the queue is empty now.", *notice.facts[:1])
        )
    again = "Could not read which pictures of {0} are finished ({1}), so all of them are made again."
    return Message("warn", tr(again, *notice.facts[:2]))


def _cure_notice(kind: NoticeKind, model: str) -> Message:
    undo = (Act("undo", tr("Undo")),)
    see = (Act("health", tr("See model health")),)
    match kind:
        case "cure-applied":
            return Message("ok", tr("Cure applied to {0}: no NaN, no black picture.", model), actions=undo)
        case "cure-failed":
            text = tr("The check still found NaN.")
            return Message("danger", tr("The cure for {0} was undone.", model), text, actions=see)
        case "cure-dropped":
            text = tr("The new check no longer suggests it.")
            return Message("warn", tr("The cure for {0} was removed.", model), text, actions=see)
        case "cure-unchecked":
            text = tr("Its check did not finish. Apply it again.")
            return Message("warn", tr("The cure for {0} was undone.", model), text, actions=see)
        case _:
            return Message("info", tr("The cure for {0} was undone.", model))


def _converted(notice: Notice) -> Message:
    why = {
        "converted-open": tr("This system could not confine the conversion fully: it ran with more rights than it needs."),
        "converted-unknown": tr("Halftone does not recognise what it holds, and cannot use it."),
    }.get(notice.kind, "")
    text = sentences(why, say(notice.why))
    return Message(
        "warn" if text else "ok", tr("Saved as {0}.", notice.facts[0]), text, actions=(Act("show-file", tr("Show file")),)
    )


def _model_notice(kind: NoticeKind, facts: tuple[str, ...]) -> Message:
    match kind:
        case "fragile-begun":
            return Message("info", tr("Creating the overflow demo model…"), lasting=True)
        case "converting":
            return Message("info", tr("Converting {0}…", facts[0]))
        case "fragile-made":
            title = tr("The overflow demo model is in use. In FP16 its pictures turn black.")
            return Message("ok", title, actions=(Act("try-fp16", tr("Try it in FP16")),), lasting=True)
        case "models-gone":
            text = tr("Removed from the list.")
            return Message("info", tr("Model not found: {0}.", listed(*facts)), text)
        case "fragile-failed":
            return Message("danger", tr("Could not create the overflow demo model."), facts[0])
        case _:
            text = tr("{0} is used instead. The picture will differ.", facts[1])
            return Message("info", tr("Model not found: {0}.", facts[0]), text)


def _failed(error: ErrorFacts, job: Job | None) -> Message:
    kind = job.kind if job is not None else ""
    title = {
        "Generate": tr("Generation stopped."),
        "Examine": tr("The check stopped."),
        "SelfTest": tr("Measuring stopped."),
        "Repair": tr("The repaired copy stopped."),
        "Upscale": tr("Upscaling stopped."),
        "Train": tr("Training stopped."),
    }.get(kind, tr("The job stopped."))
    return Message(
        level="danger",
        title=title,
        text=sentences(error_sentence(error), error_remedy(error)),
        actions=(Act("retry", tr("Try again")), Act("copy", tr("Copy details"))),
    )


def part_words(path: str | None) -> str:
    """Which VAE or transformer is in use, in a few letters."""
    return tr("Model default") if path is None else short(vae_name(path).removesuffix(".safetensors"))


Net = Lora | Control | IpAdapter


def _strength(net: Net) -> str:
    return f"{net.weight if isinstance(net, Lora) else net.scale:.2f}"


def net_list(nets: Sequence[Net]) -> str:
    """All of them with their strengths; "" without any."""
    return listed(*(f"{net.name} {_strength(net)}" for net in nets))


def adapter_list(adapters: Sequence[IpAdapter]) -> str:
    """All IP-Adapters with their strengths and the names of their pictures; "" without any."""
    return "\n".join(f"{one.name} {one.scale:.2f} · {listed(*(Path(image).name for image in one.images))}" for one in adapters)


def net_words(nets: Sequence[Net]) -> str:
    """Which LoRAs, ControlNets or IP-Adapters are in use, in a few letters."""
    if len(nets) != 1:
        return tr("{0} in use", len(nets)) if nets else tr("None")
    return f"{short(nets[0].name)} {_strength(nets[0])}"


def short(name: str) -> str:
    """Shorten a name for a narrow place."""
    return harmless(name if len(name) <= _LETTERS else f"{name[:_LETTERS]}…")
