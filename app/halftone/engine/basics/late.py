"""Modules that the libraries import early and hardly ever use: they come when something in them is asked for."""

import importlib
import sys
from types import ModuleType


class _Late(ModuleType):
    """Stands for a module until one of its names is needed; then the module itself takes its place."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # what the machinery of imports looks at
            raise AttributeError(name)
        module = self.__name__
        if sys.modules.get(module) is self:
            del sys.modules[module]
        return getattr(importlib.import_module(module), name)


def postpone(module: str) -> None:
    """The next imports of `module` cost nothing. What was imported already stays."""
    sys.modules.setdefault(module, _Late(module))
