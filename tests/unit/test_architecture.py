"""The floors of the house hold: what may import what, and what a process may have loaded."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "app"
HEAVY = ("torch", "diffusers", "transformers", "accelerate", "peft")
NEEDS_TORCH = ("engine", "measure", "training")

with_qt = pytest.mark.skipif(find_spec("PySide6") is None, reason="PySide6 is not installed")


def modules() -> dict[str, Path]:
    """Every module of Halftone by its dotted name."""
    found: dict[str, Path] = {}
    for path in sorted(APP.rglob("*.py")):
        parts = path.relative_to(APP).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def floor(module: str) -> str:
    """The package below `halftone` that a module stands in."""
    return [*module.split("."), ""][1]


def imports(source: str, known: set[str]) -> set[str]:
    """Modules of Halftone that a source imports anywhere, in functions too, but not for the type checker alone."""
    return {module for node in _running(ast.parse(source)) for module in _targets(node, known)}


def _running(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _running(child)


def _targets(node: ast.AST, known: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module in known:
        below = [f"{node.module}.{alias.name}" for alias in node.names]
        # `from package import module` means the module; anything else means the package itself.
        yield from (name if name in known else node.module for name in below)


def run(code: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(APP), str(ROOT)])}
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_import_walk_sees_functions_and_skips_type_checking() -> None:
    source = (
        "import halftone.a\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import halftone.b\n"
        "def f():\n    from halftone.c import d, thing\n"
    )
    known = {"halftone.a", "halftone.b", "halftone.c", "halftone.c.d"}
    assert imports(source, known) == {"halftone.a", "halftone.c", "halftone.c.d"}


def test_no_import_goes_round_in_a_circle() -> None:
    known = modules()
    graph = {name: imports(path.read_text(encoding="utf-8"), set(known)) - {name} for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' <- '.join(error.args[1])}", pytrace=False)


def test_floors() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(APP)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_all_packages_stand_on_a_floor() -> None:
    """A new package has to find its place in the floors of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    floors = text[text.index("layers = [") : text.index("]", text.index("layers = ["))]
    packages = {floor(name) for name in modules() if name.count(".") > 1}
    assert {name for name in packages if name not in floors} == set()


def loaded_after(names: list[str], before: str = "") -> set[str]:
    """Modules that a fresh interpreter holds after it imported these."""
    load = "for name in sys.argv[1:]: importlib.import_module(name)\nprint(json.dumps(list(sys.modules)))"
    code = f"import importlib, json, sys\n{before}{load}"
    return set(json.loads(run(code, *names)))


def those(*, without: tuple[str, ...]) -> list[str]:
    """Modules outside these packages, save those that run when they are imported."""
    return sorted(name for name in modules() if floor(name) not in without and not name.endswith("__main__"))


@with_qt
def test_the_window_has_no_torch() -> None:
    names = [name for name in modules() if floor(name) == "gui"]
    assert set(HEAVY) & loaded_after(names) == set()


def test_what_needs_no_torch_loads_without_it() -> None:
    assert set(HEAVY) & loaded_after(those(without=(*NEEDS_TORCH, "gui"))) == set()


def test_everything_but_the_window_loads_without_qt() -> None:
    loaded = loaded_after(those(without=("gui",)), before="from tests.helpers.no_qt import hide\nhide()\n")
    assert {"halftone.worker.loop", "halftone.client.protocol"} <= loaded


def test_the_core_works_without_qt() -> None:
    """Tests of what the window stands on, in a process where Qt cannot be imported: the worker, the talk with it, and whole
    sessions. That nothing else imports it is shown above, and by the import contracts.
    """
    chosen = ("client", "worker", "session/test_session.py", "session/test_cards.py")
    folders = [ROOT / "tests" / "unit" / name for name in chosen]
    plugins = ["-p", "tests.helpers.no_qt", "-p", "no:pytest-qt", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *plugins, *map(str, folders)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
