"""Frames of a video, in words."""

import msgspec
import pytest
from tests.helpers.samples import GUARDED, picture_facts

from halftone.cli.reports.guard_events import event_line
from halftone.health.explain import note_for
from halftone.health.pictures.frame_lists import clock, frame_list, video_seconds


@pytest.mark.parametrize(
    ("frames", "said"), [((), ""), ((3,), "3"), ((1, 2, 3, 7), "1–3, 7"), ((2, 4, 6), "2, 4, 6"), ((5, 6, 8, 9), "5–6, 8–9")]
)
def test_runs_of_frames_are_told_as_such(frames: tuple[int, ...], said: str) -> None:
    assert frame_list(frames) == said


@pytest.mark.parametrize(("seconds", "shown"), [(0.2, "0:01"), (3.57, "0:04"), (65.0, "1:05")])
def test_a_length_reads_as_players_show_it(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


def test_a_picture_has_no_length() -> None:
    assert video_seconds(picture_facts("a.mp4")) == 0
    assert video_seconds(msgspec.structs.replace(picture_facts("a.mp4"), frames=25, fps=7)) == pytest.approx(3.571, abs=0.001)


def test_what_was_done_to_frames_names_them() -> None:
    again = msgspec.structs.replace(GUARDED, step=None, component="vae", kind="flat", action="decoded-again", frames=(2, 3))
    assert "While frames of the video (2–3) were decoded" in event_line(again)
    assert note_for(again).title.text() == "Frames of this video came out black: 2–3. Halftone recovered them."
    kept = msgspec.structs.replace(again, action="kept", frames=(1,))
    assert note_for(kept).title.text().startswith("Flat frames, kept as is: 1.")
