"""Which pictures the program knows, whoever made them and in whatever order the answers come."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.sessions import HeldExecutor

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Generate, PictureReady, Upscale
from halftone.contract.request import PictureRequest, Upscaled, UpscaleRequest
from halftone.gallery.history import History
from halftone.session.events import Queued, Replaced
from halftone.session.pictures.history import Made, PictureHistory, with_made
from halftone.session.pictures.picture_list import PictureList, remember
from halftone.session.state import Job
from halftone.session.store import Store
from halftone.settings.places import data_dir

T = TypeVar("T")
REQUEST = PictureRequest(prompt="a sun", model="pocket")


class LateAnswers(HeldExecutor):
    """Does the work at once; its answers come with `settle`, the last first."""

    def run(self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None) -> None:
        found = work()
        self._waiting.appendleft(lambda: lambda: ready(found))


class Reader:
    """A list of pictures whose work is done when the test says."""

    def __init__(self, executor: HeldExecutor | None = None) -> None:
        self.store, self.executor = Store(), executor or HeldExecutor()
        self.pictures = PictureList(self.store, self.executor)

    @property
    def history(self) -> PictureHistory:
        return self.store.state.history

    @property
    def listed(self) -> list[str]:
        return [Path(path).name for path in self.history.listed]

    def add(self, *pictures: PictureFacts) -> None:
        for facts in pictures:
            self.pictures.add(facts, REQUEST, b"", b"")
        self.executor.settle()

    def read(self) -> None:
        self.pictures.read()
        self.executor.settle()


@pytest.fixture
def reader() -> Reader:
    return Reader()


def picture(folder: Path, name: str) -> PictureFacts:
    (folder / name).write_bytes(b"a picture")
    return samples.picture_facts(str(folder / name))


def test_a_picture_remembered_while_the_list_is_read_stays_known(tmp_path: Path) -> None:
    reader = Reader(LateAnswers())
    one, two = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    remember(one, REQUEST, b"", b"")
    reader.pictures.read()
    reader.add(two)
    assert reader.listed == ["2.png", "1.png"]


def test_a_picture_in_the_bin_can_come_back_after_another_was_made(reader: Reader, tmp_path: Path) -> None:
    one, two = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    reader.add(one, two)
    in_bin = Path(one.path).rename(tmp_path / "bin")
    reader.pictures.remove(frozenset({one.path}))
    with History() as elsewhere:
        elsewhere.add(picture(tmp_path, "3.png"), REQUEST, b"")
    reader.pictures.read_new()
    reader.executor.settle()
    assert reader.listed == ["3.png", "2.png"]
    in_bin.rename(one.path)
    reader.read()
    assert reader.listed == ["3.png", "2.png", "1.png"]


def test_a_picture_that_lies_in_the_bin_is_not_shown_again(reader: Reader, tmp_path: Path) -> None:
    one, two = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    reader.add(one, two)
    Path(one.path).rename(tmp_path / "bin")
    reader.read()
    assert reader.listed == ["2.png"]


def test_pictures_of_this_session_are_not_read_as_new(reader: Reader, tmp_path: Path) -> None:
    reader.read()
    reader.add(picture(tmp_path, "1.png"), picture(tmp_path, "2.png"))
    known = dict(reader.history.known)
    reader.pictures.read_new()
    reader.executor.settle()
    assert (reader.listed, reader.history.known) == (["2.png", "1.png"], known)


def test_what_another_program_wrote_before_an_own_picture_is_listed(reader: Reader, tmp_path: Path) -> None:
    reader.read()
    with History() as elsewhere:
        elsewhere.add(picture(tmp_path, "other.png"), REQUEST, b"")
    reader.add(picture(tmp_path, "own.png"))
    assert reader.listed == ["own.png"]
    reader.pictures.read_new()
    reader.executor.settle()
    assert reader.listed == ["other.png", "own.png"]


def test_what_was_listed_tells_the_time_unless_it_was_resumed(reader: Reader, tmp_path: Path) -> None:
    with History() as elsewhere:
        elsewhere.add(picture(tmp_path, "1.png"), REQUEST, b"")
        elsewhere.add(picture(tmp_path, "2.png"), msgspec.structs.replace(REQUEST, resume_latents="x"), b"")
    reader.read()
    assert [made.whole for made in reader.history.pictures] == [False, True]
    assert len(reader.history.timed) == 1


def test_what_the_worker_makes_is_listed_with_its_thumbnail(reader: Reader, tmp_path: Path) -> None:
    reader.store.take(Queued(job=Job(id="1", command=Generate(job="1", request=REQUEST), title="")))
    facts = picture(tmp_path, "1.png")
    reader.pictures.hear(PictureReady(job="1", facts=facts, thumbnail_size=2, failed_size=3), b"PNblack")
    reader.executor.settle()
    latest = reader.history.latest
    assert latest is not None
    assert (latest.thumbnail, latest.failed, reader.listed) == (b"PN", b"bla", ["1.png"])
    black = msgspec.structs.replace(facts, path="")
    reader.pictures.hear(PictureReady(job="1", facts=black, thumbnail_size=0, failed_size=0), b"")
    latest = reader.history.latest
    assert latest is not None
    assert (latest.is_file, reader.listed) == (False, ["1.png"])


def test_a_larger_picture_is_listed_with_what_made_its_source(reader: Reader, tmp_path: Path) -> None:
    small, large = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    reader.add(small)
    request = UpscaleRequest(pictures=(small.path,), upscaler="/u.pth")
    reader.store.take(Queued(job=Job(id="1", command=Upscale(job="1", request=request), title="")))
    large = msgspec.structs.replace(large, upscaled=Upscaled(source=small.path, upscaler="/u.pth", scale=2))
    reader.pictures.hear(PictureReady(job="1", facts=large, thumbnail_size=0, failed_size=0), b"")
    reader.executor.settle()
    assert reader.listed == ["2.png", "1.png"]
    assert reader.history.known[large.path].request.prompt == REQUEST.prompt


def test_nothing_new_changes_nothing(reader: Reader, tmp_path: Path) -> None:
    reader.add(picture(tmp_path, "1.png"))
    reader.read()
    before = reader.history
    reader.pictures.read_new()
    reader.executor.settle()
    assert reader.history is before


def test_a_list_that_cannot_be_read_is_said_to_be_so(reader: Reader) -> None:
    place = data_dir() / "history.sqlite"
    place.mkdir()
    called: list[bool] = []
    reader.pictures.read(lambda: called.append(True))
    reader.executor.settle()
    assert (reader.history.unread, reader.history.read, called) == (True, False, [True])
    place.rmdir()
    reader.read()
    assert (reader.history.unread, reader.history.read) == (False, True)


def test_an_unsaved_picture_that_is_looked_at_is_found_again(reader: Reader) -> None:
    failed = Made(facts=samples.picture_facts(""), request=REQUEST, made_at=datetime.now(UTC))
    reader.store.take(Replaced(part=with_made(reader.history, failed)))
    reader.pictures.look_at(failed)
    assert reader.history.looked_at is failed


def test_the_newest_picture_of_a_model_is_none_in_the_bin(reader: Reader, tmp_path: Path) -> None:
    one, two = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    reader.add(one, two)
    reader.pictures.remove(frozenset({two.path}))
    assert reader.history.newest_by == {"pocket": one.path}
