"""A second, larger pass over the next pictures: a folded row of the Create form."""

from PySide6.QtWidgets import QCheckBox, QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.limits import SCALE_RANGE
from halftone.contract.request import LANCZOS, LATENT, Hires, model_stem
from halftone.gui import theme
from halftone.gui.create.form.binding import Binding, number_box
from halftone.gui.create.form.file_choosers import ask_weights
from halftone.gui.create.form.form_fields import combo
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import column, icon_button, label, row
from halftone.gui.models.picker import library_button
from halftone.gui.text import short
from halftone.health.pictures.passes import larger, strength_of
from halftone.library.add_ons.upscalers import check_upscaler
from halftone.session.pictures.draft import with_strength


def upscaler_words(upscaler: str) -> str:
    """A way to enlarge."""
    return {LATENT: tr("Latent"), LANCZOS: tr("Lanczos")}.get(upscaler) or short(model_stem(upscaler))


def hires_line(hires: Hires | None) -> str:
    """Describe the pass in a receipt; "" for none."""
    if hires is None:
        return ""
    strength = tr("strength {0}", figures.decimal(strength_of(hires), 2))
    return listed(tr("{0} ×", figures.decimal(hires.scale)), upscaler_words(hires.upscaler), strength)


class HiresPart(FoldedPart):
    """The Hires. fix fields: switch, scale, upscaler, steps and denoising strength."""

    part_name = field = "hires"
    opens = True

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Hires. fix"), tr("Redraw larger for detail without duplicated subjects."))
        self.row.toggled.connect(lambda on: self._controller.session.files.upscalers(self._found) if on else None)
        binding.watch(self._show_value, "hires", "hires_on", "size")

    def build(self) -> None:
        binding = self._binding
        self.on = QCheckBox(tr("Enable Hires. fix"))
        self.on.setToolTip(self.row.toolTip())
        low, high = (figures.decimal(value) for value in SCALE_RANGE)
        scale_tip = tr("{0} to {1}.", low, high)
        self.scale = binding.slider("hires.scale", tr("Upscale by"), scale_tip, (1, 4), 0.1)
        self.upscaler = combo(tr("Upscaler"), "")
        for way in (LATENT, LANCZOS):
            self.upscaler.addItem(upscaler_words(way), way)
        steps_tip = tr("0: same as the first pass.")
        self.steps = binding.slider("hires.steps", tr("Steps"), steps_tip, (0, 150))
        strength_tip = tr("0.3 adds detail, 0.7 changes the picture.")
        self.strength = number_box("hires.strength", tr("Denoising strength"), strength_tip, width=68)
        words = label(tr("Denoising strength"), "small", "secondary")
        words.setBuddy(self.strength)
        self.becomes = label("", "caption", "muted")
        self._inside = QWidget()
        self.upscaler.setMinimumWidth(theme.grown(80))  # its longest name must not widen the form
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
        upscaler.addWidget(library_button(self._controller, "upscaler", self.choose))
        self._inside.setLayout(
            column(self.scale, self.becomes, upscaler, self.steps, row(words, -1, self.strength, spacing=8), spacing=6)
        )
        self.setLayout(column(self.on, self._inside, self.note, spacing=8, margins=(14, 10, 14, 12)))
        binding.bind("hires_on", self.on)
        binding.watch(self._add, "hires.upscaler")
        binding.bind("hires.upscaler", self.upscaler)
        self.strength.valueChanged.connect(
            lambda _value: binding.set("hires", with_strength(binding.draft.hires, self.strength.number()))
        )
        binding.watch(self._show, "hires", "hires_on", "size")

    def choose(self, path: str) -> None:
        """Take an upscale model's file, if it can be one."""
        try:
            check_upscaler(path)
        except HalftoneError as error:
            self.refused(error)
            return
        self.say(self.problem())
        self._binding.set("hires.upscaler", path)

    def _found(self, known: dict[str, str]) -> None:
        """What the folders hold is offered, too; what is chosen stays."""
        for path in known.values():
            self._add(path)

    def _add(self, upscaler: str) -> None:
        if self.upscaler.findData(upscaler) < 0:
            self.upscaler.addItem(upscaler_words(upscaler), upscaler)

    def _show(self, hires: Hires, on: bool, first: tuple[int, int]) -> None:
        self.strength.setValue(strength_of(hires))
        self._inside.setVisible(on)
        self.becomes.setText(tr("Result: {0}.", _size(hires, first)))

    def _show_value(self, hires: Hires, on: bool, first: tuple[int, int]) -> None:
        self.row.value.setText(_size(hires, first) if on else tr("Off"))
        self.changed.emit()


def _size(hires: Hires, first: tuple[int, int]) -> str:
    return figures.pixels(*larger(*first, hires.scale))
