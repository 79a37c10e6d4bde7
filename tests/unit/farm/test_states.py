"""Every transition of a job, and what an older attempt can still say."""

import pytest

from halftone.contract.errors import ErrorFacts
from halftone.farm.states import (
    MOST_LOSSES,
    Again,
    Arrived,
    Cancelled,
    Failed,
    Gone,
    Happening,
    Job,
    Leased,
    Lost,
    NotPlaced,
    Placed,
    State,
    after,
)
from halftone.farm.turns import lease_size, next_user, start_of

ERROR = ErrorFacts(code="internal")
WAITING = Job(key="a")
LEASED = Job(key="a", state="leased", attempt=2, lease="l", owner="n")
PLACING = Job(key="a", state="placing", attempt=2, place="/a.png", digest="d")


@pytest.mark.parametrize(
    ("job", "happening", "state"),
    [
        (WAITING, Leased("l", "n"), "leased"),
        (LEASED, Leased("l", "n"), None),
        (PLACING, Leased("l", "n"), None),
        (LEASED, Lost(2), "waiting"),
        (LEASED, Lost(1), None),
        (LEASED, Arrived(2, "/a.png", "d"), "placing"),
        (LEASED, Arrived(1, "/a.png", "d"), None),
        (WAITING, Arrived(2, "/a.png", "d"), None),
        (PLACING, Arrived(2, "/a.png", "d"), None),
        (PLACING, Placed(), "done"),
        (LEASED, Placed(), None),
        (PLACING, NotPlaced(), "waiting"),
        (PLACING, Lost(2), None),
        (LEASED, Failed(2, ERROR), "failed"),
        (LEASED, Failed(1, ERROR), None),
        (PLACING, Failed(2, ERROR), "failed"),
        (PLACING, Failed(1, ERROR), None),
        (WAITING, Failed(2, ERROR), None),
        (WAITING, Cancelled(), "cancelled"),
        (LEASED, Cancelled(), "cancelled"),
        (PLACING, Cancelled(), None),
        (WAITING, Again(), None),
        (Job(key="a", state="failed"), Again(), "waiting"),
        (Job(key="a", state="aside", deaths=2), Again(), "waiting"),
        (Job(key="a", state="cancelled"), Again(), "waiting"),
        (Job(key="a", state="done"), Again(), None),
        (Job(key="a", state="done"), Lost(0), None),
        (Job(key="a", state="done", place="/a.png", digest="d"), Gone(), "waiting"),
        (WAITING, Gone(), None),
        (Job(key="a", state="failed"), Gone(), None),
    ],
)
def test_transition(job: Job, happening: Happening, state: State | None) -> None:
    new = after(job, happening)
    assert (None if new is None else new.state) == state
    if new is not None and new.state != "leased":
        assert (new.lease, new.owner) == (None, None)


def test_a_job_that_ends_two_workers_is_set_aside_with_the_last_error() -> None:
    once = after(LEASED, Lost(2, died=True, error=ERROR))
    assert once is not None
    assert (once.state, once.deaths, once.error) == ("waiting", 1, None)
    again = after(once, Leased("m", "o"))
    assert again is not None
    assert again.attempt == 3
    twice = after(again, Lost(3, died=True, error=ERROR))
    assert twice is not None
    assert (twice.state, twice.deaths, twice.error) == ("aside", 2, ERROR)
    tried = after(twice, Again())
    assert tried is not None
    assert (tried.state, tried.deaths, tried.error) == ("waiting", 0, None)


def test_a_job_that_nodes_fail_too_often_is_set_aside() -> None:
    job: Job | None = WAITING
    for number in range(1, MOST_LOSSES + 1):
        assert job is not None
        assert job.state == "waiting"
        job = after(job, Leased("l", "n"))
        assert job is not None
        job = after(job, Lost(number, by_node=True, error=ERROR))
    assert job is not None
    assert (job.state, job.losses, job.deaths, job.error) == ("aside", MOST_LOSSES, 0, ERROR)
    tried = after(job, Again())
    assert tried is not None
    assert (tried.state, tried.losses, tried.error) == ("waiting", 0, None)


def test_a_lost_node_that_did_not_die_of_the_job_counts_no_death() -> None:
    job: Job | None = WAITING
    for number in range(1, 6):
        assert job is not None
        job = after(job, Leased("l", "n"))
        assert job is not None
        job = after(job, Lost(number))
    assert job is not None
    assert (job.state, job.deaths, job.attempt) == ("waiting", 0, 5)


@pytest.mark.parametrize(
    ("waiting", "had", "user"),
    [
        ({}, {}, None),
        ({"ann": 0}, {}, None),
        ({"ann": 3, "bob": 3}, {}, "ann"),
        ({"ann": 3000, "bob": 1}, {"ann": 32}, "bob"),
        ({"ann": 3, "bob": 1}, {"ann": 32, "bob": 64}, "ann"),
    ],
)
def test_turns(waiting: dict[str, int], had: dict[str, int], user: str | None) -> None:
    assert next_user(waiting, had) == user


def test_who_comes_later_begins_with_the_count_of_those_who_wait() -> None:
    assert start_of({"ann": 320, "bob": 64, "old": 5}, {"ann": 10, "bob": 10}) == 64
    assert start_of({"ann": 320}, {}) == 0


@pytest.mark.parametrize(
    ("waiting", "cards", "size"), [(10_000, 4, 32), (40, 2, 10), (3, 2, 1), (1, 8, 1), (200, 2, 32), (5, 0, 3)]
)
def test_leases_become_smaller_near_the_end(waiting: int, cards: int, size: int) -> None:
    assert lease_size(waiting, cards) == size
