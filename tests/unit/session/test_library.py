"""The model library follows the folders of the settings, remembers marks and asks once."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.helpers.headers import header, write_sparse
from tests.helpers.model_files import write_folder
from tests.helpers.sessions import Desk

from halftone.contract.messages import JobEnded
from halftone.contract.request import Lora, PictureRequest
from halftone.contract.wording import Words
from halftone.library.index.entries import Entry
from halftone.library.index.facts import Install, Mark, MarkChange
from halftone.library.index.marks import Marks
from halftone.library.index.scan import scan
from halftone.library.index.store import Index
from halftone.session.models import library as library_module
from halftone.session.models.index_messages import Progress, Root, Scan, Weighing
from halftone.session.models.index_process import weigh
from halftone.session.models.listing import Query, entries_of, look, rows_of
from halftone.session.models.watched import Library, Watched, reading
from halftone.session.ports import Finished
from halftone.settings.places import cache_dir, data_dir
from halftone.settings.store import Settings

LORA = header("lora_unet_mid.lora_down.weight[8,768]", "lora_unet_mid.lora_up.weight[320,8]")


class Shelf:
    """A desk whose library has started. One folder is watched, which holds one file."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.printed: dict[int, bytes] = {}
        self.root = folder / "models"
        self.root.mkdir()
        self.file = write_sparse(self.root / "style.safetensors", LORA)
        known: dict[str, object] = {"library_asked": True, **settings}
        self.desk = Desk(Settings(first_run_done=True, model_folders=(str(self.root),), **known))  # pyright: ignore[reportArgumentType]
        self.commands, self.library = self.desk.commands, self.desk.session.library
        self.library.start()
        self.desk.settle()

    @property
    def state(self) -> Library:
        return self.library.state

    def scan(self) -> None:
        """The process has scanned all folders, and says so."""
        roots = [one.root for one in self.state.watched]
        with Index() as index:
            found = scan(index, roots)
        roots_found = tuple(Root(one.files, one.offline, one.closed) for one in found)
        self.say(Progress(0, 1, 1), Scan(roots_found))

    def say(self, *messages: Progress | Scan) -> None:
        number = max(n for n, words in enumerate(self.commands.started) if "--watch" in words)
        self.printed[number] = self.printed.get(number, b"noise\n")
        self.printed[number] += b"".join(msgspec.json.encode(one) + b"\n" for one in messages)
        self.commands.heard[number](self.printed[number])
        self.desk.settle()

    def watching(self) -> list[tuple[str, ...]]:
        return [words[words.index("--") + 1 :] for words in self.commands.started if "--watch" in words]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_nothing_runs_before_the_start_or_without_folders() -> None:
    desk = Desk(Settings(first_run_done=True, library_asked=True))
    assert desk.commands.started == []
    desk.session.library.start()
    desk.settle()
    assert desk.commands.started == []
    assert desk.session.state.library.read


def test_what_a_scan_found_is_listed(shelf: Shelf) -> None:
    assert shelf.watching() == [(str(shelf.root),)]
    assert (shelf.state.entries, shelf.state.watched[0].scanning) == ((), (0, 0))
    shelf.scan()
    assert [entry.kind for entry in shelf.state.entries] == ["LoRA"]
    assert (shelf.state.watched[0].files, shelf.state.watched[0].scanning) == (1, None)


def test_the_list_of_the_last_run_is_there_before_any_scan(tmp_path: Path, shelf: Shelf) -> None:
    shelf.scan()
    again = Desk(shelf.desk.session.state.settings)
    again.session.library.start()
    again.settle()
    assert [entry.name for entry in again.session.state.library.entries] == ["style"]


def test_files_appear_while_a_long_scan_runs(shelf: Shelf) -> None:
    with Index() as index:
        scan(index, [str(shelf.root)])
    shelf.say(Progress(0, 100, 1000))
    assert shelf.state.watched[0].scanning == (100, 1000)
    assert shelf.state.entries == ()
    shelf.desk.clock.pass_by(5)
    shelf.desk.settle()
    assert len(shelf.state.entries) == 1


