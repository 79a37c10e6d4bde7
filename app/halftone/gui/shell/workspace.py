"""What is in the window: top bar, pages, status bar, shortcuts, messages; knows which page is shown and how wide it is."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec
from PySide6.QtCore import QObject, Qt, QTimer, QUrl
from PySide6.QtGui import QAction, QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QStackedWidget, QWidget

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import AnyEvent, JobStarted
from halftone.gui import text, theme
from halftone.gui.controller import Controller
from halftone.gui.create.create_page import CreatePage
from halftone.gui.create.picture.picture_files import restore
from halftone.gui.create.picture.picture_report import copy_details
from halftone.gui.create.rows.start_picture_fields import PictureDrop
from halftone.gui.i18n import set_language, tr
from halftone.gui.kit import actions, motion
from halftone.gui.kit.message_bars import Toasts
from halftone.gui.kit.meters import FocusRing
from halftone.gui.kit.stock_widgets import column
from halftone.gui.shell import stopping
from halftone.gui.shell.closing import Closing, ClosingNote
from halftone.gui.shell.desktop import Desktop
from halftone.gui.shell.lacking_card import LackingCard
from halftone.gui.shell.local_interface import LocalInterface
from halftone.gui.shell.pages import PAGES, PageName, page_keys
from halftone.gui.shell.statusbar import StatusBar
from halftone.gui.shell.topbar import TopBar
from halftone.gui.shell.window import MainWindow
from halftone.library.index.entries import Entry
from halftone.session.events import Noted
from halftone.session.pictures.draft import kept as kept_draft
from halftone.session.state import Notice
from halftone.session.training import kept_training
from halftone.settings.glance import Motion, ThemeChoice

if TYPE_CHECKING:
    from halftone.gui.device.device_page import DevicePage
    from halftone.gui.gallery.gallery_page import GalleryPage
    from halftone.gui.health.health_page import HealthPage
    from halftone.gui.models.models_page import ModelsPage, ModelsView
    from halftone.gui.settings.settings_page import SettingsPage
    from halftone.gui.shell.help_window import HelpWindow
    from halftone.gui.shell.message_list import MessagesWindow
    from halftone.gui.train.train_page import TrainPage

_GROWING_MS: Final = 300
"""The pause after a change of the text size before the window is built anew."""


class _Look(NamedTuple):
    """What the whole window shows of the settings."""

    theme: ThemeChoice
    language: str
    text_size: int
    motion: Motion
    shortcuts: dict[str, str]


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
        self._models: ModelsView | None = None
        """What the page of models showed before the window was built anew."""
        self._tour: DevicePage | None = None
        self._help: HelpWindow | None = None
        self._messages: MessagesWindow | None = None
        self._desktop = Desktop(window, controller)
        self._local = LocalInterface(controller)
        self._closing = Closing(window, controller, self._keep_geometry)
        self._shortcuts: list[QAction] = []
        self._look = self._wanted_look()
        self._growing = QTimer(self, singleShot=True, interval=_GROWING_MS)
        self._growing.timeout.connect(self._rebuild)

    # --- building ---------------------------------------------------------------------------------------------------

    def move_in(self) -> Iterator[None]:
        """Build everything, a piece at each step so that the window answers in between, and take the skeleton's place."""
        self._put_look()
        yield from self._build("create" if self.controller.settings.first_run_done else "device")
        controller = self.controller
        self.window.resized.connect(self._fit)
        self.window.may_close = self._closing.may_close
        self.window.leaving = self._keep_geometry
        controller.changed.connect(self._refresh)
        controller.noticed.connect(self._noticed)
        controller.notices_changed.connect(self._notices_changed)
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
        shelf = QWidget()
        rows = column(self.top, self.closing_note, self.lacking_card, self.stack, shelf, self.status, spacing=0)
        middle.setLayout(rows)
        yield
        self.create_page = CreatePage(self.controller)
        self._pages["create"] = self.create_page
        self.stack.addWidget(self.create_page)
        yield
        self.toasts = Toasts(middle, shelf, lambda: self.create_page.centre.strip_height)
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
        drop = PictureDrop(self.top.tabs["create"])
        drop.held.connect(lambda: self._go("create"))
        drop.dropped.connect(lambda path: self._on_create(lambda: self.create_page.dropped.offer_file(path)))
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
        for old in self._shortcuts:
            old.deleteLater()
        pages = [(partial(self._go, name), page_keys(name)) for name in PAGES]
        calls: dict[actions.ActionName, Callable[[], object]] = {
            "generate": self._generate,
            "grid": lambda: self._on_create(self.create_page.open_grid),
            "cancel": self._escape,
            "guide": self.show_guide,
            "message": self.focus_message,
            "check": self._check_model,
            "prompt": self._focus_prompt,
            "seed": lambda: self._on_create(self.create_page.new_seed),
            "inpaint": lambda: self._on_create(self.create_page.inpaint),
        }
        shared: dict[actions.ActionName, Callable[[CreatePage], object]] = {
            "save": lambda page: page.acts.save_as(),
            "reuse": CreatePage.reuse_settings,
            "left-panel": CreatePage.toggle_left,
            "right-panel": CreatePage.toggle_right,
            "full-screen": lambda page: page.centre.full_screen(),
        }
        calls |= {name: partial(self._here_or_on_create, name, call) for name, call in shared.items()}
        acts = [(call, actions.keys_of(name)) for name, call in calls.items()]
        self._shortcuts = [actions.add_shortcut(self.window, call, *keys) for call, keys in (*pages, *acts)]

    def _here_or_on_create(self, name: actions.ActionName, on_create: Callable[[CreatePage], object]) -> None:
        """What a key does on the page that is shown, if it means something there."""
        if self._page in ("gallery", "models"):
            cast("GalleryPage | ModelsPage", self.page(self._page)).act(name)
        else:
            self._on_create(lambda: on_create(self.create_page))

    def page(self, name: PageName) -> QWidget:
        """The page of this name, made when it is first wanted."""
        if name not in self._pages:
            made = PAGES[name].make(self.controller)
            self._pages[name] = made
            match name:
                case "models":
                    models = cast("ModelsPage", made)
                    models.use_wanted.connect(self._use_entry)
                    models.word_wanted.connect(self._use_word)
                    models.health_wanted.connect(self._see_health)
                    models.summary_changed.connect(self._refresh)
                    if self._models is not None:
                        models.show_again(self._models)
                case "train":
                    cast("TrainPage", made).try_wanted.connect(self._try_lora)
                case "gallery":
                    self._connect_gallery(cast("GalleryPage", made))
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

    def _connect_gallery(self, page: "GalleryPage") -> None:
        page.reuse_wanted.connect(lambda made: self._on_create(lambda: self.create_page.reuse(made)))
        page.vary_wanted.connect(lambda made: self._on_create(lambda: self.create_page.acts.vary(made)))
        page.settings_wanted.connect(lambda path: self._on_create(lambda: self.create_page.take_picture(path)))
        page.seed_wanted.connect(lambda seed: self._on_create(lambda: self.create_page.take_seed(int(seed))))
        page.start_wanted.connect(lambda path: self._on_create(lambda: self.create_page.start_from(path)))
        page.inpaint_wanted.connect(lambda *wanted: self._on_create(lambda: self.create_page.acts.inpaint_file(*wanted)))

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
        self._refresh()
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

    def _use_entry(self, entry: Entry) -> None:
        """A model, or a file beside one, goes into the form of Create."""
        self._on_create(lambda: self.create_page.use(entry))

    def _use_word(self, word: str, entry: Entry) -> None:
        """A trigger word goes into the prompt, with the LoRA that it belongs to."""
        self.create_page.use_word(word, entry)
        self.controller.take(Noted(kind="added", facts=(word,)))

    def _see_health(self, model: str) -> None:
        self._go("health")
        cast("HealthPage", self.page("health")).look_at(model)

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
        job = next(iter(self.controller.state.begun), None)
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
        if self.controller.state.begun:
            self._show_queue()
        else:
            self.show_messages()

    def _escape(self) -> None:
        if self._page == "gallery" and cast("GalleryPage", self.page("gallery")).escape():
            return
        begun = self.controller.state.begun
        job = next((job for job in begun if stopping.on_page(self._page, job)), None)
        if job is not None:
            stopping.stop(self.window, self.controller, job)

    # --- what is going on -------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        controller = self.controller
        state = controller.state
        running = next(iter(state.begun), None)
        self.top.ring.show_jobs(running.fraction if running is not None else None, len(state.jobs) if running else 0)
        dtype, reason = controller.precision
        self.top.chip.show_device(state.device, state.self_test, dtype)
        self.status.memory.show_memory(state.device, state.memory)
        numerics = controller.numerics
        measured = dtype if state.self_test is not None else None
        precision = text.precision_words(numerics.precision, measured, measuring=state.measuring)
        self.status.show_numerics(numerics, precision, reason, once=state.once is not None)
        idle = cast("ModelsPage", self._pages["models"]).summary() if self._page == "models" else self._device_words()
        words, icon, token = text.activity(state, idle)
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
        settings, before = self.controller.settings, self._look
        self._look = look = self._wanted_look()
        if look.theme != before.theme:
            theme.set_theme(settings.theme)
        if look.motion != before.motion:
            motion.choose(settings.motion)
        if look.language != before.language:
            set_language(settings.language)
            self.controller.later(self._rebuild)
        elif look.shortcuts != before.shortcuts:
            self.controller.later(self._rebuild)
        elif look.text_size != before.text_size:
            self._growing.start()
        self._refresh()

    def _wanted_look(self) -> _Look:
        settings = self.controller.settings
        return _Look(settings.theme, settings.language, settings.text_size, settings.motion, settings.shortcuts)

    def _put_look(self) -> None:
        """Put what cannot change under a standing widget in force: the text size and the keys."""
        settings = self.controller.settings
        actions.choose_keys(settings.shortcuts)
        motion.choose(settings.motion)
        theme.set_text_size(settings.text_size)
        theme.begin(settings.theme)
        self._add_shortcuts()

    def _rebuild(self) -> None:
        """Rebuild every widget in the current language, text size and with the current keys; state and queue live in the
        controller.
        """
        self._put_look()
        self.create_page.end_editing()  # a new page knows neither the job nor the draft from before
        settings = cast("SettingsPage | None", self._pages.get("settings"))
        if "models" in self._pages:
            self._models = cast("ModelsPage", self._pages["models"]).shown_now
        field = settings.focused_field() if settings is not None and self._page == "settings" else ""
        for _ in self._build(self._page):
            pass  # in one go: a window half in one language is no sight
        if self._help is not None:
            self._help.speak()
        if field:
            cast("SettingsPage", self.page("settings")).focus_field(field)

    # --- messages ---------------------------------------------------------------------------------------------------

    def _noticed(self, notice: Notice) -> None:
        if self._page == "train" and notice.job is not None and notice.job.kind == "Train":
            return  # the page itself says it
        if self._page == "create" and notice.job is not None and notice.job.key == self.controller.state.fix.job:
            return  # so does the banner of the fix
        message = text.notice_message(notice)
        self.toasts.show(message, lambda key: self.act(notice, key), holds=lambda: notice in self.controller.state.notices)

    def _notices_changed(self) -> None:
        self.toasts.withdraw()
        if self._messages is not None and self._messages.isVisible():
            self._messages.show_notices(self.controller.state.notices, self.act)

    def _heard(self, event: AnyEvent, _blob: bytes) -> None:
        if isinstance(event, JobStarted):
            self.toasts.began()

    def act(self, notice: Notice, key: str) -> None:
        """Carry out an action of a message."""
        training = notice.job is not None and notice.job.kind == "Train"
        match key:
            case "retry" | "discard" if notice.kind == "grid-failed":
                sheets = self.controller.session.sheets
                (sheets.retry if key == "retry" else sheets.discard)(notice.facts[0])
            case "retry" if notice.job is not None:
                session = self.controller.session
                session.training.go_on() if training else session.queue.retry(notice.job)
            case "restart":
                self.controller.session.restart()
            case "copy" | "copy-token":
                self._copy(notice.error) if key == "copy" else QGuiApplication.clipboard().setText(self._local.secret)
            case "undo":
                self._undo(notice)
            case "show-file" if len(notice.facts) > 1:
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(notice.facts[1]).parent)))
            case "continue" | "discard":
                kept = self.controller.session.kept
                (kept.go_on if key == "continue" else kept.discard)()
            case "choose-folder" if training:
                self._go("train")
                cast("TrainPage", self.page("train")).form.ask_output()
            case "choose-folder":
                self._choose_pictures_folder(notice)
            case "health" | "farm" | "update":
                self._lead_to(key)
            case "try-fp16":
                self._on_create(self.create_page.try_in_fp16)
            case _:
                _log.warning("a message has no action %s", key)

    def _lead_to(self, key: str) -> None:
        match key:
            case "health":
                self._go("health")
            case "farm":
                self.show_guide("farm")
            case _:
                self._go("settings")
                cast("SettingsPage", self.page("settings")).show_section("Updates")
                self.controller.session.updates.check()

    def _copy(self, error: ErrorFacts | None) -> None:
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
            case "queue-cleared":
                controller.session.queue.restore_cleared()
            case "removed" if notice.job is not None:
                controller.session.queue.requeue((notice.job,))
            case "deleted" if len(notice.facts) > 2:
                restore(controller, notice.facts[1:], self._pictures_restored)
            case "models-deleted" if len(notice.facts) > 2:
                restore(controller, notice.facts[1:])
            case _:
                _log.warning("nothing to undo for %s", notice.kind)

    def _pictures_restored(self, paths: tuple[str, ...]) -> None:
        """Show the pictures that came back from the bin."""
        self.controller.session.gallery.restored(paths)
        self.create_page.pictures_restored(paths)

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

    def open_files(self, files: tuple[str, ...]) -> None:
        """Use the settings of the first picture, as if it were dropped on Create."""
        if files:
            self._on_create(lambda: self.create_page.take_picture(files[0]))

    def show_guide(self, topic: str = "") -> None:
        """The guide at a chapter, "" for that of the page that is shown."""
        from halftone.gui.shell.help_window import HelpWindow

        if self._help is None:
            self._help = HelpWindow(self.window, lambda: self.controller.settings.pictures_folder)
        self._help.show_topic(topic or PAGES[self._page].chapter)

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
        for name in ("models", "gallery"):
            if name in self._pages:
                splitters |= cast("ModelsPage | GalleryPage", self._pages[name]).splitter_state()
        form = kept_draft(controller.state.draft)
        train = kept_training(controller.state.training_draft) or controller.settings.train  # one that cannot be read stays
        kept = msgspec.structs.replace(controller.settings, geometry=geometry, splitters=splitters, form=form, train=train)
        controller.session.settings.update(kept)
