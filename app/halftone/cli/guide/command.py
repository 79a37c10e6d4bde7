"""The command that prints the guide: Markdown as plain lines, code and tables as they are meant to be read."""

import sys
from typing import Annotated, Final

import typer

from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.contract.echoes import echo
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import either
from halftone.settings import guide as chapters

_MOST: Final = 60
"""Letters of an unknown topic in the sentence about it."""


def guide(
    topic: Annotated[str | None, typer.Argument(help="The chapter. Default: list the chapters.", show_default=False)] = None,
) -> None:
    """Read the guide: how to make pictures, cure models, train, and what to do about trouble."""
    if topic is None:
        _list()
    elif (name := topic.strip().casefold()) in chapters.TOPICS:
        _show(chapters.chapter(name))
    else:
        raise _unknown(topic)


def _list() -> None:
    names = max(map(len, chapters.TOPICS))
    for one in chapters.chapters():
        say(f"{one.topic:<{names}}  {one.title}")
    say(f"\nRead one:  {command_line('guide', chapters.TOPICS[0])}")


def _unknown(topic: str) -> HalftoneError:
    near = chapters.closest(topic)
    hint = f"Did you mean {either(*near)}? " if near else f"The topics are {', '.join(chapters.TOPICS)}. "
    problem = f"The guide has no topic “{echo(topic, _MOST)}”"
    return HalftoneError("usage", problem=problem, hint=hint, command=command_line("guide"))


def _show(chapter: chapters.Chapter) -> None:
    from rich.console import Console

    from halftone.cli.guide.markdown import pages

    sys.stdout.write("\n".join(pages(chapter.markdown, Console(highlight=False))))
