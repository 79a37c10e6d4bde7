"""What is in the window: top bar, pages, status bar, shortcuts, messages; knows which page is shown and how wide it is."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from PySide6.QtCore import QFile, QObject, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QStackedWidget, QWidget

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import AnyEvent, JobStarted
from halftone.gui import text, theme
from halftone.gui.controller import Controller
from halftone.gui.create.create_page import CreatePage
from halftone.gui.create.picture.picture_report import copy_details
from halftone.gui.i18n import set_language, tr
from halftone.gui.kit import actions
from halftone.gui.kit.message_bars import Toasts
from halftone.gui.kit.meters import FocusRing
from halftone.gui.kit.stock_widgets import column
from halftone.gui.shell import stopping
from halftone.gui.shell.closing import Closing, ClosingNote
from halftone.gui.shell.lacking_card import LackingCard
from halftone.gui.shell.pages import PAGES, PageName
from halftone.gui.shell.statusbar import StatusBar
from halftone.gui.shell.topbar import TopBar
from halftone.gui.shell.window import MainWindow
from halftone.session.pictures.draft import kept as kept_draft
from halftone.session.state import Notice
from halftone.session.training import kept_training

if TYPE_CHECKING:
    from halftone.gui.device.device_page import DevicePage
    from halftone.gui.settings.settings_page import SettingsPage
    from halftone.gui.shell.help_window import HelpWindow
    from halftone.gui.shell.message_list import MessagesWindow
    from halftone.gui.train.train_page import TrainPage

_log = logging.getLogger(__name__)


class Workspace(QObject):
    """Fills one window over one controller."""

    def __init__(self, window: MainWindow, controller: Controller) -> None:
        super().__init__(window)
        self.window = window
        self.controller = controller
        self._page: PageName = "create"
        self._section = "General"
        """English name of the settings section."""
        self._pages: dict[str, QWidget] = {}
        self._tour: DevicePage | None = None
        self._help: HelpWindow | None = None
        self._messages: MessagesWindow | None = None
        self._closing = Closing(window, controller, self._keep_geometry)
        self._look = (controller.settings.theme, controller.settings.language)

    # --- building ---------------------------------------------------------------------------------------------------

    def move_in(self) -> Iterator[None]:
        """Build everything, a piece at each step so that the window answers in between, and take the skeleton's place."""
        yield from self._build("create" if self.controller.settings.first_run_done else "device")
        controller = self.controller
        self._add_shortcuts()
        self.window.resized.connect(self._fit)
        self.window.may_close = self._closing.may_close
        self.window.leaving = self._keep_geometry
        controller.changed.connect(self._refresh)
        controller.noticed.connect(self._noticed)
        controller.worker_event.connect(self._heard)
        controller.job_ended.connect(lambda ended: self.toasts.went_well() if ended.outcome == "done" else None)
        controller.settings_changed.connect(self._settings_changed)
        controller.badges_changed.connect(self._refresh)
        controller.page_requested.connect(self._requested)
        controller.guide_requested.connect(self.show_guide)
        for notice in controller.state.notices:
            self._noticed(notice)

    def _build(self, page: PageName) -> Iterator[None]:
        self.top = TopBar()
        self.stack = QStackedWidget()
        self.status = StatusBar()
        self.closing_note = ClosingNote(self._closing, self.controller)
        self._pages = {}
        self._tour = None
        middle = QWidget()
        middle.setObjectName("page")
        self.lacking_card = LackingCard(self.controller)
        middle.setLayout(column(self.top, self.closing_note, self.lacking_card, self.stack, self.status, spacing=0))
        yield
        self.create_page = CreatePage(self.controller)
        self._pages["create"] = self.create_page
        self.stack.addWidget(self.create_page)
        yield
        self.toasts = Toasts(middle, lambda: self.create_page.centre.strip_height)
        self._ring = FocusRing(middle)
        self._connect()
        self._go(page)
        self._refresh()
        yield
        self.window.setCentralWidget(middle)
        theme.dress()

    def _connect(self) -> None:
        for name, button in self.top.openers.items():
            button.clicked.connect(partial(self._opener_clicked, name))
        self.top.help.clicked.connect(self.show_guide)
        self.top.ring.clicked.connect(self._show_queue)
        self.status.activity.clicked.connect(self._activity_clicked)
        for part in (self.status.unwatched, self.status.precision, self.status.nan_check):
            part.clicked.connect(self._go_numerics)
        self.status.memory.clicked.connect(lambda: self._go("device"))
        self.status.version.clicked.connect(self.show_guide)

    def _opener_clicked(self, name: PageName, _on: bool = False) -> None:
        self._go(name)

    def _add_shortcuts(self) -> None:
        for name, page in PAGES.items():
            actions.add_shortcut(self.window, partial(self._go, name), page.key)
        calls: dict[actions.ActionName, Callable[[], object]] = {
            "generate": self._generate,
            "cancel": self._escape,
            "guide": self.show_guide,
            "message": self.focus_message,
            "check": self._check_model,
            "prompt": self._focus_prompt,
            "seed": lambda: self._on_create(self.create_page.new_seed),
            "save": lambda: self._on_create(self.create_page.acts.save_as),
            "reuse": lambda: self._on_create(self.create_page.reuse_settings),
            "left-panel": lambda: self._on_create(self.create_page.toggle_left),
            "right-panel": lambda: self._on_create(self.create_page.toggle_right),
            "full-screen": lambda: self._on_create(self.create_page.centre.full_screen),
        }
        for name, call in calls.items():
            actions.add_shortcut(self.window, call, *actions.ACTIONS[name].keys)

    def page(self, name: PageName) -> QWidget:
        """The page of this name, made when it is first wanted."""
        if name not in self._pages:
            made = PAGES[name].make(self.controller)
            self._pages[name] = made
            match name:
                case "train":
                    cast("TrainPage", made).try_wanted.connect(self._try_lora)
                case "settings":
                    settings = cast("SettingsPage", made)
                    settings.show_section(self._section)
                    settings.section_shown.connect(self._section_shown)
                case "device":
                    tour = self._tour = cast("DevicePage", made)
                    tour.make_first_picture.connect(self._make_first_picture)
                    tour.skip_tour.connect(self._end_tour)
                    tour.set_first_run(not self.controller.settings.first_run_done)
                case _:
                    pass
            self.stack.addWidget(made)
        return self._pages[name]

    # --- pages ------------------------------------------------------------------------------------------------------

    def _section_shown(self, name: str) -> None:
        self._section = name

    def _go_numerics(self) -> None:
        self._go("settings")
        cast("SettingsPage", self.page("settings")).show_section("Numerics")

    def _requested(self, name: str) -> None:
        if name == "numerics":
            self._go_numerics()
        else:
            self._go(cast("PageName", name))

    def _go(self, name: PageName) -> None:
        self._page = name
        self.stack.setCurrentWidget(self.page(name))
        self.top.show_page(name)
        self._fit()
        self.toasts.place()

    def _make_first_picture(self) -> None:
        """The button says that it makes one; the prompt is the example, ready to be written over."""
        self._end_tour()
        self._generate()

    def _end_tour(self) -> None:
        """The end of the tour: Create, with the cursor in the prompt."""
        controller = self.controller
        controller.session.settings.update(msgspec.structs.replace(controller.settings, first_run_done=True))
        if self._tour is not None:
            self._tour.set_first_run(False)
        self._focus_prompt()

    def _try_lora(self, path: str) -> None:
        """A LoRA that was trained goes into the form of Create."""
        self._on_create(lambda: self.create_page.form.lora_part.add(path))
        self.create_page.form.lora_part.row.setChecked(True)

    def _on_create(self, call: Callable[[], object]) -> None:
        self._go("create")
        call()

    def _focus_prompt(self) -> None:
        self._on_create(self.create_page.focus_prompt)

    def _generate(self) -> None:
        self._on_create(self.create_page.generate)

    def _check_model(self) -> None:
        model = self.controller.model
        if model is not None:
            self._go("health")
            self.controller.session.checks.check(model)

    def _show_queue(self) -> None:
        job = self.controller.state.running
        kind = job.kind if job is not None else ""
        if kind == "Examine":
            self._go("health")
        elif kind == "SelfTest":
            self._go("device")
        elif kind == "Train":
            self._go("train")
        else:
            self._on_create(self.create_page.show_queue)

    def _activity_clicked(self) -> None:
        if self.controller.state.running is not None:
            self._show_queue()
        else:
            self.show_messages()

    def _escape(self) -> None:
        job = stopping.on_page(self._page, self.controller.state.running)
        if job is not None:
            stopping.stop(self.window, self.controller, job)

    # --- what is going on -------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        controller = self.controller
        state = controller.state
        running = state.running
        self.top.ring.show_jobs(running.fraction if running is not None else None, len(state.jobs) if running else 0)
        dtype, reason = controller.precision
        self.top.chip.show_device(state.device, state.self_test, dtype)
        self.status.memory.show_memory(state.device, state.memory)
        numerics = controller.numerics
        measured = dtype if state.self_test is not None else None
        precision = text.precision_words(numerics.precision, measured, measuring=state.measuring)
        self.status.show_numerics(numerics, precision, reason)
        words, icon, token = text.activity(state, self._device_words())
        self.status.activity.show_text(words, icon, token)
        attention = controller.session.checks.badge(controller.model).state in ("overflows", "broken")
        self.top.tabs["health"].set_count(1 if attention else 0)
        self.top.tabs["train"].set_count(len(controller.state.training.open))

    def _device_words(self) -> str:
        """The verdict on the device while it decides, else what the next picture runs in: a type that was chosen by hand."""
        controller = self.controller
        if controller.state.self_test is None:
            return ""
        dtype = controller.precision[0]
        name = text.TYPE_NAMES[dtype]
        if controller.numerics.precision != "auto":
            return tr("The next picture runs in {0}.", name)
        return tr("{0} works on this device.", name) if dtype != "float32" else tr("Halftone uses FP32 here.")

    def _settings_changed(self) -> None:
        settings = self.controller.settings
        look = (settings.theme, settings.language)
        if look[0] != self._look[0]:
            theme.set_theme(settings.theme)
        if look[1] != self._look[1]:
            set_language(settings.language)
            self.controller.later(self._rebuild)
        self._look = look
        self._refresh()

    def _rebuild(self) -> None:
        """Rebuild every widget in the current language; state and queue live in the controller."""
        for _ in self._build(self._page):
            pass  # in one go: a window half in one language is no sight
        if self._help is not None:
            self._help.speak()

    # --- messages ---------------------------------------------------------------------------------------------------

    def _noticed(self, notice: Notice) -> None:
        if self._page == "train" and notice.job is not None and notice.job.kind == "Train":
            return  # the page itself says it
        self.toasts.show(text.notice_message(notice), lambda key: self.act(notice, key))

    def _heard(self, event: AnyEvent, _blob: bytes) -> None:
        if isinstance(event, JobStarted):
            self.toasts.began()

    def act(self, notice: Notice, key: str) -> None:
        """Carry out an action of a message."""
        match key:
            case "retry" if notice.job is not None and notice.job.kind == "Train":
                self.controller.session.training.go_on()
            case "retry" if notice.job is not None:
                self.controller.session.queue.retry(notice.job)
            case "restart":
                self.controller.session.restart()
            case "copy":
                self._copy_error(notice.error)
            case "undo":
                self._undo(notice)
            case "show-file" if len(notice.facts) > 1:
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(notice.facts[1]).parent)))
            case "choose-folder" if notice.job is not None and notice.job.kind == "Train":
                self._go("train")
                cast("TrainPage", self.page("train")).form.ask_output()
            case "choose-folder":
                self._choose_pictures_folder(notice)
            case "health":
                self._go("health")
            case _:
                _log.warning("a message has no action %s", key)

    def _copy_error(self, error: ErrorFacts | None) -> None:
        controller = self.controller
        QGuiApplication.clipboard().setText(
            copy_details(None, controller.model, controller.state.device, error, controller.state.extras)
        )

    def _undo(self, notice: Notice) -> None:
        controller = self.controller
        match notice.kind:
            case "cure-applied":
                model = next((m for m in controller.models if m.id == notice.facts[1]), None)
                report = controller.session.checks.report(model)
                if report is not None:
                    controller.session.checks.undo(report)
            case "removed" if notice.job is not None:
                controller.session.queue.requeue((notice.job,))
            case "deleted" if len(notice.facts) > 2:
                if QFile.rename(notice.facts[2], notice.facts[1]):
                    self.create_page.picture_restored(notice.facts[1])
            case _:
                _log.warning("nothing to undo for %s", notice.kind)

    def _choose_pictures_folder(self, notice: Notice) -> None:
        dialog = QFileDialog(self.window, tr("Choose folder"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)

        def chosen(folder: str) -> None:
            self.controller.session.settings.update(msgspec.structs.replace(self.controller.settings, pictures_folder=folder))
            if notice.job is not None:
                self.controller.session.queue.retry(notice.job)

        dialog.fileSelected.connect(chosen)
        dialog.open()

    def focus_message(self) -> None:
        """F8: to the newest message."""
        bar = self.toasts.shown
        if bar is not None:
            bar.first_button().setFocus(Qt.FocusReason.ShortcutFocusReason)
        elif not self.create_page.centre.focus_banner():
            self.show_messages()

    def show_messages(self) -> None:
        """All messages of this session."""
        if self._messages is None:
            from halftone.gui.shell.message_list import MessagesWindow

            self._messages = MessagesWindow(self.window)
        self._messages.show_notices(self.controller.state.notices, self.act)
        self._messages.show()
        self._messages.raise_()

    def show_guide(self) -> None:
        """The guide, at the chapter of the page that is shown."""
        from halftone.gui.shell.help_window import HelpWindow

        if self._help is None:
            self._help = HelpWindow(self.window, lambda: self.controller.settings.pictures_folder)
        self._help.show_topic(PAGES[self._page].chapter)

    # --- size and end -----------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        narrow = self.window.width() < theme.current().px("layout.breakpoints.narrow")
        low = self.window.height() < theme.current().px("layout.breakpoints.compact-height")
        self.top.set_narrow(narrow)
        self.create_page.set_compact(narrow=narrow, low=low)

    def _keep_geometry(self) -> None:
        controller = self.controller
        geometry = {**controller.settings.geometry, "main": bytes(self.window.saveGeometry().toBase64().data()).decode()}
        splitters = {**controller.settings.splitters, **self.create_page.splitter_state()}
        form = kept_draft(controller.state.draft)
        train = kept_training(controller.state.training_draft) or controller.settings.train  # one that cannot be read stays
        kept = msgspec.structs.replace(controller.settings, geometry=geometry, splitters=splitters, form=form, train=train)
        controller.session.settings.update(kept)
