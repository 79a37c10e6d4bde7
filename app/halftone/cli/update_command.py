"""The command that installs a newer version of a package. The work is the launcher's, which can do it without an environment."""

import sys
from typing import Annotated

import typer

from halftone.cli.options import flags
from halftone.settings.places import resources
from halftone.settings.store import load


def update(
    check: Annotated[bool, typer.Option("--check", help="Only say what would change.")] = False,
    place: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="A folder, a file or an HTTPS address.", show_default="that of Settings"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Install without asking.")] = False,
    json: flags.Json = False,
    progress: Annotated[bool, typer.Option("--progress", hidden=True)] = False,
    agreed: Annotated[str, typer.Option("--agreed", hidden=True)] = "",
) -> None:
    """Install a newer version of this package, if its signature is right.

    Halftone looks for updates only when you ask it to. The new version starts next time, and the current one is kept. With --json
    nothing is asked: it is installed with --yes only. Exit code: 0 done, 1 refused.
    """
    named = {"--check": check, "--yes": yes, "--json": json, "--progress": progress}
    words = [f"--from={load().update_source if place is None else place}", f"--agreed={agreed}"]
    words += [name for name, on in named.items() if on]
    root = str(resources().parent)
    if root not in sys.path:
        sys.path.append(root)
    from installer.updates.command import main

    raise typer.Exit(main(words))
