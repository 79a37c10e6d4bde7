"""From options to requests, refusing at once what cannot work: nothing heavy is imported here."""

import logging
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from msgspec.structs import replace

from halftone.cli.jobs.hardware import names_here, possible_kinds
from halftone.cli.terminal.command_lines import command_line
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import PARAMETERS
from halftone.contract.request import CheckInputs, Lora, PictureRequest, Start, Style, file_name
from halftone.contract.vocabulary import POCKET, OtherProgram
from halftone.contract.wording import Words, number
from halftone.health.other_programs import LAYOUTS
from halftone.health.pictures.requests import check_inputs, check_request
from halftone.health.pictures.unfinished_files import check_named_files
from halftone.health.pictures.unfinished_pictures import check_same_model, read_kept
from halftone.library.add_ons.extras import check_extras_fit
from halftone.library.add_ons.inversions import inversion_folders, inversion_name, named_in, names_any, spoken
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.add_ons.loras import check_loras, has_tags, known_loras, lora_folders, take_tags
from halftone.library.add_ons.unread_inversions import check_named, unread_notes
from halftone.library.families.known_families import reads_in_chunks
from halftone.library.files.copies import check_copy
from halftone.library.layouts import check_layout
from halftone.library.options import check_options
from halftone.library.prompts.prompt_syntax import family_notes, rules_of
from halftone.library.prompts.styles import styled
from halftone.library.prompts.tokens import cut_prompt, reading_length
from halftone.library.prompts.wildcards import is_drawn, unfollowed
from halftone.library.sampler_options import finds_steps
from halftone.library.samplers import check_sampler
from halftone.library.tasks import check_given, needs_mask, needs_picture
from halftone.library.videos import reads_prompt, refuse_still
from halftone.metadata.picture import check_output, check_picture, output_error, refuse_type
from halftone.settings.disk import no_folder
from halftone.settings.places import pictures_dir
from halftone.settings.store import Settings

ExportTo = Literal["comfyui", "a1111", "forge", "diffusers"]
EXPORT_HELP: Final = (
    "Also say what to set in another program: comfyui, a1111 or forge (A1111, Forge, reForge), or diffusers. Checks in FP16 by "
    "default."
)
PAGES: Final = (".html", ".htm")
_LAST_WORDS: Final = 5
_USUAL_BATCH: Final = 1
_FLAGS: Final = {one.field: one.flags[0] for one in PARAMETERS} | {
    "prompt": "A prompt",
    "options": "--option",
    "loras": "--lora",
    "inversions": "--embedding",
    "controls": "--control",
    "ip_adapters": "--ip-adapter",
    "draws": "--draw",
    "seed_size": "--seed-resize-from",
}
"""Flags of fields, where the two have not the same name."""
_DEVICE: Final = re.compile(r"auto|cpu|mps|(cuda|xpu)(:\d{1,2})?")

log = logging.getLogger(__name__)


def known_model(model: str | None, saved: Settings) -> ModelFacts:
    """The model's facts, if it can make pictures; None: the one selected in the window, or pocket when that is gone. model: its
    path, or its name where one model alone in the folders of the settings has it.
    """
    from halftone.session.models.model_list import named_model, usable

    if model is None and saved.last_model != POCKET:
        try:
            return usable(saved.last_model)
        except HalftoneError as error:
            log.info("the model of the window is left aside: %s", error)
    try:
        return usable(model or POCKET)
    except HalftoneError as error:
        plain = model is not None and error.code == "model-missing" and model == file_name(model)
        named = named_model(model, saved.model_folders) if model and plain else None
        if named is None:
            raise
        return usable(named)


def with_host(model: str | None, asked: Mapping[str, Any], saved: Settings) -> tuple[str | None, dict[str, Any]]:
    """(the model, what was asked for), where the model is a file of a transformer alone: it runs with the other parts of the
    first known model that it fits. Anything else is as it was.
    """
    if model is None or asked.get("transformer") is not None or not os.path.isfile(os.path.expanduser(model)):
        return model, dict(asked)
    from halftone.session.models.model_list import models_in, opened

    _, hosted = opened(model, lambda: models_in(saved.model_folders).models.values())  # noqa: PLW0108 - only where it is needed
    return (model, dict(asked)) if hosted is None else (hosted.host.id, {**asked, "transformer": hosted.part})


def host_note(asked: Mapping[str, Any], given: str | None, facts: ModelFacts) -> tuple[str, ...]:
    """The note for a transformer file named as the model. given: the transformer that runs."""
    if given is None or given == asked.get("transformer"):
        return ()
    return (f"{Path(given).name} runs with the other parts of {facts.name}.",)


def known_device(device: str | None, saved: Settings) -> str:
    """A device's name, if there may be such a device here; only torch knows whether there is."""
    name = (device or saved.device).lower()
    if not _DEVICE.fullmatch(name) or name.partition(":")[0] not in ("auto", *possible_kinds()):
        raise HalftoneError("device-unknown", device=device or saved.device, known=names_here())
    return name


