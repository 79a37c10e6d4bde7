"""Gets uv: the one on this machine when it is new enough, else a private copy through pip."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping

from installer import runner, systemlibs
from installer.places import ROOT
from installer.runner import Step
from installer.words import LaunchError, Reporter, diagnose

PINNED = "0.13.8"
OLDEST = (0, 9, 0)  # the oldest tried: knows --torch-backend for the cards of 2025


def version_of(output: str) -> tuple[int, ...]:
    """(0, 13, 8) from "uv 0.13.8 (…)"; empty when it is no version."""
    match = re.match(r"uv (\d+)\.(\d+)\.(\d+)", output)
    return tuple(int(part) for part in match.groups()) if match else ()


def version_at(path: str) -> tuple[int, ...]:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ()
    return version_of(done.stdout)


def installed(environ: Mapping[str, str]) -> str | None:
    name = "uv.exe" if sys.platform == "win32" else "uv"
    user = environ.get("HOME") or os.path.expanduser("~")
    # Its own installer puts it in the user's folder, which a desktop session started from a menu may not have on PATH.
    places = (
        shutil.which("uv", path=environ.get("PATH")),
        os.path.join(user, ".local", "bin", name),
        os.path.join(user, ".cargo", "bin", name),
    )
    return next((path for path in places if path and version_at(path) >= OLDEST), None)


def bundled(root: str = ROOT) -> str | None:
    """The uv that a package brings."""
    path = os.path.join(root, "uv", "uv.exe" if sys.platform == "win32" else "uv")
    return path if version_at(path) else None


def private(folder: str) -> str | None:
    """The uv inside a folder that pip filled with --target or that is a virtual environment."""
    names = [os.path.join(folder, "bin", "uv"), os.path.join(folder, "Scripts", "uv.exe"), os.path.join(folder, "bin", "uv.exe")]
    return next((name for name in names if os.path.isfile(name)), None)


def pip_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """pip's index settings stand; those that would send the package elsewhere, or refuse it, do not."""
    diverting = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_CONSTRAINT", "PIP_REQUIRE_HASHES", "PIP_NO_BINARY", "PIP_DRY_RUN"}
    kept = {name: value for name, value in environ.items() if name not in diverting}
    return {**kept, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def has_module(python: str, name: str, environ: Mapping[str, str]) -> bool:
    done = subprocess.run([python, "-c", f"import {name}"], capture_output=True, env=dict(environ), check=False)
    return done.returncode == 0


def routes(python: str, folder: str, has_pip: bool) -> list[list[Step]]:
    """Ways to a private uv, most modest first. Debian splits both pip and venv off its Python, so either may be missing."""
    requirement = f"uv=={PINNED}"
    inner = os.path.join(folder, "Scripts", "python.exe") if sys.platform == "win32" else os.path.join(folder, "bin", "python")
    by_target = [Step("uv", (python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, requirement))]
    by_venv = [
        Step("uv", (python, "-m", "venv", "--clear", folder)),
        Step("uv", (inner, "-m", "pip", "install", "--quiet", "--no-deps", requirement)),
    ]
    return [by_target, by_venv] if has_pip else [by_venv]


def walk(route: list[Step], environ: Mapping[str, str], reporter: Reporter) -> str:
    """Empty when all steps worked, else the failed one's output."""
    for step in route:
        outcome = runner.run(step.argv, environ, reporter)
        if outcome.code != 0:
            return outcome.output or f"exit status {outcome.code}"
    return ""


def fetch(home: str, environ: Mapping[str, str], reporter: Reporter) -> str:
    """A private uv in `home`, built aside and moved in whole: an interrupted download is never taken for a finished one."""
    final = os.path.join(home, f"uv-{PINNED}")
    found = private(final)
    if found and version_at(found):
        return found
    python = runner.python_command()
    children = pip_environ(environ)
    aside = f"{final}-staging-{os.getpid()}"
    output = ""
    try:
        for last in (False, True):
            has_pip = has_module(python, "pip", children)
            for route in routes(python, aside, has_pip):
                output = walk(route, children, reporter)
                if not output and private(aside):
                    shutil.rmtree(final, ignore_errors=True)
                    os.rename(aside, final)
                    return private(final) or ""
                shutil.rmtree(aside, ignore_errors=True)
            if last or has_pip or has_module(python, "ensurepip", children) or not systemlibs.install_venv(environ, reporter):
                break
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    if not has_module(python, "pip", children) and not has_module(python, "ensurepip", children):
        command = systemlibs.venv_command()
        raise LaunchError(
            f"Halftone needs pip to set itself up and this Python has none; nothing was changed: run “{command}” and start again."
        )
    happened, remedy = diagnose(output)
    raise LaunchError(
        f"Halftone could not fetch uv, the tool that builds its environment, because {happened}; nothing was changed: {remedy}."
    )


def find(home: str, environ: Mapping[str, str], reporter: Reporter) -> str:
    return bundled() or installed(environ) or fetch(home, environ, reporter)
