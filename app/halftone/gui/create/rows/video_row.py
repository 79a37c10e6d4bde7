"""How the next videos are made and kept: a folded row of the Create form, there where the model makes videos."""

from typing import Final

from halftone.contract.facts import ModelFacts
from halftone.contract.vocabulary import VideoFormat
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.form_fields import combo
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, fill_combo, label, row
from halftone.library.videos import usual_fps

_NAMES: Final[dict[VideoFormat, str]] = {"mp4": "MP4", "webp": "WebP"}


class VideoPart(FoldedPart):
    """Kind of file, number of frames and frames per second; what is not set is the model's own."""

    part_name = "video"

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Video"))
        binding.watch(lambda video: self.row.value.setText(_NAMES[video]), "video")
        self.follow(None)

    def build(self) -> None:
        binding = self._binding
        self.kind = combo(tr("File type"), tr("MP4 plays everywhere, WebP in browsers and chats."))
        fill_combo(self.kind, _NAMES.items())
        self.frames = binding.number("num_frames", tr("Frames"), "")
        self.fps = binding.number("fps", tr("Frames per second"), "")
        for box in (self.frames, self.fps):
            box.setSpecialValueText(tr("Auto"))
            box.setMinimumWidth(60)
        numbers = row(
            column(label(tr("Frames"), "small", "secondary"), self.frames, spacing=5),
            column(label(tr("Frames per second"), "small", "secondary"), self.fps, spacing=5),
            spacing=8,
        )
        kind = column(label(tr("File type"), "small", "secondary"), self.kind, spacing=5)
        self.setLayout(column(kind, numbers, spacing=10, margins=(14, 10, 14, 12)))
        binding.bind("video", self.kind)
        self._show_usual()

    def follow(self, model: ModelFacts | None) -> None:
        super().follow(model)
        if self.built:
            self._show_usual()

    def _show_usual(self) -> None:
        model = self._model
        if model is not None:
            self.fps.setToolTip(tr("Model default: {0}.", usual_fps(model)))
