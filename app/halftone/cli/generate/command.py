"""The command `generate`."""

from typing import Annotated, Any, NamedTuple

import typer
from msgspec.structs import replace

from halftone.cli.generate import pass_options
from halftone.cli.generate.grid_command import grid_of, make_grid
from halftone.cli.generate.preset_option import from_preset
from halftone.cli.generate.prompt_options import asked_words, option
from halftone.cli.generate.settings_from_picture import from_picture, missing_embeddings, precision_note
from halftone.cli.jobs.engine_and_log import JOB, Tools
from halftone.cli.options import flags
from halftone.cli.options.requests import host_note, kept_request, known_model, new_request, prompt_notes, ready_request
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import Generate
from halftone.contract.parameters import OPTION_PARAMETERS
from halftone.contract.request import PictureRequest, Start
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.session.pictures.grid import Grid
from halftone.settings.store import Settings, load

_PLACE = "A .png, .jpg, .webp or .jxl file (for video .mp4 or .webp), or a folder. Default: your pictures folder."
_LATENTS = "Finish a saved picture with its own settings: decode its latents, or resume after its last good step."
_PRESET = "Use the settings of a preset saved in Create. Other options override them."
_FROM = (
    "Import the settings of a picture, or of a .txt or .json file, from Halftone, A1111, Forge, SD.Next, ComfyUI, InvokeAI, "
    "SwarmUI, Fooocus, RuinedFooocus, NovelAI, Easy Diffusion, Draw Things, sd-scripts or Civitai. Other options override them."
)

Prompt = Annotated[str | None, typer.Argument(help="The prompt. Required without --latents and --from.", show_default=False)]
Output = Annotated[str | None, typer.Option("--output", "-o", help=_PLACE, show_default=False)]
Video = Annotated[str | None, typer.Option("--video", metavar="KIND", help="For video models: mp4 or webp.", show_default=False)]
Fps = Annotated[int | None, option("fps")]
Latents = Annotated[str | None, typer.Option("--latents", metavar="FILE", help=_LATENTS, show_default=False)]
From = Annotated[str | None, typer.Option("--from", metavar="FILE", help=_FROM, show_default=False)]
Preset = Annotated[str | None, typer.Option("--preset", metavar="NAME", help=_PRESET, show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite an existing output file.")]
Batch = Annotated[int | None, option("batch")]
Sampler = Annotated[
    str | None, typer.Option("--sampler", help='A name from A1111 or ComfyUI, such as "DPM++ 2M Karras" or euler_ancestral.')
]


Axes = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="NAME=VALUES",
        help='An axis of a grid, up to three: guidance=5,7,9, "steps=10-30 (+10)", "seed=1-9 [3]".',
        show_default=False,
    ),
]


class Sources(NamedTuple):
    """Where settings come from beside the options: a file of kept latents, a picture or a preset. At most one is given."""

    latents: str | None
    picture: str | None
    preset: str | None


class Then(NamedTuple):
    """The picture whose settings are imported, and its precision where no other is set."""

    picture: str | None
    dtype: DType | None


def generate(
    context: typer.Context,
    prompt: Prompt = None,
    model: flags.ModelOption = None,
    output: Output = None,
    video: Video = None,
    fps: Fps = None,
    latents: Latents = None,
    picture: From = None,
    preset: Preset = None,
    overwrite: Overwrite = False,
    batch: Batch = None,
    sampler: Sampler = None,
    hires: pass_options.Scale = None,
    hires_upscaler: pass_options.Upscaler = None,
    hires_steps: pass_options.Steps = None,
    hires_strength: pass_options.Strength = None,
    refiner: pass_options.RefinerModel = None,
    refiner_at: pass_options.RefinerAt = None,
    refiner_by_steps: pass_options.RefinerBySteps = False,
    grid: Axes = None,
    device: flags.Device = None,
    json: flags.Json = False,
    *,
    inputs: flags.Inputs,
    words: flags.PromptFlags,
    numerics: flags.Flags,
    saving: flags.Flags,
) -> None:
    """Make a picture. Its numbers are watched; a black one is recovered and explained.

    Exit code: 0 fine or recovered, 1 a picture could not be recovered or only its first pass was made, 2 the input was wrong.
    """
    tools: Tools = context.obj
    saved = load()
    start: Start = inputs.get("start", Start())
    if hires is not None and start.strength is not None and inputs.get("image") is None:  # A1111 has one name for both
        hires_strength, inputs["start"] = hires_strength or start.strength, replace(start, strength=None)
    second = pass_options.hires_of(hires, hires_upscaler, hires_steps, hires_strength, saved)
    other = pass_options.refiner_of(refiner, refiner_at, by_steps=refiner_by_steps, saved=saved)
    asked: dict[str, Any] = dict(prompt=prompt, sampler=sampler, hires=second, refiner=other, **inputs)
    if preset is None or batch is not None:
        asked["batch"] = 1 if batch is None else batch
    sources = Sources(latents, picture, preset)
    base, notes, named, made = _base(asked, words, sources, (model, device), _given_inside(context), saved)
    facts = known_model(base.model, saved)
    request = replace(
        base,
        output=output,
        overwrite=overwrite,
        video=flags.video_of(video) or (base.video if output is None else None),
        fps=base.fps if fps is None else fps,
        numerics=flags.numerics_of(numerics, base.numerics),
        saving=flags.saving_of(saving, saved.saving),
    )
    if grid:
        raise typer.Exit(0 if _made_grid(tools, grid_of(grid, request, facts, saved), as_json=json) else 1)
    ready = ready_request(request, facts, saved)
    then = Then(picture, None if "precision" in numerics else made)
    notes = (*notes, *prompt_notes(ready, facts, saved))
    raise typer.Exit(0 if _made(tools, ready, facts, notes, then, named=named, as_json=json) else 1)


