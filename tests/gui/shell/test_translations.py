"""Every visible sentence has a Chinese translation with the same placeholders, and no translation is left over."""

import pytest
from tests.gui import words

from halftone.gui.i18n import set_language, table, tr

SENTENCES = {**words.tables(), **words.literals()}


def test_every_sentence_is_translated() -> None:
    missing = {file: sentence for sentence, file in SENTENCES.items() if sentence not in table("zh_CN")}
    assert not missing


@pytest.mark.parametrize("sentence", sorted(set(SENTENCES) & set(table("zh_CN"))))
def test_placeholders_are_kept(sentence: str) -> None:
    assert words.placeholders(sentence) == words.placeholders(table("zh_CN")[sentence])


def test_a_language_can_be_changed_and_changed_back(qapp: object) -> None:
    del qapp
    set_language("zh_CN")
    assert tr("Generate") == "生成"
    assert tr("{0} jobs", 3) == "3 项任务"
    assert tr("no such sentence") == "no such sentence"
    set_language("en")
    assert tr("Generate") == "Generate"
