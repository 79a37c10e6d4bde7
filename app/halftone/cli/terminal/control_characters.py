"""The way of words to the terminal: control characters of names and metadata never reach it."""

import sys

from halftone.contract.echoes import harmless


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Write a text to stdout, or to stderr, without what a terminal would obey."""
    stream = sys.stderr if err else sys.stdout
    stream.write(harmless(text) + end)
    stream.flush()
