"""Head and nodes with real worker processes, without Ray: what must hold on any farm."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers.farms import Cuttable, head, lines, nodes, submit, until, until_over
from tests.helpers.scripted import ENGINE, AnyAction, Crash, Fail, Picture, Touch, Wait, environment
from tests.helpers.workers import Worker, paint

from halftone.contract.messages import Generate
from halftone.contract.request import Numerics
from halftone.farm.ledger import Ledger
from halftone.farm.states import MOST_LOSSES, Cancelled

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


def play(monkeypatch: pytest.MonkeyPatch, script: dict[str, list[AnyAction]]) -> None:
    """Let the workers of all nodes play a script. Keys are job ids with their attempt: "j00@1"."""
    for name, value in environment(script).items():
        monkeypatch.setenv(name, value)


def states(ledger: Ledger) -> dict[str, str]:
    return {job.key: job.state for job in ledger.in_state("waiting", "leased", "placing", "done", "failed", "aside", "cancelled")}


def test_pictures_of_two_nodes_are_those_of_this_machine_byte_for_byte(ledger: Ledger, tmp_path: Path) -> None:
    """The real engine; one node is cut off on the way."""
    path = lines(tmp_path, 8)
    submit(ledger, path)

    async def run() -> None:
        async with nodes(2) as there:
            made = asyncio.create_task(until_over(head(ledger, there, most=2)))
            await until(lambda: list(states(ledger).values()).count("done") >= 3, made)
            there["node 1"].cut = True
            await made

    asyncio.run(run())
    assert set(states(ledger).values()) == {"done"}
    with Worker(patience=120.0) as local:
        local.ready()
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            name, output = row.pop("key"), Path(row.pop("output"))
            row["numerics"] = None
            request = {name: value for name, value in row.items() if value is not None}
            local.send(_local(name, request, tmp_path / f"local-{output.name}"))
            assert local.end(name).error is None
            assert (tmp_path / f"local-{output.name}").read_bytes() == output.read_bytes()
    assert len(list(tmp_path.glob("j*.png"))) == 8
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []
    lost = [one for one in ledger.attempts() if one.outcome != "done"]
    assert len(lost) <= 4, "no more than the leases of the node that went"
    assert {one.owner for one in lost} <= {"node 1"}


def _local(name: str, request: dict[str, Any], output: Path) -> Generate:
    command = paint(name, output=str(output), **request)
    return replace(command, request=replace(command.request, numerics=Numerics(precision="float32"), device="cpu"))


def test_a_job_that_ends_two_workers_is_set_aside_by_name(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, {"j01@1": [Crash(how="kill")], "j01@2": [Crash(how="kill")]})
    submit(ledger, lines(tmp_path, 4))

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE) as there:
            await until_over(head(ledger, there))

    asyncio.run(run())
    assert states(ledger) == {"j00": "done", "j01": "aside", "j02": "done", "j03": "done"}
    job = ledger.job("j01")
    assert job is not None
    assert job.error is not None
    assert (job.deaths, job.error.code) == (2, "worker-lost")
    assert not (tmp_path / "j01.png").exists()


@pytest.mark.parametrize("leaves", [True, False])
def test_a_node_whose_user_takes_it_out_blames_no_job(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    play(monkeypatch, {f"j00@{number}": [Wait(path=str(tmp_path / "never"))] for number in (1, 2)})
    submit(ledger, lines(tmp_path, 1))

    async def run() -> None:
        async with nodes(3, "--engine", ENGINE) as all_:
            there: dict[str, Cuttable] = {}
            made = asyncio.create_task(until_over(head(ledger, there)))
            for name, node in list(all_.items())[:2]:
                there[name] = node
                await until(lambda node=node: node.told, made)
                node.leaves, node.cut = leaves, True
                await until(lambda: not ledger.in_state("leased"), made)
                assert (len(ledger.gone()) == 0) == leaves
            there["node 2"] = all_["node 2"]
            await made

    asyncio.run(run())
    assert states(ledger) == {"j00": "done" if leaves else "aside"}


def test_a_full_disk_of_a_node_pauses_the_card_and_sets_the_job_aside(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Fail(code="disk-full", facts={"need": "1 MB", "free": "0 MB", "folder": "there"})
    play(monkeypatch, {"generate": [full]})
    submit(ledger, lines(tmp_path, 1))
    shown: set[str] = set()

    async def run() -> float:
        async with nodes(1, "--engine", ENGINE) as there:
            made = asyncio.create_task(until_over(head(ledger, there, again_seconds=0.5)))
            begin = asyncio.get_running_loop().time()
            while not made.done():
                shown.update(error.code for _, _, error in ledger.refusals())
                await asyncio.sleep(0.02)
            await made
            return asyncio.get_running_loop().time() - begin

    seconds = asyncio.run(run())
    assert states(ledger) == {"j00": "aside"}
    assert len(ledger.attempts()) == MOST_LOSSES
    assert seconds >= 0.5 * (MOST_LOSSES - 1), "the card pauses"
    assert shown == {"disk-full"}
    job = ledger.job("j00")
    assert job is not None
    assert job.error is not None
    assert job.error.code == "disk-full"


@pytest.mark.parametrize("key", ["\u56fe" * 100, "a/b"])
def test_a_key_may_hold_any_sign(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Two keys that differ in one sign never share a file."""
    play(monkeypatch, {})
    path = lines(tmp_path, 2)
    rows = list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
    rows[0]["key"], rows[1]["key"] = key, key[:-2] + "_" + key[-1]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    submit(ledger, path)

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE) as there:
            await until_over(head(ledger, there))

    asyncio.run(run())
    assert set(states(ledger).values()) == {"done"}
    assert len(list(tmp_path.glob("j*.png"))) == 2


