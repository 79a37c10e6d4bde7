"""The commands. Each one proves its input, imports what works, runs one job, and prints an object or a few lines."""

from pathlib import Path
from typing import Annotated

import typer

from halftone import __version__
from halftone.cli.farm.group import farm
from halftone.cli.generate.command import generate
from halftone.cli.generate.upscale_command import upscale
from halftone.cli.guide.command import guide
from halftone.cli.jobs.engine_and_log import JOB, Tools, kept_log, kept_stdout
from halftone.cli.models.convert_command import convert
from halftone.cli.models.fetch_command import fetch
from halftone.cli.models.index_command import index
from halftone.cli.models.list_command import models
from halftone.cli.options import flags
from halftone.cli.options.requests import (
    EXPORT_HELP,
    ExportTo,
    export_place,
    host_note,
    known_device,
    known_model,
    program_of,
    ready_inputs,
    ready_loras,
    report_place,
    with_host,
    with_named_parts,
)
from halftone.cli.serve_command import serve
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.help import Command, Group
from halftone.cli.train.group import training
from halftone.cli.update_command import update
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts, RepairReport
from halftone.contract.messages import Examine, Repair
from halftone.contract.request import CheckInputs, Extras
from halftone.contract.vocabulary import Depth
from halftone.contract.wording import Words
from halftone.library.files.copies import check_copy
from halftone.settings.store import load


def application() -> typer.Typer:
    app = typer.Typer(
        cls=Group,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Makes pictures on your own machine, finds half-precision overflow before it turns one black, and cures it.",
        epilog="Start here:  " + command_line("generate", "a red sun over green hills", "--output", "sun.png"),
    )
    app.callback()(_version)
    app.command(cls=Command, epilog=_example("devices", "--again"))(devices)
    app.command(cls=Command, epilog=_example("check", "my-model", "--precision", "float16"))(flags.with_options(check))
    app.command(cls=Command, epilog=_example("generate", "a red sun", "--model", "pocket", "--seed", "7", "--output", "sun.png"))(
        flags.with_options(generate)
    )
    app.command(cls=Command, epilog=_example("repair", "my-model", "--output", "my-model-repaired"))(repair)
    app.command(cls=Command, epilog=_example("upscale", "sun.png", "--with", "4x-model.safetensors"))(upscale)
    app.command(cls=Command, epilog=_example("models"))(models)
    app.command(cls=Command, epilog=_example("index"))(index)
    app.command(cls=Command, epilog=_example("fetch", "flux1-dev-fp8.safetensors"))(fetch)
    app.command(cls=Command, epilog=_example("convert", "old-model.ckpt"))(convert)
    app.add_typer(training(), name="train")
    app.add_typer(_demo(), name="demo")
    app.command(cls=Command, epilog=_example("gui"))(gui)
    app.command(cls=Command, epilog=_example("serve", "--port", "7861"))(serve)
    app.add_typer(farm(), name="farm")
    app.command(cls=Command, epilog=_example("guide", "health"))(guide)
    app.command(cls=Command, epilog=_example("update", "--check"))(update)
    return app


def _example(*words: str) -> str:
    return f"Example:  {command_line(*words)}"


def _demo() -> typer.Typer:
    demo = typer.Typer(cls=Group, help="Create models to try Halftone with.", no_args_is_help=True, rich_markup_mode=None)
    demo.callback()(_demo_group)
    demo.command(cls=Command, epilog=_example("demo", "fragile", "--output", "fragile"))(fragile)
    return demo


def _demo_group() -> None:
    """Create models to try Halftone with."""


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"halftone {__version__}")
        raise typer.Exit


