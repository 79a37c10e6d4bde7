"""In the Chinese window nothing is said in English: no error, finding, reason, refusal or note, and no widget of a page."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QFileSystemModel, QLabel, QTreeView, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.gui.stage import Stage
from tests.helpers import samples
from tests.helpers.model_files import safetensors
from tests.helpers.wording import chinese as texts

from halftone.client.protocol import describe_end
from halftone.contract.error_codes import ERROR_CODES
from halftone.contract.error_sentences import WORDS
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import Finding, SettingEffect
from halftone.contract.messages import Examine
from halftone.contract.plan import Cure
from halftone.contract.vocabulary import FindingCode
from halftone.contract.wording import Words, either
from halftone.gui import text
from halftone.gui.create.form.prompt_fields import examples
from halftone.gui.device.device_page import DevicePage
from halftone.gui.health import file_dialogs, health_text, health_view, report_export
from halftone.gui.health.health_page import HealthPage
from halftone.gui.health.known_troubles import known_text
from halftone.gui.i18n import catalogue, say, set_language
from halftone.gui.kit.built_later import BuiltLater
from halftone.gui.settings import setting_effects
from halftone.gui.settings.settings_page import SettingsPage
from halftone.health.part_names import module_words
from halftone.health.troubles import Trouble, all_troubles, helps_words, origin_words
from halftone.library.models import describe, runnable
from halftone.session.state import Ended, Found, Job, Notice, NoticeKind
from halftone.settings.guide import chapters

CORE = Path(__file__).resolve().parents[3] / "app" / "halftone"
EXAMINE = Examine(job="a", model="m", device="cpu")
NAMES = re.compile(
    r"[\w.-]+ (PR )?#\d+|--[\w-]+|embedding:|\{\w+\}|pillow-jxl-plugin|insightface|onnxruntime|[\w./-]*[_./][\w./-]*|"
    r"\b(halftone( fetch)?|diffusers|transformers|pocket|safetensors|pickle|cpu|cuda|none|auto|exp|erf|sin|schnell)\b",
    re.IGNORECASE,
)
ENGLISH = re.compile(r"\b[a-z]{3,}\b")


def english(words: str) -> list[str]:
    """English words that are no names, paths, options or identifiers."""
    return ENGLISH.findall(NAMES.sub(" ", words))


@pytest.fixture(autouse=True)
def chinese(qapp: object) -> Iterator[None]:
    del qapp
    set_language("zh_CN")
    yield
    set_language("en")


def test_the_file_dialogs_of_qt_are_in_chinese_throughout(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    owner = QWidget()
    qtbot.addWidget(owner)
    dialogs = (
        file_dialogs.ask_model(owner, print),
        file_dialogs.ask_folder(owner, tmp_path, print),
        file_dialogs.ask_save(owner, "", tmp_path / "x", "", "", print),
    )
    for dialog in dialogs:
        said = {one.text() for one in dialog.findChildren(QLabel)}
        said |= {one.text() or one.toolTip() for one in dialog.findChildren(QAbstractButton)}
        model = dialog.findChildren(QTreeView)[0].model()
        said |= {str(model.headerData(column, Qt.Orientation.Horizontal)) for column in range(model.columnCount())}
        assert not {words for words in said if re.search("[A-Za-z]{2}", words)}
        dialog.close()
    kinds = QFileSystemModel()
    kinds.setRootPath(str(tmp_path))
    qtbot.waitUntil(lambda: kinds.rowCount(kinds.index(str(tmp_path))) == 1)
    assert kinds.data(kinds.index(0, 2, kinds.index(str(tmp_path)))) == "文件夹"


def test_the_detector_tells_english_from_names() -> None:
    assert english("模型 could not be loaded") == ["could", "not", "loaded"]
    assert english("/home/me/a.png 与 FP16、--image、decoder.conv_in") == []


@pytest.mark.parametrize("code", ERROR_CODES)
def test_every_error_is_said_in_chinese(code: str) -> None:
    names = set(re.findall(r"{(\w+)}", "".join(WORDS[code])))  # pyright: ignore[reportArgumentType] - a code of the list
    error = ErrorFacts(code=code, facts=dict.fromkeys(names, "△"))  # pyright: ignore[reportArgumentType]
    said = text.error_sentence(error) + text.error_remedy(error)
    assert english(said.replace(examples()[0], "")) == []


def templates_of(call: ast.Call) -> Iterator[str]:
    """The English sentences among the keyword values of a call; what is computed stands as {0}, {1}."""
    args = [] if ast.unparse(call.func) == "HalftoneError" else call.args[1:]  # whose second one is for the log
    for value in [word.value for word in call.keywords] + args:
        yield from texts_in(value)


def texts_in(value: ast.expr) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _inside(node, value):
            yield node.value
        if isinstance(node, ast.JoinedStr) and not _inside_message(node, value):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "△" for part in node.values)


def _inside(node: ast.AST, value: ast.AST) -> bool:
    """True for the pieces of an f-string, which is looked at as a whole, and for the parts of a message."""
    return any(node in ast.walk(other) for other in ast.walk(value) if isinstance(other, ast.JoinedStr) or _is_message(other))


def _inside_message(node: ast.AST, value: ast.AST) -> bool:
    return any(node in ast.walk(other) for other in ast.walk(value) if _is_message(other))


def _is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("Words", "both", "either")


TELLING = (
    "HalftoneError", "_bad", "_note", "_no_vae", "other_base", "_other_base", "_not_one", "_no_net", "_refused", "_unfit",
)  # fmt: skip
"""Functions that make an error of the words that they are given."""


def details_given() -> set[str]:
    """What the core puts into its errors in words."""
    found: set[str] = set()
    for file in CORE.rglob("*.py"):
        if file.relative_to(CORE).parts[0] in ("gui", "cli"):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in TELLING:
                found |= {words for words in templates_of(node) if len(english(words)) > 1}
            if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "detail" for target in node.targets):
                found |= {words for words in texts_in(node.value) if len(english(words)) > 1}
    return found


def test_no_error_carries_english_as_text() -> None:
    assert details_given() == set(), "a sentence is `Words`, so that each language can say it"


@pytest.mark.parametrize(("code", "signal"), [(None, None), (3, None), (None, "SIGKILL"), (None, "SIGSEGV"), (None, "SIGTERM")])
def test_the_end_of_a_worker_is_said_in_chinese(code: int | None, signal: str | None) -> None:
    error = ErrorFacts(code="worker-lost", facts={"cause": describe_end(code, signal), "log": "/var/log"})
    assert english(text.error_sentence(error)) == []


@pytest.mark.parametrize(
    "name", ["something.else", "lora_unet_a.lora_down.weight", "double_blocks.0.x", "conditioner.embedders.1.x"]
)
def test_a_model_that_does_not_run_says_so_in_chinese(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors({name: ("BF16", np.zeros(4, np.uint16))}))
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    error = caught.value.as_facts()
    error = msgspec.structs.replace(error, facts={**error.facts, "path": "/"})
    assert [word for word in english(text.error_sentence(error)) if word not in FOLDERS] == []


def test_known_names_are_listed_in_chinese() -> None:
    error = ErrorFacts(code="device-unknown", facts={"device": "cuda:9", "known": either("auto", "cuda:0", "cpu")})
    assert text.error_remedy(error) == "请使用 auto，cuda:0 或 cpu。"


@pytest.mark.parametrize("peak", [70000.0, None])
@pytest.mark.parametrize("code", get_args(FindingCode))
def test_every_finding_is_said_in_chinese(code: FindingCode, peak: float | None) -> None:
    limit = 65504.0 if peak is not None else None
    finding = Finding(
        code=code, component="vae", module="decoder.up_blocks.2.resnets.0.conv1", dtype="float16", peak=peak, limit=limit, step=3
    )
    for one in (finding, msgspec.structs.replace(finding, facts={"once": True})):
        lines = [health_text.finding_title(one), health_text.finding_badge(one)[0], *health_text.finding_details(one)]
        assert english(" ".join(lines)) == []


@pytest.mark.parametrize("component", ["unet", "transformer", "vae", "text_encoder", "text_encoder_2", "prior", "image_encoder"])
@pytest.mark.parametrize(
    "module", ["down_blocks.3.attentions.1.transformer_blocks.0.attn2.to_q", "mid_block.resnets.20.conv2", ""]
)
def test_places_inside_a_model_are_named_in_chinese(component: str, module: str) -> None:
    assert set(english(module_words(component, module).text(catalogue()))) <= {"transformer"}


REFUSALS = (
    Words("FP32 gives NaN or infinity as well, so there is nothing to compare with."),
    Words("It gives NaN or infinity as well."),
    Words("Nothing that it changes ran."),
    Words("Its result differs from FP32 by {0}.", ("12\u00a0%",)),
    Words("Its picture differs from FP32 ({0}).", ("27\u00a0dB",)),
)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refusals_of_cures_are_said_in_chinese(refusal: Words) -> None:
    cure = Cure(kind="rescale", plan=kit.report().plan, refusal=refusal)
    said = health_text.cure_line(cure, "FP16") + health_text.cure_tooltip(cure) + health_text.cure_spoken(cure, "FP16")
    assert english(said) == []


def test_notes_of_settings_are_said_in_chinese() -> None:
    found = SettingEffect(setting="tf32", value="true", note=Words("Only on NVIDIA cards."))
    report = msgspec.structs.replace(samples.self_test_report(), effects=(found,))
    assert setting_effects.effect_of(report, "tf32", True) is found
    assert english(say(found.note)) == []


@pytest.mark.parametrize("trouble", all_troubles(), ids=lambda trouble: trouble.id)
def test_known_troubles_are_said_in_chinese(trouble: Trouble) -> None:
    said = " ".join((known_text(trouble), helps_words(trouble).text(catalogue()), origin_words(trouble).text(catalogue())))
    assert [word for word in english(said) if word not in ("transformer", "autocast", "math", "softmax")] == []


NOTICE_FACTS: dict[NoticeKind, tuple[str, ...]] = {
    "queue-left": ("2",),
    "queue-cleared": ("2",),
    "grid-made": ("△", "△", "4", "1"),
}
"""Those that hold numbers."""


@pytest.mark.parametrize("kind", get_args(NoticeKind))
def test_every_notice_is_said_in_chinese(kind: NoticeKind) -> None:
    error = ErrorFacts(code="disk-full", facts={"need": "2 GB", "free": "1 GB", "folder": "/x"})
    facts = NOTICE_FACTS.get(kind, ("△", "△", "△"))
    message = text.notice_message(Notice(number=1, kind=kind, facts=facts, error=error, refused=(("△", error),)))
    said = [message.title, message.text, message.strong, *(act.label for act in message.actions)]
    assert english(" ".join(said)) == []


@pytest.mark.parametrize("code", ["model-load-failed", "device-lost"])
def test_a_check_that_failed_says_why_in_chinese(code: str) -> None:
    error = ErrorFacts(code=code, facts={"path": "/m", "device": "cuda:0", "detail": "△"})  # pyright: ignore[reportArgumentType]
    command = EXAMINE
    view = health_view.of_failed(
        Ended(job=Job(id="a", command=command, title="m"), outcome="failed", error=error, report=None), "float16"
    )
    assert english(view.title + view.text) == []


@pytest.mark.parametrize("detail", ["unet", "vae", "rescale", "upcast-region", "float32-all", ""])
def test_the_progress_of_a_check_is_said_in_chinese(detail: str) -> None:
    job = Job(id="a", command=EXAMINE, title="m", phase="verify", detail=detail)
    assert english(health_view.phase_words(job)) == []
    searching = Job(id="a", command=EXAMINE, title="m", phase="plan", done=12)
    assert "第 12 次尝试" in health_view.phase_words(searching)


def said_by(page: QWidget) -> Iterator[str]:
    for widget in page.findChildren(QWidget):
        yield widget.toolTip()
        yield widget.accessibleName()
        yield widget.accessibleDescription()
        if isinstance(widget, QLabel | QAbstractButton):
            yield widget.text()


def left_in_english(page: QWidget) -> set[str]:
    """Sentences of a page with two English words or more; names that cannot be translated have one."""
    return {words for words in said_by(page) if len(english(words)) > 1}


@pytest.mark.parametrize("state", ["unchecked", "overflows", "cured", "broken", "missing"])
def test_the_health_page_is_chinese(qtbot: QtBot, state: str) -> None:
    known = {
        "overflows": kit.report(),
        "cured": kit.report(applied=True),
        "broken": kit.report(verdict="broken"),
    }
    controller, _ = kit.desk(report=known.get(state), self_test=kit.measured())
    if state == "missing":
        controller.session.models.show(
            Found({}, {kit.MODEL.id: ErrorFacts(code="model-missing", facts={"path": "/gone"})}, {}, {})
        )
    page = HealthPage(controller)
    qtbot.addWidget(page)
    page.refresh()
    assert left_in_english(page) == set()


@pytest.mark.parametrize("measured", [True, False])
def test_the_device_page_is_chinese(qtbot: QtBot, measured: bool) -> None:
    reason = Words("{0} passed every test and is about {1} × as fast as FP32 ({2}).", ("FP16", "2.4", "BF16 2.3 ×"))
    page = DevicePage(kit.desk(self_test=kit.measured(auto_reason=reason) if measured else None)[0])
    qtbot.addWidget(page)
    page.set_first_run(True)
    page.refresh()
    assert left_in_english(page) == set()


@pytest.mark.parametrize("section", ["Numerics", "General", "Appearance", "Folders", "About"])
def test_the_settings_are_chinese(qtbot: QtBot, section: str) -> None:
    page = SettingsPage(kit.desk(self_test=kit.measured())[0])
    qtbot.addWidget(page)
    page.show_section(section)
    assert left_in_english(page) == set()


def test_the_window_is_chinese(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, language="zh_CN"))
    english_page = stage.page
    stage.wait(lambda: stage.workspace.create_page is not english_page)
    stage.page = stage.workspace.create_page
    stage.picture("青山上的红日")
    for hidden in stage.page.findChildren(BuiltLater):
        hidden.make()
    left_alone = (*examples(), str(samples.self_test_report().auto_reason))  # prompts, and a reason that only the sample has
    told = {one for one in left_in_english(stage.window) if not any(words in one for words in left_alone)}
    stage.close()
    assert told == set()


FOLDERS = {"vae", "text_encoders", "diffusion_models", "unet"}
"""Names of folders that a sentence may name."""
ENGLISH_NAMES = {
    "LoRA", "LoRAs", "transformer",
    "exp", "SiLU", "ROCm", "macOS",
    "VAE", "the VAE", "IP-Adapter", "ControlNet", "Lanczos", "Softmax", "Flash", "Efficient", "cuDNN", "Math",
    "English", "NaN", "Pickle", "WebP",
    "Eta", "FreeU", "Sigma churn", "Sigma tmin", "Sigma tmax",
}  # fmt: skip
"""What is called so in Chinese as well."""


def test_only_names_stay_english() -> None:
    kept = {words for words, said in texts().items() if re.fullmatch(r"[A-Za-z -]*[a-z][A-Za-z -]*", said)}
    assert kept <= ENGLISH_NAMES


AVOIDED = {"您": "你", "GPU": "显卡"}
"""Words that Chinese texts do not use, and the one that they use instead."""
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
CHOICE = "ComfyUI GPU"
"""A choice of the form, which is the same in both languages."""


@pytest.mark.parametrize("avoided", AVOIDED)
def test_chinese_has_one_word_for_one_thing(avoided: str) -> None:
    guide = {chapter.topic: CODE.sub("", chapter.markdown) for chapter in chapters("zh_CN")}
    said = (words.replace(CHOICE, "") for words in (*texts().values(), *guide.values()))
    assert [words for words in said if avoided in words] == [], f"say {AVOIDED[avoided]}"


def test_the_page_of_a_report_is_chinese(tmp_path: Path) -> None:
    report = kit.report()
    page, _ = report_export.save(report, kit.measured(), tmp_path / "a.html")
    written = page.read_text("utf-8")
    assert '<html lang="zh-CN">' in written
    said = re.sub(r"<(style|code|title)>.*?</\1>|<[^>]*>", " ", written, flags=re.DOTALL)
    names = {"accelerate", "transformers", "autocast"}
    assert [word for word in english(said) if word not in names] == []
