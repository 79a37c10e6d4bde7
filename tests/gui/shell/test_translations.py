"""Every visible sentence has a Chinese translation with the same placeholders, and none is left over."""

import re
import subprocess
import sys

import msgspec
import pytest
from PySide6.QtCore import QCoreApplication
from tests.gui import lacking, words
from tests.helpers import samples
from tests.helpers.wording import CHINESE, chinese, entries

from halftone.contract.facts import DTypeReport
from halftone.contract.wording import Words
from halftone.gui.i18n import say, set_language, tr
from halftone.health.precision import Weights, choose_auto, follow_weights


def test_every_sentence_is_translated() -> None:
    assert lacking.lacking() == {}


def test_no_translation_is_left_over() -> None:
    assert lacking.left_over() == []


def test_every_entry_is_whole() -> None:
    assert [entry.msgid for entry in entries() if not entry.translated() or entry.obsolete] == []


def test_the_entries_stand_in_order() -> None:
    order = [(entry.comment, entry.msgid, entry.msgid_plural) for entry in entries()]
    assert order == sorted(order), "by the part of the program, then by the English"


def test_placeholders_are_kept() -> None:
    asked = [
        (entry.msgid_plural or entry.msgid, text) for entry in entries() for text in (entry.msgstr, *entry.msgstr_plural.values())
    ]
    kept = {english: text for english, text in asked if text and words.placeholders(english) != words.placeholders(text)}
    assert kept == {}


def test_a_singular_holds_no_further_placeholders() -> None:
    counted = [entry for entry in entries() if entry.msgid_plural]
    assert [one.msgid for one in counted if not words.placeholders(one.msgid) <= words.placeholders(one.msgid_plural)] == []


def test_chinese_has_its_own_brackets_and_no_space_beside_them() -> None:
    endings = ("Report (*", "Pictures ({0}", "Model file (*", "Models (*")  # Qt reads the endings of files from such brackets
    stray = re.compile(r"[\u4e00-\u9fff] ?\(|\) ?[\u4e00-\u9fff]| [（）]|[（）] ")
    assert [text for english, text in chinese().items() if not english.startswith(endings) and stray.search(text)] == []


def test_a_count_has_one_form_in_chinese() -> None:
    forms = [CHINESE.ngettext("1 job", "{0} jobs", count) for count in (0, 1, 2)]
    assert forms == ["{0} 项任务"] * 3
    assert Words("{0} jobs", (1,), one="1 job").text(CHINESE) == "1 项任务"
    assert Words("{0} jobs", (1,), one="1 job").text() == "1 job"
    assert Words("{0} jobs", (1.0,), one="1 job").text() == "1 jobs", "a measured number is no count"
    assert CHINESE.gettext("") == "", "no head of a file is shown"


DTYPES = (
    DTypeReport(dtype="float32", state="works", reason=Words("Right."), speed=1.0),
    DTypeReport(dtype="float16", state="works", reason=Words("Right."), speed=2.4),
    DTypeReport(dtype="bfloat16", state="works", reason=Words("Right."), speed=2.3),
)


def test_no_message_is_built_while_the_program_runs() -> None:
    assert words.built_messages() == [], "no catalogue could hold it"


def test_a_reason_is_translated_with_its_parts(qapp: object) -> None:
    del qapp
    sentence = choose_auto((DTYPES[0], msgspec.structs.replace(DTYPES[1], state="wrong"), DTYPES[2]))[1]
    assert say(sentence) == str(sentence)
    set_language("zh_CN")
    said = say(sentence)
    set_language("en")
    assert "FP16 在此有误" in said
    assert "passed" not in said


def test_why_auto_follows_the_weights_is_translated(qapp: object) -> None:
    del qapp
    slow = msgspec.structs.replace(DTYPES[2], state="slow", speed=0.5)
    test = msgspec.structs.replace(samples.self_test_report(), dtypes=DTYPES, auto="float16")
    emulated = msgspec.structs.replace(test, dtypes=(*DTYPES[:2], slow))
    set_language("zh_CN")
    said = [say(follow_weights(report, Weights("FLUX", "bfloat16"))[1]) for report in (test, emulated)]
    made = say(follow_weights(test, Weights("FLUX", "q4_k"))[1])
    set_language("en")
    assert said == [
        "BF16，因为此模型以 BF16 存储；速度在此约为 FP32 的 2.3 倍（FP16 2.4 倍）。",
        "FP16，因为 BF16 在这里比 FP32 慢，尽管此模型以 BF16 存储。",
    ]
    assert made.startswith("BF16，因为 FLUX 模型是为 BF16 设计的；")


def test_a_language_can_be_changed_and_changed_back(qapp: object) -> None:
    del qapp
    set_language("zh_CN")
    assert tr("Generate") == "生成"
    assert tr("{0} jobs", 3, one="1 job") == "3 项任务"
    assert tr("{0} jobs", 1, one="1 job") == "1 项任务"
    assert tr("no such sentence") == "no such sentence"
    set_language("en")
    assert tr("Generate") == "Generate"


def test_what_qt_leaves_in_english_is_translated(qapp: object) -> None:
    del qapp
    lacking_in_qt = {entry.msgid: entry.msgstr for entry in entries() if entry.msgctxt}
    set_language("zh_CN")
    shown = {text: QCoreApplication.translate("QFileDialog", text, "comment") for text in lacking_in_qt}
    set_language("en")
    assert shown == lacking_in_qt
    assert {text: QCoreApplication.translate("QFileDialog", text) for text in shown} == {text: text for text in shown}


PICTURES_ON_TWO_THREADS = """
import sys, threading
from PySide6.QtCore import QBuffer, QCoreApplication
from PySide6.QtGui import QImage
from halftone.gui.i18n import set_language
app = QCoreApplication([])
set_language("zh_CN")
buffer = QBuffer()
QImage(8, 8, QImage.Format.Format_RGB32).save(buffer, "PNG")
file = bytes(buffer.data())
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=lambda: [QImage.fromData(file) for _ in range(500)]) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_two_threads_that_read_pictures_in_chinese_do_not_wait_for_each_other() -> None:
    """Qt translates while it holds the lock of its readers: a translator in Python waited there for the other thread."""
    subprocess.run([sys.executable, "-c", PICTURES_ON_TWO_THREADS], check=True, timeout=120)


_HAN = "[\u4e00-\u9fff]"
_STRAY = {
    "between Chinese characters": re.compile(rf"(?<={_HAN}) +(?={_HAN})"),
    "at an end": re.compile(r"^ | $|  "),
}


@pytest.mark.parametrize("where", _STRAY)
def test_no_stray_blanks_stand_in_chinese(where: str) -> None:
    """What stands around placeholders is put right when they are filled."""
    assert [words for words in chinese().values() if _STRAY[where].search(words)] == []


def test_a_number_that_is_none_has_one_name_in_chinese() -> None:
    others = re.compile("异常值|坏数|非有限|含有非数值|不是数字的值")
    assert [words for words in chinese().values() if others.search(words)] == []
