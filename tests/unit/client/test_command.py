"""How a worker is started."""

import os
import subprocess
import sys
from pathlib import Path

from halftone.client.command import worker_command, worker_environment

ROOT = str(Path(__file__).resolve().parents[3] / "app")


def test_the_worker_runs_in_this_interpreter_and_knows_its_log() -> None:
    command = worker_command(Path("w.log"), "--engine", "x:y")
    assert command[0] == sys.executable
    assert command[-6:] == ["-m", "halftone.worker", "--log", "w.log", "--engine", "x:y"]


def test_the_search_path_is_absolute_has_each_folder_once_and_begins_with_this_halftone(tmp_path: Path) -> None:
    given = os.pathsep.join(["relative", ROOT, "", str(tmp_path)])
    environment = worker_environment({"PYTHONPATH": given, "LANG": "C"})
    assert environment["PYTHONPATH"].split(os.pathsep) == [ROOT, str(Path.cwd() / "relative"), str(tmp_path)]
    assert environment["LANG"] == "C"
    assert environment["PYTHONUTF8"] == "1"


def test_a_file_in_the_current_folder_is_not_taken_for_a_library(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit(9)")
    command = [*worker_command(Path("w.log")), "--help"]
    ended = subprocess.run(command, cwd=tmp_path, env=worker_environment(), capture_output=True, check=False)
    assert ended.returncode == 0
    assert b"Computes for the window" in ended.stderr, "help goes where prints go: stdout carries frames"
