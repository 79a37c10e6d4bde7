"""What is made or fetched by a process of its own."""

from pathlib import Path

import msgspec
import pytest
from tests.helpers.sessions import Desk

from halftone.contract.errors import ErrorFacts
from halftone.session.models.conversion import Converted
from halftone.session.ports import Finished
from halftone.worker.confined.walls import Wall


@pytest.mark.logs("could not be made")
def test_the_fragile_model_is_made_one_at_a_time(tmp_path: Path) -> None:
    desk = Desk()
    desk.session.fragile.make()
    desk.session.fragile.make()
    ((*_words, folder),) = desk.commands.started
    assert Path(folder).name == "pocket-fragile"
    assert desk.session.state.making
    desk.commands.ended[0](Finished(1, b"", b"first line\nno space left\n"))
    assert not desk.session.state.making
    assert desk.kinds == ["fragile-begun", "fragile-failed"]
    assert desk.session.state.notices[-1].facts == ("no space left",)
    desk.session.fragile.make()
    desk.session.stop()
    assert desk.commands.killed == [1]


@pytest.mark.parametrize(
    ("output", "code"),
    [(msgspec.json.encode({"error": ErrorFacts(code="fetch-refused")}), "fetch-refused"), (b"Traceback", "fetch-failed")],
)
def test_a_fetch_that_fails_says_why(output: bytes, code: str) -> None:
    desk = Desk()
    small = desk.session.small_files
    small.ask(desk.model)
    small.fetch()
    small.fetch()
    assert len(desk.commands.started) == 1
    desk.commands.heard[0](b'{"done": 1, "total": 4}\n{"done": 2, "to')
    assert desk.session.state.lacking.came == (1, 4)
    desk.commands.ended[0](Finished(1, output, b""))
    known = desk.session.state.lacking
    assert known.error is not None
    assert (known.error.code, known.fetching, known.came) == (code, False, None)


def test_a_fetch_that_is_cancelled_is_killed_and_the_model_still_asked_for() -> None:
    desk = Desk()
    desk.session.small_files.ask(desk.model)
    desk.session.small_files.fetch()
    desk.session.small_files.cancel()
    assert desk.commands.killed == [0]
    assert (desk.session.state.lacking.fetching, desk.session.state.lacking.model) == (False, desk.model)
    desk.session.small_files.close()
    assert desk.session.state.lacking.model is None


def test_all_processes_are_killed_before_the_end_waits_for_them(tmp_path: Path) -> None:
    desk = Desk()
    desk.session.library.start()
    desk.session.fragile.make()
    desk.session.converter.convert(str(tmp_path / "old.ckpt"))
    desk.session.small_files.ask(desk.model)
    desk.session.small_files.fetch()
    count = len(desk.commands.started)
    assert count >= 4
    desk.session.stop()
    assert len(desk.commands.killed) == count
    assert desk.commands.waited == [count]


def test_a_fetch_for_another_model_ends_the_first_and_its_end_changes_nothing() -> None:
    desk = Desk()
    small, other = desk.session.small_files, msgspec.structs.replace(desk.model, id="other", path="/other", name="Other")
    small.ask(desk.model)
    small.fetch()
    small.ask(other)
    desk.commands.heard[0](b'{"done": 1, "total": 4}\n')
    assert desk.session.state.lacking.came is None
    small.fetch()
    assert (desk.commands.killed, len(desk.commands.started)) == ([0], 2)
    small.cancel()
    assert desk.commands.killed == [0, 1]


def test_a_fetch_that_ends_while_another_model_is_asked_for_leaves_that_one_alone() -> None:
    desk = Desk()
    small, other = desk.session.small_files, msgspec.structs.replace(desk.model, id="other", path="/other", name="Other")
    small.ask(desk.model)
    small.fetch()
    small.ask(other)
    desk.commands.ended[0](Finished(1, b"Traceback", b""))
    desk.settle()
    known = desk.session.state.lacking
    assert (known.model, known.error, known.fetching) == (other, None, False)


@pytest.mark.parametrize(
    ("known", "walls", "kind"),
    [(True, (), "converted"), (False, (), "converted-unknown"), (True, ("network",), "converted-open")],
)
def test_what_matters_of_a_conversion_is_named(tmp_path: Path, known: bool, walls: tuple[Wall, ...], kind: str) -> None:
    desk = Desk()
    desk.session.converter.convert(str(tmp_path / "old.ckpt"))
    made = Converted(str(tmp_path / "old.safetensors"), 3, {"text_encoder": 2}, known=known, open=walls)
    desk.commands.ended[0](Finished(0, msgspec.json.encode(made), b""))
    notice = desk.session.state.notices[-1]
    assert (notice.kind, str(notice.why)) == (kind, "Not in the new file: 2 tensors in text_encoder.")


@pytest.mark.logs("could not be converted")
def test_a_conversion_says_how_far_it_is(tmp_path: Path) -> None:
    desk = Desk()
    path = str(tmp_path / "old.ckpt")
    desk.session.converter.convert(path)
    assert desk.session.state.library.converting == (path, 0, 0)
    desk.commands.heard[0](b'{"done": 1, "total": 4}\n{"done": 2, "to')
    assert desk.session.state.library.converting == (path, 1, 4)
    desk.commands.ended[0](Finished(1, b"", b"killed"))
    assert desk.session.state.library.converting is None
    assert desk.session.state.notices[-1].kind == "convert-failed"
