"""How a worker is started: shared by every transport."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_INSTALLED: Final = ("site-packages", "dist-packages")


def worker_command(log: Path | str, *options: str) -> list[str]:
    """Program and arguments. log: the file that the worker's stderr will go to; options: of the worker, such as `--engine`.

    -P keeps the current folder out of the module search, so that no file lying there is taken for a library; -u keeps stray
    prints and log records in the order in which they happened.
    """
    return [sys.executable, "-P", "-u", "-m", "halftone.worker", "--log", str(log), *options]


def worker_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The worker's environment, made from `base` (this process' own if not given)."""
    environment = dict(os.environ if base is None else base)
    environment["PYTHONUTF8"] = "1"
    if path := _search_path(environment.get("PYTHONPATH", "")):
        environment["PYTHONPATH"] = os.pathsep.join(path)
    return environment


def _search_path(given: str) -> list[str]:
    """The worker finds the same `halftone` as this process, however this one found it, and from any current folder.

    The folder of installed packages is never named here: in PYTHONPATH it would come before the standard library.
    """
    root = Path(__file__).resolve().parents[2]
    own = [] if root.name in _INSTALLED else [str(root)]
    return list(dict.fromkeys([*own, *(str(Path(part).absolute()) for part in given.split(os.pathsep) if part)]))
