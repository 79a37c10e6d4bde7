"""How soon the command line answers: `python tests/bench/bench_command_line.py`. Logs the fastest of some runs, in seconds."""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time

from tests.helpers.scripted import ROOT

log = logging.getLogger("bench_command_line")
_LINES = (
    ["--version"],
    ["--help"],
    ["check", "--help"],
    ["check", "/nothing"],
    ["generate", "a", "--output", "/nothing/a.png"],
    ["generate", "a", "--bogus"],
)


def fastest(words: list[str], repeats: int = 7) -> tuple[float, int]:
    """(seconds, exit code) of one command line in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "PYTHONPATH": str(ROOT / "app"), "HALFTONE_DATA": folder}
        times: list[float] = []
        code = 0
        for _ in range(repeats):
            start = time.perf_counter()
            done = subprocess.run([sys.executable, "-m", "halftone", *words], env=variables, capture_output=True, check=False)
            times.append(time.perf_counter() - start)
            code = done.returncode
    return min(times), code


def main() -> None:
    for words in _LINES:
        seconds, code = fastest(words)
        log.info("%.3f s, exit %d: halftone %s", seconds, code, " ".join(words))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main()
