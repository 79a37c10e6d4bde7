"""The command that rewrites a pickle file as safetensors."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from halftone.cli.options import flags
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.transfers import as_lines, as_words, silent


def convert(
    file: Annotated[str, typer.Argument(help="A .ckpt, .pt, .pth or .bin file.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Default: the file's folder.", show_default=False)
    ] = None,
    json: flags.Json = False,
    progress: Annotated[bool, typer.Option("--progress", hidden=True)] = False,
) -> None:
    """Write the weights of a pickle file into a new .safetensors file.

    A process without rights reads it, as far as the system allows: no other files, no network, no processes. Nothing in the
    file is run: one that asks to run code is refused. The original stays as it is.
    """
    from halftone.cli.jobs.engine_and_log import kept_log, kept_stdout
    from halftone.contract.errors import HalftoneError
    from halftone.session.models.conversion import Converted, convert, left_words

    if not json:
        with kept_log(), kept_stdout():
            made = convert(file, output, as_words if sys.stderr.isatty() else silent)
        say(f"{made.path} is written: {made.tensors} {'tensor' if made.tensors == 1 else 'tensors'}.")
        if (left := left_words(made.left)) is not None:
            say(str(left), err=True)
        if made.open:
            say(f"This system could not confine the conversion fully. Left open: {', '.join(made.open)}.", err=True)
        if not made.known:
            say("Halftone does not recognise what it holds, and cannot use it.", err=True)
        return
    import msgspec

    with kept_log(), kept_stdout():
        try:
            made = convert(file, output, as_lines if progress else silent)
        except HalftoneError as error:
            made = Converted(error=error.as_facts())
    sys.stdout.buffer.write(msgspec.json.encode(made) + b"\n")
    if made.error is not None:
        raise typer.Exit(1)
