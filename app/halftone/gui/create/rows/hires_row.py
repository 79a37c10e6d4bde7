"""A second, larger pass over the next pictures: a folded row of the Create form."""

from collections.abc import Callable
from typing import Final

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.limits import SCALE_RANGE, STEPS_RANGE
from halftone.contract.request import LANCZOS, LATENT, Hires, PictureRequest, model_stem
from halftone.gui import theme
from halftone.gui.create.form.file_choosers import ask_weights
from halftone.gui.create.form.form_fields import NumberBox, SizeField, SliderField, combo
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import column, icon_button, label, row
from halftone.gui.text import short
from halftone.health.pictures.passes import larger, strength_of
from halftone.library.add_ons.upscalers import check_upscaler

_LEAST: Final = 0.01


def upscaler_words(upscaler: str) -> str:
    """A way to enlarge."""
    return {LATENT: tr("Latent"), LANCZOS: tr("Lanczos")}.get(upscaler) or short(model_stem(upscaler))


def hires_line(hires: Hires | None) -> str:
    """In a receipt, "" for none."""
    if hires is None:
        return ""
    strength = tr("strength {0}", figures.decimal(strength_of(hires), 2))
    return listed(tr("{0} ×", figures.decimal(hires.scale)), upscaler_words(hires.upscaler), strength)


class HiresPart(FoldedPart):
    """Whether there is one, how much larger, how it is enlarged, its steps and how much of it is drawn anew."""

    def __init__(self, size: SizeField, look: Callable[[Callable[[dict[str, str]], None]], None] = lambda _then: None) -> None:
        """look: reads the folders of the settings; what it is given gets name -> path of the upscale models there."""
        tip = tr("Redraw larger for detail without duplicated subjects.")
        super().__init__(tr("Hires. fix"), tip)
        self._size = size
        self._usual = 0.0  # the strength that the upscaler needs, as long as it is the one that is shown
        self.on = QCheckBox(tr("Enable Hires. fix"))
        self.on.setToolTip(tip)
        low, high = (figures.decimal(value) for value in SCALE_RANGE)
        scale_tip = tr("{0} to {1}.", low, high)
        self.scale = SliderField(tr("Upscale by"), scale_tip, (1, 4), SCALE_RANGE, 0.1)
        self.scale.set_value(2.0)
        upscaler_tip = tr("Latent upscales the latents, Lanczos the pixels.")
        self.upscaler = combo(tr("Upscaler"), upscaler_tip)
        for way in (LATENT, LANCZOS):
            self.upscaler.addItem(upscaler_words(way), way)
        steps_tip = tr("0: same as the first pass.")
        self.steps = SliderField(tr("Steps"), steps_tip, (0, 150), (0, STEPS_RANGE[1]))
        self.strength = NumberBox((_LEAST, 1.0), 2)
        self.strength.setSingleStep(0.05)
        self.strength.setFixedWidth(68)
        self.strength.setFont(theme.current().font("body", numbers=True))
        self.strength.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.strength.setAccessibleName(tr("Denoising strength"))
        self.strength.setToolTip(tr("0.3 adds detail, 0.7 changes the picture."))
        words = label(tr("Denoising strength"), "small", "secondary")
        words.setBuddy(self.strength)
        self.becomes = label("", "caption", "muted")
        self._inside = QWidget()
        upscaler = row(label(tr("Upscaler"), "small", "secondary"), self.upscaler, spacing=8)
        upscaler.setStretch(1, 1)
        upscaler.addWidget(
            icon_button(
                "folder-open",
                tr("Choose an upscale model"),
                size=14,
                clicked=lambda: ask_weights(self, tr("Choose an upscale model"), tr("Upscale models"), self.choose),
            )
        )
        self._inside.setLayout(
            column(self.scale, self.becomes, upscaler, self.steps, row(words, -1, self.strength, spacing=8), spacing=6)
        )
        self.setLayout(column(self.on, self._inside, self.note, spacing=8, margins=(14, 10, 14, 12)))
        self.on.toggled.connect(self._show)
        self.row.toggled.connect(lambda on: look(self._found) if on else None)
        self.upscaler.currentIndexChanged.connect(self._other_upscaler)
        for signal in (self.scale.changed, self.steps.changed, self.strength.valueChanged, size.changed):
            signal.connect(self._show)
        self._other_upscaler()

    def hires(self) -> Hires | None:
        """The second pass, None where there is none."""
        return self._wanted() if self.on.isChecked() else None

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(request, hires=self.hires())

    def take(self, request: PictureRequest) -> None:
        hires = request.hires
        self.on.setChecked(hires is not None)
        if hires is not None:
            self.scale.set_value(hires.scale)
            self._offer(hires.upscaler)
            self.steps.set_value(hires.steps or 0)
            self.strength.setValue(strength_of(hires))
        self._show()

    def choose(self, path: str) -> None:
        """Take an upscale model's file, if it can be one."""
        try:
            check_upscaler(path)
        except HalftoneError as error:
            self.refused(error)
            return
        self.say(self.problem())
        self._offer(path)

    def _found(self, known: dict[str, str]) -> None:
        """What the folders hold is offered, too; what is chosen stays."""
        for path in known.values():
            self._add(path)

    def _add(self, upscaler: str) -> None:
        if self.upscaler.findData(upscaler) < 0:
            self.upscaler.addItem(upscaler_words(upscaler), upscaler)

    def _offer(self, upscaler: str) -> None:
        self._add(upscaler)
        self.upscaler.setCurrentIndex(self.upscaler.findData(upscaler))

    def _wanted(self) -> Hires:
        return Hires(
            scale=round(self.scale.value(), 1),
            upscaler=str(self.upscaler.currentData()),
            steps=round(self.steps.value()) or None,
            strength=round(self.strength.value(), 2),
        )

    def _other_upscaler(self) -> None:
        """Each way needs another strength; one that the user set stays."""
        usual = strength_of(msgspec.structs.replace(self._wanted(), strength=None))
        if round(self.strength.value(), 2) in (_LEAST, self._usual):
            self.strength.setValue(usual)
        self._usual = usual
        self._show()

    def _show(self) -> None:
        hires = self._wanted()
        on = self.on.isChecked()
        self._inside.setVisible(on)
        width, height = larger(*self._size.size_value(), hires.scale)
        size = f"{figures.group(width)} × {figures.group(height)}"
        self.becomes.setText(tr("Result: {0}.", size))
        self.row.value.setText(size if on else tr("Off"))
        self.changed.emit()
