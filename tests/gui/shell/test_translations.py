"""Every visible sentence has a Chinese translation with the same placeholders; reasons of the core are recognised."""

import itertools
import re

import msgspec
import pytest
from tests.gui import words
from tests.helpers import samples

from halftone.contract.facts import CheckReport, DTypeReport
from halftone.contract.plan import Cure
from halftone.contract.wording import Words
from halftone.contract.words import DTypeState
from halftone.gui.i18n import say, set_language, table, tr
from halftone.health.judge import badge
from halftone.health.precision import Weights, choose_auto, follow_weights, resolve_precision

SENTENCES = {**words.tables(), **words.literals(), **words.messages()}


def test_every_sentence_is_translated() -> None:
    missing = {file: sentence for sentence, file in SENTENCES.items() if sentence not in table("zh_CN")}
    assert not missing


@pytest.mark.parametrize("sentence", sorted(set(SENTENCES) & set(table("zh_CN"))))
def test_placeholders_are_kept(sentence: str) -> None:
    assert words.placeholders(sentence) == words.placeholders(table("zh_CN")[sentence])


@pytest.mark.parametrize("sentence", sorted(table("zh_CN")))
def test_chinese_has_its_own_brackets_and_no_space_beside_them(sentence: str) -> None:
    said = table("zh_CN")[sentence]
    if sentence.startswith(("Report (*", "Pictures ({0}", "Model file (*", "Models (*")):
        return  # Qt reads the endings of files from such brackets
    assert not re.search(r"[\u4e00-\u9fff] ?\(|\) ?[\u4e00-\u9fff]| [（）]|[（）] ", said)


DTYPES = (
    DTypeReport(dtype="float32", state="works", reason=Words("Right."), speed=1.0),
    DTypeReport(dtype="float16", state="works", reason=Words("Right."), speed=2.4),
    DTypeReport(dtype="bfloat16", state="works", reason=Words("Right."), speed=2.3),
)


def checks() -> tuple[CheckReport, ...]:
    """Checks in FP16: healthy, cured, and curable in another type alone."""
    found = msgspec.structs.replace(samples.check_report(samples.POCKET), precision="float16", verdict="healthy", cures=())
    plan = msgspec.structs.replace(found.plan, verified=True)
    cured = msgspec.structs.replace(found, verdict="fixable", applied=True, plan=plan)
    wide = msgspec.structs.replace(found, verdict="fixable", cures=(Cure(kind="bfloat16", plan=plan, suggested=True),))
    return found, cured, wide


def reasons_given() -> set[str]:
    """What the core says in all its situations."""
    device = samples.CPU
    test = samples.self_test_report()
    states: tuple[DTypeState, ...] = ("works", "wrong", "slow", "missing")
    given = {
        resolve_precision("auto", None, device)[1],
        resolve_precision("float16", None, device)[1],
        choose_auto(DTYPES[:1])[1],
    }
    for half, other in itertools.product(states, states):
        dtypes = (DTYPES[0], msgspec.structs.replace(DTYPES[1], state=half), msgspec.structs.replace(DTYPES[2], state=other))
        auto, why = choose_auto(dtypes)
        report = msgspec.structs.replace(test, dtypes=dtypes, auto=auto, auto_reason=why)
        given |= {resolve_precision(wanted, report, device)[1] for wanted in ("auto", "float16", "float32")}
        for check, stored in itertools.product((None, *checks()), ("bfloat16", "float16", "q4_k")):
            for family in ("FLUX", "SDXL"):
                given.add(follow_weights(report, Weights(family, stored, check))[1])
    check = samples.check_report(samples.POCKET)
    for verdict in ("healthy", "tight", "fixable", "broken"):
        changed = msgspec.structs.replace(check, verdict=verdict)
        given.add(badge(changed, samples.POCKET, changed.device, changed.numerics).reason)
    plan = msgspec.structs.replace(check.plan, verified=True)
    cured = msgspec.structs.replace(check, applied=True, verdict="fixable", plan=plan)
    given.add(badge(cured, samples.POCKET, cured.device, cured.numerics).reason)
    given.add(badge(None, samples.POCKET, device, check.numerics).reason)
    for field, value in (("name", "B"), ("driver", "2"), ("torch_version", "9")):
        given.add(badge(check, samples.POCKET, msgspec.structs.replace(check.device, **{field: value}), check.numerics).reason)
    given.add(badge(check, msgspec.structs.replace(samples.POCKET, fingerprint="x"), check.device, check.numerics).reason)
    tf32 = msgspec.structs.replace(check.numerics, tf32=not check.numerics.tf32)
    given.add(badge(check, samples.POCKET, check.device, tf32).reason)
    return given


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
    assert tr("{0} jobs", 3) == "3 项任务"
    assert tr("no such sentence") == "no such sentence"
    set_language("en")
    assert tr("Generate") == "Generate"
