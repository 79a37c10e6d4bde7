"""The command that rewrites a pickle file as safetensors."""

import sys
from typing import Annotated

import typer

from halftone.cli.options import flags
from halftone.cli.terminal.control_characters import say


def convert(
    file: Annotated[str, typer.Argument(help="A .ckpt, .pt, .pth or .bin file.", show_default=False)], json: flags.Json = False
) -> None:
    """Write the weights of a pickle file into a .safetensors file beside it.

    Nothing in the file is run: a file that needs code to open is refused. The original stays as it is.
    """
    from halftone.cli.jobs.engine_and_log import kept_log, kept_stdout
    from halftone.contract.errors import HalftoneError
    from halftone.session.models.conversion import Converted, convert

    if not json:
        with kept_log(), kept_stdout():
            made = convert(file)
        say(f"{made.path} is written: {made.tensors} tensors.")
        if not made.known:
            say("Halftone does not recognise what it holds, and cannot use it.", err=True)
        return
    import msgspec

    with kept_log(), kept_stdout():
        try:
            made = convert(file)
        except HalftoneError as error:
            made = Converted(error=error.as_facts())
    sys.stdout.buffer.write(msgspec.json.encode(made) + b"\n")
    if made.error is not None:
        raise typer.Exit(1)
