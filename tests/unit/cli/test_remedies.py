"""What can be done is said where it can be done: options in a terminal, buttons and pages in the window."""

import re
import string
from typing import get_args

import pytest

from halftone.cli.reports.remedies import finding_remedy, remedy_here
from halftone.contract.error_codes import ERROR_CODES, ErrorCode
from halftone.contract.error_sentences import WORDS
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import Finding
from halftone.contract.vocabulary import FindingCode
from halftone.contract.wording import Words
from halftone.settings.declared import DECLARED

CLICKS = re.compile(
    r"\b(Settings|Folders|Image to image|the (hires|second) pass|window|button|click|menu|row|page|Choose one under|"
    + "|".join(re.escape(setting.title) for setting in DECLARED if setting.page == "Numerics")
    + r")\b"
)
NO_PAGE_OF_OURS: dict[ErrorCode, str] = {"fetch-refused": "that page"}


def facts(code: ErrorCode) -> ErrorFacts:
    named = {name for text in WORDS[code] for _, name, _, _ in string.Formatter().parse(text) if name}
    return ErrorFacts(code=code, facts={name: f"<{name}>" for name in named})


@pytest.mark.parametrize("code", ERROR_CODES)
def test_a_terminal_is_told_options_and_no_clicks(code: ErrorCode) -> None:
    told = remedy_here(facts(code)).replace(NO_PAGE_OF_OURS.get(code, "\0"), "")
    assert CLICKS.search(told) is None, told
    assert not set("{}") & set(told)
    assert re.search(r"\(\w+\)", told) is None, "every fact is there"


@pytest.mark.parametrize("code", [code for code in ERROR_CODES if code != "usage"])
def test_the_window_is_told_no_options(code: ErrorCode) -> None:
    assert re.search(r"--\w|terminal", WORDS[code][1].replace("set the terminal to UTF-8", "")) is None


@pytest.mark.parametrize("code", get_args(FindingCode))
def test_a_finding_in_a_terminal_names_options(code: FindingCode) -> None:
    finding = Finding(code=code, component="unet", module="conv_in", dtype="float16", peak=1.0, limit=65504.0)
    assert CLICKS.search(finding_remedy(finding)) is None


def test_a_remedy_of_the_terminal_holds_the_facts() -> None:
    error = ErrorFacts(code="lora-unknown", facts={"name": "glow", "folders": "/l", "found": "grain, ink"})
    told = remedy_here(error)
    assert told.startswith("There are: grain, ink. Give its file, --lora FILE, or add its folder:  ")
    assert told.endswith("folders add FOLDER --kind loras")


@pytest.mark.parametrize(
    ("name", "ending"), [("Seed", ", or -1 for a random one."), ("Variation seed", "one."), ("Steps", "to 9.")]
)
def test_a_seed_may_be_random(name: str, ending: str) -> None:
    error = ErrorFacts(code="value-out-of-range", facts={"name": Words(name), "value": -5, "low": 0, "high": 9})
    assert remedy_here(error).endswith(ending)