def new_request(
    asked: Mapping[str, Any], model: str | None, device: str | None, saved: Settings, imported: Collection[str] = ()
) -> PictureRequest:
    """The request for a picture that is to be made. asked: field -> value. imported: as of `with_named_parts`. Raises
    HalftoneError usage without a prompt.
    """
    command = command_line("generate")
    if asked["prompt"] is None and model is None:
        raise HalftoneError("usage", problem=Words("{0} needs a prompt", (command,)), hint="", command=command)
    model, asked = with_host(model, asked, saved)
    facts = known_model(model, saved)
    if asked["prompt"] is None and reads_prompt(facts):
        raise HalftoneError("usage", problem=Words("{0} needs a prompt", (command,)), hint="", command=command)
    whole = {**asked, "prompt": asked["prompt"] or ""}
    fields = with_named_parts(whole, facts, saved, draws=asked.get("draws", True), imported=imported)
    fields["empty_negative"] = fields.get("empty_negative", False) or fields.get("negative") == ""
    return PictureRequest(model=facts.id, device=known_device(device, saved), numerics=saved.numerics, **fields)


def with_named_parts(
    asked: Mapping[str, Any], facts: ModelFacts, saved: Settings, *, draws: bool = False, imported: Collection[str] = ()
) -> dict[str, Any]:
    """Return what was asked for, with the LoRAs and the embeddings that its texts name. draws: those LoRAs that are drawn stay
    in their place. imported: the prompts that a picture says, whose embeddings need not be here. Raises HalftoneError as
    `take_tags` and `check_named`.
    """
    found = _with_named_loras(asked, saved, draws=draws)
    texts = styled(found.get("prompt") or "", found.get("negative") or "", found.get("styles", ()))
    rules, folders = rules_of(found.get("options", {})), inversion_folders(saved)
    named: tuple[str, ...] = found.get("inversions", ())
    if reads_in_chunks(facts.family):
        named = named_in(texts, folders, facts, named, rules)
        found["inversions"] = named
    prompt, negative = ("" if name in imported else found.get(name) or "" for name in ("prompt", "negative"))
    check_named(styled(prompt, negative, found.get("styles", ())), named, found.get("loras", ()), facts, rules, folders)
    return found


def _with_named_loras(asked: Mapping[str, Any], saved: Settings, *, draws: bool) -> dict[str, Any]:
    """The LoRAs are moved out of the prompt, and out of the styles."""
    styles: tuple[Style, ...] = asked.get("styles", ())
    written = (asked.get("prompt") or "", *(style.prompt for style in styles))
    folders = lora_folders(saved)
    found = {**asked, "lora_folders": folders} if draws and any(map(is_drawn, written)) else dict(asked)
    if not any(map(has_tags, written)):
        return found
    known = known_loras(folders)
    (prompt, *behind), named = zip(*(take_tags(text, known, folders, draws=draws) for text in written), strict=True)
    loras = (*asked.get("loras", ()), *(lora for several in named for lora in several))
    found |= {"prompt": prompt, "loras": loras}
    if styles:
        found["styles"] = tuple(replace(style, prompt=text) for style, text in zip(styles, behind, strict=True))
    return found


def kept_request(
    latents: str, asked: Mapping[str, Any], model: str | None, device: str | None, saved: Settings
) -> PictureRequest:
    """The request of a picture whose latents were kept: what was asked for then stands in their file, and is not asked again.

    asked: field -> value; nothing but defaults may stand in it. Raises HalftoneError setting-bad-value, latents-*, model-*.
    """
    for name, value in asked.items():
        if value not in (None, _USUAL_BATCH):
            flag = _FLAGS.get(name) or "--" + name.replace("_", "-")
            allowed = Words("only --latents: its file holds what was asked for")
            raise HalftoneError("setting-bad-value", name=flag, value=Words("given together with --latents"), allowed=allowed)
    path = Path(latents).expanduser().absolute()
    kept = read_kept(path)
    check_named_files(kept, path, saved, model)
    facts = known_model(model or kept.request.model, saved)
    check_same_model(kept, facts, latents)
    if kept.asked is not None:
        there = known_device(device or kept.asked.device, saved)
        return replace(kept.asked, model=facts.id, device=there, output=None, overwrite=False, resume_latents=str(path))
    then = kept.request  # its options stay in the file: some belong to an input picture, which decoding may do without
    laid = then.masked  # over the start picture
    return PictureRequest(
        prompt=then.prompt,
        negative=then.negative,
        empty_negative=then.empty_negative,
        model=facts.id,
        device=known_device(device or then.device, saved),
        width=then.width,
        height=then.height,
        steps=then.steps,
        guidance=then.guidance,
        sampler=then.sampler or None,
        seed=then.seed,
        resume_latents=str(path),
        hires=then.hires,
        refiner=then.refiner,
        numerics=then.numerics,
        image=then.image if laid else None,
        mask=then.mask if laid else None,
        start=then.start if laid else Start(),
    )


