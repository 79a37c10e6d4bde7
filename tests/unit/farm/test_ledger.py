"""The ledger and the files of the head: once each, whatever ends in between."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from halftone.client.command import worker_environment
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.messages import Generate
from halftone.contract.request import PictureRequest
from halftone.farm import placing
from halftone.farm.ledger import Ledger, Wanted
from halftone.farm.placing import digest_of, place, settle, unsound
from halftone.farm.states import Again, Arrived, Cancelled, Failed, Job, Placed

DATA = b"the bytes of a picture"


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite", clock) as opened:
        yield opened


def jobs(folder: Path, *keys: str, user: str = "ann", kind: str = "k") -> list[Wanted]:
    return [
        Wanted(
            Job(key=key, user=user, kind=kind, output=str(folder / f"{key}.png")),
            Generate(job=key, request=PictureRequest(prompt=key)),
            (),
        )
        for key in keys
    ]


def try_again(ledger: Ledger) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ledger.try_again([job.key for job in ledger.in_state("failed", "aside", "cancelled")], Again())


def state(ledger: Ledger, key: str) -> str:
    job = ledger.job(key)
    assert job is not None
    return job.state


def leased(ledger: Ledger, owner: str = "n", most: int = 10) -> dict[str, int]:
    lease = ledger.lease(owner, "cpu", ("k",), most, 60.0)
    return {} if lease is None else {job.key: job.attempt for job in lease.jobs}


def test_a_job_from_its_submission_to_its_file(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.submit(jobs(tmp_path, "a", "b")) == ()
    assert leased(ledger) == {"a": 1, "b": 1}
    assert leased(ledger) == {}
    assert place(ledger, "a", 1, DATA) == tmp_path / "a.png"
    assert (tmp_path / "a.png").read_bytes() == DATA
    assert ledger.counts() == {"ann": {"done": 1, "leased": 1}}
    assert not ledger.is_over()
    assert unsound(ledger) == ()
    (tmp_path / "a.png").write_bytes(b"changed")
    assert [job.place for job in unsound(ledger)] == [str(tmp_path / "a.png")]


def test_what_is_known_is_not_filed_twice(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, "a"))
    assert ledger.submit(jobs(tmp_path, "a", "b")) == ("a",)
    assert [job.key for job in ledger.in_state("waiting")] == ["a", "b"]


def test_two_open_jobs_never_have_one_output(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, "a"))
    (second,) = jobs(tmp_path, "a")
    other = Wanted(Job(key="other", user="ann", kind="k", output=second.job.output), second.command, ())
    with pytest.raises(HalftoneError, match=r"a\.png") as caught:
        ledger.submit([*jobs(tmp_path, "c"), other])
    assert caught.value.code == "farm-refused"
    assert ledger.job("c") is None, "all or none"
    ledger.tell("a", Cancelled())
    ledger.submit([other])
    assert state(ledger, "other") == "waiting"
    assert try_again(ledger) == ((), ("a",))
    ledger.tell("other", Cancelled())
    assert try_again(ledger) == (("a",), ("other",)), "the first that was submitted"
    assert state(ledger, "a") == "waiting"


def test_a_node_that_comes_back_after_its_lease_was_given_away(ledger: Ledger, tmp_path: Path, clock: Clock) -> None:
    """One file, one row: the older attempt writes nothing, before and after the newer one."""
    ledger.submit(jobs(tmp_path, "a"))
    assert leased(ledger, "paused") == {"a": 1}
    clock.time += 61
    assert [job.key for job in ledger.expire()] == ["a"]
    assert leased(ledger, "other") == {"a": 2}
    assert place(ledger, "a", 1, b"late") is None
    assert list(tmp_path.glob("*.png")) == []
    assert place(ledger, "a", 2, DATA) == tmp_path / "a.png"
    assert place(ledger, "a", 1, b"late") is None
    assert [path.read_bytes() for path in tmp_path.glob("*.png")] == [DATA]
    assert [(one.owner, one.outcome) for one in ledger.attempts()] == [("paused", "expired"), ("other", "done")]


def test_a_node_that_is_heard_keeps_its_leases(ledger: Ledger, tmp_path: Path, clock: Clock) -> None:
    ledger.submit(jobs(tmp_path, "a"))
    leased(ledger)
    for _ in range(5):
        clock.time += 50
        ledger.renew("n", 60.0)
        assert ledger.expire() == ()


def test_only_what_ran_on_a_lost_node_counts_as_its_death(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, "bad", "good"))
    error = ErrorFacts(code="internal")
    for owner in ("first", "second"):
        assert leased(ledger, owner).keys() == {"bad", "good"}
        ledger.lost(owner, ("bad",), error)
    assert (state(ledger, "bad"), state(ledger, "good")) == ("aside", "waiting")
    bad = ledger.job("bad")
    assert bad is not None
    assert bad.error == error


def test_the_head_ends_between_file_and_row(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, "a"))
    leased(ledger)
    ledger.tell("a", Arrived(1, str(tmp_path / "a.png"), digest_of(DATA)))
    (tmp_path / "a.png").write_bytes(DATA)
    assert settle(ledger) == (1, 0)
    assert state(ledger, "a") == "done"
    assert leased(ledger) == {}, "it is not made again"


_KILLED = """
import os, sys
from pathlib import Path
from halftone.farm import placing
from halftone.farm.ledger import Ledger

write = placing.create_atomically
def write_and_end(path, data):
    if sys.argv[2] == "after":
        write(path, data)
    os.kill(os.getpid(), 9)
placing.create_atomically = write_and_end
with Ledger(Path(sys.argv[1])) as ledger:
    placing.place(ledger, "a", 1, b"the bytes of a picture")
