"""The farm on Ray itself: its commands, with the real engine. Left out where Ray is not installed, or does not start in time."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace
from tests.helpers.farms import lines, submit
from tests.helpers.leftovers import ends
from tests.helpers.workers import Worker, paint
from tests.helpers.writing import recorder

from halftone.client.command import worker_environment
from halftone.contract.request import Numerics
from halftone.farm.ledger import Ledger
from halftone.farm.ray_process import RayProcess
from halftone.farm.tokens import environment, token_file
from halftone.farm.turns import lease_size

# not imported here: Ray reads its environment when it is
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray, an extra, is not installed"),
]

PICTURES = 40
PATIENCE_SECONDS = 120.0
_SHOWN = re.compile(r"head runs at (\S+)\. Token")


def own_address() -> str | None:
    """An address of this machine in its network; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found = probe.getsockname()[0]
    return None if found.startswith("127.") else found


def until(right: Callable[[], bool], process: "subprocess.Popen[bytes]", seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait until something is so; False where the process ends, or the time is over, before."""
    end = time.monotonic() + seconds
    while not right():
        if process.poll() is not None or time.monotonic() > end:
            return right()
        time.sleep(0.05)
    return True


def unrecorded() -> dict[str, str]:
    """The environment of a process that may write to /tmp: Ray's sockets need a path shorter than those of tests."""
    made = worker_environment()
    kept = [part for part in made["PYTHONPATH"].split(os.pathsep) if part != recorder.FOLDER]
    return {**made, "PYTHONPATH": os.pathsep.join(kept)}


@contextlib.contextmanager
def running(log: Path, *words: str) -> Generator["subprocess.Popen[bytes]"]:
    """A command of the farm as a process; stopped as by Ctrl+C, and nothing of it is left."""
    with log.open("wb") as output:
        command = [sys.executable, "-P", "-m", "halftone", "farm", *words]
        process = subprocess.Popen(command, stdout=output, stderr=output, env=unrecorded(), start_new_session=True)
    began: set[int] = set()
    try:
        yield process
        began = {one.pid for one in processes(process.pid)}
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(150)
        finally:
            process.kill()
    assert [pid for pid in began if not ends(pid, 15.0)] == []


@contextlib.contextmanager
def head(log: Path, *words: str) -> Generator[tuple["subprocess.Popen[bytes]", str]]:
    """The head's process, and its address."""
    with running(log, "head", *words) as process:
        if not until(lambda: _SHOWN.search(log.read_text()) is not None, process):
            pytest.skip(f"this machine is too slow for Ray: {log.read_text()[-300:]}")
        shown = _SHOWN.search(log.read_text())
        assert shown is not None
        yield process, shown[1]


def processes(of: int) -> list[psutil.Process]:
    """A process and all that it started."""
    try:
        parent = psutil.Process(of)
        return [*parent.children(recursive=True), parent]
    except psutil.NoSuchProcess:
        return []


def listeners(of: int) -> set[str]:
    """Addresses on which a process, or one that it started, listens for TCP connections."""
    found: set[str] = set()
    for process in processes(of):
        with contextlib.suppress(psutil.Error):
            listening = (one for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
            found.update(one.laddr.ip for one in listening)
    return found


def kept_out(address: str, variables: dict[str, str]) -> bool:
    """Whether a program with such an environment cannot join."""
    code = f"import ray; ray.init(address={address!r}); print('inside')"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    return done.returncode != 0 and b"inside" not in done.stdout


def test_on_loopback_nothing_else_listens_and_no_token_is_kept_out(tmp_path: Path) -> None:
    other = tmp_path / "other.token"
    other.write_text("another token, as long as one must be\n", encoding="ascii")
    with Ledger() as ledger, head(tmp_path / "head.log") as (process, address):
        assert address.startswith("127.0.0.1:")
        submit(ledger, lines(tmp_path, 2))
        assert until(ledger.is_over, process), (tmp_path / "head.log").read_text()
        assert ledger.counts() == {"ann": {"done": 2}}
        here = listeners(process.pid)
        assert here, "Ray listens somewhere"
        assert here <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        assert not kept_out(address, environment(token_file(), loopback=True))
        assert kept_out(address, environment(other, loopback=True)), "a wrong token"
        assert kept_out(address, {**environment(other, loopback=True), "RAY_AUTH_MODE": "disabled"}), "no token"


def test_a_head_that_is_stopped_while_ray_starts_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "head.log", "head") as process:
        if not until(lambda: len(processes(process.pid)) > 1, process):
            pytest.skip(f"this machine is too slow for Ray: {(tmp_path / 'head.log').read_text()[-300:]}")
    assert process.returncode == 0, (tmp_path / "head.log").read_text()
    assert "head runs" not in (tmp_path / "head.log").read_text()


def test_a_head_that_runs_until_all_is_done_says_what_became_of_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with Ledger() as ledger:
        submit(ledger, lines(tmp_path, 1))
        submit(ledger, lines(tmp_path, 1, key="lost", output=str(tmp_path / "folder" / "a.png")))
    (tmp_path / "folder").rmdir()
    (tmp_path / "folder").write_bytes(b"no folder")
    with head(tmp_path / "head.log", "--until-done") as (process, _):
        assert process.wait(PATIENCE_SECONDS) == 1
        assert "ann: 1 done, 1 failed" in (tmp_path / "head.log").read_text()
    with Ledger() as ledger:
        submit(ledger, lines(tmp_path, 1, key="waits", output=str(tmp_path / "b.png")))
    with head(tmp_path / "again.log", "--until-done", "--no-work") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
        assert "Stopped. Jobs are left." in (tmp_path / "again.log").read_text()


def test_a_head_that_is_killed_takes_its_ray_along_and_begins_again_at_its_port(tmp_path: Path) -> None:
    with head(tmp_path / "head.log") as (process, address):
        began = [one.pid for one in processes(process.pid)]
        assert len(began) > 2
        process.kill()
        process.wait()
        port = address.rpartition(":")[2]
        with head(tmp_path / "again.log", "--port", port) as (_, there):
            assert there == address
            assert [pid for pid in began if not ends(pid, 30.0)] == []


@pytest.mark.parametrize("kept", [True, False])
def test_the_log_of_a_ray_that_did_not_start_is_kept_where_an_error_names_it(kept: bool) -> None:
    process = RayProcess(("--no-such-option",), token_file(), loopback=True, works=False)
    try:
        assert process.wait() != 0
        assert "no-such-option" in process.said()
    finally:
        process.leave(keep_log=kept)
    assert process.log.exists() == kept
    process.log.unlink(missing_ok=True)


def test_a_node_joins_a_head_again_that_was_killed(tmp_path: Path) -> None:
    address, log = own_address(), tmp_path / "node.log"
    if address is None:
        pytest.skip("this machine has no address but loopback")
    with contextlib.ExitStack() as stack:
        first, there = stack.enter_context(head(tmp_path / "head.log", "--address", address, "--no-work"))
        node = stack.enter_context(running(log, "join", there))
        assert until(lambda: log.read_text().count("Joined.") == 1, node)
        first.kill()
        first.wait()
        port = there.rpartition(":")[2]
        stack.enter_context(head(tmp_path / "again.log", "--address", address, "--port", port, "--no-work"))
        assert until(lambda: log.read_text().count("Joined.") == 2, node), log.read_text()
        assert "The head does not answer any more." in log.read_text()


def test_a_node_that_is_killed_costs_nothing_but_its_leases(tmp_path: Path) -> None:
    """40 files, none partial, equal to local ones; lost attempts at most the leases of the dead node; no process left."""
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    path = lines(tmp_path, PICTURES)
    with Ledger() as ledger, contextlib.ExitStack() as stack:
        process, address = stack.enter_context(head(tmp_path / "head.log", "--address", address, "--no-work"))
        nodes: list[subprocess.Popen[bytes]] = []
        for number in (1, 2):
            log = tmp_path / f"node-{number}.log"
            nodes.append(stack.enter_context(running(log, "join", address)))
            if not until(lambda number=number: len(ledger.nodes()) == number, nodes[-1]):
                pytest.skip(f"this machine is too slow for Ray: {log.read_text()[-300:]}")
        assert all("Joined." in (tmp_path / f"node-{number}.log").read_text() for number in (1, 2))
        submit(ledger, path)
        assert until(lambda: len(ledger.in_state("done")) >= PICTURES * 2 // 5, process)
        held = {owner: len(ledger.held(owner)) for owner in ledger.nodes()}
        gone = [one.pid for one in processes(nodes[1].pid)]
        nodes[1].kill()
        assert until(ledger.is_over, process), (tmp_path / "head.log").read_text()
        outcomes = Counter(one.outcome for one in ledger.attempts())
        losers = {one.owner for one in ledger.attempts() if one.outcome != "done"}
        print(f"{PICTURES} pictures, {outcomes.total()} attempts: {dict(outcomes)}; held when the node was killed: {held}")
        assert ledger.counts() == {"ann": {"done": PICTURES}}
        assert [pid for pid in gone if not ends(pid, 60.0)] == [], "they end with their parent"
    assert outcomes["done"] == PICTURES
    assert len(losers) <= 1, "only the dead node lost anything"
    between = lease_size(PICTURES, 2)
    assert outcomes.total() - PICTURES <= max(held.values()) + between, "a lease may have come between the count and the kill"
    assert len(list(tmp_path.glob("j*.png"))) == PICTURES
    assert list(tmp_path.glob(".*.part")) == []
    _equal_to_local_ones(path, tmp_path)


def _equal_to_local_ones(path: Path, folder: Path) -> None:
    with Worker(patience=PATIENCE_SECONDS) as local:
        local.ready()
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            output = folder / f"local-{row['key']}.png"
            command = paint(row["key"], prompt=row["prompt"], seed=row["seed"], width=64, height=64, steps=1, output=str(output))
            numerics = Numerics(precision="float32")
            local.send(replace(command, request=replace(command.request, numerics=numerics, device="cpu")))
            assert local.end(row["key"]).error is None
            assert output.read_bytes() == Path(row["output"]).read_bytes()
