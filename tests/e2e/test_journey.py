"""Runs the journeys on a virtual screen (Xvfb) where there is one, else on Qt's offscreen platform."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Environment of a screen. Xvfb picks a free display itself and writes its number to a pipe."""
    xvfb = shutil.which("Xvfb")
    if xvfb is None:
        yield {"QT_QPA_PLATFORM": "offscreen"}
        return
    reading, writing = os.pipe()
    server = subprocess.Popen(
        [xvfb, "-displayfd", str(writing), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"],
        pass_fds=(writing,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with os.fdopen(reading) as pipe:
        number = pipe.readline().strip()
    try:
        yield {"QT_QPA_PLATFORM": "xcb", "DISPLAY": f":{number}"} if number else {"QT_QPA_PLATFORM": "offscreen"}
    finally:
        server.terminate()
        server.wait()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", ["journey.py", "clicks.py"])
def test_journey(screen: dict[str, str], tmp_path: Path, file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(Path(__file__).parent / file)]
    done = subprocess.run(command, cwd=REPO, env=os.environ | screen, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
