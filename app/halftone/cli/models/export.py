"""What a check says for other programs: their settings, and the repaired file that needs none."""

from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from halftone.cli.jobs.command_jobs import run_with_progress, tell_notes
from halftone.cli.jobs.engine_and_log import JOB, Tools
from halftone.cli.reports.guard_events import repaired_name
from halftone.cli.reports.json_objects import repair_object
from halftone.cli.reports.printed_reports import show_repair
from halftone.cli.terminal.command_lines import command_line, extra_words
from halftone.cli.terminal.console import HarmlessConsole
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, RepairReport
from halftone.contract.messages import Repair
from halftone.contract.vocabulary import OtherProgram
from halftone.health.other_programs import LAYOUTS, PROGRAM_NAMES, Export, export
from halftone.library.layouts import check_layout


def export_for(tools: Tools, report: CheckReport, program: OtherProgram, copy: Path | None, *, as_json: bool) -> dict[str, Any]:
    """Show what to set, and write the repaired file where one is wanted; the same as an object for scripts."""
    found = export(report, program)
    if not as_json:
        show_export(report, found, hint=copy is None)
    content = export_object(found)
    if copy is None:
        return content
    if found.refusal is not None:
        tell_notes([f"No repaired file was written. {found.refusal}"])
        return content
    command = Repair(
        job=JOB,
        model=report.model.id,
        output=str(copy),
        device=report.device.id,
        numerics=report.numerics,
        loras=report.loras,
        layout=LAYOUTS[program],
        depth=report.depth,
    )
    repaired = run_with_progress(tools, command, RepairReport, as_json=as_json)
    if not as_json:
        show_repair(repaired)
    return content | {"repaired": repair_object(repaired)}


def export_object(found: Export) -> dict[str, Any]:
    settings = [msgspec.structs.asdict(one) for one in found.settings]
    return msgspec.structs.asdict(found) | {"settings": settings, "rescale": found.rescale}


def _can_be_laid(report: CheckReport, program: OtherProgram) -> bool:
    """Whether the headers allow the program's layout."""
    try:
        check_layout(report.model, LAYOUTS[program])
    except HalftoneError:
        return False
    return True


def show_export(report: CheckReport, found: Export, *, hint: bool, console: Console | None = None) -> None:
    """hint: also the command that writes the repaired file."""
    out = console or HarmlessConsole(highlight=False)

    def put(*words: str, style: str = "") -> None:
        for line in words:
            out.print(Text(line, style=style), soft_wrap=True)

    put("", f"  In {PROGRAM_NAMES[found.program]}:", style="bold")
    for one in found.settings:
        put(f"    {one.app}, {one.where} ({', '.join(part.text() for part in one.parts)}):", style="dim")
        put(*(f"      {line}" for line in one.value.splitlines()), *([f"      or: {one.instead}"] if one.instead else []))
    put(*(f"    {note}" for note in found.notes), style="dim")
    if hint and found.rescale and _can_be_laid(report, found.program):
        name = report.model.id
        words = ("check", name, *extra_words(report.extras), "--export", found.program, "--output", repaired_name(name))
        put(f"  Or write a repaired file, which needs no setting: {command_line(*words)}")
