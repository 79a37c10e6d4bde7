"""Ends a command well where what it prints cannot be written: the reader has gone, or the disk behind it is full."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Generator
from typing import Final, TextIO, cast

EXIT_LOST: Final = 2
EXIT_CLOSED: Final = 141
"""Shells show this code of a program that SIGPIPE ended."""


class OutputLostError(Exception):
    """Raised where stdout takes no more words. It is no OSError, so nobody takes it for one of the work."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class _Guarded:
    """A text stream that raises OutputLostError where the one behind it raises OSError."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _lost():
            return self._stream.write(text)

    def flush(self) -> None:
        with _lost():
            self._stream.flush()


@contextlib.contextmanager
def _lost() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise OutputLostError(error) from error


def printing(command: Callable[[], int]) -> int:
    """Run a command and return its exit code. Where its words cannot be written, say so on stderr; where the reader of a pipe has
    gone, end quietly.
    """
    _print_anything()
    kept: TextIO | None = sys.stdout
    if kept is None:
        return command()
    guarded = cast("TextIO", _Guarded(kept))
    sys.stdout = guarded
    try:
        code = command()
        sys.stdout.flush()
    except OutputLostError as lost:
        _drop(kept)
        return _told(lost.error)
    finally:
        if sys.stdout is guarded:
            sys.stdout = kept
    return code


def _told(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        return EXIT_CLOSED
    from halftone.cli.terminal.control_characters import say
    from halftone.contract.errors import ErrorFacts
    from halftone.contract.errors import say as said
    from halftone.settings.disk import system_words

    facts = ErrorFacts(code="stdout-failed", facts={"detail": system_words(error)})
    say(said(facts), err=True)
    return EXIT_LOST


def _drop(stream: TextIO) -> None:
    """Send what is left in its buffer nowhere: Python would fail once more at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _print_anything() -> None:
    """Let a sign that the encoding of a terminal, a pipe or a file lacks become a question mark: it ends nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
