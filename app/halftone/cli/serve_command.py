"""The command that lets other programs make pictures with Halftone."""

from typing import Annotated

import typer

from halftone.cli.jobs.engine_and_log import kept_log
from halftone.cli.terminal.control_characters import say
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.settings.places import pictures_dir
from halftone.settings.store import load

_PORT = 7860


def serve(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")] = _PORT,
    new_token: Annotated[bool, typer.Option("--new-token", help="Replace the token.")] = False,
) -> None:
    """Let programs on this machine make pictures, in the way of A1111's web API.

    For scripts and chat front ends such as SillyTavern. Nothing answers without the token.
    """
    from halftone.serve import headless, server

    with kept_log():
        secret = server.new_token() if new_token else server.token()
        settings = load()
        folder = settings.pictures_folder or str(pictures_dir())
        try:
            headless.serve(settings, secret, port, lambda address: _tell(address, secret, folder))
        except OSError as error:
            allowed = Words("a port that is free, or 0 for any")
            raise HalftoneError("setting-bad-value", name="--port", value=str(port), allowed=allowed) from error


def _tell(address: str, secret: str, folder: str) -> None:
    say(f"Serving {address}/sdapi/v1 until Ctrl+C.")
    say(f"Token: {secret}  (bearer token, or password of any user)")
    say(f"Pictures are saved in {folder}.")
