"""The command that finds the layers of a model that would overflow, and says what to do about them."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from halftone.cli.jobs.engine_and_log import JOB, Tools
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
    report_place,
    with_host,
    with_named_parts,
)
from halftone.cli.reports.chosen_precision import ChosenPrecision
from halftone.cli.terminal.control_characters import say
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, ModelFacts
from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Extras
from halftone.contract.vocabulary import Depth, OtherProgram
from halftone.contract.wording import Words
from halftone.settings.store import load

Prompt = Annotated[str | None, typer.Option("--prompt", help="What the test picture shows.", show_default=False)]
Thorough = Annotated[bool, typer.Option("--thorough", help="Full pictures, several prompts and sizes: minutes.")]
Layers = Annotated[bool, typer.Option("--layers", help="List every layer's peak, not only the findings.")]
Apply = Annotated[bool, typer.Option("--apply", help="Apply the suggested cure. No file is changed.")]
Undo = Annotated[bool, typer.Option("--undo", help="Undo the model's cure. Runs no check.")]
Page = Annotated[str | None, typer.Option("--report", metavar="FILE.html", help="Write an HTML report.", show_default=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite an existing report.")]
Exported = Annotated[ExportTo | None, typer.Option("--export", metavar="PROGRAM", help=EXPORT_HELP, show_default=False)]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="With --export: write the repaired file for it.", show_default=False)
]


class _Shown(NamedTuple):
    """How a check is shown. program: another one that is to be set, too; copy: where its repaired file goes."""

    as_json: bool
    layers: bool
    program: OtherProgram | None
    copy: Path | None


def check(
    context: typer.Context,
    model: flags.Model = None,
    device: flags.Device = None,
    prompt: Prompt = None,
    thorough: Thorough = False,
    layers: Layers = False,
    apply: Apply = False,
    undo: Undo = False,
    report: Page = None,
    overwrite: Overwrite = False,
    export: Exported = None,
    output: Output = None,
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
    named = {name: value for name, value in inputs.items() if value is not None}
    model, inputs = with_host(model, named, saved)
    facts = known_model(model, saved)
    if undo:
        return _undo(tools, facts, known_device(device, saved), CheckInputs(**inputs).extras, both=apply, as_json=json)
    page = None if report is None else report_place(report, overwrite=overwrite)
    program = None if export is None else program_of(export)
    copy = None if output is None else export_place(facts, program, output)
    command = Examine(
        job=JOB,
        model=facts.id,
        device=known_device(device, saved),
        depth=depth_of(thorough=thorough),
        numerics=flags.numerics_of(({"precision": "float16"} if export else {}) | numerics, saved.numerics),
        inputs=ready_inputs(CheckInputs(**with_named_parts(dict(prompt=prompt, **inputs), facts, saved)), facts),
    )
    _check_copy_holds(copy, command.inputs.extras)
    from halftone.cli.jobs.command_jobs import check_model, choose_precision, device_of, tell_notes, write_report
    from halftone.health.judge import is_cured

    tell_notes(host_note(named, command.inputs.transformer, facts))
    chosen = device_of(tools, command.device)
    precision = choose_precision(tools, chosen, command.numerics, facts, command.inputs.extras, as_json=json)
    found = check_model(tools, command, as_json=json, apply=apply)
    _show(tools, found, precision, _Shown(json, layers, program, copy))
    if page is not None:
        write_report(found, page, overwrite=overwrite)
    raise typer.Exit(0 if found.verdict in {"healthy", "tight"} or is_cured(found) else 1)


def depth_of(*, thorough: bool) -> Depth:
    """Return the depth of a check that a flag asks for."""
    return "thorough" if thorough else "quick"


def _check_copy_holds(copy: Path | None, extras: Extras) -> None:
    """Raise HalftoneError setting-bad-value for a repaired file of a check with parts that a copy cannot hold."""
    if copy is not None and not extras.can_be_copied:
        given = Words("given with parts that are not the model's own: a copy cannot hold these")
        raise HalftoneError("setting-bad-value", name="--output", value=given, allowed=Words("a check of the model alone"))


def _show(tools: Tools, found: CheckReport, precision: ChosenPrecision, shown: _Shown) -> None:
    """Print the report, and for another program what to set there; write its repaired file where one is wanted."""
    from halftone.cli.reports.json_objects import check_object, put

    content = check_object(found, precision, layers=shown.layers)
    if not shown.as_json:
        from halftone.cli.reports.printed_reports import show_check

        show_check(found, precision, layers=shown.layers)
    if shown.program is not None:
        from halftone.cli.models.export import export_for

        content["export"] = export_for(tools, found, shown.program, shown.copy, as_json=shown.as_json)
    if shown.as_json:
        put(content)


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
