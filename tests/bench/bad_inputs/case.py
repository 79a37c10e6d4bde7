"""One bad input, what is done with it, and how the answer is judged."""

import io
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from halftone.contract.error_sentences import WORDS
from halftone.contract.errors import ErrorFacts, JobCancelled, remedy, sentence
from halftone.worker.failures import error_facts

Verdict = Literal[
    "ok",  # it worked, or was refused in a sentence of ours
    "accepted",  # it worked, and had to be refused
    "refused",  # it was refused, and had to work
    "wrong",  # an assertion of the case failed
    "unclear",  # a sentence with a hole, several lines or signs that no terminal should get
    "library-words",
    "internal",
    "slow",
    "large",
    "hung",
    "crashed",
]
VERDICTS: Final[tuple[Verdict, ...]] = (
    "ok", "accepted", "refused", "wrong", "unclear", "library-words", "internal", "slow", "large", "hung", "crashed",
)  # fmt: skip
"""From the best to the worst."""

Use = Callable[[Path], object]
"""Takes the case's folder; what it raises is judged."""


@dataclass(frozen=True)
class Case:
    """make: writes the input into an empty folder; uses: each is run and judged by itself, the worst counts.

    wanted: what has to come of it, where only one answer is right. `uses` signal a wrong result by AssertionError.
    """

    kind: str
    name: str
    make: Callable[[Path], object]
    uses: tuple[Use, ...]
    wanted: Literal["either", "refused", "works"] = "either"


class Answer(msgspec.Struct, frozen=True):
    """verdict: of one case; code and text: of the sentence that it was judged by, empty where the input worked."""

    verdict: Verdict
    code: str = ""
    text: str = ""


class Printed(Exception):  # noqa: N818 - a refusal that was asked for
    """Holds what a command wrote to stderr before it ended with an error. code: "" where it did not tell."""

    def __init__(self, code: str, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(text)


def answers(case: Case, folder: Path) -> Answer:
    """Make the input, use it in every way, and judge the worst answer. The folder must be empty."""
    own = folder / "case"
    own.mkdir()
    case.make(own)
    found = [_judged(case, use, own) for use in case.uses]
    return max(found, key=lambda answer: VERDICTS.index(answer.verdict))


def _judged(case: Case, use: Use, folder: Path) -> Answer:
    try:
        use(folder)
    except AssertionError as error:
        return Answer("wrong", text=str(error) or "an assertion failed")
    except JobCancelled:
        return Answer("crashed", text="cancelled, and nobody asked for it")
    except Printed as error:
        return _of_text(case, error)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return _of_error(case, error)
    return Answer("accepted" if case.wanted == "refused" else "ok")


def _of_error(case: Case, error: BaseException) -> Answer:
    facts = error_facts(error, "cpu", "the log")
    text = f"{sentence(facts)} {remedy(facts)}"
    if facts.code == "internal":
        where = facts.details.strip().splitlines()[-3:-1] or [""]
        return Answer("internal", facts.code, f"{text} [{where[0].strip()}]")
    return Answer(_verdict(case, facts, text, error), facts.code, text)


def _of_text(case: Case, error: Printed) -> Answer:
    start = WORDS["internal"][0].partition("{")[0]
    if error.code == "internal" or start in error.text:
        return Answer("internal", error.code, error.text)
    return Answer(_verdict(case, ErrorFacts(code="usage"), error.text, error), error.code, error.text)


def _verdict(case: Case, facts: ErrorFacts, text: str, error: BaseException) -> Verdict:
    if quotes_library(sentence(facts) if facts.code != "usage" else text, error):
        return "library-words"
    if not is_clear(text):
        return "unclear"
    return "refused" if case.wanted == "works" else "ok"


_LONGEST: Final = 1200
_FACTS: Final = sorted({name for pair in WORDS.values() for name in re.findall(r"{(\w+)}", "".join(pair))})
_HOLE: Final = re.compile(rf"\((?:{'|'.join(_FACTS)})\)")


def is_clear(text: str) -> bool:
    """Whether it is of printable signs, of some length, without a hole where a fact should stand."""
    return text.replace("\n", "").isprintable() and len(text) <= _LONGEST and not _HOLE.search(text) and "Traceback" not in text


_SIGNS: Final = re.compile(
    r"object (?:is not|has no|of type)|has no attribute|unexpected keyword|positional argument|missing \d+ required|NoneType"
    r"|not supported between|invalid literal|could not convert|must be (?:a |an )?(?:str|int|float|tensor|list|dict)\b"
    r"|<class |\btorch\.|\bnn\.|state_dict|size mismatch|from_pretrained|from_config|huggingface|diffusers/|\w+Error\b"
    r"|\w+Exception\b|Errno|Traceback|Expected `|`\$|line \d+ column|\bchar \d+|\bself\.|mat1 and mat2|\(\w+=\w+\)"
)
"""Libraries write this and a person would not."""
_FEW: Final = 12
"""Letters of a library's message from which it is looked for in a sentence."""


def quotes_library(said: str, error: BaseException) -> bool:
    """Whether a sentence holds the message of an exception that is not ours, or signs that only a library writes.

    Reasons of the operating system ("No space left on device") are no library's words.
    """
    if _SIGNS.search(said):
        return True
    return any(len(words) >= _FEW and words in said for words in _causes(error))


def _causes(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    here: BaseException | None = error
    while here is not None and id(here) not in seen:
        seen.add(id(here))
        if not isinstance(here, (Printed, OSError)) and not type(here).__module__.startswith("halftone."):
            yield from (line.strip().rstrip(".") for line in str(here).splitlines())
        here = here.__cause__ or here.__context__


def command(*words: str) -> Use:
    """A command line: `halftone WORDS`, in the case's folder. {folder} in a word is that folder.

    The real program of the terminal with the real engine; raises Printed where it ends with an error (exit code 2). A module
    whose commands run models imports the engine at its top, so that it is loaded once and not by every case.
    """

    def use(folder: Path) -> None:
        from halftone.cli.entry import run

        given = [word.replace("{folder}", str(folder)) for word in words]
        out, err = io.StringIO(), io.StringIO()
        before = Path.cwd()
        os.chdir(folder)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                left = run(given, None)
        finally:
            os.chdir(before)
        assert "Traceback" not in err.getvalue(), f"a traceback on stderr of halftone {shlex.join(given)}"
        if left not in (0, 1):
            raise Printed(_code(out.getvalue()), err.getvalue().strip())

    return use


def _code(printed: str) -> str:
    """The error's code on the last line, where objects were asked for."""
    try:
        return str(json.loads(printed.strip().splitlines()[-1])["error"]["code"])
    except (ValueError, KeyError, IndexError, TypeError):
        return ""
