"""How a picture is made: steps, guidance, sampler, seed and how many."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from halftone.contract.limits import BATCH_RANGE, GUIDANCE_RANGE, STEPS_RANGE
from halftone.gui.create.form.form_fields import NumberBox, SeedField, SliderField, limit_note
from halftone.gui.create.form.sampler_fields import SamplerField
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import column, label, row


class SamplingPart(QWidget):
    """A block of the Create form."""

    def __init__(self) -> None:
        super().__init__()
        most = figures.group(STEPS_RANGE[1])
        steps_tip = tr("More steps add detail. 1 to {0}.", most)
        self.steps = SliderField(tr("Steps"), steps_tip, (1, 150), STEPS_RANGE)
        most = figures.group(GUIDANCE_RANGE[1])
        guidance_tip = tr("How closely to follow the prompt (CFG scale). 0 to {0}.", most)
        self.guidance = SliderField(tr("Guidance"), guidance_tip, (1, 30), GUIDANCE_RANGE, 0.1)
        self.sampler = SamplerField()
        self.seed = SeedField()
        self.batch = NumberBox(BATCH_RANGE)
        self.batch_note = limit_note(self.batch, tr("Batch"))
        self.batch.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.batch.setToolTip(tr("Number of pictures, 1 to {0}.", figures.group(BATCH_RANGE[1])))
        self.batch.setAccessibleName(tr("Batch"))
        self.batch.setFixedWidth(68)
        seed_column = column(label(tr("Seed"), "small", "secondary"), self.seed, spacing=5)
        batch_column = column(label(tr("Batch"), "small", "secondary"), self.batch, spacing=5)
        bottom = row(seed_column, batch_column, spacing=8)
        bottom.setStretch(0, 1)
        bottom_part = column(bottom, self.batch_note, spacing=2)
        self.setLayout(
            column(column(self.steps, self.guidance, spacing=4), self.sampler, bottom_part, spacing=10, margins=(14, 10, 14, 12))
        )
