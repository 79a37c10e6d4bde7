"""The command that lists the models of the user's folders."""

from typing import TYPE_CHECKING, Any, Final

from halftone.cli.options import flags
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.contract.echoes import echo
from halftone.contract.errors import sentence
from halftone.contract.facts import ModelFacts
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.library.add_ons.denoisers import host_of
from halftone.library.add_ons.unusable_files import UNETS, home
from halftone.settings.disk import size_text
from halftone.settings.store import load

if TYPE_CHECKING:
    from halftone.session.state import Found

_TYPES: Final[dict[str, str]] = {**DTYPE_NAMES}


def models(json: flags.Json = False) -> None:
    """List the models of your folders, and the transformers of one file that run with the other parts of one.

    The folders are those of the window's settings, and of the command folders. Any of these can be given to --model.
    """
    from halftone.session.models.model_list import models_in

    found = models_in(load().model_folders)
    if json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        put({"schema": SCHEMA, "models": [_object(facts, found) for facts in found.listed]})
        return
    for facts in found.listed:
        say(f"{facts.id}\n  {_line(facts, found)}")
    for folder in found.closed:
        say(f"{echo(folder)} cannot be read and was left out. Allow reading it, or remove it.", err=True)
    say(f"To add a folder:  {command_line('folders', 'add', 'FOLDER')}  or Settings, Folders in the window.", err=True)


def _line(facts: ModelFacts, found: "Found") -> str:
    stored = _TYPES.get(facts.stored_dtype, facts.stored_dtype)
    kind = facts.base or facts.family
    if facts.id in found.parts:
        kind = f"{'UNet' if facts.family in UNETS else 'Transformer'} of {kind}"
    return f"{kind}, {stored}, {size_text(facts.size_bytes)}{_more(facts, found)}"


def _more(facts: ModelFacts, found: "Found") -> str:
    if facts.id in found.models:
        return ""
    if facts.id in found.waiting:
        return f"\n  {sentence(found.errors[facts.id])}"
    if (host := _host(facts, found)) is not None:
        return f"\n  Runs with the other parts of {host.name}."
    return f"\n  Runs with the other parts of a diffusers folder of {home(facts)}, once you have that."


def _host(facts: ModelFacts, found: "Found") -> ModelFacts | None:
    """The first of the models whose other parts a transformer's file runs with."""
    return host_of(facts.path, tuple(found.models.values())) if facts.id in found.parts else None


def _object(facts: ModelFacts, found: "Found") -> dict[str, Any]:
    kept = ("path", "name", "family", "base", "format", "stored_dtype", "size_bytes")
    state = "ready" if facts.id in found.models else "needs-files" if facts.id in found.waiting else "needs-parts"
    host = _host(facts, found)
    return {name: getattr(facts, name) for name in kept} | {"state": state, "runs_with": host and host.path}
