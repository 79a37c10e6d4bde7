"""The group of commands around training."""

from typing import Any, Final

import typer

from halftone.cli.doctor.command import doctor
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.help import Command, Group
from halftone.cli.train.command import train

_PLAIN: Final = "run"
"""What is meant where no command of the group is named: `halftone train CONFIG.toml`."""


class _Group(Group):
    """A group whose plain command needs no name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if _PLAIN in self.commands and args and args[0] not in {*self.commands, "-h", "--help"}:
            args = [_PLAIN, *args]
        return super().parse_args(ctx, args)


def training() -> typer.Typer:
    group = typer.Typer(
        cls=_Group,
        help="Train a LoRA, or say what went wrong in a training. A file of settings needs no command before it.",
        no_args_is_help=True,
        rich_markup_mode=None,
        subcommand_metavar="CONFIG.toml | --resume FOLDER | --example | COMMAND ...",
        options_metavar="",
        epilog=f"Example:  {command_line('train', '--example')} > my-training.toml",
    )
    group.callback()(_group)
    group.command(_PLAIN, cls=Command, epilog=f"Example:  {command_line('train', 'my-training.toml')}")(train)
    group.command(cls=Command, epilog=f"Example:  {command_line('train', 'doctor', 'output/my-lora')}")(doctor)
    return group


def _group() -> None:
    """Train a LoRA, or say what went wrong in a training."""
