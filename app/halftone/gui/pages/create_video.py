"""How the next videos are made and kept: a folded row of the Create form, there where the model makes videos."""

from pathlib import Path

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.limits import FPS_RANGE
from halftone.contract.request import PictureRequest
from halftone.contract.words import VideoFormat
from halftone.gui.i18n import tr
from halftone.gui.pages.create_choosing import ask_picture
from halftone.gui.pages.create_fields import NumberBox, combo
from halftone.gui.pages.create_folded import FoldedPart
from halftone.gui.widgets.common import ElidedLabel, button, column, label, row
from halftone.library.tasks import needs_picture
from halftone.library.videos import makes_videos, usual_fps

_MOST_FRAMES = 10_000


class VideoPart(FoldedPart):
    """Kind of file, number of frames and frames per second; what is not set is the model's own. Also the picture that a video
    starts from, where the model needs one. `changed`: that picture.
    """

    def __init__(self) -> None:
        super().__init__(tr("Video"))
        self._image: str | None = None
        self._needs_picture = False
        self._name = ElidedLabel("")
        self.choose_button = button(tr("Choose picture"), clicked=lambda: ask_picture(self, self.choose))
        self._start = QWidget()
        start = column(self._name, row(self.choose_button, -1), spacing=6)
        self._start.setLayout(column(label(tr("Starts from"), "small", "secondary"), start, spacing=5))
        self.kind = combo(tr("File type"), tr("MP4 plays everywhere; WebP moves in browsers and chats like a picture."))
        self.kind.addItem("MP4", "mp4")
        self.kind.addItem("WebP", "webp")
        self.frames = _box(_MOST_FRAMES, tr("Frames"), tr("How many pictures the video has. More take longer."))
        self.fps = _box(FPS_RANGE[1], tr("Frames per second"), tr("How fast they follow each other."))
        numbers = row(
            column(label(tr("Frames"), "small", "secondary"), self.frames, spacing=5),
            column(label(tr("Frames per second"), "small", "secondary"), self.fps, spacing=5),
            spacing=8,
        )
        kind = column(label(tr("File type"), "small", "secondary"), self.kind, spacing=5)
        self.setLayout(column(self._start, kind, numbers, spacing=10, margins=(14, 10, 14, 12)))
        self.kind.currentIndexChanged.connect(self._tell)
        self.choose(None)
        self.follow(None)

    def follow(self, model: ModelFacts | None) -> None:
        """Only there for a model that makes videos."""
        there = model is not None and makes_videos(model) is True
        self._needs_picture = there and model is not None and needs_picture(model.pipeline)
        self._start.setVisible(self._needs_picture)
        self.row.setVisible(there)
        self.line.setVisible(there)
        self.setVisible(there and self.row.isChecked())
        if model is not None:
            self.fps.setToolTip(tr("How fast they follow each other. The model's own: {0}.", usual_fps(model)))
        self._tell()

    def put(self, request: PictureRequest) -> PictureRequest:
        image = self._image if self._needs_picture else request.image
        return msgspec.structs.replace(
            request, num_frames=self.num_frames(), video=self.video(), image=image, fps=self.per_second()
        )

    def video(self) -> VideoFormat | None:
        kind = self.kind.currentData()
        return kind if self._there and kind in ("mp4", "webp") else None

    def num_frames(self) -> int | None:
        return round(self.frames.value()) or None if self._there else None

    def per_second(self) -> int | None:
        return round(self.fps.value()) or None if self._there else None

    def choose(self, path: str | None) -> None:
        self._image = path
        self._name.set_text("" if path is None else Path(path).name)
        self._name.setToolTip(path or "")
        self._name.setVisible(path is not None)
        self.changed.emit()

    def problem(self) -> str:
        """Why no video can be made as it stands, "" where it can."""
        if self._needs_picture and self._image is None:
            return tr("This model starts from a picture. Choose one under Video.")
        return ""

    def take(self, request: PictureRequest) -> None:
        self.kind.setCurrentIndex(max(0, self.kind.findData(request.video or "mp4")))
        self.frames.setValue(request.num_frames or 0)
        self.fps.setValue(request.fps or 0)
        self.choose(request.image)

    @property
    def _there(self) -> bool:
        return not self.row.isHidden()

    def _tell(self) -> None:
        self.row.value.setText(self.kind.currentText())


def _box(most: int, name: str, tip: str) -> NumberBox:
    """A number, 0 for the model's own."""
    made = NumberBox((0, most))
    made.setSpecialValueText(tr("Auto"))
    made.setMinimumWidth(60)
    made.setAlignment(Qt.AlignmentFlag.AlignRight)
    made.setAccessibleName(name)
    made.setToolTip(tip)
    return made
