"""How a head and a node are asked to end, and what is refused before Ray starts."""

import importlib.util
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from halftone.cli.entry import run
from halftone.cli.reports.remedies import remedy_here
from halftone.contract.errors import HalftoneError
from halftone.farm.cluster import Cluster, check_head, free_port
from halftone.farm.ray_process import FOLDER, FormerRay
from halftone.farm.serving import Stop
from halftone.farm.tokens import given_token


@pytest.mark.skipif(os.name != "posix", reason="the farm runs on Linux")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_before_all_is_there_is_not_forgotten(name: str) -> None:
    number = signal.Signals[name]
    before, stop, told = signal.getsignal(number), Stop(), list[str]()
    with stop.by_signals():
        assert not stop.asked
        os.kill(os.getpid(), number)
        assert stop.asked
        stop.call(lambda: told.append("it came before"))
        os.kill(os.getpid(), number)
    assert told == ["it came before"] * 2
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(
    ("address", "said"), [("127.0.0.1:6379", "--address"), ("192.0.2.1", "192.0.2.1:6379"), ("foo:bar", "192.0.2.1:6379")]
)
def test_an_address_that_no_head_has_is_refused(address: str, said: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        check_head(address)
    assert caught.value.code == "setting-bad-value"
    assert said in remedy_here(caught.value.as_facts())


def test_a_head_that_does_not_answer_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halftone.farm.cluster.LOOPBACK", "")
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
    with pytest.raises(HalftoneError, match=f"No head answers at {address}"):
        check_head(address)


def test_a_token_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError, match=r"nope\.token"):
        given_token(str(tmp_path / "nope.token"))


def test_a_port_that_is_in_use_is_refused_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(HalftoneError, match=f"port {port}; choose another one with --port") as caught:
            Cluster(tmp_path / "token", port=port)
    assert caught.value.code == "farm-not-possible"


def test_a_port_is_used_again_right_after_its_connections_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            other.accept()[0].close()  # this end closes first: its side of the connection lingers
    assert free_port("127.0.0.1", port) == port


@pytest.mark.parametrize("address", ["192.0.2.1", "0.0.0.0"])
def test_an_address_that_nodes_cannot_use_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(HalftoneError, match="--address") as caught:
        Cluster(tmp_path / "token", address, 6379)
    assert caught.value.code == "setting-bad-value"


def test_what_is_left_of_the_former_ray_ends_before_a_head_begins(tmp_path: Path) -> None:
    folder = tmp_path / f"{FOLDER}abc"
    folder.mkdir()
    wait = "import time; time.sleep(600)"
    left, other = (subprocess.Popen([sys.executable, "-c", wait, f"--temp-dir={path}"]) for path in (folder, tmp_path / "other"))
    try:
        former = FormerRay(tmp_path / "note")
        former.end()
        assert left.poll() is None, "nothing was noted"
        former.keep(folder)
        former.end()
        left.wait(10)
        assert other.poll() is None
        assert not folder.exists()
        assert not (tmp_path / "note").exists()
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_command_that_installs_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["farm", "head"], None) == 2
    words = shlex.split(capsys.readouterr().err.partition("Install it:  ")[2])
    assert words[1:5] == ["pip", "install", "--python", sys.executable]
    assert Path(words[-1]).is_file()
