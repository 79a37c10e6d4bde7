"""An update that is killed, at any of its steps on the disk, leaves a version that starts and an update that goes through.

HALFTONE_ALL_KILLS=1 kills it at every one, which takes minutes; else of the many equal steps of unpacking some are chosen.
"""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from installer import versions
from tests.packages.updating import RUN, Package, new_keys, new_package

pytestmark = [
    pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl, which signs"),
    pytest.mark.skipif(os.name == "nt", reason="kills by signal"),
]

# Python reports each step on the disk before it is taken. Those that change something below the folder count, and so does each
# process that is begun; at the wanted one the process is killed as if the power was cut.
_WATCHED = """
import os, signal, sys
folder, at = sys.argv.pop(1), int(sys.argv.pop(1))
count, seen = 0, []
def watch(event, arguments):
    global count
    if event == "open":
        counts = isinstance(arguments[0], str) and (arguments[2] & (os.O_WRONLY | os.O_RDWR))
    else:
        counts = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "subprocess.Popen")
    if counts and any(folder in str(one) for one in arguments):
        count += 1
        seen.append([event, str(arguments[0])])
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
import atexit, json
atexit.register(lambda: at or print(json.dumps(seen), file=sys.stderr))
"""
_FEWEST = 12
_AT_ONCE = 2
_EACH = 1 if os.environ.get("HALFTONE_ALL_KILLS") else 16
"""Of the steps of unpacking, one in so many."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """0.2.0 is current, 0.1.5 is the older one, and 0.3.0 is offered."""
    folder = tmp_path_factory.mktemp("kills")
    made = new_package(folder, new_keys(folder))
    for version in ("0.1.5", "0.2.0"):
        made.updated(version)
    made.offer("0.3.0")
    return made


def run(package: Package, at: int) -> "subprocess.CompletedProcess[str]":
    """Update, killed at this step; 0 for at none."""
    words = (str(package.root), "--from", str(package.offers), "--yes", "--json")
    command = (sys.executable, "-I", "-c", _WATCHED + RUN, str(package.versions), str(at), *words)
    return subprocess.run(command, env=package.environ(), capture_output=True, text=True, check=False)


def chosen(steps: list[list[str]], new: Path) -> list[int]:
    """The numbers of the steps to be killed at."""
    inside = [
        number for number, (_, path) in enumerate(steps, 1) if Path(path).is_relative_to(new) and versions.RECORD not in path
    ]
    others = set(range(1, len(steps) + 1)) - set(inside)
    return sorted(others | set(inside[::_EACH]) | set(inside[-2:]))


def tried(package: Package, folder: Path, at: int) -> str:
    """The version that starts after the kill. Afterwards the same update goes through."""
    folder.mkdir()
    here = package.copy(folder)
    assert run(here, at).returncode == -9, at
    started = here.started()
    assert versions.damage(str(here.versions / "0.2.0")) == ""
    if started == "0.2.0" and at % 3 == 0:
        done = here.update()
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert here.started() == "0.3.0"
        left = {one.name for one in here.versions.iterdir()}
        assert left == {"0.2.0", "0.3.0", "current", "update.lock"}, at
    shutil.rmtree(folder)
    return started


def test_a_kill_at_any_step_leaves_a_version_that_starts(package: Package, tmp_path: Path) -> None:
    done = run(package.copy(tmp_path), 0)
    assert done.returncode == 0, done.stderr
    steps = chosen(json.loads(done.stderr), tmp_path / package.home.name / versions.FOLDER / "0.3.0")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        seen = list(pool.map(lambda at: tried(package, tmp_path / str(at), at), steps))
    assert len(seen) >= _FEWEST
    assert set(seen) == {"0.2.0", "0.3.0"}
    assert seen == sorted(seen), "once the new version started, it stays"
