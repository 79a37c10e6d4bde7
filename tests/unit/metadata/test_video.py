"""Videos: every frame and the parameters inside, whole or not at all, one frame in memory at a time."""

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.helpers.read_back import read_picture, read_video

from halftone.contract.errors import HalftoneError
from halftone.measure.pictures import psnr
from halftone.metadata.video import VIDEOS, read_frames, save_video
from halftone.settings.file_names import EXAMPLE, place_of

TEXT = "a red sun, 日本\nNegative prompt: rain\nSteps: 3, Sampler: Euler, Seed: 7, Size: 64x48"
RECEIPT = '{"schema": 1, "receipt": {"frames": 9}}'


def clip(frames: int = 9, width: int = 64, height: int = 48) -> list[NDArray[np.uint8]]:
    """Colours that drift from frame to frame."""
    y, x = np.mgrid[0:height, 0:width]
    return [
        np.clip(np.stack([x * 3 + frame, y * 4, np.full_like(x, 30 + 20 * frame)], axis=-1), 0, 255).astype(np.uint8)
        for frame in range(frames)
    ]


@pytest.mark.parametrize("ending", VIDEOS)
@pytest.mark.parametrize(("width", "height"), [(64, 48), (63, 47), (64, 47), (33, 48)])
def test_all_frames_come_back_in_their_order_size_and_colours(tmp_path: Path, ending: str, width: int, height: int) -> None:
    frames = clip(width=width, height=height)
    save_video(frames, 7, tmp_path / f"a{ending}", TEXT, RECEIPT)
    found = list(read_frames(tmp_path / f"a{ending}"))
    assert len(found) == 9
    assert {shown.shape for shown, _ in found} == {(height, width, 3)}
    assert all(psnr(shown, frame) > 32 for (shown, _), frame in zip(found, frames, strict=True))
    assert sum(seconds for _, seconds in found) == pytest.approx(9 / 7, abs=0.01)


@pytest.mark.parametrize("ending", VIDEOS)
def test_the_parameters_and_the_receipt_are_inside(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    save_video(clip(), 16, path, TEXT, RECEIPT)
    found = read_video(path) if ending == ".mp4" else read_picture(path)
    assert (found.parameters, found.receipt) == (TEXT, RECEIPT)


def test_an_mp4_is_h264_that_every_player_shows(tmp_path: Path) -> None:
    import av

    save_video(clip(), 25, tmp_path / "a.mp4", TEXT, RECEIPT)
    with av.open(tmp_path / "a.mp4") as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        assert (context.name, context.pix_fmt, stream.average_rate, stream.frames) == ("h264", "yuv420p", 25, 9)
        assert (context.colorspace, context.color_range) == (1, 1), "its colours are named, so that no player guesses them"


class Counted(Sequence[NDArray[np.uint8]]):
    """Frames that are made when they are asked for."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._first = clip(1, 320, 240)[0]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> NDArray[np.uint8]:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices
        return np.roll(self._first, index, axis=1)


@pytest.mark.parametrize("ending", VIDEOS)
def test_a_long_video_takes_no_more_memory_than_a_short_one(tmp_path: Path, ending: str) -> None:
    """What Python and numpy hold: with all 300 frames it would be 69 MB."""
    frames = Counted(300)
    tracemalloc.start()
    save_video(frames, 24, tmp_path / f"a{ending}", TEXT, RECEIPT)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10e6
    assert sum(1 for _ in read_frames(tmp_path / f"a{ending}")) == 300


@pytest.mark.parametrize("ending", [".mp4", ".webp"])
def test_the_same_frames_give_the_same_file(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        save_video(clip(), 7, tmp_path / f"{name}{ending}", TEXT, RECEIPT)
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_nothing_of_yours_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"mine")
    with pytest.raises(HalftoneError, match=r"exists\. Halftone never overwrites your files\."):
        save_video(clip(), 7, path, TEXT, RECEIPT)
    assert path.read_bytes() == b"mine"
    save_video(clip(), 7, path, TEXT, RECEIPT, overwrite=True)
    assert len(list(read_frames(path))) == 9
    assert os.listdir(tmp_path) == ["a.mp4"]


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError, match=r"End the name with \.mp4 or \.webp"):
        save_video(clip(), 7, tmp_path / "a.png", TEXT, RECEIPT)


@pytest.mark.parametrize("ending", VIDEOS)
def test_a_video_that_breaks_off_leaves_nothing_behind(tmp_path: Path, ending: str) -> None:
    class Broken(Counted):
        def __getitem__(self, index: int) -> NDArray[np.uint8]:
            if index == 5:
                raise KeyboardInterrupt
            return super().__getitem__(index)

    with pytest.raises(KeyboardInterrupt):
        save_video(Broken(9), 7, tmp_path / f"a{ending}", TEXT, RECEIPT)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", VIDEOS)
def test_a_full_disk_leaves_nothing_behind(tiny_disk: Path, ending: str) -> None:
    noise = [np.random.default_rng(seed).integers(0, 256, (240, 320, 3), np.uint8) for seed in range(4)]
    with pytest.raises(HalftoneError, match="Disk full: ") as caught:
        save_video(noise, 7, tiny_disk / f"a{ending}", TEXT, RECEIPT)
    assert caught.value.code == "disk-full"
    assert os.listdir(tiny_disk) == []


def test_a_folder_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        save_video(clip(), 7, tmp_path / "missing" / "a.mp4", TEXT, RECEIPT)
    assert caught.value.code == "output-folder-missing"


def test_videos_and_pictures_are_numbered_together(tmp_path: Path) -> None:
    (tmp_path / "00041.mp4").touch()
    assert [place_of("{number}", EXAMPLE, tmp_path, ending).name for ending in (".png", ".mp4")] == ["00042.png", "00042.mp4"]
