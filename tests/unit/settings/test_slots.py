"""Places of windows: each is taken once, and what lies there is found again."""

import subprocess
import sys

import pytest

from halftone.settings.places import data_dir
from halftone.settings.slots import hold_worker_lock, kept_texts, take_slot


def test_two_windows_have_two_places_and_the_next_one_takes_over_what_was_left() -> None:
    first, second = take_slot(), take_slot()
    assert first is not None
    assert second is not None
    assert first.worker_lock != second.worker_lock
    second.keep_queue(b"[]")
    second.keep_drafts(b"mask.png")
    assert kept_texts().count(b"mask.png") == 1
    first.close()
    second.close()
    third = take_slot()
    assert third is not None
    assert (third.queue(), third.drafts(), third.worker_lock) == (b"[]", b"mask.png", second.worker_lock)
    third.keep_queue(b"")
    assert third.queue() == b""
    third.close()


def test_the_next_window_has_the_place_of_a_window_that_left_only_drafts() -> None:
    slots = [take_slot() for _ in range(3)]
    first, second, third = slots
    assert first is not None
    assert second is not None
    assert third is not None
    second.keep_drafts(b"a draft")
    third.keep_queue(b"[]")
    for slot in (first, second, third):
        slot.close()
    slots = [take_slot() for _ in range(3)]
    assert [slot.worker_lock for slot in slots if slot is not None] == [one.worker_lock for one in (third, second, first)]
    for slot in slots:
        assert slot is not None
        slot.close()


def test_drafts_of_windows_that_were_killed_end_with_the_next_orderly_end() -> None:
    killed, alive, ending = take_slot(), take_slot(), take_slot()
    assert killed is not None
    assert alive is not None
    assert ending is not None
    for slot in (killed, alive, ending):
        slot.keep_drafts(b"a draft")
    killed.close()
    ending.drop_drafts()
    assert [slot.drafts() for slot in (killed, alive, ending)] == [b"", b"a draft", b""]
    after = take_slot()
    assert after is not None
    assert after.worker_lock == killed.worker_lock, "nothing was locked for long"
    for slot in (alive, ending, after):
        slot.close()


def test_a_worker_of_the_window_before_is_seen_until_it_ends_and_the_own_one_is_not() -> None:
    before = take_slot()
    assert before is not None
    slot = before
    code = (
        f"from halftone.settings.slots import *; f = hold_worker_lock({str(slot.worker_lock)!r}); print(1, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert not before.has_workers, "it is its own"
        before.close()
        slot = take_slot()
        assert slot is not None
        assert slot.has_workers
        worker.kill()
        worker.wait()
    assert not slot.has_workers
    assert not list((data_dir() / "windows").glob("*.worker-*")), "its lock is removed"
    slot.close()


@pytest.mark.logs("this worker has no lock", "The queue will not be kept")
def test_a_place_that_cannot_be_locked_is_none() -> None:
    (data_dir() / "windows").write_text("in the way")
    assert hold_worker_lock(str(data_dir() / "windows" / "a")) is None
    assert take_slot() is None
