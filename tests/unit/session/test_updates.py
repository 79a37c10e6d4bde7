"""Updates in the window: each process is asked for, shows how far it is, can be cancelled, and ends in one of four states."""

import json

import msgspec
import pytest
from installer.updates import reasons
from tests.helpers.sessions import Desk

from halftone.session.ports import Finished
from halftone.session.update_state import REASONS, Offer

FOUND = {
    "version": "0.3.0", "current": "0.1.0", "damaged": "", "date": "2026-11-25", "notes": {"en": "New."}, "size": 10,
    "unpacked": 20, "environment": False, "source": "/media/usb/halftone-linux-x86_64.update", "agreed": "abc",
}  # fmt: skip


def printed(**content: object) -> bytes:
    return json.dumps({"schema": 1, **content}).encode()


def with_source(place: str = "/media/usb") -> Desk:
    desk = Desk()
    desk.session.settings.update(msgspec.structs.replace(desk.session.state.settings, update_source=place))
    return desk


def found() -> Desk:
    desk = with_source()
    desk.session.updates.check()
    desk.commands.ended[0](Finished(0, printed(found=FOUND, installed=False), b""))
    return desk


def test_the_sentences_are_those_of_the_launcher() -> None:
    assert REASONS == reasons.REASONS


def test_a_check_is_asked_for_and_shows_what_would_change() -> None:
    desk = with_source()
    assert desk.commands.started == []
    desk.session.updates.check()
    desk.session.updates.check()
    assert desk.commands.started == [("update", "--json", "--from=/media/usb", "--check")]
    assert desk.session.state.updating.stage == "checking"
    desk.commands.ended[0](Finished(0, printed(found=FOUND, installed=False), b""))
    assert desk.session.state.updating.stage == "found"
    assert desk.session.state.updating.offer == msgspec.convert(FOUND, Offer)


def test_the_newest_version_is_said_to_be_so() -> None:
    desk = with_source()
    desk.session.updates.check()
    desk.commands.ended[0](Finished(0, printed(found=None, current="0.3.0", installed=False), b""))
    assert (desk.session.state.updating.stage, desk.session.state.updating.offer) == ("up-to-date", None)


def test_what_was_shown_is_installed_and_its_steps_are_seen() -> None:
    desk = found()
    desk.session.updates.install()
    assert desk.commands.started[1] == ("update", "--json", "--from=/media/usb", "--yes", "--progress", "--agreed", "abc")
    desk.commands.heard[1](b'{"stage": "download"}\n{"stage": "download", "done": 5, "total": 10}\n{"stage": "unp')
    updating = desk.session.state.updating
    assert (updating.stage, updating.step, updating.done, updating.total) == ("installing", "download", 5, 10)
    desk.commands.heard[1](b'{"stage": "environment", "line": "[1/4] uv"}\n')
    assert (desk.session.state.updating.step, desk.session.state.updating.line) == ("environment", "[1/4] uv")
    desk.commands.ended[1](Finished(0, printed(found=FOUND, installed=True), b""))
    assert desk.session.state.updating.stage == "done"


@pytest.mark.parametrize(
    ("code", "values", "words"),
    [
        ("busy", [], "Another update is running"),
        ("older", ["0.2.0", "0.3.0"], "The update is version 0.2.0, older than the installed 0.3.0"),
        ("of a later version", [], "The update ended early (something)"),
    ],
)
def test_a_refusal_is_shown_and_can_be_tried_again(code: str, values: list[str], words: str) -> None:
    desk = found()
    desk.session.updates.install()
    error = {"code": code, "values": values, "message": "something"}
    desk.commands.ended[1](Finished(1, printed(error=error), b"something\n"))
    updating = desk.session.state.updating
    assert updating.stage == "failed"
    assert updating.error is not None
    assert words in updating.error.text()
    desk.session.updates.install()
    assert len(desk.commands.started) == 3


@pytest.mark.logs("ended early")
def test_a_process_that_dies_is_an_error() -> None:
    desk = with_source()
    desk.session.updates.check()
    desk.commands.ended[0](Finished(-1, b"", b"first\nno such program\n"))
    assert desk.session.state.updating.error is not None
    assert "(no such program)" in desk.session.state.updating.error.text()


@pytest.mark.logs("ended early")
@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('{"stage": "unpack"}', "The update ended early (9); the version in use is unchanged: try again."),
        ('out of memory\n{"stage": "switch"}', "The update ended early in its last step (out of memory): check for updates"),
    ],
)
def test_an_update_that_is_killed_says_so_without_its_reports(lines: str, words: str) -> None:
    desk = found()
    desk.session.updates.install()
    errors = f'{{"stage": "download", "done": 1, "total": 2}}\n{lines}\n'.encode()
    desk.commands.heard[1](errors)
    desk.commands.ended[1](Finished(9, b"", errors))
    assert desk.session.state.updating.error is not None
    assert desk.session.state.updating.error.text().startswith(words)


def test_the_last_step_cannot_be_cancelled() -> None:
    desk = found()
    desk.session.updates.install()
    desk.commands.heard[1](b'{"stage": "switch"}\n')
    desk.session.updates.cancel()
    assert desk.commands.killed == []
    desk.commands.ended[1](Finished(0, printed(found=FOUND, installed=True), b""))
    assert desk.session.state.updating.stage == "done"


def test_cancel_kills_and_keeps_the_offer() -> None:
    desk = found()
    desk.session.updates.install()
    desk.session.updates.cancel()
    assert desk.commands.killed == [1]
    assert (desk.session.state.updating.stage, desk.session.state.updating.offer is None) == ("found", False)
    desk.session.updates.check()
    desk.session.updates.cancel()
    assert desk.session.state.updating.stage == "idle"
    desk.session.updates.check()
    desk.session.stop()
    assert desk.commands.killed == [1, 2, 3]


def test_a_damaged_update_is_noted_at_the_start() -> None:
    desk = with_source()
    desk.session.updates.begin({})
    assert desk.session.state.notices == ()
    desk.session.updates.begin({"HALFTONE_DAMAGED": "0.3.0: app/x.py"})
    (notice,) = desk.session.state.notices
    assert (notice.kind, notice.facts) == ("update-damaged", ("0.3.0: app/x.py",))


def test_another_source_drops_the_offer() -> None:
    desk = found()
    desk.session.settings.update(msgspec.structs.replace(desk.session.state.settings, update_source="/elsewhere"))
    assert (desk.session.state.updating.stage, desk.session.state.updating.offer) == ("idle", None)
