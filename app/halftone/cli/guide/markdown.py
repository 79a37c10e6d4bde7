"""Markdown of the guide in a terminal: headings at the left, code in whole lines that can be copied, no pictures."""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.text import Text

from halftone.cli.terminal.command_lines import command_line
from halftone.settings.guide import linked_topic

_WIDTH: Final = 100
"""Columns at most: longer lines are hard to read."""
_PICTURE: Final = re.compile(r"^!\[[^\]]*\]\([^)\s]+\)\n+", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_FENCED: Final = re.compile(r"^```\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)


def pages(markdown: str, console: Console) -> Iterator[str]:
    """The text in pieces that end with a line; an empty line belongs between them."""
    for at, piece in enumerate(_FENCED.split(_for_terminal(markdown))):  # words, code, words …
        if at % 2:
            lines = re.sub(r"^halftone(?= )", command_line(), piece, flags=re.MULTILINE).splitlines()
            yield "".join(f"    {line}".rstrip() + "\n" for line in lines)
        elif piece.strip():
            with console.capture() as shown:
                console.print(_GuideText(piece), width=min(console.width, _WIDTH))
            yield _tidied(shown.get()).strip("\n") + "\n"


def _tidied(text: str) -> str:
    """No spaces at the ends of lines, and one empty line where there are several."""
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE))


def _for_terminal(markdown: str) -> str:
    """Leave pictures out; let a link to a chapter name the command that shows it, and another one its address."""

    def link_words(link: re.Match[str]) -> str:
        topic = linked_topic(link[2])
        return f"{link[1]} ({link[2]})" if topic is None else f"{link[1]} (`{command_line('guide', topic)}`)"

    return _LINK.sub(link_words, _PICTURE.sub("", markdown))


class _LeftHeading(Heading):
    """Bold at the left; the title has a line below it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text
        text.justify = "left"
        text.stylize("bold")
        yield text
        if self.tag == "h1":
            yield Text("─" * min(text.cell_len, options.max_width), style="dim")


class _GuideText(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _LeftHeading}
