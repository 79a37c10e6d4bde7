"""Every English sentence that the window may show or write: literal `tr("…")` calls, the page of a report, and the tables whose
entries go through `tr`.

python -m tests.gui.words  # the number of words
"""

import ast
import re
from functools import cache
from pathlib import Path

GUI = Path(__file__).resolve().parents[2] / "app" / "halftone" / "gui"
_PLACE = re.compile(r"\{([a-z_0-9]*)\}")


@cache
def sentences() -> dict[str, str]:
    """Every sentence that counts nothing -> where it stands."""
    return {**tables(), **literals(), **messages()}


@cache
def literals() -> dict[str, str]:
    """Sentence -> the file it stands in."""
    found: dict[str, str] = {}
    for file in sorted(GUI.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tr" and node.args and _singular(node) is None:
                found |= dict.fromkeys(_texts(node.args[0], {}), file.name)
    return found


@cache
def plurals() -> dict[tuple[str, str], str]:
    """Singular and plural of every sentence that counts -> the file it stands in."""
    found: dict[tuple[str, str], str] = {}
    for file in sorted(GUI.parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tr", "Words"):
                match _singular(node), node.args:
                    case ast.Constant(value=str(one)), [ast.Constant(value=str(many)), *_]:
                        found[one, many] = file.name
                    case None, _:
                        pass
                    case _:
                        raise AssertionError(f"{file.name}:{node.lineno}: singular and plural are literals")
    return found


def _singular(call: ast.Call) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == "one"), None)


@cache
def messages() -> dict[str, str]:
    """Every message that is put into `Words` anywhere, or said on the page of a report -> the file it stands in.

    A message is a literal, or a name or table of literals of the same module or of one that it imports from.
    """
    trees = {file: ast.parse(file.read_text("utf-8")) for file in sorted(GUI.parent.rglob("*.py"))}
    everywhere: dict[str, list[str]] = {}
    own: dict[Path, dict[str, list[str]]] = {}
    for file, tree in trees.items():
        own[file] = _named(tree)
        everywhere |= own[file]
    found: dict[str, str] = {}
    for file, tree in trees.items():
        said = ("Words",) if "cli" in file.parts else ("say", "language.say", "Words")
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in said and _singular(node) is None:
                texts = _texts(node.args[0], {**everywhere, **own[file]})
                found |= {text: file.name for text in texts if _says_something(text)}
    return found


@cache
def strings() -> set[str]:
    """Every string in the sources."""
    nodes = (node for file in GUI.parent.rglob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def built_messages() -> list[str]:
    """Places where a message is put together while the program runs, so that no catalogue can hold it."""
    return [
        f"{file.name}:{node.lineno}"
        for file in sorted(GUI.parent.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Words" and isinstance(node.args[0], ast.JoinedStr)
    ]


def _says_something(text: str) -> bool:
    return any(letter.isalpha() for letter in _PLACE.sub("", text))


def _named(tree: ast.Module) -> dict[str, list[str]]:
    """Name -> the strings that are assigned to it, in a table too."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).extend(_texts(node.value, found if node in tree.body else {}))
    return found


def _texts(node: ast.expr, named: dict[str, list[str]]) -> list[str]:
    """Every text that an expression can give: literals, tables of them, either side of a condition, sums."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name):
            return named.get(name, [])
        case ast.IfExp(body=one, orelse=other):
            return _texts(one, named) + _texts(other, named)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [first + second for first in _texts(left, named) for second in _texts(right, named)]
        case ast.Dict(values=values) | ast.Tuple(elts=values) | ast.List(elts=values) | ast.BoolOp(values=values):
            return [text for value in values for text in _texts(value, named)]
        case ast.Subscript(value=table):
            return _texts(table, named)
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[_, *others]):
            return [text for part in (table, *others) for text in _texts(part, named)]
        case _:
            return []


@cache
def tables() -> dict[str, str]:
    """Sentences that reach `tr` as values: errors and declared settings."""
    from halftone.contract.error_sentences import WORDS
    from halftone.contract.vocabulary import DETAIL_NAMES
    from halftone.gui.create.form.prompt_fields import examples
    from halftone.health.headroom import PART_NAMES
    from halftone.health.part_names import COMPONENT_NAMES, CURE_NAMES
    from halftone.health.reports import report_sentences
    from halftone.health.troubles import SURE_WORDS, all_troubles, helps_words, origin_words
    from halftone.settings.declared import DECLARED

    found: dict[str, str] = {}
    for sentence, remedy in WORDS.values():
        found |= {sentence: "errors", remedy: "errors"}
    for setting in DECLARED:
        for words in (setting.title, setting.sentence, setting.tooltip, setting.section):
            if words:
                found[words] = "settings"
        for choice in setting.choices:
            found |= {words: "settings" for words in (choice.label, choice.sentence) if words}
    found |= dict.fromkeys(DETAIL_NAMES.values(), "device")
    found |= dict.fromkeys(examples(), "example prompts")
    found |= dict.fromkeys((name for names in PART_NAMES.values() for name in names), "parts")
    found |= dict.fromkeys((*report_sentences.CURE_TITLES.values(), *report_sentences.BROKEN.values()), "report")
    states = (*report_sentences.FINDING_STATES.values(), report_sentences.CAME_ONCE)
    found |= dict.fromkeys((word for word, _ in states), "report")
    found |= dict.fromkeys((word for word, _ in report_sentences.DTYPE_STATES.values()), "report")
    found |= dict.fromkeys((*COMPONENT_NAMES.values(), *CURE_NAMES.values()), "names")
    for trouble in all_troubles():
        said = (trouble.what, trouble.helps, helps_words(trouble).template, origin_words(trouble).template)
        found |= dict.fromkeys(filter(None, said), "troubles")
    found |= dict.fromkeys(SURE_WORDS.values(), "troubles")
    return found


def placeholders(words: str) -> set[str]:
    return set(_PLACE.findall(words))


def count() -> int:
    """Count the words that the window says by itself: every `tr("…")` of `gui` once, of a sentence that counts the plural."""
    return sum(len(re.findall(r"[A-Za-z]+", text)) for text in (*literals(), *(many for _one, many in plurals())))


if __name__ == "__main__":
    print(count())
