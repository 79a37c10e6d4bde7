"""The VAE of the next pictures: a folded row of the Create form."""

from functools import partial

import msgspec
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.pages.create_choosing import add_choosing, add_known
from halftone.gui.pages.create_folded import FoldedPart, below
from halftone.gui.text import vae_words
from halftone.gui.widgets.common import ElidedLabel, button, column, icon_button, row
from halftone.library.vaes import check_fit, vae_name


class VaePart(FoldedPart):
    """What decodes the picture, and a button to choose another."""

    extra = True

    def __init__(self, controller: Controller) -> None:
        tip = tr("What makes the pixels. Another one can change colours, and hold in FP16 where the model's own does not.")
        super().__init__(tr("VAE"), tip)
        self._controller = controller
        self._known: dict[str, str] = {}
        self._vae: str | None = None
        self._wanted: str | None = None  # the last that was asked for: answers about any other come too late
        self._noted: str | None = None  # the model that the note is about
        self._name = ElidedLabel("")
        self._own = icon_button("x", tr("Use the model's own VAE"), size=14, clicked=lambda: self.set_vae(None))
        self._line = QWidget()
        line = row(self._name, self._own, spacing=6)
        line.setStretch(0, 1)
        self._line.setLayout(line)
        self.choose_button = button(tr("Choose VAE"), tip=tip, clicked=self._open_menu)
        self.setLayout(column(self._line, row(self.choose_button, -1), self.note, spacing=6, margins=(14, 10, 14, 12)))
        self.row.toggled.connect(lambda on: controller.look_for_parts("VAE", self._found) if on else None)
        controller.model_selected.connect(self._look_again)
        controller.models_changed.connect(self._look_again)
        self._show()

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(request, vae=self._vae)

    def take(self, request: PictureRequest) -> None:
        self.set_vae(request.vae)

    def vae(self) -> str | None:
        return self._vae

    def set_vae(self, vae: str | None) -> None:
        """Take this one; None: the model's own."""
        self._vae = self._wanted = vae
        self._controller.choose_vae(vae)
        self._show()
        self.say("")
        self._look_again()

    def _show(self) -> None:
        self.row.value.setText(vae_words(self._vae))
        self._line.setVisible(self._vae is not None)
        self._line.setToolTip(self._vae or "")
        self._name.set_text("" if self._vae is None else vae_name(self._vae))

    def _found(self, known: dict[str, str]) -> None:
        self._known = known

    # --- choosing ---------------------------------------------------------------------------------------------------

    def choose(self, path: str) -> None:
        """Take a VAE's file or folder, if it fits the model; what is wrong with it is said below."""
        model = self._controller.model
        if model is not None:
            self._wanted = path
            self._check(path, model)

    def _look_again(self) -> None:
        """Another model may be there now."""
        model = self._controller.model
        if model is None:
            return
        if model.id != self._noted:
            self._noted = model.id
            self.say("")
        if self._wanted is not None:
            self._check(self._wanted, model)

    def _check(self, path: str, model: ModelFacts) -> None:
        self._controller.background.run(
            lambda: check_fit(path, model),
            lambda _none: self._fits(path) if self._awaits(path, model) else None,
            lambda error: self._refused(error) if self._awaits(path, model) else None,
            receiver=self,
        )

    def _awaits(self, path: str, model: ModelFacts) -> bool:
        now = self._controller.model
        return path == self._wanted and now is not None and now.id == model.id

    def _fits(self, path: str) -> None:
        if path == self._vae:
            self.say("")
        else:
            self.set_vae(path)

    def _refused(self, error: Exception) -> None:
        self._wanted = self._vae
        self.refused(error)

    def _open_menu(self) -> None:
        menu = self.menu()
        menu.addAction(tr("Model's own"), partial(self.set_vae, None))
        add_known(menu, self._known, self.choose)
        add_choosing(menu, tr("Choose VAE"), tr("VAE files"), self.choose)
        below(menu, self.choose_button)