def test_entries_stay_the_same_objects_when_nothing_changed(shelf: Shelf) -> None:
    shelf.scan()
    before = shelf.state.entries
    shelf.scan()
    assert shelf.state.entries is before
    write_sparse(shelf.root / "two.safetensors", LORA)
    shelf.scan()
    assert shelf.state.entries[0] is before[0]


def test_folders_come_and_go_with_the_settings(shelf: Shelf, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shelf.library.add_folder(str(other))
    assert shelf.watching()[-1] == (str(shelf.root), str(other))
    assert shelf.commands.killed == [0]
    shelf.library.remove_folder(str(shelf.root))
    assert shelf.desk.session.state.settings.model_folders == (str(other),)
    assert shelf.watching()[-1] == (str(other),)
    shelf.desk.settle()
    assert shelf.file.is_file()


def test_a_folder_that_is_away_is_shown_so(shelf: Shelf, tmp_path: Path) -> None:
    shelf.scan()
    shelf.root.rename(tmp_path / "away")
    shelf.scan()
    assert shelf.state.watched[0].offline
    assert len(shelf.state.entries) == 1


@pytest.mark.logs("could not be scanned")
def test_a_scan_leaves_the_watch_alone_and_answers_those_that_waited_for_it(shelf: Shelf) -> None:
    heard: list[tuple[str, bool]] = []
    scans = lambda: [number for number, one in enumerate(shelf.commands.started) if one[:2] == ("index", "--")]  # noqa: E731
    shelf.library.scan(lambda whole: heard.append(("first", whole)))
    shelf.library.scan(lambda whole: heard.append(("later", whole)))
    (first,) = scans()
    assert shelf.commands.started[first][2:] == tuple(one.root for one in shelf.state.watched)
    shelf.commands.ended[first](Finished(0, b"", b""))
    assert heard == [("first", True)]
    shelf.commands.ended[scans()[1]](Finished(1, b"", b"no space left"))
    assert heard == [("first", True), ("later", False)]
    assert (len(shelf.watching()), shelf.commands.killed) == (1, [])
    shelf.desk.settle()


@pytest.mark.logs("no longer watched")
def test_a_watch_that_ends_is_begun_again_once_and_then_by_the_user(shelf: Shelf) -> None:
    shelf.commands.ended[0](Finished(1, b"", b"no space left"))
    assert len(shelf.watching()) == 2
    shelf.scan()
    assert (shelf.state.watching, shelf.state.watch_ended, shelf.state.watched[0].files) == (True, False, 1)
    shelf.commands.ended[1](Finished(-9, b"", b""))
    assert len(shelf.watching()) == 2
    assert (shelf.state.watching, shelf.state.watch_ended, shelf.state.watched[0].scanning) == (False, True, None)
    shelf.library.rescan()
    assert len(shelf.watching()) == 3
    assert not shelf.state.watch_ended
    shelf.desk.clock.pass_by(3600)
    shelf.commands.ended[-1](Finished(-9, b"", b""))
    shelf.desk.clock.pass_by(3600)
    shelf.commands.ended[-1](Finished(-9, b"", b""))
    assert (len(shelf.watching()), shelf.state.watch_ended) == (5, False)


@pytest.mark.logs("The model folders are no longer watched")
def test_a_watch_that_ends_while_it_starts_is_not_taken_for_the_next_one(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    start, failed = shelf.commands.start, []

    def failing(*arguments: str, ended: Callable[[Finished], object], heard: Callable[[bytes], object] | None = None) -> Any:
        kill = start(*arguments, ended=ended, heard=heard)
        if not failed:
            failed.append(len(shelf.commands.started) - 1)
            ended(Finished(-1, b"", b"no such program"))
        return kill

    monkeypatch.setattr(shelf.commands, "start", failing)
    shelf.library.rescan()
    shelf.desk.settle()
    shelf.commands.killed.clear()
    shelf.library.stop()
    assert failed[0] not in shelf.commands.killed
    assert failed[0] + 1 in shelf.commands.killed, "the process that was started next is the one to kill"


@pytest.mark.logs("index of models cannot be read")
def test_an_index_that_cannot_be_read_is_tried_again_before_the_user_hears_of_it(tmp_path: Path) -> None:
    place = cache_dir() / "models.sqlite"
    place.mkdir()
    shelf = Shelf(tmp_path)
    assert (shelf.state.read, shelf.state.failed, reading(shelf.state)) == (False, None, (0, 0))
    for _ in range(2):
        shelf.desk.clock.pass_by(3)
        shelf.desk.settle()
    assert str(shelf.state.failed) == "The file cannot be opened. Check the rights to its folder."
    assert reading(shelf.state) is None
    place.rmdir()
    shelf.library.rescan()
    assert shelf.state.failed is None
    shelf.desk.settle()
    shelf.scan()
    assert (shelf.state.read, len(shelf.state.entries)) == (True, 1)


def test_an_index_that_was_held_for_a_moment_is_read_again(tmp_path: Path) -> None:
    place = cache_dir() / "models.sqlite"
    place.mkdir()
    shelf = Shelf(tmp_path)
    place.rmdir()
    shelf.desk.clock.pass_by(3)
    shelf.desk.settle()
    assert (shelf.state.read, shelf.state.failed) == (True, None)


ENTRY = Entry(path="/m/a.safetensors", name="a", size=1)


@pytest.mark.parametrize(
    ("library", "shown"),
    [
        (Library(), None),
        (Library(watched=(Watched(root="/m", scanning=(0, 0)),), entries=(ENTRY,)), (0, 0)),
        (Library(watched=(Watched(root="/m", scanning=(0, 0)),), failed=Words("The disk is full. Free some space.")), None),
        (Library(read=True), None),
        (Library(read=True, watched=(Watched(root="/m"),)), None),
        (Library(read=True, watched=(Watched(root="/m", scanning=(0, 0)),)), (0, 0)),
        (Library(read=True, watched=(Watched(root="/m", scanning=(0, 0)),), entries=(ENTRY,)), None),
        (Library(read=True, watched=(Watched(root="/m", scanning=(3, 9)), Watched(root="/n", scanning=(0, 0)))), (3, 9)),
        (Library(read=True, watched=(Watched(root="/m", scanning=(3, 9)), Watched(root="/n", scanning=(1, 2)))), (4, 11)),
    ],
)
def test_how_far_the_reading_of_new_files_came(library: Library, shown: tuple[int, int] | None) -> None:
    assert reading(library) == shown


def test_the_user_is_asked_once_about_other_programs(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, library_asked=False)
    number = shelf.commands.started.index(("index", "--find", "--json"))
    comfy = Install("ComfyUI", "/comfy", ("/comfy/models",))
    shelf.commands.ended[number](Finished(0, msgspec.json.encode([comfy]), b""))
    assert shelf.state.offers == (comfy,)
    shelf.library.accept(comfy.folders)
    assert shelf.state.offers == ()
    settings = shelf.desk.session.state.settings
    assert (settings.library_asked, settings.model_folders[-1]) == (True, "/comfy/models")


def test_an_offer_that_is_declined_does_not_come_again(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, library_asked=False)
    shelf.library.decline()
    shelf.commands.ended[1](Finished(0, msgspec.json.encode([Install("ComfyUI", "/comfy", ("/comfy/models",))]), b""))
    assert shelf.state.offers == ()
    again = Desk(shelf.desk.session.state.settings)
    again.session.library.start()
    assert all("--find" not in words for words in again.commands.started)


@pytest.mark.parametrize("added", ["", "models"])
def test_a_folder_of_comfyui_brings_its_further_folders_as_an_offer(tmp_path: Path, shelf: Shelf, added: str) -> None:
    root, extra = tmp_path / "ComfyUI", tmp_path / "disk" / "loras"
    for folder in (root / "comfy", root / "models" / "checkpoints", extra):
        folder.mkdir(parents=True)
    (root / "extra_model_paths.yaml").write_text(f"a:\n  base_path: {json.dumps(str(extra.parent))}\n  loras: loras\n")
    shelf.library.add_folder(str(root / added))
    shelf.desk.settle()
    assert shelf.state.offers == (Install("ComfyUI", str(root), (str(extra),)),)
    shelf.library.accept(shelf.state.offers[0].folders)
    shelf.desk.settle()
    assert (shelf.state.offers, shelf.desk.session.state.settings.model_folders[-1]) == ((), str(extra))


def test_a_removed_folder_is_forgotten(shelf: Shelf) -> None:
    shelf.scan()
    shelf.library.remove_folder(str(shelf.root))
    shelf.desk.settle()
    with Index() as index:
        assert index.stamps(str(shelf.root)) == {}


@pytest.mark.logs("was damaged")
def test_damaged_marks_empty_no_library(shelf: Shelf) -> None:
    shelf.scan()
    (data_dir() / "model-marks.sqlite").write_bytes(b"no database" * 400)
    shelf.library.rescan()
    shelf.desk.settle()
    assert [entry.path for entry in shelf.state.entries] == [str(shelf.file)]
    assert (data_dir() / "model-marks-damaged-1.sqlite").exists()
    shelf.library.mark(str(shelf.file), note="good")
    shelf.desk.settle()
    with Marks() as marks:
        assert marks.all()[str(shelf.file)].mark.note == "good"


def test_a_reading_that_began_before_a_mark_does_not_undo_it(shelf: Shelf) -> None:
    shelf.scan()
    path = str(shelf.file)
    shelf.desk.settle()
    shelf.library.rescan()  # its reading waits
    stale = reading_of(shelf)
    shelf.library.mark(path, favourite=True)
    shelf.library._known(shelf.library._roots, stale)  # it ends after the mark was made
    assert shelf.state.marks[path].favourite
    shelf.library.mark(path, note="good")
    shelf.desk.settle()
    with Marks() as marks:
        assert marks.all()[path].mark == Mark(favourite=True, note="good")
    shelf.library.rescan()
    shelf.desk.settle()
    assert shelf.state.marks[path] == Mark(favourite=True, note="good")


def reading_of(shelf: Shelf) -> library_module._Read:
    """What a reading of the index finds now."""
    library = shelf.library
    return library_module._read(library._roots, {}, library.state, frozenset())


def test_two_windows_keep_each_others_marks(shelf: Shelf) -> None:
    shelf.scan()
    path = str(shelf.file)
    with Marks() as elsewhere:
        elsewhere.keep([(path, "", Mark(favourite=True), MarkChange(favourite=True))])
    shelf.library.mark(path, note="good")
    shelf.desk.settle()
    with Marks() as marks:
        assert marks.all()[path].mark == Mark(favourite=True, note="good")
    shelf.library.mark(path, favourite=False, note="")
    shelf.desk.settle()
    with Marks() as marks:
        assert path not in marks.all()


def test_a_deleted_file_stays_away_until_it_is_there_again(shelf: Shelf) -> None:
    shelf.scan()
    content = shelf.file.read_bytes()
    shelf.library.delete([str(shelf.file)], lambda files: [Path(one).unlink() for several in files for one in several], print)
    shelf.desk.settle()
    assert shelf.state.entries == ()
    shelf.library._read()
    shelf.desk.settle()
    assert shelf.state.entries == ()
    shelf.file.write_bytes(content)
    shelf.library._read()
    shelf.desk.settle()
    assert [entry.path for entry in shelf.state.entries] == [str(shelf.file)]


@pytest.mark.logs("marks of models cannot be read")
def test_marks_that_cannot_be_opened_empty_no_library(shelf: Shelf) -> None:
    (data_dir() / "model-marks.sqlite").unlink(missing_ok=True)
    (data_dir() / "model-marks.sqlite").mkdir()
    shelf.scan()
    assert [entry.path for entry in shelf.state.entries] == [str(shelf.file)]


def test_marks_outlive_the_index_and_follow_a_file_that_moves(shelf: Shelf) -> None:
    shelf.scan()
    path = str(shelf.file)
    shelf.library.mark(path, favourite=True)
    shelf.library.mark(path, note="at 0.8")
    shelf.library.used([path, "pocket"])
    mark = shelf.state.marks[path]
    assert (mark.favourite, mark.note, mark.used > 0) == (True, "at 0.8", True)
    (shelf.root / "inner").mkdir()
    moved = shelf.root / "inner" / shelf.file.name
    shelf.file.rename(moved)
    shelf.desk.settle()
    shelf.scan()
    assert shelf.state.marks[str(moved)] == mark
    with Index() as index:
        index.forget([str(shelf.root)])
    shelf.scan()
    assert shelf.state.marks[str(moved)] == mark


def test_files_go_to_the_bin_with_what_describes_them_alone(shelf: Shelf) -> None:
    for name in ("style.preview.png", "style.json", "other.json", "two.png"):
        (shelf.root / name).write_bytes(b"{}")
    for name in ("two.safetensors", "two.gguf"):
        write_sparse(shelf.root / name, LORA)
    shelf.scan()
    binned: list[list[str]] = []
    answers: list[int] = []

    def to_bin(models: Iterable[Sequence[str]]) -> int:
        for paths in models:
            binned.append([Path(path).name for path in paths])
            for path in paths:
                Path(path).unlink()
        return len(binned)

    for _ in range(2):  # an impatient user presses the key twice
        shelf.library.delete([str(shelf.file), str(shelf.root / "two.safetensors")], to_bin, answers.append)
    assert binned == [], "the window does not wait for the bin"
    shelf.desk.settle()
    assert binned == [["style.safetensors", "style.json", "style.preview.png"], ["two.safetensors"]]
    assert answers == [2]
    assert [Path(entry.path).name for entry in shelf.state.entries] == ["two.gguf"]


def test_a_file_that_the_bin_does_not_take_stays_listed(shelf: Shelf) -> None:
    shelf.scan()
    shelf.library.delete([str(shelf.file)], lambda _paths: "no bin here", lambda _answer: None)
    shelf.desk.settle()
    assert [entry.path for entry in shelf.state.entries] == [str(shelf.file)]


def test_files_are_hashed_while_nothing_else_is_to_be_done(shelf: Shelf) -> None:
    shelf.scan()
    shelf.desk.clock.pass_by(6)
    assert shelf.commands.started[-1] == ("index", "--hash")
    number = len(shelf.commands.started) - 1
    shelf.desk.session.checks.check(shelf.desk.model)
    assert number in shelf.commands.killed


def test_the_processes_end_with_the_program(shelf: Shelf) -> None:
    shelf.desk.session.stop()
    assert shelf.commands.killed == [0]


def test_what_a_picture_is_made_with_counts_as_used(shelf: Shelf) -> None:
    request = PictureRequest(prompt="a sun", model="pocket", loras=(Lora(path=str(shelf.file)),))
    job = shelf.desk.session.queue.generate(request)
    shelf.desk.link.say(JobEnded(job=job, outcome="done"))
    assert set(shelf.state.marks) == {str(shelf.file), "pocket"}
    assert all(mark.used > 0 for mark in shelf.state.marks.values())
    rows = rows_of(entries_of(shelf.state, [shelf.desk.model]), shelf.state, {})
    assert look(rows, Query(place="recent")).places["recent"] == 1, "the demo model counts, though it is no file"


def test_weights_are_looked_at_one_file_after_another(shelf: Shelf) -> None:
    other = write_sparse(shelf.root / "two.safetensors", LORA)
    shelf.scan()
    shelf.library.scan_weights(str(shelf.file), str(other), str(other))
    number = len(shelf.commands.started) - 1
    assert shelf.commands.started[-1] == ("index", "--weights", "--", str(shelf.file))
    shelf.commands.heard[number](msgspec.json.encode(Weighing(1, 4)) + b"\n")
    assert shelf.state.weighing == (str(shelf.file), 1, 4)
    weigh(str(shelf.file))
    shelf.commands.ended[number](Finished(0, b"", b""))
    shelf.desk.settle()
    assert shelf.state.weights[str(shelf.file)].is_sound
    assert shelf.commands.started[-1][-1] == str(other)
    shelf.library.stop_weighing()
    assert shelf.state.weighing is None


def test_a_new_folder_is_listed_once_it_was_scanned_and_not_read_by_the_window(shelf: Shelf, tmp_path: Path) -> None:
    shelf.scan()
    model = write_folder(tmp_path / "more" / "one")
    shelf.library.add_folder(str(tmp_path / "more"))
    shelf.desk.settle()
    assert str(model) not in shelf.desk.session.state.models.models
    shelf.say(Scan(()))
    with Index() as index:
        scan(index, [str(shelf.root), str(tmp_path / "more")])
    shelf.scan()
    assert str(model) in shelf.desk.session.state.models.models
    assert shelf.desk.session.state.loras.paths == {"style": str(shelf.file)}
