"""The list of finished pictures, read and written off this thread."""

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import AnyEvent, Generate, PictureReady
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.gallery.history import Entry, History
from halftone.gallery.made import list_made, made_as
from halftone.gallery.processes import own_process
from halftone.health.pictures.painted_masks import forget_painted_masks
from halftone.library.prompts.drawn_prompts import again
from halftone.session.events import Replaced
from halftone.session.pictures.history import Made, PictureHistory, with_list, with_made, with_new, without
from halftone.session.ports import Executor
from halftone.session.store import Store

_LIMIT: Final = 10_000

_log = logging.getLogger(__name__)


class Listed(NamedTuple):
    """Pictures whose files are there, newest first, and the highest number on the list that was looked at."""

    made: list[Made]
    newest: int


def unsaved(facts: PictureFacts, request: PictureRequest, failed: bytes) -> Made:
    """A picture that came out black and is no file: it is shown, but not listed."""
    return Made(facts=facts, request=request, made_at=datetime.now(UTC), failed=failed)


def tidy_up(form: str) -> None:
    """Take pictures off the list whose files are gone, forget what killed processes noted, and remove painted masks that nothing
    names: at the start only, as one in the bin may still come back. form: the draft of the last close.
    """
    with History() as history:
        killed = history.killed_processes()
        history.settle()
        history.forget_jobs(killed)
        history.forget_missing()
    try:
        forget_painted_masks(form)
    except OSError as error:
        _log.info("old masks stay: %s", error)


def read_listed(known: Mapping[str, Made], after: int = 0) -> Listed:
    """The latest pictures above a number. Runs on another thread."""
    with History() as history:
        entries = history.recent(_LIMIT, after=after, thumbnails=False)
    there = [entry for entry in entries if entry.facts.path and not entry.gone]
    made = [known.get(entry.facts.path) or made_of(entry) for entry in there]
    return Listed(made, max((entry.id for entry in entries), default=after))


def thumbnails(paths: Sequence[str]) -> dict[str, bytes]:
    """Path -> a small picture file, empty for one that is listed without. Runs on another thread."""
    with History() as history:
        return {path: entry.thumbnail for path in paths if (entry := history.find(path)) is not None}


def remember(facts: PictureFacts, request: PictureRequest, thumbnail: bytes, failed: bytes) -> Made:
    """A picture that was just made, from the list, where the worker put it; put there now if it is not. One that cannot be listed
    is shown all the same. Runs on another thread.
    """
    try:
        with History() as history:
            found = history.find(facts.path)
            entry = found if found is not None and found.facts == facts else history.add(facts, request, thumbnail)
    except (OSError, sqlite3.Error) as error:
        _log.warning("The history could not be kept: %s", error)
        entry = Entry(id=0, made_at="", facts=facts, request=request, thumbnail=thumbnail)
    return made_of(entry, failed)


def made_of(entry: Entry, failed: bytes = b"") -> Made:
    """A picture of the list as the window knows it."""
    return Made(
        facts=entry.facts,
        request=again(entry.request, entry.facts),
        made_at=_moment(entry.made_at),
        thumbnail=entry.thumbnail,
        failed=failed,
        whole=entry.request.resume_latents is None,
    )


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC)


def _not_read(error: Exception) -> None:
    """Another program holds the list, or its folder is gone: what is known stays, and the next change reads it again."""
    _log.info("the history cannot be read now", exc_info=error)


def recent(limit: int = 200) -> list[Entry]:
    """The latest pictures, the newest first; none where the history cannot be read."""
    try:
        with History() as history:
            return history.recent(limit)
    except (OSError, sqlite3.Error) as error:
        _log.info("the history cannot be read: %s", error)
        return []


def expect_picture(request: PictureRequest | UpscaleRequest, facts: PictureFacts, thumbnail: bytes) -> None:
    """Note a picture that this process is about to save, so that it is listed later should the process be killed. Failures are
    logged.
    """
    try:
        list_made(request, facts, thumbnail, own_process())
    except (OSError, sqlite3.Error) as error:
        _log.warning("The history could not be kept: %s", error)


def forget_expected() -> None:
    """The pictures of this process are all listed."""
    try:
        with History() as history:
            history.forget_jobs((own_process(),))
    except (OSError, sqlite3.Error) as error:
        _log.info("notes on finished pictures stay: %s", error)


def keep_picture(request: PictureRequest | UpscaleRequest, facts: PictureFacts, thumbnail: bytes) -> list[str]:
    """Put a saved picture into the history. Returns why that could not be done: no reason to lose the picture."""
    try:
        list_made(request, facts, thumbnail)
    except (OSError, sqlite3.Error) as error:
        return [str(error)]
    return []


class PictureList:
    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor

    @property
    def _history(self) -> PictureHistory:
        return self._store.state.history

    def _show(self, history: PictureHistory) -> None:
        self._store.take(Replaced(part=history))

    def read(self, then: Callable[[], object] = lambda: None) -> None:
        """Read the whole list, the first time without what is no longer there."""
        before, first, form = self._history.known, not self._history.read, self._store.state.settings.form

        def work() -> Listed:
            if first:
                tidy_up(form)
            return read_listed(before)

        def take(found: Listed) -> None:
            self._show(with_list(self._history, *found, before))
            then()

        def fail(error: Exception) -> None:
            _not_read(error)
            self._show(replace(self._history, unread=not self._history.read))
            then()

        self._executor.run(work, take, fail)

    def read_new(self) -> None:
        """Read what was put on the list since it was last read."""
        known, after = self._history.known, self._history.newest
        self._executor.run(
            lambda: read_listed(known, after), lambda found: self._show(with_new(self._history, *found)), _not_read
        )

    def look_at(self, made: Made) -> None:
        """A picture is shown."""
        self._show(replace(self._history, shown=made.key))

    def remove(self, paths: frozenset[str]) -> None:
        """Take pictures off the list that were moved to the bin."""
        self._show(without(self._history, paths))

    def hear(self, event: AnyEvent, blob: bytes) -> None:
        """The worker made a picture: list it. One that was made larger stands there with what made its source."""
        job = self._store.state.job(event.job or "") if isinstance(event, PictureReady) else None
        if not isinstance(event, PictureReady) or job is None:
            return
        facts, end = event.facts, event.thumbnail_size + event.failed_size
        thumbnail, failed = blob[: event.thumbnail_size], blob[event.thumbnail_size : end]
        if facts.upscaled is not None:
            source = self._history.known.get(facts.upscaled.source)
            if source is not None:
                self.add(made_as(source.facts, facts), source.request, thumbnail, b"")
        elif isinstance(job.command, Generate) and facts.path:
            self.add(facts, job.command.request, thumbnail, failed)
        elif isinstance(job.command, Generate):
            self._show(with_made(self._history, unsaved(facts, again(job.command.request, facts), failed)))

    def add(self, facts: PictureFacts, request: PictureRequest, thumbnail: bytes, failed: bytes) -> None:
        """List a picture that this session made."""
        self._executor.run(
            lambda: remember(facts, request, thumbnail, failed), lambda made: self._show(with_made(self._history, made))
        )
