"""What the command line's own parser refuses, in the shape of all other refusals: a sentence and what to do."""

import difflib
import re
from typing import Any, Final

from halftone.cli.terminal.command_lines import command_line
from halftone.contract.errors import ErrorFacts, Fact
from halftone.contract.wording import Words, both, either

_SIZE: Final = "--size"
"""What other programs call width and height together, and so what many type first."""
_SCHEDULES: Final = ("--schedule", "--scheduler")
"""What other programs call the second half of a sampler's name here."""
_KINDS: Final = (("integer", "a whole number"), ("float", "a number"), ("number", "a number"))
"""A word of the parser's complaint about a value -> what the option takes."""
_CHOICES: Final = " is not one of "
"""What stands before the values of a choice in a complaint."""


def is_usage(error: Exception) -> bool:
    """Whether the parser raised it. Typer carries its own copy of click, and gives its exceptions no public name."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def is_help(error: Exception) -> bool:
    """Whether the parser showed the help because nothing was asked, and raised it to leave."""
    return type(error).__name__ == "NoArgsIsHelpError"


def usage_facts(error: Any) -> ErrorFacts:
    """The facts of a parser's exception: an option or command that is not there, a value missing, wrong or too many."""
    context = getattr(error, "ctx", None)
    path = [] if context is None else context.command_path.split()[1:]
    command = command_line(*path)
    problem, hint = _words(error, context, command)
    return ErrorFacts(code="usage", facts={"problem": problem, "hint": hint, "command": command})


def _words(error: Any, context: Any, command: str) -> tuple[Fact, Fact]:
    """(what is wrong, "Did you mean …? " or nothing)."""
    complaint = error.format_message().strip().rstrip(".")
    parameter = getattr(error, "param", None)
    option = getattr(error, "option_name", "")
    match type(error).__name__:
        case "NoSuchOption":
            options = [name for known in context.command.params for name in (*known.opts, *known.secondary_opts)]
            problem = Words("{0} has no option {1}", (command, option))
            if option in _SCHEDULES and "--sampler" in options:
                return problem, Words('Write the schedule after the sampler: --sampler "Euler Karras". ')
            return problem, _did_you_mean(option, options)
        case "BadOptionUsage":
            lacks = "requires" in complaint
            return Words("{0} needs a value" if lacks else "{0} takes no value", (option,)), ""
        case "MissingParameter" if parameter is not None:
            return Words("{0} needs {1}", (command, _name(parameter))), ""
        case "BadParameter" if parameter is not None:
            return Words("{0} takes {1}", (_name(parameter), _taken(complaint))), ""
        case _:
            return _other(complaint, context, command)


def _other(complaint: str, context: Any, command: str) -> tuple[Fact, Fact]:
    if complaint.startswith("No such command"):
        name = complaint.split("'")[1]
        return Words("There is no command {0}", (name,)), _did_you_mean(name, list(context.command.commands))
    if "unexpected extra argument" in complaint:
        extra = complaint[complaint.find("(", complaint.find(")")) + 1 : -1]
        problem = Words("{0} does not know what to do with “{1}”", (command, extra))
        return problem, Words("Quote values that contain spaces. ")
    return complaint.removeprefix("Invalid value: "), ""


def _taken(complaint: str) -> Words | str:
    """The values that an option takes, or their kind."""
    choices: list[str] = re.findall(r"'([\w-]+)'", complaint.partition(_CHOICES)[2])
    if choices:
        return either(*choices)
    return Words(next((said for word, said in _KINDS if word in complaint), "another value"))


def _name(parameter: Any) -> Words | str:
    """--steps, or what an argument is called."""
    if parameter.param_type_name != "option":
        return Words("a {0}", ((parameter.metavar or parameter.name).lower(),))
    return next(name for name in parameter.opts if name.startswith("--"))


def _did_you_mean(name: str, known: list[str]) -> Words | str:
    sides = ["--width", "--height"]
    words = [*known, _SIZE] if set(sides) <= set(known) else known
    close = difflib.get_close_matches(name, words, 1)
    meant = sides if close == [_SIZE] else close
    return Words("Did you mean {0}? ", (both(*meant),)) if meant else ""