@pytest.mark.logs("its answer cannot be used")
def test_a_node_that_cannot_be_understood_is_given_up_and_attended_again(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, {})
    submit(ledger, lines(tmp_path, 4))
    reasons: set[str] = set()

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE) as there:
            there["node 0"].garbles = True
            made = asyncio.create_task(until_over(head(ledger, there, again_seconds=1.0)))
            while not made.done():
                reasons.update(why for _, why in ledger.gone().values())
                await asyncio.sleep(0.02)
            await made
            assert ledger.nodes().keys() == {"node 0"}
            assert ledger.gone() == {}

    asyncio.run(run())
    assert set(states(ledger).values()) == {"done"}
    assert len(reasons) == 1
    assert all(job.deaths == 0 for job in ledger.in_state("done")), "no job is to blame"


@pytest.mark.logs("is given up: it has Halftone 9.9")
def test_a_node_of_another_version_gets_no_jobs_until_it_has_this_one(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, {})
    submit(ledger, lines(tmp_path, 1))

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE) as there:
            other = there["node 0"]
            mine, other.version = other.version, "9.9"
            made = asyncio.create_task(until_over(head(ledger, there, again_seconds=0.5)))
            await until(ledger.gone, made)
            facts, why = ledger.gone()["node 0"]
            assert facts.version == "9.9"
            assert "9.9" in why
            other.version = mine
            await made

    asyncio.run(run())
    assert states(ledger) == {"j00": "done"}


def test_a_card_is_asked_again_what_fits_it(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs may need its memory by now."""
    play(monkeypatch, {})
    submit(ledger, lines(tmp_path, 1))

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE) as there:
            made = asyncio.create_task(head(ledger, there, again_seconds=0.3).run())
            await until(ledger.is_over, made)
            before = there["node 0"].questions
            await asyncio.sleep(0.3)
            assert there["node 0"].questions == before, "nothing waits that could fit"
            submit(ledger, lines(tmp_path, 2))
            await until(ledger.is_over, made)
            assert there["node 0"].questions > before
            made.cancel()
            await asyncio.gather(made, return_exceptions=True)

    asyncio.run(run())
    assert states(ledger) == {"j00": "done", "j01": "done"}


def test_cancel_reaches_a_running_job(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "it runs"
    play(monkeypatch, {"j00@1": [Touch(path=str(here)), Wait(path=str(tmp_path / "never")), Picture()]})
    submit(ledger, lines(tmp_path, 2))

    async def run() -> None:
        async with nodes(1, "--engine", ENGINE) as there:
            made = asyncio.create_task(until_over(head(ledger, there)))
            await until(here.exists, made)
            ledger.tell("j00", Cancelled())
            await made

    asyncio.run(run())
    assert states(ledger) == {"j00": "cancelled", "j01": "done"}
    assert not (tmp_path / "j00.png").exists()


def test_a_card_that_has_nothing_gets_what_waits_behind_a_slow_job(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "go"
    play(monkeypatch, {"j00@1": [Wait(path=str(gate)), Picture()]})
    submit(ledger, lines(tmp_path, 2))

    async def run() -> None:
        async with nodes(2, "--engine", ENGINE) as both:
            there = {"node 0": both["node 0"]}
            made = asyncio.create_task(until_over(head(ledger, there)))
            await until(lambda: len(ledger.held("node 0")) == 2 and both["node 0"].told, made)
            there["node 1"] = both["node 1"]
            await until(lambda: states(ledger)["j01"] == "done", made)
            assert states(ledger)["j00"] == "leased"
            gate.touch()
            await made

    asyncio.run(run())
    assert [(one.owner, one.outcome) for one in ledger.attempts() if one.key == "j01"] == [("node 0", "lost"), ("node 1", "done")]
    assert [(one.owner, one.outcome) for one in ledger.attempts() if one.key == "j00"] == [("node 0", "done")]


def test_a_paused_node_comes_back_after_its_lease_was_given_away(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file, one row."""
    play(monkeypatch, {})
    submit(ledger, lines(tmp_path, 6))

    async def run() -> None:
        async with nodes(2, "--engine", ENGINE) as both:
            paused = both["node 0"]
            paused.pauses = True
            there = {"node 0": paused}  # alone at first, so that it has a lease to lose
            task = asyncio.create_task(head(ledger, there, lease_seconds=2.0, most=3).run())
            await until(lambda: ledger.held("node 0"), task)
            there["node 1"] = both["node 1"]
            await until(ledger.is_over, task)
            before = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
            paused.pauses = False
            paused.flowing.set()
            await until(lambda: paused.told, task)
            await asyncio.sleep(0.3)
            assert {path.name: path.read_bytes() for path in tmp_path.glob("*.png")} == before
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert set(states(ledger).values()) == {"done"}
    assert len(list(tmp_path.glob("*.png"))) == 6
    outcomes = [(one.owner, one.outcome) for one in ledger.attempts()]
    assert ("node 0", "expired") in outcomes
    assert ("node 0", "done") not in outcomes
