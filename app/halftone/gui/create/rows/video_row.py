"""How the next videos are made and kept: a folded row of the Create form, there where the model makes videos."""

import msgspec
from PySide6.QtCore import Qt

from halftone.contract.facts import ModelFacts
from halftone.contract.limits import FPS_RANGE
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import VideoFormat
from halftone.gui.create.form.form_fields import NumberBox, combo
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, label, row
from halftone.library.videos import makes_videos, usual_fps

_MOST_FRAMES = 10_000


class VideoPart(FoldedPart):
    """Kind of file, number of frames and frames per second; what is not set is the model's own."""

    def __init__(self) -> None:
        super().__init__(tr("Video"))
        self.kind = combo(tr("File type"), tr("MP4 plays everywhere, WebP in browsers and chats."))
        self.kind.addItem("MP4", "mp4")
        self.kind.addItem("WebP", "webp")
        self.frames = _box(_MOST_FRAMES, tr("Frames"), "")
        self.fps = _box(FPS_RANGE[1], tr("Frames per second"), "")
        numbers = row(
            column(label(tr("Frames"), "small", "secondary"), self.frames, spacing=5),
            column(label(tr("Frames per second"), "small", "secondary"), self.fps, spacing=5),
            spacing=8,
        )
        kind = column(label(tr("File type"), "small", "secondary"), self.kind, spacing=5)
        self.setLayout(column(kind, numbers, spacing=10, margins=(14, 10, 14, 12)))
        self.kind.currentIndexChanged.connect(self._tell)
        self.follow(None)

    def follow(self, model: ModelFacts | None) -> None:
        """Only there for a model that makes videos."""
        there = model is not None and makes_videos(model) is True
        self.row.setVisible(there)
        self.line.setVisible(there)
        self.setVisible(there and self.row.isChecked())
        if model is not None:
            self.fps.setToolTip(tr("Model default: {0}.", usual_fps(model)))
        self._tell()

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(request, num_frames=self.num_frames(), video=self.video(), fps=self.per_second())

    def video(self) -> VideoFormat | None:
        kind = self.kind.currentData()
        return kind if self._there and kind in ("mp4", "webp") else None

    def num_frames(self) -> int | None:
        return round(self.frames.value()) or None if self._there else None

    def per_second(self) -> int | None:
        return round(self.fps.value()) or None if self._there else None

    def take(self, request: PictureRequest) -> None:
        self.kind.setCurrentIndex(max(0, self.kind.findData(request.video or "mp4")))
        self.frames.setValue(request.num_frames or 0)
        self.fps.setValue(request.fps or 0)

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
