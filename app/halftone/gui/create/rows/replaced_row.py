"""Folded rows of the Create form for a part of the model that another file takes the place of: VAE, transformer, refiner."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QCheckBox, QMenu, QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.request import Refiner, model_stem
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.file_choosers import add_choosing, add_known
from halftone.gui.create.rows.folded_row import FoldedPart, below, no_model_words
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import ElidedLabel, button, column, icon_button, row
from halftone.gui.models.picker import library_button
from halftone.gui.text import part_words, short
from halftone.health.pictures.refiners import check_is_refiner, check_takes_refiner
from halftone.library.add_ons.denoisers import check_transformer_fit
from halftone.library.add_ons.upscalers import check_upscaler
from halftone.library.add_ons.vaes import check_fit, vae_name
from halftone.library.families.known_families import REFINER
from halftone.library.families.recognise import Kind


@dataclass(frozen=True)
class Replaced:
    """title, tip, own, choosing, kinds: words for the row, what it is for, the way back, the button, and the files; endings: of
    them; check: raises where one does not fit a model; kind, family: of the files in the library; none: what no file is called,
    "" where the model has its own.
    """

    title: str
    tip: str
    own: str
    choosing: str
    kinds: str
    endings: str
    folders: bool
    check: Callable[[str, ModelFacts], None]
    kind: Kind
    family: str = ""
    none: str = ""


class ReplacedRow(FoldedPart):
    """Which file is used, a button to choose another, and the way back to the model's own."""

    def __init__(self, binding: Binding, kind: Replaced) -> None:
        super().__init__(binding, kind.title, kind.tip)
        self._kind = kind
        self._file: str | None = None
        self._wanted: str | None = None  # the last that was asked for: answers about any other come too late
        self._noted: str | None = None  # the model that the note is about
        self._known: dict[str, str] = {}
        self._controller.model_selected.connect(self._look_again)
        self._controller.models_changed.connect(self._look_again)
        self.row.toggled.connect(lambda on: self.look() if on else None)
        binding.watch(self._render, self.field)

    def build(self) -> None:
        self._name = ElidedLabel("")
        self._own = icon_button("x", self._kind.own, size=14, clicked=lambda: self.set_file(None))
        self._line, more = QWidget(), self.more()
        line = row(self._name, self._own, spacing=6)
        line.setStretch(0, 1)
        self._line.setLayout(line)
        self.choose_button = button(self._kind.choosing, tip=self._kind.tip, clicked=self._open_menu)
        kind, family = self._kind.kind, self._kind.family
        self.library_button = library_button(self._controller, kind, self.choose, family)
        below_them = row(self.choose_button, self.library_button, -1)
        self.setLayout(column(self._line, *more, below_them, self.note, spacing=6, margins=(14, 10, 14, 12)))

        def show(path: str | None) -> None:
            self._line.setToolTip(path or "")
            self._name.set_text("" if path is None else vae_name(path))
            for widget in (self._line, *more):
                widget.setVisible(path is not None)

        self._binding.watch(show, self.field)

    def more(self) -> tuple[QWidget, ...]:
        """What else is set of a file."""
        return ()

    def look(self) -> None:
        """Read which of them there are."""

    def known(self) -> dict[str, str]:
        """Name -> path of those that can be chosen without looking for them."""
        return self._known

    def file(self) -> str | None:
        return self._file

    def set_file(self, path: str | None) -> None:
        """Take this one; None: the model's own."""
        self._wanted = path
        self._binding.set(self.field, path)
        self.fits()

    def _found(self, known: dict[str, str]) -> None:
        self._known = known

    def _render(self, path: str | None) -> None:
        self._file = self._wanted = path
        self.row.value.setText(self.words())
        self.fits()
        self._look_again()

    def words(self) -> str:
        """What is in use, in a few letters."""
        return self._kind.none if self._file is None and self._kind.none else part_words(self._file)

    # --- choosing ---------------------------------------------------------------------------------------------------

    def choose(self, path: str) -> None:
        """Take a file or folder, if it fits the model; what is wrong with it is said below."""
        model = self._controller.model
        if model is None:
            self.say(no_model_words())
        else:
            self._wanted = path
            self._check(path, model)

    def take(self, path: str) -> None:
        """Open the row and use a file, if it fits the model."""
        self.row.setChecked(True)
        self.choose(path)

    def _look_again(self) -> None:
        """Another model may be there now."""
        model = self._controller.model
        if model is None:
            return
        if model.id != self._noted:
            self._noted = model.id
            self.fits()
        if self._wanted is not None:
            self._check(self._wanted, model)

    def _check(self, path: str, model: ModelFacts) -> None:
        self._controller.background.run(
            lambda: self._kind.check(path, model),
            lambda _none: self._fits(path) if self._awaits(path, model) else None,
            lambda error: self._refused(path, error) if self._awaits(path, model) else None,
            receiver=self,
        )

    def _awaits(self, path: str, model: ModelFacts) -> bool:
        now = self._controller.model
        return path == self._wanted and now is not None and now.id == model.id

    def _fits(self, path: str) -> None:
        if path == self._file:
            if self.problem():  # else a note about the file stays
                self.fits()
        else:
            self.set_file(path)

    def _refused(self, path: str, error: Exception) -> None:
        self._wanted = self._file
        if path == self._file:
            self.does_not_fit(error)
        else:
            self.refused(error)

    @property
    def removal(self) -> Callable[[], object] | None:
        return partial(self.set_file, None) if self.problem() and self._unfit else None

    def _open_menu(self) -> None:
        menu: QMenu = self.menu()
        menu.addAction(self._kind.none or tr("Model default"), partial(self.set_file, None))
        add_known(menu, self.known(), self.choose)
        kind = self._kind
        add_choosing(menu, kind.choosing, kind.kinds, self.choose, folders=kind.folders, endings=kind.endings)
        below(menu, self.choose_button)


