"""Frames of a video, in words."""

from collections.abc import Sequence

from halftone.contract.facts import PictureFacts


def frame_list(frames: Sequence[int]) -> str:
    """(1, 2, 3, 7) -> "1–3, 7"; in rising order."""
    runs: list[list[int]] = []
    for frame in frames:
        if runs and frame == runs[-1][-1] + 1:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def video_seconds(picture: PictureFacts) -> float:
    """How long a video lasts; 0 of a picture."""
    return picture.frames / picture.fps if picture.fps and picture.frames > 1 else 0.0


def clock(seconds: float) -> str:
    """A video's length as players show it: 0:03, 1:05."""
    whole = max(1, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"
