"""A pytest plugin that hides Qt, to run the core's tests as on a machine without it: `-p tests.helpers.no_qt -p no:pytest-qt`."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

HIDDEN = ("PySide6", "shiboken6", "pytestqt")


class _Hider:
    """A finder that comes before all others and says no."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)
        return None


def hide() -> None:
    """From now on Qt cannot be imported in this process."""
    sys.meta_path.insert(0, _Hider())


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings that pytest-qt would declare."""
    parser.addini("qt_api", "hidden")
    parser.addini("qt_log_level_fail", "hidden")
    parser.addini("qt_log_ignore", "hidden", type="linelist")


hide()