class VaePart(ReplacedRow):
    """What decodes the picture."""

    part_name = field = "vae"

    def __init__(self, binding: Binding) -> None:
        kind = Replaced(
            title=tr("VAE"),
            tip=tr("Can change colours or avoid FP16 overflow."),
            own=tr("Use model default"),
            choosing=tr("Choose VAE"),
            kinds=tr("VAE files"),
            endings="*.safetensors",
            folders=True,
            check=check_fit,
            kind="VAE",
        )
        super().__init__(binding, kind)

    def look(self) -> None:
        self._controller.session.files.parts("VAE", self._found)


class TransformerPart(ReplacedRow):
    """What turns noise into the picture; another file of it may be a GGUF one."""

    part_name = field = "transformer"

    def __init__(self, binding: Binding) -> None:
        kind = Replaced(
            title=tr("Transformer"),
            tip=tr("Another transformer, such as a smaller GGUF or FP8 file."),
            own=tr("Use model default"),
            choosing=tr("Choose transformer"),
            kinds=tr("Transformer files"),
            endings="*.gguf *.safetensors *.sft",
            folders=False,
            check=check_transformer_fit,
            kind="denoiser",
        )
        super().__init__(binding, kind)
        self._controller.transformer_hosted.connect(self._hosted)
        self._controller.model_selected.connect(self._model_selected)

    def look(self) -> None:
        """Files of the model's family in the folders of the settings."""
        if self._controller.model is not None:
            self._controller.session.files.transformers(self._controller.model, self._found)

    def _model_selected(self) -> None:
        if self.row.isChecked():
            self.look()

    def _hosted(self, path: str) -> None:
        """Wait until every part of the form follows the new model."""
        QTimer.singleShot(0, self, partial(self._show_hosted, path))

    def _show_hosted(self, path: str) -> None:
        """It was chosen as the model; the one in use now has the parts that it lacks."""
        self.set_file(path)
        self.open()
        model = self._controller.model
        if model is not None:
            self.say(tr("{0} runs with the other parts of {1}.", vae_name(path), model.name))


class RefinerPart(ReplacedRow):
    """A second model, and after which share of the steps it makes the rest."""

    part_name = field = "refiner"
    opens = True

    def __init__(self, binding: Binding) -> None:
        kind = Replaced(
            title=tr("Refiner"),
            tip=tr("Adds detail in the last steps (SDXL)."),
            own=tr("Use no refiner"),
            choosing=tr("Choose refiner"),
            kinds=tr("Refiners"),
            endings="*.safetensors",
            folders=True,
            check=_check_refiner,
            kind="checkpoint",
            family=REFINER.name,
            none=tr("Off"),
        )
        super().__init__(binding, kind)
        binding.watch(lambda _at: self.row.value.setText(self.words()), "refiner_at")

    def more(self) -> tuple[QWidget, ...]:
        tip = tr("How far the base model goes, usually 0.8.")
        self.at = self._binding.slider("refiner_at", tr("Switch at"), tip, (0.5, 0.95), 0.01)
        self.by_steps = QCheckBox(tr("Switch by steps"))
        self.by_steps.setToolTip(tr("Count the switch point in steps, as in ComfyUI, and not in noise levels, as in A1111."))
        self._binding.bind("refiner_by_steps", self.by_steps)
        return self.at, self.by_steps

    def known(self) -> dict[str, str]:
        return {model.name: model.path for model in self._controller.models if model.family == REFINER.name}

    def words(self) -> str:
        if self._file is None:
            return super().words()
        return listed(short(model_stem(self._file)), figures.decimal(self._binding.draft.refiner_at, 2))


class UpscalePart(ReplacedRow):
    """An upscale model that enlarges each finished picture into a second file."""

    part_name = field = "upscaler"

    def __init__(self, binding: Binding) -> None:
        kind = Replaced(
            title=tr("Upscale"),
            tip=tr("Also save each finished picture enlarged by an upscale model."),
            own=tr("Do not upscale"),
            choosing=tr("Choose an upscale model"),
            kinds=tr("Upscale models"),
            endings="*.safetensors",
            folders=False,
            check=lambda path, _model: check_upscaler(path),
            kind="upscaler",
            none=tr("Off"),
        )
        super().__init__(binding, kind)

    def look(self) -> None:
        self._controller.session.files.upscalers(self._found)


def refiner_line(refiner: Refiner | None) -> str:
    """Describe the refiner in a receipt; "" for none."""
    if refiner is None:
        return ""
    at = figures.decimal(refiner.at, 2)
    return listed(refiner.name, tr("switch at {0} of the steps", at) if refiner.by_steps else tr("switch at {0}", at))


def _check_refiner(path: str, model: ModelFacts) -> None:
    check_takes_refiner(model)
    check_is_refiner(path)