def _made_grid(tools: Tools, grid: Grid, *, as_json: bool) -> bool:
    """Make all pictures of a grid and name the sheet; True if all are good."""
    from halftone.cli.jobs.command_jobs import is_good
    from halftone.cli.reports.json_objects import SCHEMA, put
    from halftone.cli.terminal.control_characters import say

    made, sheet = make_grid(tools, grid, as_json=as_json)
    files = [cell.facts.path for cell in made.cells if cell.facts is not None and cell.facts.path]
    if as_json:
        put({"schema": SCHEMA, "sheet": sheet.path, "pictures": files, "failed": made.failed})
    else:
        say(f"Grid of {made.count} pictures: {sheet.path}")
    return all(cell.facts is not None and is_good(cell.facts) for cell in made.cells)


def _given_inside(context: typer.Context) -> frozenset[str]:
    """Name the fields of `Start`, and the options with a flag of their own, that stand in the command line."""
    return frozenset(name for name in (*Start.__struct_fields__, *OPTION_PARAMETERS) if context.params.get(name) is not None)


def _base(
    asked: dict[str, Any],
    words: flags.PromptFlags,
    sources: Sources,
    where: tuple[str | None, str | None],
    meant: frozenset[str],
    saved: Settings,
) -> tuple[PictureRequest, tuple[str, ...], bool, DType | None]:
    """(the request, notes on it, whether it says which model, the precision of the picture whose settings are used).

    where: model and device. meant: fields of the start picture and named options that were given.
    """
    model, device = where
    _refuse_two(sources)
    if sources.latents is not None:
        return kept_request(sources.latents, {**asked, **words}, model, device, saved), (), True, None
    asked, notes, made = {**asked, **asked_words(words, saved)}, (), None
    imported: tuple[str, ...] = ()
    if sources.picture is not None:
        imported = tuple(name for name in ("prompt", "negative") if asked.get(name) is None)
        asked, model, notes, made = from_picture(sources.picture, asked, {*words, "seed", *meant}, model, saved)
    elif sources.preset is not None:
        asked, model, notes = from_preset(sources.preset, asked, {*words, "seed", *meant}, model, saved)
    base = new_request(asked, model, device, saved, imported)
    facts = known_model(base.model, saved)
    if sources.picture is not None:
        notes = (*notes, *missing_embeddings(sources.picture, base, imported, facts, saved))
    return base, (*notes, *host_note(asked, base.transformer, facts)), model is not None, made


def _refuse_two(sources: Sources) -> None:
    """Raise setting-bad-value where two sources of settings are given."""
    flags_given = [f"--{flag}" for flag, one in zip(("latents", "from", "preset"), sources, strict=True) if one is not None]
    if len(flags_given) > 1:
        raise HalftoneError(
            "setting-bad-value",
            name=flags_given[1],
            value=Words("given together with {0}", (flags_given[0],)),
            allowed=Words("one of the two"),
        )


def _made(
    tools: Tools, ready: PictureRequest, facts: ModelFacts, notes: tuple[str, ...], then: Then, *, named: bool, as_json: bool
) -> bool:
    """Make the pictures of a request and show what came of it; True if all are good. notes: on what it was made of; named:
    the user said which model.
    """
    from halftone.cli.generate.size_notes import memory_note, size_note
    from halftone.cli.jobs import command_jobs
    from halftone.cli.jobs.hardware import most_memory
    from halftone.cli.jobs.in_process import list_devices
    from halftone.cli.reports.json_objects import asked_object, generate_object, put, start_object
    from halftone.session.pictures.request_cost import cost_of

    if not named and not as_json:
        command_jobs.tell_notes((f"Model: {facts.name} (no --model).",))
    command_jobs.tell_notes(notes)
    device = command_jobs.device_of(tools, ready.device)
    precision = command_jobs.choose_precision(tools, device, ready.numerics, facts, ready.extras, as_json=as_json)
    if then.picture is not None:
        command_jobs.tell_notes(precision_note(then.picture, then.dtype, precision.dtype))
    command_jobs.tell_unused_cure(device, facts, precision.dtype, ready.numerics)
    most = most_memory(device)
    cost = cost_of(ready, facts, precision.dtype, device, list_devices(tools), most)
    if cost is not None:
        command_jobs.tell_notes((*memory_note(cost, device, most), *size_note(cost, ready.batch)))
    report = command_jobs.pictures_of(tools, Generate(job=JOB, request=ready), as_json=as_json)
    if as_json:
        put(generate_object(report, precision, notes) | {"asked": asked_object(ready)} | start_object(ready))
    else:
        from halftone.cli.reports.printed_reports import show_pictures

        show_pictures(report, facts.id, precision, extras=ready.extras)
    return bool(report.images) and all(command_jobs.is_good(picture) for picture in report.images)
