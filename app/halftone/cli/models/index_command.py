"""The command that brings the index of the model library up to date; for the window it watches, hashes and searches, too."""

import sys
from typing import Annotated

import typer

from halftone.cli.options import flags
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.settings.store import load


def index(
    folders: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    json: flags.Json = False,
    *,
    watch: Annotated[bool, typer.Option("--watch", hidden=True)] = False,
    hash_: Annotated[bool, typer.Option("--hash", hidden=True)] = False,
    weights: Annotated[bool, typer.Option("--weights", hidden=True)] = False,
    find: Annotated[bool, typer.Option("--find", hidden=True)] = False,
) -> None:
    """Scan your model folders and remember what is in them.

    Only headers are read, and only of files that are new or changed. No file is moved or changed. The window does this by
    itself.
    """
    from halftone.session.models import index_process

    if watch:
        index_process.keep_watching(folders or ())
    elif hash_:
        index_process.hash_now()
    elif weights:
        for path in folders or ():
            index_process.weigh(path)
    elif find:
        sys.stdout.buffer.write(index_process.as_json(index_process.programs_here()))
    else:
        _scan(folders, as_json=json)


def _scan(folders: list[str] | None, *, as_json: bool) -> None:
    from halftone.session.models.index_process import scan_now

    found = scan_now(load(), _as_words if sys.stderr.isatty() and not as_json else _silent, folders or None)
    if as_json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        shown = ("root", "files", "read", "gone", "offline", "closed")
        put({"schema": SCHEMA, "folders": [{name: getattr(one, name) for name in shown} for one in found]})
        return
    for one in found:
        say(f"{one.root}\n  {_summary(one.files, one.read, one.gone, offline=one.offline)}")
        for folder in one.closed:
            say(f"  {folder} cannot be read and was left out.", err=True)
    if not found:
        say(f"No model folder is set. Add one:  {command_line('folders', 'add', 'FOLDER')}", err=True)


def _summary(files: int, read: int, gone: int, *, offline: bool) -> str:
    if offline:
        return f"Not there now. {files} files are remembered."
    return f"{files} {'file' if files == 1 else 'files'}, {read} new or changed, {gone} gone"


def _silent(_root: str, _done: int, _of: int) -> None:
    """Elsewhere than on a terminal nobody looks."""


def _as_words(_root: str, done: int, of: int) -> None:
    """One line that is written over."""
    if of:
        sys.stderr.write(f"\r{done} of {of} files read" + ("\n" if done >= of else ""))
        sys.stderr.flush()
