"""The group of commands around the farm."""

import typer

from halftone.cli.farm import commands
from halftone.cli.farm.status_command import status
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.help import Command, Group


def farm() -> typer.Typer:
    group = typer.Typer(
        cls=Group,
        help="Make many pictures on several cards and machines. Needs Ray: see the guide.",
        no_args_is_help=True,
        rich_markup_mode=None,
        epilog=f"Example:  {command_line('farm', 'submit', 'jobs.jsonl')}",
    )
    group.callback()(_group)
    for name, command, words in (
        ("head", commands.head, ("--until-done",)),
        ("join", commands.join, ("192.0.2.1:6379", "--token-file", "farm.token")),
        ("submit", commands.submit, ("jobs.jsonl",)),
        ("check", commands.check, ("--all", "--output", "reports")),
        ("status", status, ("--jobs",)),
        ("cancel", commands.cancel, ("--all",)),
        ("resume", commands.resume, ("--again",)),
    ):
        group.command(name, cls=Command, epilog=f"Example:  {command_line('farm', name, *words)}")(command)
    return group


def _group() -> None:
    """Make many pictures on several cards and machines. Needs Ray: see the guide."""
