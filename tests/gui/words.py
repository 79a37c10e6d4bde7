"""Every English sentence that the window may show or write: literal `tr("…")` calls, the page of a report, and the tables whose
entries go through `tr`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

GUI = Path(__file__).resolve().parents[2] / "app" / "halftone" / "gui"
_PLACE = re.compile(r"\{([a-z_0-9]*)\}")


def literals() -> dict[str, str]:
    """Sentence -> the file it stands in."""
    found: dict[str, str] = {}
    for file in sorted(GUI.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "tr" and node.args:
                found |= dict.fromkeys(_strings(node.args[0]), file.name)
    return found


def page_literals() -> dict[str, str]:
    """What the page of a report and the words about LoRAs say: literal `say("…")` and `Words("…")` -> the file it stands in."""
    found: dict[str, str] = {}
    for name in ("report.py", "report_words.py", "lora_words.py", "chart_svg.py", "training_words.py", "training_export.py"):
        for node in ast.walk(ast.parse((GUI.parent / "health" / name).read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("say", "language.say", "Words"):
                found |= {words: name for words in _strings(node.args[0]) if words.strip("{01}")}
    return found


def _strings(node: ast.expr) -> Iterator[str]:
    """The string, or both strings of a conditional expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body)
        yield from _strings(node.orelse)


def tables() -> dict[str, str]:
    """Sentences that reach `tr` as values: errors and declared settings."""
    from halftone.contract.error_words import WORDS
    from halftone.gui.pages.create_prompts import examples
    from halftone.gui.reason_templates import FRAGMENTS, LISTS, PARTS, TEMPLATES
    from halftone.health import report_words
    from halftone.health.headroom import PART_NAMES
    from halftone.health.troubles import SURE_WORDS, all_troubles, helps_words, origin_words
    from halftone.health.words import COMPONENT_NAMES, CURE_NAMES
    from halftone.settings.declared import DECLARED

    found: dict[str, str] = {}
    for sentence, remedy in WORDS.values():
        found |= {sentence: "errors", remedy: "errors"}
    found |= dict.fromkeys((*TEMPLATES, *FRAGMENTS, *PARTS, *LISTS), "reasons")
    for setting in DECLARED:
        for words in (setting.title, setting.sentence, setting.tooltip, setting.section):
            if words:
                found[words] = "settings"
        for choice in setting.choices:
            found |= {words: "settings" for words in (choice.label, choice.sentence) if words}
    found |= dict.fromkeys(examples(), "example prompts")
    found |= dict.fromkeys((name for names in PART_NAMES.values() for name in names), "parts")
    found |= dict.fromkeys((*report_words.CURE_TITLES.values(), *report_words.BROKEN.values()), "report")
    found |= dict.fromkeys((word for word, _ in (*report_words.FINDING_STATES.values(), report_words.CAME_ONCE)), "report")
    found |= dict.fromkeys((word for word, _ in report_words.DTYPE_STATES.values()), "report")
    found |= dict.fromkeys((*COMPONENT_NAMES.values(), *CURE_NAMES.values()), "names")
    for trouble in all_troubles():
        said = (trouble.what, trouble.helps, helps_words(trouble).template, origin_words(trouble).template)
        found |= dict.fromkeys(filter(None, said), "troubles")
    found |= dict.fromkeys(SURE_WORDS.values(), "troubles")
    return found


def placeholders(words: str) -> set[str]:
    return set(_PLACE.findall(words))
