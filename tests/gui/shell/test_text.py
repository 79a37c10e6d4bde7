"""Facts into words."""

import pytest
from tests.helpers import samples

from halftone.contract.facts import SelfTestReport
from halftone.contract.words import Precision
from halftone.gui.i18n import set_language, tr
from halftone.gui.text import precision_words
from halftone.gui.widgets import figures

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


def test_chinese_has_spaces_around_latin_words_and_its_own_word_for_times(qapp: object) -> None:
    del qapp
    set_language("zh_CN")
    said = [tr("Whole {0} in FP32", "VAE"), tr("Whole {0} in FP32", "文本编码器"), tr("{0} jobs", 3), figures.times(2.4)]
    set_language("en")
    assert said == ["整个 VAE 改用 FP32", "整个文本编码器改用 FP32", "3 项任务", "2.4\u00a0倍"]
    assert figures.times(2.4) == "2.4\u00a0×"
