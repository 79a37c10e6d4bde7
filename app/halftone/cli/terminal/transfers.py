"""Says how many bytes of a file are done, on stderr."""

import sys

from halftone.settings.disk import size_text


def silent(_done: int, _whole: int) -> None:
    """Elsewhere than on a terminal nobody looks."""


def as_lines(done: int, whole: int) -> None:
    """For the window: an object a line."""
    sys.stderr.write(f'{{"done": {done}, "total": {whole}}}\n')
    sys.stderr.flush()


def as_words(done: int, whole: int) -> None:
    """One line that is written over; it ends with the file."""
    sys.stderr.write(f"\r{size_text(done)} of {size_text(whole)}  " + ("\n" if done >= whole else ""))
    sys.stderr.flush()
