"""Facts into words."""

import pytest
from tests.helpers import samples

from halftone.contract.facts import SelfTestReport
from halftone.contract.words import Precision
from halftone.gui.i18n import set_language
from halftone.gui.text import precision_words

MEASURED = samples.self_test_report()


@pytest.fixture(autouse=True)
def english() -> None:
    set_language("en")


@pytest.mark.parametrize(
    ("wanted", "report", "measuring", "words"),
    [
        ("auto", None, True, "Auto, measuring…"),
        ("auto", None, False, "Auto, not measured yet"),
        ("auto", MEASURED, False, "Auto → FP32"),
        ("auto", MEASURED, True, "Auto → FP32"),
        ("float16", None, True, "FP16"),
        ("float32", MEASURED, False, "FP32"),
    ],
)
def test_auto_names_a_type_only_when_it_was_measured(
    wanted: Precision, report: SelfTestReport | None, measuring: bool, words: str
) -> None:
    assert precision_words(wanted, report, measuring=measuring) == words
