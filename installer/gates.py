"""`launch.py test`: every gate in turn, the tests last so that their closing line ends the output."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from installer.places import ROOT, python_in, tool_in
from installer.words import Reporter


class Gate(NamedTuple):
    name: str
    argv: tuple[str, ...]


def gates(env: str, extra: Sequence[str]) -> list[Gate]:
    python = python_in(env)
    return [
        Gate("ruff check", (tool_in(env, "ruff"), "check", ".")),
        Gate("ruff format", (tool_in(env, "ruff"), "format", "--check", ".")),
        Gate("basedpyright", (python, "-m", "basedpyright", "--pythonpath", python)),
        Gate("lint-imports", (tool_in(env, "lint-imports"),)),
        Gate("pytest", (python, "-m", "pytest", *extra)),
    ]


def gate_environ(environ: Mapping[str, str], env: str) -> dict[str, str]:
    """Offscreen so that no window flashes by; one thread as tiny models on few busy cores are many times slower with more."""
    tools = os.path.dirname(python_in(env))
    return {
        **environ,
        "QT_QPA_PLATFORM": "offscreen",
        "OMP_NUM_THREADS": "1",
        "PATH": tools + os.pathsep + environ.get("PATH", ""),
    }


def run_gates(steps: Sequence[Gate], environ: Mapping[str, str], reporter: Reporter, cwd: str = ROOT) -> int:
    """Stop at the first gate that is shut, with its own exit status."""
    passed: list[str] = []
    for number, gate in enumerate(steps, start=1):
        reporter.line(
            f"[{number}/{len(steps)}] {gate.name}" + (f" (passed: {', '.join(passed)})" if gate == steps[-1] and passed else "")
        )
        try:
            code = subprocess.call(gate.argv, cwd=cwd, env=dict(environ))
        except KeyboardInterrupt:
            reporter.line(f"Stopped during the gate “{gate.name}”.")
            return 130
        except OSError as error:
            reporter.line(f"{gate.name} could not be started: {error}")
            code = 127
        if code != 0 and gate == steps[-1]:
            return code  # The tests' own closing line says it, and ends the output.
        if code != 0:
            left = [other.name for other in steps[number:]]
            after = f"; not run: {', '.join(left)}" if left else ""
            reporter.line(f"The gate “{gate.name}” did not pass (exit status {code}){after}.")
            return code
        passed.append(gate.name)
    return 0
