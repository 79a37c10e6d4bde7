"""Runs inside a version that an update brought, before it is chosen: imports every module of the program.

Prints one JSON line, {"version"} where all is well, else {"problem"} and exits with 1.
"""

import importlib
import json
import os
import pkgutil
import sys
import warnings
from typing import Final

ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def problem(version: str) -> str:
    """The first thing that is wrong, "" for nothing."""
    import halftone

    app = os.path.join(ROOT, "app", "halftone")
    if os.path.realpath(os.path.dirname(halftone.__file__)) != os.path.realpath(app):
        return f"the program was found in {os.path.dirname(halftone.__file__)}"
    if halftone.__version__ != version:
        return f"it calls itself version {halftone.__version__}"
    if not os.path.isdir(os.path.join(ROOT, "resources")):
        return "its folder resources is missing"
    for name in modules(app):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 (whatever a module raises keeps the version from starting)
            return f"{name} does not load: {type(error).__name__}: {error}".splitlines()[0]
    return ""


def modules(app: str) -> list[str]:
    """All modules, from the files: a package that does not load must not hide what is in it."""
    without_window = not has_window()
    names: list[str] = []
    for folder, _, files in os.walk(app):
        package = ".".join(("halftone", *os.path.relpath(folder, app).replace(".", "").split(os.sep))).rstrip(".")
        if "__init__.py" not in files or (without_window and package.startswith("halftone.gui")):
            continue
        found = (info.name for info in pkgutil.iter_modules([folder]) if not info.ispkg and info.name != "__main__")
        names += [package, *(f"{package}.{name}" for name in found)]
    return names


def has_window() -> bool:
    """Whether Qt loads here. A server without a screen may lack its libraries and use the commands alone."""
    try:
        importlib.import_module("PySide6.QtWidgets")
    except ImportError:
        return False
    return True


def main() -> int:
    warnings.simplefilter("ignore")
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    found = problem(sys.argv[1])
    # On a line of its own, whatever a module left unended.
    print("\n" + json.dumps({"problem": found} if found else {"version": sys.argv[1]}), flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
