"""Help in plain text: the options stand under the headings of their panels, every name whole, however narrow the terminal is."""

from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

_NAMES: Final = 26
"""Columns that are kept for names; a longer one has a line of its own."""
_OTHERS: Final = {"argument": "Arguments", "option": "Options"}
"""Headings of parameters without a panel."""


class Command(TyperCommand):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_panels(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the parser's signature
        _write_example(self.epilog, formatter)


class Group(TyperGroup):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_panels(self, ctx, formatter)
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, _first_paragraph(command.help)) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows, _NAMES)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the parser's signature
        _write_example(self.epilog, formatter)


def _write_panels(command: Any, ctx: Any, formatter: Any) -> None:
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            panels.setdefault(parameter.rich_help_panel or _OTHERS[parameter.param_type_name], []).append(record)
    for name, rows in panels.items():
        with formatter.section(name):
            formatter.write_dl(rows, _NAMES)


def _write_example(epilog: str | None, formatter: Any) -> None:
    """A command in one line, so that it can be copied."""
    if epilog:
        formatter.write_paragraph()
        formatter.write(f"{epilog}\n")


def _first_paragraph(text: str | None) -> str:
    return (text or "").partition("\n\n")[0]
