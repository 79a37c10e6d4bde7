"""`launch.py test`: every gate in turn, the tests last so that their closing line ends the output."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Final, NamedTuple

from installer.places import ROOT, python_in, tool_in
from installer.words import Reporter

ENGINE: Final = (os.path.join("tests", "torch", "engine"),)
HEAP: Final = "--max-old-space-size=8192"
"""basedpyright holds five gigabytes of what it read; Node's own limit makes it read the same files again and again."""
DROPPED: Final = ("PYTHONDONTWRITEBYTECODE",)
"""Left out of the gates' environment: with it each of the hundred processes that tests start would compile Halftone again."""


class Gate(NamedTuple):
    """beside: it runs beside the gates before it, from the start, and shows what it said when its turn comes."""

    name: str
    argv: tuple[str, ...]
    beside: bool = False


def gates(env: str, extra: Sequence[str]) -> list[Gate]:
    """In their order. The tests of the engine take as long as the gates and all other tests, so they run beside them.

    With further words all tests are one run.
    """
    python = python_in(env)
    pytest = (python, "-m", "pytest")
    return [
        Gate("ruff check", (tool_in(env, "ruff"), "check", ".")),
        Gate("ruff format", (tool_in(env, "ruff"), "format", "--check", ".")),
        Gate("basedpyright", (python, "-m", "basedpyright", "--pythonpath", python)),
        Gate("lint-imports", (tool_in(env, "lint-imports"),)),
        *(
            [Gate("pytest", (*pytest, *extra))]
            if extra
            else [
                Gate("pytest, all but the engine", (*pytest, *(f"--ignore={folder}" for folder in ENGINE))),
                Gate("pytest, the engine", (*pytest, *ENGINE), beside=True),
            ]
        ),
    ]


def gate_environ(environ: Mapping[str, str], env: str) -> dict[str, str]:
    """Offscreen so that no window flashes by; one thread as tiny models on few busy cores are many times slower with more."""
    tools = os.path.dirname(python_in(env))
    return {
        **{name: value for name, value in environ.items() if name not in DROPPED},
        "QT_QPA_PLATFORM": "offscreen",
        "OMP_NUM_THREADS": "1",
        "NODE_OPTIONS": f"{environ.get('NODE_OPTIONS', '')} {HEAP}".strip(),
        "PATH": tools + os.pathsep + environ.get("PATH", ""),
    }


def run_gates(steps: Sequence[Gate], environ: Mapping[str, str], reporter: Reporter, cwd: str = ROOT) -> int:
    """Stop at the first gate that is shut, with its own exit status."""
    passed: list[str] = []
    with ExitStack() as stack:
        beside = {gate.name: stack.enter_context(_started(gate, environ, cwd)) for gate in steps if gate.beside}
        for number, gate in enumerate(steps, start=1):
            reporter.line(
                f"[{number}/{len(steps)}] {gate.name}"
                + (f" (passed: {', '.join(passed)})" if gate == steps[-1] and passed else "")
            )
            try:
                code = beside[gate.name].end() if gate.beside else subprocess.call(gate.argv, cwd=cwd, env=dict(environ))
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
                for ended in [
                    other for other in steps[number:] if other.beside and beside[other.name].process.poll() is not None
                ]:
                    beside[ended.name].end()
                reporter.line(f"The gate “{gate.name}” did not pass (exit status {code}){after}.")
                return code
            passed.append(gate.name)
    return 0


class _Beside(NamedTuple):
    process: "subprocess.Popen[bytes]"
    said: IO[bytes]

    def end(self) -> int:
        """Its exit status, once it has ended and shown what it said."""
        code = self.process.wait()
        self.said.seek(0)
        shutil.copyfileobj(self.said, sys.stdout.buffer)
        sys.stdout.flush()
        return code


@contextmanager
def _started(gate: Gate, environ: Mapping[str, str], cwd: str) -> Generator[_Beside]:
    """A gate that runs, and is ended where nobody waits for it any more."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(gate.argv, cwd=cwd, env=dict(environ), stdout=said, stderr=subprocess.STDOUT)
        try:
            yield _Beside(process, said)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
