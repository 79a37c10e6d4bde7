"""The command that lists the models of the user's folders."""

from typing import Any, Final

from halftone.cli.options import flags
from halftone.cli.terminal.control_characters import say
from halftone.contract.echoes import echo
from halftone.contract.errors import sentence
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.library.add_ons.unusable_files import UNETS, home
from halftone.library.files.listing import Listed, listed
from halftone.library.models import closed_folders
from halftone.settings.disk import size_text
from halftone.settings.places import settings_file
from halftone.settings.store import load

_TYPES: Final[dict[str, str]] = {**DTYPE_NAMES}


def models(json: flags.Json = False) -> None:
    """List the models of your folders, and the transformers of one file that run with the other parts of one.

    The folders are those of the window's settings: add one in Settings, Folders, or to models under [folders] in the file
    settings.toml. Any of these can be given to --model.
    """
    folders = load().model_folders
    found = listed(folders)
    if json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        put({"schema": SCHEMA, "models": [_object(one) for one in found]})
        return
    for one in found:
        say(f"{one.facts.id}\n  {_line(one)}")
    for folder in closed_folders(folders):
        say(f"{echo(folder)} cannot be read and was left out. Allow reading it, or remove it.", err=True)
    say(f"To add a folder: Settings, Folders in the window, or models under [folders] in {settings_file()}.", err=True)


def _line(one: Listed) -> str:
    facts = one.facts
    stored = _TYPES.get(facts.stored_dtype, facts.stored_dtype)
    kind = facts.base or facts.family
    if one.state == "needs-parts":
        kind = f"{'UNet' if facts.family in UNETS else 'Transformer'} of {kind}"
    return f"{kind}, {stored}, {size_text(facts.size_bytes)}{_more(one)}"


def _more(one: Listed) -> str:
    if one.error is None:
        return ""
    if one.state == "needs-files":
        return f"\n  {sentence(one.error.as_facts())}"
    if one.host is not None:
        return f"\n  Runs with the other parts of {one.host.name}."
    return f"\n  Runs with the other parts of a diffusers folder of {home(one.facts)}, once you have that."


def _object(one: Listed) -> dict[str, Any]:
    facts = one.facts
    fields = ("path", "name", "family", "base", "format", "stored_dtype", "size_bytes")
    host = None if one.host is None else one.host.path
    return {name: getattr(facts, name) for name in fields} | {"state": one.state, "runs_with": host}
