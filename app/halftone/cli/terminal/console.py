"""Rich's console for words that may hold names and metadata from outside."""

from typing import Any

from rich.console import Console
from rich.text import Text

from halftone.contract.echoes import harmless


class HarmlessConsole(Console):
    """A rich console whose words, but not its own colours, are made harmless."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(_harmless, objects), **options)


def _harmless(shown: Any) -> Any:
    if isinstance(shown, str):
        return harmless(shown)
    if isinstance(shown, Text) and (plain := harmless(shown.plain)) != shown.plain:
        shown = shown.copy()
        shown.plain = plain
    return shown
