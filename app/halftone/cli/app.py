"""The commands. Each one proves its input, imports what works, runs one job, and prints an object or a few lines."""

from pathlib import Path
from typing import Annotated

import typer

from halftone import __version__
from halftone.cli.check_command import check, depth_of
from halftone.cli.farm.group import farm
from halftone.cli.generate.command import generate
from halftone.cli.generate.upscale_command import upscale
from halftone.cli.guide.command import guide
from halftone.cli.jobs.engine_and_log import JOB, Tools, kept_log, kept_stdout
from halftone.cli.models.convert_command import convert
from halftone.cli.models.fetch_command import fetch
from halftone.cli.models.folders_command import folders
from halftone.cli.models.index_command import index
from halftone.cli.models.list_command import models
from halftone.cli.options import flags
from halftone.cli.options.requests import (
    known_device,
    known_model,
    ready_loras,
)
from halftone.cli.serve_command import serve
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.help import Command, Group
from halftone.cli.train.group import training
from halftone.cli.update_command import update
from halftone.contract.facts import RepairReport
from halftone.contract.messages import Repair
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
    app.add_typer(folders(), name="folders")
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
        depth=depth_of(thorough=thorough),
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