def _version(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Only carries --version."""


def devices(
    context: typer.Context,
    device: flags.Device = None,
    again: Annotated[bool, typer.Option("--again", help="Measure again even if nothing changed.")] = False,
    json: flags.Json = False,
) -> None:
    """Measure what your GPU or processor can really do in FP16, BF16 and FP32.

    The result is kept until the driver or PyTorch changes.
    """
    tools: Tools = context.obj
    saved = load()
    wanted = known_device(device, saved)
    from halftone.cli.jobs.command_jobs import measure_device
    from halftone.cli.jobs.in_process import list_devices
    from halftone.cli.reports.json_objects import devices_object, put

    report = measure_device(tools, wanted, again=again, as_json=json)
    listed = list_devices(tools)
    if json:
        put(devices_object(listed, report))
    else:
        from halftone.cli.reports.printed_reports import show_devices

        show_devices(listed, report, saved.numerics)


def check(
    context: typer.Context,
    model: flags.Model = None,
    device: flags.Device = None,
    prompt: Annotated[str | None, typer.Option("--prompt", help="What the test picture shows.", show_default=False)] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Full pictures, several prompts and sizes: minutes.")] = False,
    layers: Annotated[bool, typer.Option("--layers", help="List every layer's peak, not only the findings.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the suggested cure. No file is changed.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the model's cure. Runs no check.")] = False,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE.html", help="Write an HTML report.", show_default=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite an existing report.")] = False,
    export: Annotated[
        ExportTo | None,
        typer.Option("--export", metavar="PROGRAM", help=EXPORT_HELP, show_default=False),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="With --export: write the repaired file for it.", show_default=False)
    ] = None,
    json: flags.Json = False,
    *,
    inputs: flags.Inputs,
    numerics: flags.Flags,
) -> None:
    """Find the layers of a model that would overflow, and the cheapest cure.

    Exit code: 0 healthy or tight, 1 something was found, 2 the input was wrong.
    """
    tools: Tools = context.obj
    saved = load()
    program = None if export is None else program_of(export)
    named = {name: value for name, value in inputs.items() if value is not None}
    model, inputs = with_host(model, named, saved)
    facts = known_model(model, saved)
    if undo:
        return _undo(tools, facts, known_device(device, saved), CheckInputs(**inputs).extras, both=apply, as_json=json)
    page = None if report is None else report_place(report, overwrite=overwrite)
    copy = None if output is None else export_place(facts, program, output)
    wanted = flags.numerics_of(({"precision": "float16"} if export else {}) | numerics, saved.numerics)
    command = Examine(
        job=JOB,
        model=facts.id,
        device=known_device(device, saved),
        depth=_depth(thorough=thorough),
        numerics=wanted,
        inputs=ready_inputs(CheckInputs(**with_named_parts(dict(prompt=prompt, **inputs), facts, saved)), facts),
    )
    if copy is not None and not command.inputs.extras.can_be_copied:
        given = Words("given with parts that are not the model's own: a copy cannot hold these")
        raise HalftoneError("setting-bad-value", name="--output", value=given, allowed=Words("a check of the model alone"))
    from halftone.cli.jobs.command_jobs import check_model, choose_precision, device_of, tell_notes, write_report
    from halftone.cli.reports.json_objects import check_object, put
    from halftone.health.judge import is_cured

    tell_notes(host_note(named, command.inputs.transformer, facts))
    chosen = device_of(tools, command.device)
    precision = choose_precision(tools, chosen, command.numerics, facts, command.inputs.extras, as_json=json)
    found = check_model(tools, command, as_json=json, apply=apply)
    content = check_object(found, precision, layers=layers)
    if not json:
        from halftone.cli.reports.printed_reports import show_check

        show_check(found, precision, layers=layers)
    if program is not None:
        from halftone.cli.models.export import export_for

        content["export"] = export_for(tools, found, program, copy, as_json=json)
    if json:
        put(content)
    if page is not None:
        write_report(found, page, overwrite=overwrite)
    raise typer.Exit(0 if found.verdict in {"healthy", "tight"} or is_cured(found) else 1)


def _depth(*, thorough: bool) -> Depth:
    return "thorough" if thorough else "quick"


def _undo(tools: Tools, facts: ModelFacts, device: str, extras: Extras, *, both: bool, as_json: bool) -> None:
    """Let a model run without its cure. both: --apply was given, too."""
    if both:
        raise HalftoneError(
            "setting-bad-value", name="--undo", value=Words("given together with --apply"), allowed=Words("one of the two")
        )
    from halftone.cli.jobs.command_jobs import undo_cure
    from halftone.cli.reports.json_objects import SCHEMA, put

    undone = undo_cure(tools, facts, device, extras)
    if as_json:
        put({"schema": SCHEMA, "model": facts.id, "undone": undone})
    elif undone:
        say(f"{facts.name} runs without its cure from now on. What the checks found is kept.")
    else:
        say(f"No cure is in use for {facts.name}.")


def repair(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A .safetensors file, a diffusers folder, or pocket.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The new folder or, for a single file, the new file.")],
    lora: flags.Merged = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Look for overflow in full pictures, as check --thorough.")
    ] = False,
    device: flags.Device = None,
    json: flags.Json = False,
) -> None:
    """Write a rescaled copy of a model that works in FP16, in any program.

    The original stays as it is. Exit code: 0 written, 1 no rescaling exists, 2 the input was wrong.
    """
    tools: Tools = context.obj
    saved = load()
    facts = known_model(model, saved)
    command = Repair(
        job=JOB,
        model=facts.id,
        output=str(check_copy(facts, output)),
        device=known_device(device, saved),
        numerics=saved.numerics,
        loras=ready_loras(flags.loras_of(lora), facts),
        depth=_depth(thorough=thorough),
    )
    from halftone.cli.jobs.command_jobs import run_with_progress
    from halftone.cli.reports.json_objects import put, repair_object

    report = run_with_progress(tools, command, RepairReport, as_json=json)
    if json:
        put(repair_object(report))
    else:
        from halftone.cli.reports.printed_reports import show_repair

        show_repair(report)
    raise typer.Exit(0 if report.float16_finite else 1)


def fragile(
    output: Annotated[str, typer.Option("--output", "-o", help="The new folder.")],
    json: flags.Json = False,
) -> None:
    """Write Pocket's fragile twin: the same pictures in FP32, black ones in FP16. For trying check and repair."""
    from halftone.cli.reports.json_objects import put
    from halftone.session.models.fragile import write_twin

    with kept_log(), kept_stdout():
        path = write_twin(output)
    if json:
        put({"path": str(path)})
    else:
        say(f"Written: {path}\nNow try:  {command_line('check', str(path), '--precision', 'float16')}")


def gui(
    files: Annotated[list[str] | None, typer.Argument(help="Pictures whose settings are used.", show_default=False)] = None,
    new_window: Annotated[bool, typer.Option("--new-window", help="Open another window if there is one.")] = False,
) -> None:
    """Open the window, or bring the open one to the front."""
    from halftone.cli.gui import open_window

    places = tuple(str(Path(file).absolute()) for file in files or ())
    try:
        code = open_window(places, new_window=new_window)
    except ImportError as error:
        from halftone.contract.errors import HalftoneError

        raise HalftoneError(
            "worker-start", detail=Words("the window's libraries are missing ({0})", (str(error),)), log=Words("the terminal")
        ) from error
    raise typer.Exit(code)
