#!/usr/bin/env python3
"""Sets Halftone up on first use, then runs it.

    python3 installer/launch.py                  opens the window
    python3 installer/launch.py generate "…"     runs any of Halftone's commands (--help lists them)
    python3 installer/launch.py test             runs every gate and test; further words go to pytest
    python3 installer/launch.py setup            builds the environment again, even if the present one is good
    python3 installer/launch.py python …         the environment's own Python, for example: python -m pytest tests/unit
    python3 installer/launch.py shortcut         adds Halftone to the Linux applications menu

The environment lives in .halftone/ of the clone (or HALFTONE_HOME, or a per-user folder when neither can hold one).

Standard library only. This file stays readable to old Pythons so that it can say which one is needed; the work is in the
modules beside it.
"""

import os
import sys

NEEDED = (3, 11)


def forget_foreign_modules(path: "list[str]", inherited: str) -> "list[str]":
    """Drop the entries that PYTHONPATH added: a stray json.py there must not break the set-up of a clean environment."""
    foreign = {os.path.abspath(entry) for entry in inherited.split(os.pathsep) if entry}
    return [entry for entry in path if os.path.abspath(entry) not in foreign]


def needs_newer(version: "tuple[int, int]") -> bool:
    return version < NEEDED


def too_old(version: "tuple[int, int]", executable: str) -> str:
    """The whole sentence for a Python that cannot run the launcher."""
    return (
        f"Halftone needs Python {NEEDED[0]}.{NEEDED[1]} or newer, but {executable} is {version[0]}.{version[1]}; "
        "nothing was changed: install Python 3.12 (from python.org, or with your system's package manager) and start again."
    )


def newer_python(search: str) -> "str | None":
    """A suitable Python under its own name on PATH, as Linux distributions install it beside an older python3."""
    import shutil
    import subprocess

    for name in ("python3.12", "python3.11", "python3.13", "python3.14"):
        for folder in search.split(os.pathsep):
            path = shutil.which(name, path=folder) if folder else None
            # Version managers put stand-ins on PATH that exist and yet refuse, so each is asked quietly first.
            if path and subprocess.call([path, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
                return path
    return None


def open_streams() -> None:
    """Open the streams that this process was started without, as pythonw is: a line that nobody reads must not end a start."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # In this order each gets its own number, 0 to 2, and so does the program that this process becomes.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (open as long as the process lives)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def hand_over(executable: str) -> int:
    import subprocess

    return subprocess.call([executable, os.path.abspath(__file__), *sys.argv[1:]])


def main() -> int:
    open_streams()
    version = (sys.version_info[0], sys.version_info[1])
    if needs_newer(version):
        other = newer_python(os.environ.get("PATH", ""))
        if other:
            return hand_over(other)
        sys.stderr.write(too_old(version, sys.executable) + "\n")
        return 1
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in forget_foreign_modules(sys.path, os.environ.get("PYTHONPATH", "")) if entry != here]
    sys.path.insert(0, os.path.dirname(here))
    from installer.start import start

    return start(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
