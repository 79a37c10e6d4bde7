"""The command that fetches small files: it shows what it would fetch from where, and asks."""

import sys
from typing import Annotated

import typer

from halftone.cli.options import flags
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.transfers import as_lines, as_words, silent
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.settings.disk import size_text


def fetch(
    model: Annotated[str, typer.Argument(help="The model's file.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Fetch without asking.")] = False,
    json: flags.Json = False,
    progress: Annotated[bool, typer.Option("--progress", hidden=True)] = False,
) -> None:
    """Fetch the small files that a model in one file lacks, as a tokenizer's words.

    Nothing else is ever fetched, no weights and no code. HF_ENDPOINT names another server than huggingface.co; a token is
    sent only where you set HF_TOKEN.
    With --json nothing is asked: it is fetched with --yes only.
    """
    from halftone.session.models.small_files import fetch_lacked, lacked_by, source

    files = lacked_by(model)
    if json:
        from halftone.cli.reports.json_objects import SCHEMA, put

        told = as_lines if progress else silent
        got = [str(place) for place in fetch_lacked(model, told)] if yes else []
        put({"schema": SCHEMA, "missing": [str(file.place) for file in lacked_by(model)], "fetched": got})
        return
    if not files:
        say("There is nothing to fetch.")
        return
    for file in files:
        say(f"{source(file)}  {file.path}  {size_text(file.size)}  →  {file.place}")
    if not yes and not _agreed():
        say("Nothing was fetched.")
        return
    for place in fetch_lacked(model, as_words if sys.stderr.isatty() else silent):
        say(f"{place} is here now.")


def _agreed() -> bool:
    """The answer to the question. Raises HalftoneError usage where nobody can give one."""
    say("Fetch this? [y/N]: ", end="")
    answer = sys.stdin.readline()
    if not answer:
        say()
        hint = Words("Add --yes to fetch without asking. ")
        raise HalftoneError(
            "usage", problem=Words("Nothing was fetched, because nobody answered"), hint=hint, command=command_line("fetch")
        )
    return answer.strip().lower() in ("y", "yes")
