"""Videos in Create: they move in the canvas, carry a film and their length in the history, and can be set up in the form."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest, Start
from halftone.gallery.history import History
from halftone.gui.background import Background
from halftone.gui.create.history_panel import HistoryPanel
from halftone.gui.create.picture import picture_text
from halftone.gui.create.picture.picture_images import read_image
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.create.picture.video_player import Player
from halftone.gui.views.list_model import item_of
from halftone.gui.views.thumbnails import Thumbnails
from halftone.health.pictures.frame_lists import video_seconds
from halftone.metadata.video import save_video
from halftone.session.pictures.history import Made

REQUEST = PictureRequest(prompt="a wave", model="pocket")
PATIENCE = 60_000
"""Milliseconds: a machine that does much else decodes late."""
GREYS = (20, 60, 100, 140, 180, 220, 240, 40)


def film(path: Path, frames: int = 8) -> PictureFacts:
    """Each frame is of another grey, with a bright line."""
    made = [np.full((48, 64, 3), GREYS[index % len(GREYS)], np.uint8) for index in range(frames)]
    for frame in made:
        frame[20:24] = 255
    save_video(made, 40, path, "a wave", "{}")
    facts = samples.picture_facts(str(path))
    return msgspec.structs.replace(facts, width=64, height=48, frames=frames, fps=40)


def grey(image: QImage) -> int:
    return image.pixelColor(5, 5).red()


@pytest.mark.parametrize("ending", [".mp4", ".webp"])
def test_a_video_plays_in_its_order_and_again_from_the_beginning(qtbot: QtBot, tmp_path: Path, ending: str) -> None:
    film(tmp_path / f"a{ending}")
    parent = QObject()
    background = Background(parent)
    player = Player(background, parent)
    seen: list[int] = []
    player.framed.connect(lambda image: seen.append(grey(image)))
    player.play(tmp_path / f"a{ending}")
    qtbot.waitUntil(lambda: len(seen) >= 11, timeout=PATIENCE)
    player.stop()
    expected = [*GREYS, *GREYS[:3]]
    assert all(abs(one - two) <= 6 for one, two in zip(seen, expected, strict=False))
    assert len(player._waiting) == 0
    qtbot.waitUntil(lambda: not background.busy, timeout=PATIENCE)


def test_no_more_than_a_few_frames_are_held(qtbot: QtBot, tmp_path: Path) -> None:
    film(tmp_path / "a.mp4", 120)
    parent = QObject()
    background = Background(parent)
    player = Player(background, parent)
    held: list[int] = []
    player.framed.connect(lambda _image: held.append(len(player._waiting)))
    player.play(tmp_path / "a.mp4")
    qtbot.waitUntil(lambda: len(held) >= 40, timeout=PATIENCE)
    player.stop()
    assert max(held) <= 12
    qtbot.waitUntil(lambda: not background.busy, timeout=PATIENCE)


def test_while_nobody_sees_it_nothing_is_decoded(qtbot: QtBot, tmp_path: Path) -> None:
    film(tmp_path / "a.mp4")
    parent = QObject()
    background = Background(parent)
    player = Player(background, parent)
    seen: list[int] = []
    player.framed.connect(lambda image: seen.append(grey(image)))
    player.play(tmp_path / "a.mp4")
    qtbot.waitUntil(lambda: len(seen) >= 2, timeout=PATIENCE)
    player.set_running(False)
    qtbot.waitUntil(lambda: not background.busy and not player._timer.isActive(), timeout=PATIENCE)
    shown = len(seen)
    player.set_running(True)
    qtbot.waitUntil(lambda: len(seen) > shown, timeout=PATIENCE)
    player.stop()
    qtbot.waitUntil(lambda: not background.busy, timeout=PATIENCE)


def other_codec(path: Path) -> None:
    """Rewrite a video so that it names a codec that no decoder knows."""
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz"))


CODEC = "The video a.mp4 uses a codec that Halftone cannot decode. Convert it to H.264, or open it with another player."
DAMAGED = "The video a.{0} is damaged or incomplete. Copy it again, or open it with another player."


@pytest.mark.parametrize(
    ("ending", "spoil", "said"),
    [
        ("mp4", other_codec, CODEC),
        ("mp4", lambda path: path.write_bytes(b"no video"), DAMAGED.format("mp4")),
        ("mp4", lambda path: path.write_bytes(path.read_bytes()[:200]), DAMAGED.format("mp4")),
        ("webp", lambda path: path.write_bytes(path.read_bytes()[:200]), DAMAGED.format("webp")),
        ("mp4", lambda path: path.unlink(), "The video could not be read: no such file or directory."),
    ],
)
def test_a_video_that_cannot_be_played_says_why(
    qtbot: QtBot, tmp_path: Path, ending: str, spoil: Callable[[Path], object], said: str
) -> None:
    path = tmp_path / f"a.{ending}"
    film(path)
    spoil(path)
    assert read_image(str(path)).isNull()
    parent = QObject()
    background = Background(parent)
    player = Player(background, parent)
    heard: list[str] = []
    player.failed.connect(heard.append)
    player.play(path)
    qtbot.waitUntil(lambda: not player.playing, timeout=PATIENCE)
    assert heard == [said]
    qtbot.waitUntil(lambda: not background.busy, timeout=PATIENCE)


def remembered(folder: Path) -> PictureFacts:
    facts = film(folder / "00001-7.mp4")
    with History() as history:
        history.add(facts, REQUEST, b"")
    return facts


def test_the_canvas_shows_a_video_of_the_history_as_a_video(qtbot: QtBot, tmp_path: Path) -> None:
    facts = remembered(tmp_path)
    stage = Stage(qtbot)
    page = stage.page
    stage.wait(lambda: page.centre.shown is not None and page.centre.player.playing)
    seen: set[int] = set()
    page.centre.player.framed.connect(lambda _image: seen.add(grey(page.centre.canvas.image())))
    stage.wait(lambda: len(seen) >= 5)
    assert page.centre.receipt.size_words.text() == "64 × 48  8 frames"
    index = page.history.model.index_of(facts.path)
    assert video_seconds(item_of(index).facts) == pytest.approx(0.2)
    assert "Video, 0:01" in index.data(Qt.ItemDataRole.ToolTipRole)
    stage.wait(lambda: not page.thumbnails.get(facts.path).isNull())
    stage.picture("a picture after it")
    assert not page.centre.player.playing
    stage.close()


def test_a_thumbnail_of_a_video_carries_a_film_and_its_length(qtbot: QtBot) -> None:
    owner = QObject()
    panel = HistoryPanel(Thumbnails(Background(owner), lambda _paths: {}, owner))
    qtbot.addWidget(panel)
    panel.resize(208, 400)
    panel.show()

    def painted(seconds: float) -> QImage:
        fps, frames = (8, round(8 * seconds)) if seconds else (None, 1)
        facts = msgspec.structs.replace(samples.picture_facts("/a.mp4"), fps=fps, frames=frames)
        panel.set_pictures((Made(facts=facts, request=REQUEST, made_at=datetime.now(UTC)),))
        return panel.list.grab().toImage()

    assert painted(3.0) != painted(0.0)


def test_the_file_of_a_video_is_read_as_its_first_frame(tmp_path: Path) -> None:
    film(tmp_path / "a.mp4")
    image = read_image(str(tmp_path / "a.mp4"))
    assert ((image.width(), image.height()), abs(grey(image) - GREYS[0]) <= 6) == ((64, 48), True)


def test_the_receipt_tells_its_frames_and_which_are_bad(tmp_path: Path) -> None:
    facts = film(tmp_path / "a.mp4")
    rows = dict(receipt_rows(facts, REQUEST))
    assert rows["Video"] == "8 frames, 40 fps, 0.2 s"
    assert "Flat frames" not in rows
    bad = msgspec.structs.replace(facts, state="not-recovered", black=True, flat_frames=(1, 2, 5))
    assert dict(receipt_rows(bad, REQUEST))["Flat frames"] == "1–2, 5"
    assert picture_text.receipt(bad)[2:] == ("Not recovered", "3 of 8 frames are flat")


def test_the_form_asks_for_videos_where_the_model_makes_them(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    assert form.video_part.row.isHidden(), "Pocket makes pictures"
    assert (form.request().video, form.request().num_frames, form.request().fps) == (None, None, None)
    form.follow(msgspec.structs.replace(samples.POCKET, family="Wan", pipeline="WanPipeline"))
    assert not form.video_part.row.isHidden()
    assert (form.request().video, form.request().num_frames, form.request().fps) == ("mp4", None, None)
    form.set_request(msgspec.structs.replace(REQUEST, video="webp", num_frames=33, fps=24))
    assert (form.request().video, form.request().num_frames, form.request().fps) == ("webp", 33, 24)
    form.follow(samples.POCKET)
    assert form.request().video is None
    stage.close()


def test_a_model_that_makes_videos_of_pictures_asks_for_one(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    Image.new("RGB", (32, 32)).save(tmp_path / "start.png")
    form.follow(msgspec.structs.replace(samples.POCKET, family="Stable Video Diffusion", pipeline="StableVideoDiffusionPipeline"))
    assert form.refusal() == "This model needs a picture under Image to image."
    form.start_part.choose(str(tmp_path / "start.png"))
    stage.wait(lambda: form.refusal() == "")
    request = form.request()
    assert (request.image, request.start) == (str(tmp_path / "start.png"), Start())
    form.start_part.choose(None)
    form.follow(msgspec.structs.replace(samples.POCKET, family="Wan", pipeline="WanPipeline"))
    assert (form.refusal(), form.request().image) == ("", None)
    stage.close()
