"""The model in the Create form: its row, its list, and what there is to be done about its numbers."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.model_picker import ModelList, ModelRow, ask_model, badge_tip, model_line, problem_words
from halftone.gui.i18n import say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.navigation import guide_button
from halftone.gui.kit.stock_widgets import IconLabel, button, column, label, row, set_tone


class ModelPart(QWidget):
    """`fix_requested`, `check_requested`: what the line below the model offers."""

    fix_requested = Signal()
    check_requested = Signal()

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self.picture_of: Callable[[str], QImage] = lambda _model: QImage()
        """The newest picture that a model made, a null image where there is none."""
        self.row = ModelRow(framed=True)
        self.open_link = button(tr("Open…"), "link", tip=tr("Open a model file or folder"))
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
        head = row(label(tr("Model"), "small", "secondary"), -1, self.open_link, self.guide_button, spacing=4)
        self.setLayout(column(head, self.row, self.note_line, spacing=4, margins=(14, 10, 14, 12)))
        self.row.clicked.connect(self._open_list)
        self.open_link.clicked.connect(lambda: ask_model(self, controller))
        self.note_link.clicked.connect(self._note_clicked)
        for source in (controller.models_changed, controller.model_selected, controller.badges_changed):
            source.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Follow the model in use and what is known of it."""
        controller = self._controller
        model = controller.model
        self.row.set_thumbnail(self.picture_of(controller.settings.last_model))
        if model is None:
            error = controller.model_error
            problem = "" if error is None else problem_words(error)
            name = tr("Reading the model…") if error is None else controller.settings.last_model.rpartition("/")[2]
            self.row.show_model(name, problem, "unchecked")
            lacking = controller.model_list.in_use_lacking is not None
            self._show_note(problem, tr("What is missing") if lacking else tr("Locate…"), "danger")
            return
        badge = controller.badge(model)
        report = controller.report(model)
        tip = badge_tip(badge, report.checked_at if report is not None else "")
        self.row.show_model(model.name, model_line(model), badge.state, tip=tip)
        match badge.state:
            case "unchecked":
                words = say(badge.reason) if report is None else tr("Changed since the last check.")
                seconds = f" · {figures.duration(report.seconds)}" if report is not None else ""
                self._show_note(words, tr("Check") + seconds, "muted")
            case "overflows":
                self._show_note(tr("Some of its pictures need recovery."), tr("Fix this model"), "warn")
            case "broken":
                self._show_note(say(badge.reason), tr("See model health"), "danger")
            case _:
                self._show_note("", "", "muted")

    def _show_note(self, words: str, link: str, tone: str) -> None:
        self.note_line.setVisible(bool(words))
        self.note.setText(words)
        self.note_link.setText(link)
        set_tone(self.note, tone)
        self.note_icon.set("info" if tone == "muted" else "triangle-alert", "text-muted" if tone == "muted" else tone)

    def _note_clicked(self) -> None:
        controller = self._controller
        lacking = controller.model_list.in_use_lacking
        if lacking is not None:
            controller.small_files.ask(lacking)
            return
        if controller.model is None:
            ask_model(self, controller)
            return
        match controller.badge(controller.model).state:
            case "overflows":
                self.fix_requested.emit()
            case "broken":
                controller.go("health")
            case _:
                self.check_requested.emit()

    def _open_list(self) -> None:
        controller = self._controller
        made = ModelList(self)
        made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        in_use = (controller.settings.last_model, controller.extras.transformer)
        made.fill(controller.model_list, in_use, controller.badge, self.picture_of)
        made.chosen.connect(controller.select_model)
        made.forgotten.connect(controller.forget_model)
        made.open_folder.connect(lambda: ask_model(self, controller))
        made.make_fragile.connect(controller.make_fragile)
        made.show_under(self.row)
