"""The queue on the disk, and jobs whose worker dies."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.helpers import samples
from tests.helpers.sessions import Desk

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Generate, JobEnded, PictureReady, WorkerLost
from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.session import queue_keeper
from halftone.session.pictures.draft import Draft, kept
from halftone.session.queue_keeper import drafts_data, with_drafts
from halftone.session.reducer import MOST_DEATHS
from halftone.settings import store
from halftone.settings.places import data_dir, pictures_dir
from halftone.settings.slots import Slot, take_slot
from halftone.settings.store import Settings

REQUEST = PictureRequest(prompt="a red sun", seed=100, batch=3)
LOST = ErrorFacts(code="worker-lost", facts={"cause": "it crashed", "log": "a.log"})


@pytest.fixture
def slot() -> Iterator[Slot]:
    found = take_slot()
    assert found is not None
    yield found
    found.close()


def desk(slot: Slot | None = None, **options: Any) -> Desk:
    made = Desk(slot=slot, **options)
    made.settle()
    return made


def saved(index: int, *, named: str = "", job: str) -> PictureFacts:
    """A picture that was written, and noted before."""
    path = pictures_dir() / (named or f"{index}.png")
    facts = replace(samples.picture_facts(str(path), seed=100 + index), index=index)
    with History() as history:
        history.expect(job, facts, REQUEST, b"small")
    path.write_bytes(samples.png())
    return facts


def refuse(*_arguments: object, **_options: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def die(made: Desk, job: str) -> None:
    made.link.say(WorkerLost(exit_code=None, signal="SIGKILL", log="a.log"))
    made.link.say(JobEnded(job=job, outcome="failed", error=LOST))
    made.settle()
    made.link.start()
    made.settle()


def last_sent(made: Desk) -> Generate:
    command = made.link.sent[-1]
    assert isinstance(command, Generate)
    return command


def test_no_job_is_sent_before_it_is_on_the_disk(slot: Slot) -> None:
    made = desk(slot)
    made.session.queue.generate(REQUEST)
    assert made.link.sent == []
    made.settle()
    assert slot.queue()
    assert last_sent(made).request == REQUEST


@pytest.mark.parametrize("reported", [True, False])
def test_a_worker_that_dies_costs_no_picture_and_makes_none_twice(slot: Slot, *, reported: bool) -> None:
    made = desk(slot)
    job = made.session.queue.generate(REQUEST)
    made.settle()
    facts = saved(0, job=job)
    if reported:
        made.link.say(PictureReady(job=job, facts=facts, thumbnail_size=5), b"small")
        made.settle()
    die(made, job)
    sent = last_sent(made)
    assert (sent.request.batch, sent.request.seed) == (2, 101)
    assert sent.job != job
    assert [one.facts.path for one in made.session.state.history.pictures] == [facts.path]
    assert "failed" not in made.kinds
    assert made.kinds.count("went-on") == 1
    (entry,) = made.session.state.jobs
    assert entry.key == job


def test_a_job_whose_pictures_are_all_there_is_over(slot: Slot) -> None:
    made = desk(slot)
    ends: list[str] = []
    command = Generate(job="j", request=replace(REQUEST, batch=1))
    made.session.queue.submit(command, "", then=lambda ended: ends.append(ended.outcome))
    made.settle()
    saved(0, job="j")
    die(made, "j")
    assert made.session.state.jobs == ()
    assert ends == ["done"]


def test_a_picture_that_kills_worker_after_worker_is_given_up(slot: Slot) -> None:
    made = desk(slot)
    made.session.queue.generate(REQUEST)
    made.settle()
    for _ in range(MOST_DEATHS):
        die(made, made.session.state.jobs[0].id)
    assert made.session.state.jobs == ()
    assert made.kinds.count("failed") == 1


def test_who_waits_for_a_job_hears_of_its_end_after_a_death() -> None:
    made = desk()
    ends: list[str] = []
    made.session.queue.submit(Generate(job="j", request=REQUEST), "", then=lambda ended: ends.append(ended.job.id))
    made.settle()
    die(made, "j")
    name = made.session.state.jobs[0].id
    made.link.say(JobEnded(job=name, outcome="done"))
    assert ends == [name]


def test_the_next_window_offers_what_was_left(slot: Slot) -> None:
    made = desk(slot)
    first = made.session.queue.generate(REQUEST)
    made.session.queue.generate(replace(REQUEST, prompt="two", batch=1))
    made.settle()
    saved(0, job=first)
    after = desk(slot)
    assert after.session.state.left.pictures == 3
    assert after.kinds == ["queue-left"]
    assert after.session.state.jobs == ()
    assert slot.queue(), "what was not decided on stays"
    after.session.queue.generate(replace(REQUEST, prompt="new", batch=1))
    after.settle()
    after.session.kept.go_on()
    after.settle()
    assert [job.title for job in after.session.state.jobs] == ["new", "a red sun", "two"]
    assert after.session.state.left.jobs == ()


def test_the_places_files_are_read_off_the_windows_thread(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk(slot)
    made.session.queue.generate(REQUEST)
    made.settle()
    after = desk(slot)
    alive, reads = True, list[str]()
    read = Slot.queue

    def look(_slot: Slot) -> bool:
        reads.append("lock")
        return alive

    def read_queue(self: Slot) -> bytes:
        reads.append("queue")
        return read(self)

    monkeypatch.setattr(Slot, "has_workers", property(look))
    monkeypatch.setattr(Slot, "queue", read_queue)
    after.session.kept.begin()
    assert reads == []
    after.settle()
    assert reads == ["queue", "lock"]
    after.clock.pass_by(0.3)
    assert len(reads) == 2
    alive = False
    after.settle()
    assert reads == ["queue", "lock"] * 2 + ["queue"]


def test_a_system_that_ends_while_the_queue_is_read_keeps_it(slot: Slot) -> None:
    made = desk(slot)
    made.session.queue.generate(REQUEST)
    made.settle()
    after = desk(slot)
    after.session.kept.begin()
    after.session.leave(lambda: None, keep_queue=True)
    after.session.stop()
    assert slot.queue()


def test_what_was_left_can_be_discarded_and_its_pictures_stay(slot: Slot) -> None:
    made = desk(slot)
    first = made.session.queue.generate(REQUEST)
    made.settle()
    facts = saved(0, job=first)
    after = desk(slot)
    after.session.kept.discard()
    after.settle()
    assert slot.queue() == b""
    with History() as history:
        assert history.find(facts.path) is not None
    assert desk(slot).kinds == []


def test_a_row_without_end_goes_on(slot: Slot) -> None:
    made = desk(slot)
    made.session.queue.generate(replace(REQUEST, batch=1), endless=True, upscaler="/up/4x.pth")
    made.settle()
    after = desk(slot)
    after.session.kept.go_on()
    after.settle()
    job = after.session.state.jobs[0]
    after.link.say(JobEnded(job=job.id, outcome="done"))
    after.settle()
    assert [one.upscaler for one in after.session.state.jobs] == ["/up/4x.pth"]


def test_a_row_without_end_goes_on_with_its_upscale_model_where_no_job_was_left(slot: Slot) -> None:
    made = desk(slot)
    first = made.session.queue.generate(replace(REQUEST, batch=1), endless=True, upscaler="/up/4x.pth")
    made.settle()
    saved(0, job=first)
    after = desk(slot)
    assert after.session.state.left.jobs == ()
    after.session.kept.go_on()
    after.settle()
    assert [one.upscaler for one in after.session.state.jobs] == ["/up/4x.pth"]


def test_a_row_without_end_has_one_entry_whatever_is_queued_beside_it(slot: Slot) -> None:
    made = desk(slot)
    queue, state = made.session.queue, made.session.store
    one = replace(REQUEST, batch=1)
    for _ in range(3):
        queue.generate(one)
    queue.generate(one, endless=True)
    made.settle()
    for _ in range(8):
        made.link.say(JobEnded(job=state.state.jobs[0].id, outcome="done"))
        made.settle()
    assert [job.endless for job in state.state.jobs] == [True]


def test_only_its_own_entry_ends_a_row_without_end_and_undo_brings_it_back(slot: Slot) -> None:
    made = desk(slot)
    queue, store = made.session.queue, made.session.store
    one = replace(REQUEST, batch=1)
    first, other = queue.generate(one), queue.generate(one)
    row = queue.generate(one, endless=True)
    made.settle()
    queue.cancel(other)
    queue.keep(first)
    assert store.state.endless is not None
    queue.remove_with_undo(row)
    assert store.state.endless is None
    (removed,) = [notice.job for notice in store.state.notices if notice.kind == "removed"]
    assert removed is not None
    queue.requeue((removed,))
    assert store.state.endless is not None


@pytest.mark.logs("cannot be restored")
def test_a_queue_that_cannot_be_restored_costs_no_queue_after_it(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk(slot)
    made.session.queue.generate(REQUEST)
    made.settle()
    with monkeypatch.context() as broken:
        broken.setattr(queue_keeper, "restored_queue", refuse)
        after = desk(slot)
    assert after.kinds == ["queue-unread"]
    assert slot.queue(), "it stays until something else is queued"
    after.session.queue.generate(replace(REQUEST, prompt="new"))
    after.settle()
    assert b"new" in slot.queue()
    assert last_sent(after).request.prompt == "new"


@pytest.mark.logs("It is not known what is left of")
def test_a_death_after_which_nothing_can_be_read_makes_all_pictures_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk()
    job = made.session.queue.generate(REQUEST)
    made.settle()
    with monkeypatch.context() as broken:
        broken.setattr(queue_keeper, "left_of", refuse)
        die(made, job)
    assert "made-again" in made.kinds
    sent = last_sent(made)
    assert sent.job != job
    assert sent.request == REQUEST


def test_many_changes_are_written_at_once(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk(slot)
    made.session.queue.pause(True)
    for number in range(20):
        made.session.queue.generate(replace(REQUEST, prompt=f"number {number}"))
    made.settle()
    assert slot.queue().count(b'"title":"number ') == 20
    writes: list[bytes] = []
    write = Slot.keep_queue

    def counted(self: Slot, data: bytes) -> None:
        writes.append(data)
        write(self, data)

    monkeypatch.setattr(Slot, "keep_queue", counted)
    made.session.queue.clear_with_undo()
    made.settle()
    made.session.queue.restore_cleared()
    made.settle()
    assert slot.queue().count(b'"title":"number ') == 20
    assert len(writes) == 4, "the first change and the last one, twice"


def test_a_change_that_waits_to_be_written_is_on_the_disk_after_the_end(slot: Slot) -> None:
    made = desk(slot)
    made.session.queue.pause(True)
    for prompt in ("one", "two", "three"):
        made.session.queue.generate(replace(REQUEST, prompt=prompt))
    made.session.leave(lambda: None, keep_queue=True)
    made.executor.work()
    made.session.stop()
    assert b"three" in slot.queue()


@pytest.mark.parametrize(("keep", "left"), [(True, True), (False, False)])
def test_a_system_that_ends_keeps_the_queue_and_stop_and_close_drops_it(slot: Slot, *, keep: bool, left: bool) -> None:
    made = desk(slot)
    made.session.queue.generate(REQUEST)
    made.session.queue.generate(REQUEST)
    made.settle()
    made.session.leave(lambda: None, keep_queue=keep)
    made.session.stop()
    assert bool(slot.queue()) is left


def test_drafts_are_kept_within_a_second_of_typing(slot: Slot) -> None:
    made = desk(slot)
    made.session.drafting.edit(prompt="half a sent")
    made.clock.pass_by(0.9)
    made.session.drafting.edit(prompt="half a sentence")
    made.clock.pass_by(0.2)
    made.settle()
    assert "half a sentence" in with_drafts(Settings(form="old"), slot.drafts()).form
    after = desk(slot)
    assert after.session.state.draft.prompt == "half a sentence"
    assert drafts_data(after.session.state) == slot.drafts()


@pytest.mark.logs("Could not write")
def test_drafts_outlive_settings_that_cannot_be_written(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    made = desk(slot)
    made.session.drafting.edit(prompt="a long prompt")
    made.clock.pass_by(2)
    made.settle()
    made.session.drafting.edit(prompt="a longer prompt")
    made.session.settings.update(replace(made.session.state.settings, form=kept(made.session.state.draft)))
    with monkeypatch.context() as full:
        full.setattr(store, "write_atomically", refuse)
        made.clock.pass_by(0.5)
        made.settle()
        made.session.stop()
    assert "a longer prompt" in with_drafts(Settings(), slot.drafts()).form


def test_drafts_that_were_restored_and_not_changed_are_in_the_settings_after_the_end(slot: Slot) -> None:
    slot.keep_drafts(msgspec.json.encode({"form": kept(Draft(prompt="a draft")), "train": ""}))
    made = desk(slot)
    assert made.session.state.draft.prompt == "a draft"
    made.session.stop()
    assert slot.drafts() == b""
    assert "a draft" in store.load().form


def test_two_windows_keep_each_others_settings(tmp_path: Path) -> None:
    first, second = desk(), desk()
    first.session.settings.update(replace(first.session.state.settings, model_folders=(str(tmp_path),)))
    first.session.stop()
    second.session.settings.update(replace(second.session.state.settings, form="draft"))
    second.session.stop()
    found = store.load()
    assert (found.model_folders, found.form) == ((str(tmp_path),), "draft")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", msgspec.json.encode({"form": 1})])
def test_drafts_that_cannot_be_read_change_nothing(data: bytes) -> None:
    assert with_drafts(Settings(form="old"), data) == Settings(form="old")


def test_an_unlisted_picture_is_listed_at_the_next_start() -> None:
    facts = saved(0, job="gone")
    missing = replace(facts, path=str(pictures_dir() / "never.png"))
    with History() as history:
        history.expect("gone", missing, REQUEST, b"")
    made = desk()
    made.session.history.read()
    made.settle()
    assert [one.facts.path for one in made.session.state.history.pictures] == [facts.path]


def noted() -> list[str]:
    """The jobs that have notes on pictures that are about to be saved."""
    with closing(sqlite3.connect(data_dir() / "history.sqlite")) as database:
        return [job for (job,) in database.execute("SELECT DISTINCT job FROM saving ORDER BY job")]


def test_notes_on_a_job_go_with_it_without_a_slot_too() -> None:
    made = desk()
    job = made.session.queue.generate(replace(REQUEST, batch=1))
    made.settle()
    saved(0, job=job)
    assert noted() == [job]
    made.link.say(JobEnded(job=job, outcome="done"))
    made.settle()
    assert noted() == []


def test_the_next_window_forgets_the_notes_that_nothing_needs(slot: Slot) -> None:
    made = desk(slot)
    job = made.session.queue.generate(replace(REQUEST, batch=1))
    made.settle()
    saved(0, job=job)
    desk(slot)
    assert noted() == []