"""


@pytest.mark.skipif(os.name != "posix", reason="the farm runs on Linux")
@pytest.mark.parametrize(("moment", "found"), [("before", (0, 1)), ("after", (1, 0))])
def test_a_head_that_is_killed_at_the_file_finds_out_what_became_of_it(
    tmp_path: Path, moment: str, found: tuple[int, int]
) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.submit(jobs(tmp_path, "a"))
        leased(ledger)
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path), moment], env=worker_environment(), check=False)
    assert killed.returncode == -9
    with Ledger(path) as ledger:
        assert state(ledger, "a") == "placing"
        assert settle(ledger) == found
        assert (tmp_path / "a.png").exists() == (moment == "after")
        assert leased(ledger) == ({} if moment == "after" else {"a": 2})
        assert list(tmp_path.glob(".*.part")) == []


@pytest.mark.parametrize("there", [None, b"", b"a foreign picture", DATA[:-1]])
def test_a_foreign_file_or_none_is_never_taken_as_done(ledger: Ledger, tmp_path: Path, there: bytes | None) -> None:
    ledger.submit(jobs(tmp_path, "a"))
    leased(ledger)
    ledger.tell("a", Arrived(1, str(tmp_path / "a.png"), digest_of(DATA)))
    if there is not None:
        (tmp_path / "a.png").write_bytes(there)
    assert settle(ledger) == (0, 1)
    assert leased(ledger) == {"a": 2}
    placed = place(ledger, "a", 2, DATA)
    assert placed == tmp_path / ("a.png" if there is None else "a-2.png")
    assert placed is not None
    assert placed.read_bytes() == DATA
    if there is not None:
        assert (tmp_path / "a.png").read_bytes() == there


def test_a_file_that_cannot_be_written_fails_its_job_alone(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "folder").write_bytes(b"no folder")
    ledger.submit([*jobs(tmp_path / "folder", "a"), *jobs(tmp_path, "b", "n" * 300)])
    leased(ledger)
    assert place(ledger, "a", 1, DATA) is None
    assert place(ledger, "n" * 300, 1, DATA) is None
    assert place(ledger, "b", 1, DATA) == tmp_path / "b.png"
    failed = {job.key: job.error.code for job in ledger.in_state("failed") if job.error is not None}
    assert failed == {"a": "output-not-folder", "n" * 300: "output-failed"}
    assert settle(ledger) == (0, 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is always full")
def test_a_full_disk_stops_the_head_and_leaves_the_job_waiting(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.submit(jobs(tmp_path, "a"))
    leased(ledger)

    def full(_path: Path, data: bytes) -> None:
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(data)

    monkeypatch.setattr(placing, "create_atomically", full)
    with pytest.raises(HalftoneError) as caught:
        place(ledger, "a", 1, DATA)
    assert caught.value.code == "disk-full"
    assert state(ledger, "a") == "waiting"


def test_whether_anything_is_left_to_do(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.is_over()
    ledger.submit(jobs(tmp_path, "a"))
    assert not ledger.is_over()
    leased(ledger)
    assert not ledger.is_over()
    ledger.tell("a", Arrived(1, str(tmp_path / "a.png"), digest_of(DATA)))
    assert not ledger.is_over()
    ledger.tell("a", Placed())
    assert ledger.is_over()


def test_no_unfinished_file_is_left(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, "a"))
    leased(ledger)
    place(ledger, "a", 1, DATA)
    assert sorted(path.name for path in tmp_path.iterdir() if "ledger" not in path.name) == ["a.png"]


def test_users_take_turns(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, *(f"a{n}" for n in range(6)), user="ann"))
    first = leased(ledger, most=2)
    ledger.submit(jobs(tmp_path, *(f"b{n}" for n in range(4)), user="bob"))
    given = [first, *(leased(ledger, most=2) for _ in range(4))]
    assert [min(keys)[0] for keys in given] == ["a", "a", "b", "a", "b"]
    assert leased(ledger) == {}


def test_kinds_of_the_user_whose_turn_it_is_are_asked_about_first(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit([one for n in range(3) for one in jobs(tmp_path, f"a{n}", user="ann", kind=f"z{n}")])
    assert [kind.kind for kind in ledger.open_kinds()] == ["z0", "z1", "z2"]
    ledger.lease("n", "cpu", ("z1",), 1, 60.0)
    ledger.submit(jobs(tmp_path, "b", user="bob", kind="y"))
    first = ledger.lease("n", "cpu", ("z0",), 1, 60.0)
    assert first is not None
    assert [kind.kind for kind in ledger.open_kinds()] == ["y", "z2"]


def test_a_card_gets_only_the_kinds_that_fit(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, "large", kind="too large"))
    assert leased(ledger) == {}
    assert [kind.kind for kind in ledger.open_kinds()] == ["too large"]
    lease = ledger.lease("n", "cpu", ("k", "too large"), 5, 60.0)
    assert lease is not None
    assert ledger.open_kinds() == ()


def test_a_head_that_begins_anew_takes_all_leases_back(ledger: Ledger, tmp_path: Path) -> None:
    ledger.submit(jobs(tmp_path, "a", "b", "c"))
    leased(ledger, most=2)
    ledger.tell("b", Failed(1, ErrorFacts(code="internal")))
    assert ledger.forget_leases() == 1
    assert leased(ledger) == {"a": 2, "c": 1}


def test_the_ledger_is_as_it_was_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as first:
        first.submit(jobs(tmp_path, "a"))
        leased(first)
        place(first, "a", 1, DATA)
        before = first.job("a")
    with Ledger(path) as second:
        assert second.job("a") == before
        assert before is not None
        assert (before.state, before.digest) == ("done", digest_of(DATA))
        assert second.tell("a", Placed()) is None
