"""Runs all tests of the engine and of training on the card in software, each file in a process of its own.

    python -m tests.accelerator.everything [FILE …]

Prints a line for each file, then why tests were left out, and the figures of all; exits with 1 when a test failed.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("tests/torch/engine", "tests/torch/training")


class Ran(NamedTuple):
    """One file. there: tests that ran something on the card; reasons: of the skipped ones."""

    file: str
    passed: int
    there: int
    failed: list[str]
    reasons: list[str]
    seconds: float


def run(file: str) -> Ran:
    """All tests of a file, in a process that has the card."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=1200", f"--junitxml={report}", file]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "HALFTONE_TEST_DEVICE": "card"}, capture_output=True, text=True, check=False
        )
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    there = re.search(r"^(\d+) of the \d+ tests that passed", done.stdout, re.MULTILINE)
    failed = [str(case.get("name")) for case in cases if {"failure", "error"} & {child.tag for child in case}]
    if done.returncode not in (0, 1) or (done.returncode and not failed):
        failed.append(f"the process ended with {done.returncode}")
    reasons = [str(child.get("message")) for case in cases for child in case if child.tag == "skipped"]
    passed = sum(not {"failure", "error", "skipped"} & {child.tag for child in case} for case in cases)
    return Ran(file, passed, int(there[1]) if there else 0, failed, reasons, time.perf_counter() - began)


def main(files: list[str]) -> int:
    chosen = files or [str(path.relative_to(ROOT)) for folder in FOLDERS for path in sorted((ROOT / folder).glob("test_*.py"))]
    results: list[Ran] = []
    for file in chosen:
        one = run(file)
        results.append(one)
        print(
            f"{one.file}: {one.passed} passed ({one.there} on the card), {len(one.failed)} failed, {len(one.reasons)} skipped, "
            f"{one.seconds:.0f} s",
            *(f"\n    failed: {name}" for name in one.failed),
            flush=True,
        )
    for reason, count in Counter(reason for one in results for reason in one.reasons).most_common():
        print(f"skipped {count}: {reason}")
    failed = sum(bool(one.failed) for one in results)
    print(
        f"{len(results) - failed} of {len(results)} files passed; {sum(one.passed for one in results)} tests passed, "
        f"{sum(one.there for one in results)} of them on the card, {sum(len(one.failed) for one in results)} failed, "
        f"{sum(len(one.reasons) for one in results)} skipped; {sum(one.seconds for one in results) / 60:.0f} minutes"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
