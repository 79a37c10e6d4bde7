"""The model in the Create form: its row, its list, what there is to be done about its numbers, and what it was made for."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import ModelFacts
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.model_menu import ModelMenu
from halftone.gui.create.form.model_picker import ModelCard, ModelRow, ask_model, badge_tip, model_line, problem_words
from halftone.gui.i18n import listed, say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.navigation import guide_button
from halftone.gui.kit.stock_widgets import IconLabel, button, column, label, row, set_tone
from halftone.gui.models.picker import pick
from halftone.session.pictures.draft import defaults_of, without_own


class ModelPart(QWidget):
    """`fix_requested`, `check_requested`: what the line below the model offers."""

    fix_requested = Signal()
    check_requested = Signal()

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self.picture_of: Callable[[str], QImage] = lambda _model: QImage()
        """The newest picture that a model made, a null image where there is none."""
        self.row = ModelRow()
        self.library_link = button(tr("Library"), "link", tip=tr("Choose from your models"))
        self.library_link.setFont(theme.current().font("small"))
        self.open_link = button(tr("Open…"), "link", tip=tr("Open a model"))
        self.open_link.setFont(theme.current().font("small"))
        self.note_icon = IconLabel("info", "text-muted", 14)
        self.note = label("", "caption", "muted", wrap=True)
        self.note_link = button("", "link")
        self.note_link.setFont(theme.current().font("caption"))
        self.note_line = QWidget()
        line = row(self.note_icon, self.note, self.note_link, spacing=6, margins=(0, 0, 0, 0))
        line.setStretch(1, 1)
        self.note_line.setLayout(line)
        self.guide_button = guide_button()
        self.guide_button.clicked.connect(controller.guide_requested)
        head = row(label(tr("Model"), "small", "secondary"), -1, self.library_link, self.open_link, self.guide_button, spacing=4)
        self.setLayout(column(head, self.row, self.note_line, spacing=4, margins=(14, 10, 14, 12)))
        self.row.clicked.connect(self._open_list)
        self.library_link.clicked.connect(lambda: pick(self.row, controller, "checkpoint", controller.session.models.select))
        self.open_link.clicked.connect(lambda: ask_model(self, controller))
        self.note_link.clicked.connect(self._note_clicked)
        for source in (controller.models_changed, controller.model_selected, controller.badges_changed):
            source.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Follow the model in use and what is known of it."""
        controller = self._controller
        model = controller.model
        self.refresh_picture()
        if model is None:
            error = controller.model_error
            problem = "" if error is None else problem_words(error)
            name = tr("Loading the model") if error is None else controller.settings.last_model.rpartition("/")[2]
            self.row.show_model(ModelCard(name, problem))
            lacking = controller.state.model_lacking is not None
            self._show_note(problem, tr("What is missing") if lacking else tr("Locate…"), "danger")
            return
        badge = controller.session.checks.badge(model)
        report = controller.session.checks.report(model)
        tip = badge_tip(badge, report.checked_at if report is not None else "")
        self.row.show_model(ModelCard(model.name, model_line(model), badge.state, tip))
        match badge.state:
            case "unchecked":
                words = say(badge.reason) if report is None else tr("{0}.", tr("Changed since the last check"))
                seconds = f" · {figures.duration(report.seconds)}" if report is not None else ""
                self._show_note(words, tr("Check") + seconds, "muted")
            case "overflows":
                self._show_note(tr("Some of its pictures need recovery."), tr("Fix this model"), "warn")
            case "broken":
                self._show_note(say(badge.reason), tr("See model health"), "danger")
            case _:
                self._show_note("", "", "muted")

    def refresh_picture(self) -> None:
        self.row.set_thumbnail(self.picture_of(self._controller.settings.last_model))
        if (menu := self.findChild(ModelMenu)) is not None:
            menu.list.viewport().update()

    def _show_note(self, words: str, link: str, tone: str) -> None:
        self.note_line.setVisible(bool(words))
        self.note.setText(words)
        self.note_link.setText(link)
        set_tone(self.note, tone)
        self.note_icon.set("info" if tone == "muted" else "triangle-alert", "text-muted" if tone == "muted" else tone)

    def _note_clicked(self) -> None:
        controller = self._controller
        lacking = controller.state.model_lacking
        if lacking is not None:
            controller.session.small_files.ask(lacking)
            return
        if controller.model is None:
            ask_model(self, controller)
            return
        match controller.session.checks.badge(controller.model).state:
            case "overflows":
                self.fix_requested.emit()
            case "broken":
                controller.go("health")
            case _:
                self.check_requested.emit()

    def _open_list(self) -> None:
        controller = self._controller
        in_use = (controller.settings.last_model, controller.state.extras.transformer)
        made = ModelMenu(self, controller.session.models, in_use, controller.session.checks.badge, self.picture_of)
        made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        made.chosen.connect(controller.session.models.select)
        made.forgotten.connect(controller.session.models.forget)
        made.open_folder.connect(lambda: ask_model(self, controller))
        made.make_fragile.connect(controller.session.fragile.make)
        made.show_under(self.row)


class OwnValues(QWidget):
    """A note below the model, shown while fields hold what the user set for another model."""

    def __init__(self, binding: Binding) -> None:
        super().__init__()
        self._binding = binding
        self.words = label("", "caption", "muted", wrap=True)
        self.take = button(tr("Use these"), "link", clicked=lambda: binding.put(without_own(binding.draft)))
        self.take.setFont(theme.current().font("caption"))
        line = row(IconLabel("info", "text-muted", 14), self.words, self.take, spacing=6, margins=(14, 0, 14, 10))
        line.setStretch(1, 1)
        self.setLayout(line)
        self.hide()

    def follow(self, model: ModelFacts) -> None:
        """Say what the model was made for."""
        words: dict[str, tuple[str, Callable[[Any], str]]] = {
            "size": (tr("Size"), lambda size: figures.pixels(*size)),
            "steps": (tr("Steps"), str),
            "guidance": (tr("Guidance"), figures.decimal),
        }
        made_for, own = defaults_of(model), self._binding.draft.own
        values = (f"{words[name][0]} {words[name][1](getattr(made_for, name))}" for name in own)
        self.words.setText(tr("{0} recommends {1}.", model.name, listed(*values)))
        self.setVisible(bool(own))
