"""The commands that show and change the folders in which files are looked for: the same settings as the window's."""

import os
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import typer
from msgspec.structs import replace

from halftone.cli.options import flags
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.help import Command, Group
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.settings.disk import no_folder
from halftone.settings.store import Settings, load, save

Kind = Literal["models", "loras", "embeddings", "upscalers", "wildcards", "gallery"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_TITLES: Final[dict[Kind, str]] = {
    "models": "Models",
    "loras": "LoRAs",
    "embeddings": "Embeddings",
    "upscalers": "Upscale models",
    "wildcards": "Wildcards",
    "gallery": "Gallery",
}
_HELP: Final = "Show, add and remove the folders in which models and other files are looked for."
Paths = Annotated[list[str], typer.Argument(metavar="FOLDER...", show_default=False)]


def folders() -> typer.Typer:
    group = typer.Typer(cls=Group, help=_HELP, rich_markup_mode=None, epilog=f"Example:  {command_line('folders')}")
    group.callback(invoke_without_command=True)(_list)
    for name, command in (("add", add), ("remove", remove)):
        group.command(name, cls=Command, epilog=f"Example:  {command_line('folders', name, 'my-models')}")(command)
    return group


def field_of(kind: Kind) -> str:
    """The field of the settings that holds the folders of a kind."""
    return f"{kind.removesuffix('s')}_folders"


def _place(path: str) -> str:
    """As the window writes it."""
    return os.path.abspath(os.path.expanduser(path))


def _list(context: typer.Context, json: flags.Json = False) -> None:
    """Show, add and remove the folders in which models and other files are looked for.

    Without a command, list them. They are those of Settings, Folders in the window.
    """
    if context.invoked_subcommand is None:
        _show(load(), as_json=json)


def add(
    paths: Paths,
    kind: Annotated[Kind, typer.Option("--kind", help="What is looked for in them.")] = "models",
    json: flags.Json = False,
) -> None:
    """Look for files in more folders. Nothing in them is moved or changed.

    In a folder of models, Halftone also finds LoRAs, embeddings and upscale models.
    """
    wanted = tuple(dict.fromkeys(map(_place, paths)))
    for path in wanted:
        if not os.path.isdir(path):
            raise no_folder(Path(path))
    saved, field = load(), field_of(kind)
    known: tuple[str, ...] = getattr(saved, field)
    new = tuple(path for path in wanted if path not in map(_place, known))
    _save(replace(saved, **{field: (*known, *new)}), saved, as_json=json)
    if not json:
        for path in wanted:
            say(f"{'Added' if path in new else 'It was there already'}: {path}")
        if new and kind == "models":
            say(f"See what is in it:  {command_line('models')}", err=True)


def remove(
    paths: Paths,
    kind: Annotated[Kind | None, typer.Option("--kind", help="As this kind alone. Default: all kinds.")] = None,
    json: flags.Json = False,
) -> None:
    """No longer look for files in folders. The folders and their files stay."""
    saved = load()
    kinds = KINDS if kind is None else (kind,)
    held = {one: tuple(map(_place, getattr(saved, field_of(one)))) for one in kinds}
    wanted = {path: [one for one in kinds if path in held[one]] for path in map(_place, paths)}
    for path, there in wanted.items():
        if not there:
            hint = f"Those are listed by:  {command_line('folders')}  "
            problem = Words("{0} is not among your folders", (path,))
            raise HalftoneError("usage", problem=problem, hint=hint, command=command_line("folders", "remove"))
    left = {field_of(one): tuple(path for path in getattr(saved, field_of(one)) if _place(path) not in wanted) for one in kinds}
    _save(replace(saved, **left), saved, as_json=json)
    if not json:
        for path, there in wanted.items():
            say(f"Removed: {path} ({', '.join(there)})")


def _save(settings: Settings, before: Settings, *, as_json: bool) -> None:
    """Write what changed; a window that is open may have written the rest."""
    if settings != before:
        save(settings, since=before)
    if as_json:
        _show(settings, as_json=True)


def _show(settings: Settings, *, as_json: bool) -> None:
    found: dict[Kind, tuple[str, ...]] = {kind: getattr(settings, field_of(kind)) for kind in KINDS}
    if as_json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        put({"schema": SCHEMA, "folders": found})
        return
    for kind, paths in found.items():
        if paths:
            say(f"{_TITLES[kind]} (--kind {kind})")
        for path in paths:
            say(f"  {path}{'' if os.path.exists(path) else ', which is not there now'}")
    if not any(found.values()):
        say("No folder is set.", err=True)
    say(f"To add one:  {command_line('folders', 'add', 'FOLDER')}", err=True)
