"""The command line: `halftone …`. Says no at once: nothing heavy is imported before the input proved good."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from halftone import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from halftone.contract.engine import Engine


def main(arguments: Sequence[str] | None = None, engine: Callable[[], Engine] | None = None) -> int:
    """Run one command and return its exit code: 0 good, 1 the model or a picture has findings, 2 bad input, 130 cancelled.

    engine: what computes, made when the first job needs it; None: the real one.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None and sys.stderr is not None and not sys.stderr.isatty():
        from halftone.settings.streams import unfailing

        sys.stderr = unfailing(2)  # the disk that it goes to may be full: that ends no job
    if words == ["gui"]:
        from halftone.cli.gui import open_window

        with suppress(ImportError):  # said below, with what else the command line has to say
            return open_window()
    from halftone.cli.terminal.lost_output import printing

    return printing(lambda: _run(words, engine))


def _run(words: Sequence[str], engine: Callable[[], Engine] | None) -> int:
    if words == ["--version"]:
        sys.stdout.write(f"halftone {__version__}\n")
        return 0
    from halftone.cli.entry import run

    return run(words, engine)
