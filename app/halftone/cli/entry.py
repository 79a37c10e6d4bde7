"""Runs the typer application and turns whatever happens into one sentence and an exit code."""

import errno
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from halftone.cli.app import application
from halftone.cli.jobs.engine_and_log import Tools, kept_log, log_path
from halftone.cli.jobs.stop_signal import StoppedBySignal
from halftone.cli.reports.remedies import remedy_here
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.lost_output import OutputLostError
from halftone.cli.terminal.usage_errors import is_help, is_usage, usage_facts
from halftone.contract.engine import Engine
from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import ErrorFacts, HalftoneError, JobCancelled, sentence
from halftone.contract.wording import spelled_out
from halftone.settings.disk import full_disk
from halftone.settings.places import is_own

EXIT_FINDINGS: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_CANCELLED: Final = 130
_FINDINGS: Final[tuple[ErrorCode, ...]] = ("no-rescale", "nothing-to-repair", "model-broken")
"""Errors that are an answer about the model and no bad input."""
_NO_RIGHT: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_JSON: Final = (float("inf"), float("-inf"))

log = logging.getLogger(__name__)


def run(words: Sequence[str], engine: Callable[[], Engine] | None) -> int:
    """Return the exit code of one command line. Raises OutputLostError where stdout takes no words."""
    try:
        tools = Tools(engine, quiet="--json" in words)
        left = application()(args=list(words), prog_name="halftone", obj=tools, standalone_mode=False)
        return left if isinstance(left, int) else 0
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else EXIT_BAD_INPUT
    except HalftoneError as error:
        return tell(error.as_facts(), words, kept=kept_hint(error))
    except (JobCancelled, KeyboardInterrupt) as cancelled:
        say(str(cancelled) or "Cancelled.", err=True)
        return cancelled.exit_code if isinstance(cancelled, StoppedBySignal) else EXIT_CANCELLED
    except OutputLostError:
        raise
    except Exception as error:
        if is_help(error):
            sys.stdout.write(f"{error}\n")
            return 0
        if is_usage(error):
            return tell(usage_facts(error), words)
        if (own := _own_folder(error)) is not None:
            return tell(own, words)
        full = full_disk(error)
        with kept_log():
            log.log(logging.INFO if full else logging.ERROR, "halftone %s failed", words[0] if words else "", exc_info=True)
        if full is not None:
            return tell(full, words)
        facts = ErrorFacts(code="internal", facts={"detail": f"{type(error).__name__}: {error}", "log": log_path()})
        return tell(facts, words)


def _own_folder(error: Exception) -> ErrorFacts | None:
    """A place of Halftone's own that cannot be written to; None for any other error."""
    if (
        not isinstance(error, OSError)
        or error.errno not in _NO_RIGHT
        or not isinstance(error.filename, str)
        or not is_own(Path(error.filename))
    ):
        return None
    return ErrorFacts(code="data-read-only", facts={"path": error.filename})


def kept_hint(error: HalftoneError) -> str:
    """How to save a picture that was made and could not be written; empty for every other error."""
    if "latents" not in error.facts:
        return ""
    command = command_line("generate", "--latents", str(error.facts["latents"]), "--output", "OTHER.png")
    return f"\nThe picture is not lost; save it elsewhere with:  {command}"


def tell(error: ErrorFacts, words: Sequence[str], *, kept: str = "") -> int:
    """Say what happened on stderr, and as an object on stdout if objects are wanted. kept: a line more for the person."""
    todo = remedy_here(error, words)
    say(f"{sentence(error)} {todo}{kept}", err=True)
    if "--json" in words:
        told = ((name, spelled_out(fact)) for name, fact in error.facts.items())
        facts = {name: str(fact) if fact in _NO_JSON or fact != fact else fact for name, fact in told}
        content = {"code": error.code, "message": sentence(error), "remedy": todo, "facts": facts}
        sys.stdout.write(json.dumps({"schema": 1, "error": content}) + "\n")
    return EXIT_FINDINGS if error.code in _FINDINGS else EXIT_BAD_INPUT