def ready_request(request: PictureRequest, facts: ModelFacts, saved: Settings) -> PictureRequest:
    """Return the request with the place of its pictures, if all that can be checked without torch is right."""
    if request.output is None and saved.pictures_folder:
        if not os.path.isdir(saved.pictures_folder):
            raise no_folder(Path(saved.pictures_folder))
        request = replace(request, output=saved.pictures_folder)
    check_request(request, facts)
    refuse_still(request, facts)
    _check_given(request, facts)
    if request.sampler is not None:
        check_sampler(facts, request.sampler, image=request.image is not None)
    if request.output is None:
        try:
            check_output(pictures_dir())
        except OSError as error:
            raise output_error(error, Path(str(error.filename)), 0) from error
        return request
    return replace(request, output=str(Path(request.output).expanduser().absolute()))


def report_place(given: str, *, overwrite: bool) -> Path:
    """Return where to write the report of a check, if it can be written now. Raises HalftoneError output-*."""
    path = check_output(given, overwrite=overwrite, endings=PAGES)
    if os.path.isdir(path):
        refuse_type(path, PAGES)
    return path


def program_of(name: ExportTo) -> OtherProgram:
    """Return the program that a user names: A1111 and Forge share their settings."""
    return "a1111" if name == "forge" else name


def export_place(facts: ModelFacts, program: OtherProgram | None, output: str) -> Path:
    """Return where to write the repaired file for a program. Raises HalftoneError setting-bad-value, repair-several-files,
    no-one-file, as `check_copy`.
    """
    if program is None:
        raise HalftoneError("setting-bad-value", name="--output", value=Words("given alone"), allowed=Words("with --export"))
    if facts.parts:
        raise HalftoneError("repair-several-files", model=facts.name)
    check_layout(facts, LAYOUTS[program])
    return check_copy(facts, output, LAYOUTS[program])


def prompt_notes(request: PictureRequest, facts: ModelFacts, saved: Settings) -> tuple[str, ...]:
    """Say which prompts are cut, which signs in them are not followed, and which numbers have no effect."""
    texts, rules = styled(request.prompt, request.negative, request.styles), rules_of(request.options)
    cuts = [(name, cut_prompt(facts, text, rules)) for name, text in zip(("prompt", "negative prompt"), texts, strict=True)]
    cut_notes = tuple(_cut_note(name, facts, *cut) for name, cut in cuts if cut is not None)
    signs = [
        *family_notes(texts, facts.family, rules),
        *(unfollowed(texts) if request.draws else ()),
        *unread_notes(texts, request.inversions, request.loras, inversion_folders(saved), facts, rules),
    ]
    return (*cut_notes, *map(str, signs), *_unnamed(request), *_uncounted(request))


def _uncounted(request: PictureRequest) -> tuple[str, ...]:
    """Note a number of steps that the sampler does not use."""
    name = finds_steps(request.sampler)
    asked = request.steps is not None or (request.hires is not None and request.hires.steps is not None)
    return (f"The number of steps has no effect: {name} finds its steps while it runs.",) if name and asked else ()


def _unnamed(request: PictureRequest) -> tuple[str, ...]:
    """Note each embedding on the command line that the prompt does not use."""
    rules = rules_of(request.options)
    written = spoken(styled(request.prompt, request.negative, request.styles), rules)
    left = [name for name in map(inversion_name, request.inversions) if not names_any(written, (name,), rules)]
    return tuple(f"The embedding {name} does nothing: write its name in the prompt or in the negative one." for name in left)


def _cut_note(name: str, facts: ModelFacts, tokens: int, read: str) -> str:
    end = " ".join(read.split()[-_LAST_WORDS:])
    return (
        f"The {name} has {number(tokens)} parts of words, and {facts.name} reads only the first {reading_length(facts)}: "
        f"it ends at “… {end}”. Shorten it if the rest matters."
    )


def ready_loras(loras: tuple[Lora, ...], facts: ModelFacts) -> tuple[Lora, ...]:
    """Return the LoRAs, if all that can be checked without torch is right."""
    check_loras(loras)
    check_lora_fit(loras, facts)
    return loras


def ready_inputs(inputs: CheckInputs, facts: ModelFacts) -> CheckInputs:
    """Return the inputs of a check, if all that can be checked without torch is right. Missing ones are synthetic."""
    check_inputs(inputs, facts)
    _check_given(inputs, facts)
    return inputs


def _check_given(given: PictureRequest | CheckInputs, facts: ModelFacts) -> None:
    check_extras_fit(given.extras, facts)
    image, mask = given.image is not None, given.masked
    made = isinstance(given, CheckInputs)
    check_given(
        facts,
        image=image or (made and needs_picture(facts.pipeline)),
        mask=mask or (made and needs_mask(facts.pipeline)),
        strength=given.start.strength is not None,
    )
    check_options(facts, given.options, image=image, mask=mask, num_frames=given.num_frames is not None)
    shown = (image for one in given.ip_adapters for image in one.images)
    for path in (given.image, given.mask, *(control.image for control in given.controls), *shown):
        if path:
            check_picture(Path(path))
