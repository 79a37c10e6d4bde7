"""The Models page: shelves and filters at the left, cards or a table in the middle, one model at the right."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, cast

from PySide6.QtCore import QEvent, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QDragEnterEvent, QDropEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QButtonGroup, QLineEdit, QMenu, QMessageBox, QStackedWidget, QToolButton, QWidget

from halftone.contract.vocabulary import POCKET
from halftone.gui import icons, theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.form_fields import combo
from halftone.gui.create.picture import picture_files
from halftone.gui.create.picture.picture_files import moved_to_bin, say_binned
from halftone.gui.create.picture.picture_images import read_later
from halftone.gui.health import file_dialogs, health_text
from halftone.gui.i18n import tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.navigation import guide_button
from halftone.gui.kit.page_base import Page
from halftone.gui.kit.splitter import LineSplitter
from halftone.gui.kit.stock_widgets import (
    boxed,
    button,
    column,
    icon_button,
    label,
    row,
    show_clear,
    surface,
    vline,
)
from halftone.gui.models.inspector import Inspector
from halftone.gui.models.list_notes import ListNotes
from halftone.gui.models.model_cards import ModelGrid, RowModel, act_of
from halftone.gui.models.model_rows import ModelRows
from halftone.gui.models.model_table import ModelTable
from halftone.gui.models.model_words import PLACE_ICONS, convert_words, place_words, sort_words, use_words, weights_words
from halftone.gui.models.previews import Previews
from halftone.gui.models.side_panel import SidePanel
from halftone.library.index.entries import Entry
from halftone.session.models.listing import Place, Query, Row, Sort, folder_of
from halftone.session.models.watched import own_models, reading, users_folders
from halftone.settings.glance import widths

_TYPING_MS: Final = 120
_TIGHT: Final = 900
"""Pixels of a page, at the usual text size, on which the bar shows icons alone."""
_TIGHT_SORT: Final = 132
"""Pixels of the sort order then, so that the search field has the rest."""
_ANY_WIDTH: Final = (1 << 24) - 1
"""What Qt takes for no limit."""
_WIDE: Final = (216, 904, 304)
_NARROW: Final = (190, 834, 280)
_SORTS: Final[tuple[Sort, ...]] = ("used", "name", "family", "size", "health")


class ModelsView(NamedTuple):
    """What a page shows, for the page in another language that takes its place. selected: the path of the model."""

    query: Query
    selected: str
    table: bool


class ModelsPage(Page):
    """use_wanted: an entry for Create; word_wanted: a trigger word of an entry; health_wanted: a model to look at on Health."""

    use_wanted = Signal(object)
    word_wanted = Signal(str, object)
    health_wanted = Signal(str)
    summary_changed = Signal()

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._selected = ""
        self._image_path = ""
        self._restore = True
        self._to_check: tuple[str, ...] = ()
        self._queued = frozenset[str]()
        self.rows = ModelRows(controller, Query(), self)
        self.side = SidePanel()
        self.inspector = Inspector()
        self.cards = RowModel()
        self._previews = Previews(controller)
        self.grid = ModelGrid(self._previews.small)
        self.grid.setModel(self.cards)
        self.table = ModelTable()
        self._build()
        self._connect()
        self.setAcceptDrops(True)

    @property
    def shown_now(self) -> ModelsView:
        """What another page of models shows once it gets this."""
        return ModelsView(replace(self.rows.query, words=self.search.text()), self._selected, self.as_table.isChecked())

    def show_again(self, view: ModelsView) -> None:
        """Show what another page showed."""
        self.search.setText(view.query.words)
        self.sort.setCurrentIndex(self.sort.findData(view.query.sort))
        (self.as_table if view.table else self.as_cards).setChecked(True)
        self._selected = view.selected
        self.rows.ask(view.query)

    # --- layout -----------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._build_bar()
        self.notes = ListNotes()
        self.empty = label("", "body", "muted", wrap=True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.clear = button(tr("Clear filters"), clicked=self._clear_filters)
        nothing = column(-1, self.empty, row(-1, self.clear, -1), -1, spacing=12, margins=(40, 0, 40, 0))
        self.views = QStackedWidget()
        self._nothing = boxed(nothing)
        for view in (self.grid, self.table, self._nothing):
            self.views.addWidget(view)
        centre = boxed(column(self.bar, self.notes, self.views, spacing=0, stretch=2))
        self.splitter = LineSplitter()
        for part in (self.side, centre, self.inspector):
            self.splitter.addWidget(part)
        self.splitter.setStretchFactor(1, 1)
        self.side.setMinimumWidth(theme.grown(170))
        self.side.setMaximumWidth(theme.grown(320))
        self.inspector.setMinimumWidth(theme.grown(260))
        self.inspector.setMaximumWidth(theme.grown(460))
        self.setLayout(column(self.splitter, spacing=0))
        self.splitter.set_defaults(_WIDE)
        self.splitter.setSizes(list(widths(self._controller.settings.splitters.get("models", "")) or _WIDE))

    def _build_bar(self) -> None:
        self.search = QLineEdit()
        self.search.setAccessibleName(tr("Search models"))
        self.search.setPlaceholderText(tr("Search name, family, note"))
        self.search.setToolTip(actions.tip("search", tr("All words must match, such as “sdxl overflows”")))
        show_clear(self.search)
        self.search.addAction(QAction(icons.icon("search"), "", self.search), QLineEdit.ActionPosition.LeadingPosition)
        self.search.setMaximumWidth(300)
        self.search.setMinimumWidth(120)
        self.sort = combo(tr("Sort"), tr("Sort by"))
        self.sort.setMinimumContentsLength(9)
        for sort in _SORTS:
            self.sort.addItem(sort_words(sort), sort)
        self.as_cards = icon_button("layout-grid", tr("Cards"), kind="framed", checkable=True)
        self.as_table = icon_button("list", tr("Table"), kind="framed", checkable=True)
        self._looks = QButtonGroup(self)
        for made in (self.as_cards, self.as_table):
            made.setFixedSize(28, 28)
            self._looks.addButton(made)
        self.as_cards.setChecked(True)
        self.check_all = button(tr("Check"), "", "activity", clicked=self.check_many)
        self.add = button(tr("Add folder…"), "", "folder-plus", clicked=self.ask_folder)
        self.unfold = icon_button("panel-right-open", actions.tip("right-panel", tr("Show panel")), clicked=self.toggle_right)
        self._sort_name = label(tr("Sort"), "small", "muted")
        self._line = vline()
        looks = row(self.as_cards, self.as_table, spacing=2)
        self.guide_button = guide_button()
        shown = (self._sort_name, self.sort, boxed(looks), self._line, self.check_all, self.add, self.guide_button, self.unfold)
        inside = row(self.search, -1, *shown, margins=(16, 0, 12, 0))
        inside.setStretch(0, 9)
        inside.setStretch(1, 1)
        self.bar = surface("plain", "bottom")
        self.bar.setFixedHeight(theme.grown(48))
        self.bar.setLayout(inside)

    def _connect(self) -> None:
        control, side, inspector = self._controller, self.side, self.inspector
        self.follow(control.changed, control.library_changed, control.healths_changed)
        control.history_changed.connect(self._pictures_changed)
        control.thumbnails.arrived.connect(self.grid.viewport().update)
        self.rows.changed.connect(self._show_rows)
        self.guide_button.clicked.connect(control.guide_requested)
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(lambda: self._ask(words=self.search.text()))
        self.search.textChanged.connect(lambda _text: self._typing.start())
        self.search.returnPressed.connect(self._focus_list)
        self.sort.currentIndexChanged.connect(lambda _index: self._ask(sort=self.sort.currentData(), backwards=False))
        self._looks.buttonClicked.connect(self._look_changed)
        side.chosen.connect(self.choose)
        side.add_folder.connect(self.ask_folder)
        side.remove_folder.connect(control.session.library.remove_folder)
        side.rescan.connect(control.session.library.rescan)
        notes = self.notes
        notes.offers.accepted.connect(control.session.library.accept)
        notes.offers.declined.connect(control.session.library.decline)
        notes.add.clicked.connect(self.ask_folder)
        notes.trouble.again.connect(control.session.library.rescan)
        notes.place_wanted.connect(partial(self.choose, "place"))
        for view in (self.grid, self.table):
            view.chosen.connect(self._chosen)
            view.used.connect(self._use)
            view.removed.connect(lambda _row: self.delete())
            view.menu_requested.connect(self.open_menu)
        self.grid.reached.connect(self._chosen)
        self.grid.acted.connect(self._act)
        self.table.sorted.connect(self._sort_by)
        inspector.used.connect(self._use_shown)
        inspector.health_wanted.connect(self._see_health)
        inspector.check_wanted.connect(lambda: self.check([self._selected]))
        inspector.file_check_wanted.connect(lambda: control.session.library.scan_weights(self._selected))
        inspector.file_stop_wanted.connect(control.session.library.stop_weighing)
        inspector.favoured.connect(lambda on: control.session.library.mark(self._selected, favourite=on))
        inspector.noted.connect(self._noted)
        inspector.word_chosen.connect(self._word_chosen)
        inspector.convert_wanted.connect(lambda: control.session.converter.convert(self._selected))
        inspector.menu_wanted.connect(self._menu_below)
        inspector.collapse.connect(self.toggle_right)
        actions.add_shortcut(self, self.focus_search, *actions.keys_of("search"))

    def _arrange(self, narrow: bool) -> None:
        """Put the right panel away, and give buttons their icons alone."""
        self.inspector.setVisible(not narrow)
        self._sort_name.setVisible(not narrow)
        self._line.setVisible(not narrow)
        sizes = list(map(theme.grown, _NARROW if narrow else _WIDE))
        self.splitter.set_defaults(sizes)
        self.splitter.setSizes(sizes)
        self._show_bar()

    def act(self, name: actions.ActionName | str) -> None:
        """Do what a key means on this page."""
        match name:
            case "left-panel":
                self.toggle_left()
            case "right-panel":
                self.toggle_right()
            case _:
                pass

    def toggle_left(self) -> None:
        self.side.setVisible(self.side.isHidden())

    def toggle_right(self) -> None:
        self.inspector.setVisible(self.inspector.isHidden())
        self._show_bar()

    def focus_search(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    @property
    def view(self) -> ModelGrid | ModelTable:
        """The cards or the table."""
        return self.table if self.as_table.isChecked() else self.grid

    def _focus_list(self) -> None:
        self.view.setFocus(Qt.FocusReason.OtherFocusReason)
        if not self.view.currentIndex().isValid() and self.rows.listing.rows:
            self._select(self.rows.listing.rows[0].entry.path)

    # --- what is asked for ------------------------------------------------------------------------------------------

    def _ask(self, **changes: object) -> None:
        query = replace(self.rows.query, **changes)
        if query != self.rows.query:
            self.rows.ask(query)

    def choose(self, kind: str, value: str) -> None:
        """Show a place; a filter is set, or cleared where it was set."""
        query = self.rows.query
        match kind:
            case "place":
                self._ask(place=cast("Place", value), health="", family="")
            case "health":
                self._ask(health="" if query.health == value else value)
            case _:
                self._ask(family="" if query.family == value else value)

    def _clear_filters(self) -> None:
        self.search.clear()
        self._typing.stop()
        self._ask(words="", health="", family="")

    def _sort_by(self, sort: str) -> None:
        """A click on the heading that the table is sorted by turns the order round."""
        query = self.rows.query
        self._ask(sort=cast("Sort", sort), backwards=query.sort == sort and not query.backwards)
        self.sort.blockSignals(True)
        self.sort.setCurrentIndex(max(0, self.sort.findData(sort)))
        self.sort.blockSignals(False)

    def _look_changed(self, _button: QToolButton) -> None:
        self._restore = True
        self._show_rows()

    # --- what is shown ----------------------------------------------------------------------------------------------

    def _show(self) -> None:
        library = self._controller.state.library
        folders = users_folders(library)
        self.side.show_folders(folders)
        self.notes.show_library(library, alone=not folders)
        self._show_empty()
        if self._queued != self._checks_queued():
            self._count_checks()
        self._show_bar()
        self._show_inspector()
        self.summary_changed.emit()
        self.rows.refresh()

    def _show_rows(self) -> None:
        """Show the rows in the view that is on; the selection stays on its model, while that is among them."""
        listing, query = self.rows.listing, self.rows.query
        shown = listing.numbers
        if listing.rows and self._selected not in shown:
            in_use = self._controller.settings.last_model
            self._selected = in_use if not self._selected and in_use in shown else listing.rows[0].entry.path
            self._restore = True
        if self.as_table.isChecked():
            self.table.show_sort(query.sort, backwards=query.backwards)
            if self.table.rows.show_rows(listing.rows) or self._restore:
                self._select(self._selected)
        elif self.cards.show_rows(listing.rows) or self._restore:
            self._select(self._selected)
        self._restore = False
        device = self._controller.state.device
        cpu = device is not None and device.backend == "cpu"
        self.side.show_listing(listing, query, tr("Health on this processor") if cpu else tr("Health on this GPU"))
        self.notes.show_elsewhere(listing.elsewhere)
        self._show_empty()
        self._count_checks()
        self._show_bar()
        self._show_inspector()
        self.summary_changed.emit()

    def _show_empty(self) -> None:
        query, listing = self.rows.query, self.rows.listing
        if listing.rows:
            self.views.setCurrentWidget(self.view)
            return
        filtered = bool(query.words or query.health or query.family)
        if filtered:
            words = tr("No model matches.")
        elif not self.rows.ready or reading(self._controller.state.library) is not None:
            words = tr("Reading models…")
        else:
            words = tr("Nothing in {0}.", place_words(query.place))
        self.empty.setText(words)
        self.clear.setVisible(filtered)
        self.views.setCurrentWidget(self._nothing)

    def _show_bar(self) -> None:
        narrow = self._narrow is True
        count = len(self._to_check)
        words = tr("Check {0} models", count, one="Check 1 model")
        tight = (narrow and not self.inspector.isHidden()) or self.width() < theme.grown(_TIGHT)
        self.check_all.set_words("" if tight else words)
        self.check_all.setToolTip(tr("Check every model here that is not checked. They wait in the queue."))
        self.check_all.setAccessibleName(words)
        self.check_all.setVisible(count > 0)
        self.sort.setMaximumWidth(theme.grown(_TIGHT_SORT) if tight else _ANY_WIDTH)
        self.search.setPlaceholderText(tr("Search models") if tight else tr("Search name, family, note"))
        self.add.set_words("" if narrow else tr("Add folder…"))
        self.add.setAccessibleName(tr("Add folder…"))
        self.add.setToolTip(tr("Watch a folder of models"))
        self.unfold.setVisible(self.inspector.isHidden())

    def _checks_queued(self) -> frozenset[str]:
        return frozenset(job.model for job in self._controller.state.jobs if job.kind == "Examine" and job.model)

    def _count_checks(self) -> None:
        """Count what the button checks: the selected models where there are several, else all that are shown and unchecked."""
        self._queued = self._checks_queued()
        several = self.selected_rows()
        rows = [one for one in several if one.badge is not None] if len(several) > 1 else self.rows.listing.unchecked
        self._to_check = tuple(one.entry.path for one in rows if one.entry.path not in self._queued)

    def summary(self) -> str:
        """A line about what is shown: how many, in how many folders, how large."""
        listing, library = self.rows.listing, self._controller.state.library
        progress = reading(library)
        if progress is not None and progress[1]:
            return tr("Reading models: {0} of {1}", *map(figures.group, progress))
        models = tr("{1} models", len(listing.rows), figures.group(len(listing.rows)), one="1 model")
        return f"{models} · {figures.size(listing.bytes)}" if listing.bytes else models

    # --- the selection ----------------------------------------------------------------------------------------------

    def selected_rows(self) -> list[Row]:
        """What is selected, from the top."""
        rows = self.rows.listing.rows
        places = sorted({index.row() for index in self.view.selectionModel().selectedIndexes()})
        return [rows[place] for place in places if place < len(rows)]

    def _select(self, path: str) -> None:
        """Make an entry the current one, where it is shown."""
        rows = self.rows.listing.rows
        place = self.rows.listing.numbers.get(path, -1)
        if self.as_table.isChecked():
            index = self.table.rows.index(place, 0) if place >= 0 else QModelIndex()
            if index.isValid():
                self.table.selectRow(place)
        else:
            index = self.cards.index(place) if place >= 0 else QModelIndex()
            self.grid.select(index)
        if place >= 0:
            self._chosen(rows[place])

    def _chosen(self, chosen: Row) -> None:
        self._selected = chosen.entry.path
        self._count_checks()
        self._show_inspector()
        self._show_bar()

    @property
    def shown(self) -> Row | None:
        """The row that the right panel is about."""
        listing = self.rows.listing
        number = listing.numbers.get(self._selected)
        return None if number is None else listing.rows[number]

    def _show_inspector(self) -> None:
        control, shown = self._controller, self.shown
        state = control.state
        if shown is None:
            self.inspector.show_row(None, "", "", None, busy=False)
            return
        path = shown.entry.path
        busy = any(job.kind == "Examine" and job.model == path for job in state.jobs)
        folder = "" if path == POCKET else folder_of(shown.entry, state.library)
        health, where = state.healths.by_model.get(path), health_text.here(state.device)
        hashes = state.library.hashes.get(path)
        sha256 = hashes.sha256 if hashes is not None else ""
        self.inspector.show_row(shown, folder, where, health, busy=busy, sha256=sha256)
        icon, tone, words = weights_words(state.library, path)
        entry, waits = shown.entry, state.library.weighing is not None and state.library.weighing[0] == path
        self.inspector.file.setVisible(path != POCKET and not entry.pickle and entry.error is None)
        can_check = not waits and path not in state.library.weights
        self.inspector.file.show_state(icon, tone, words, can_check=can_check, can_stop=waits)
        self.inspector.show_converting(convert_words(state.library, path))
        self._show_image(shown)

    def _show_image(self, shown: Row) -> None:
        """Decode the preview in full once another model is shown."""
        path = self._previews.path(shown)
        if path == self._image_path and path:
            return
        self._image_path = path
        self.inspector.preview.show_image(QImage(), PLACE_ICONS[shown.entry.shelf])
        if path:
            read_later(self._controller.background, self, path, partial(self._image_read, path))

    def _image_read(self, path: str, image: QImage) -> None:
        if path == self._image_path and not image.isNull():
            wide = image.scaled(880, 880, Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation)
            shown = self.shown
            self.inspector.preview.show_image(wide, PLACE_ICONS[shown.entry.shelf] if shown is not None else "boxes")

    def _pictures_changed(self) -> None:
        if self.isVisible():
            self.grid.viewport().update()

    # --- what is done -----------------------------------------------------------------------------------------------

    def _use(self, chosen: Row) -> None:
        if use_words(chosen):
            self.use_wanted.emit(chosen.entry)
        elif chosen.entry.pickle:
            self._act(chosen)

    def _use_shown(self) -> None:
        if (shown := self.shown) is not None:
            self._use(shown)

    def _act(self, chosen: Row) -> None:
        """What the link of a card says."""
        match act_of(chosen):
            case "fix":
                self.health_wanted.emit(chosen.entry.path)
            case "check":
                self.check([chosen.entry.path])
            case "convert":
                self._controller.session.converter.convert(chosen.entry.path)
            case _:
                pass

    def check(self, models: list[str]) -> None:
        self._controller.session.many_checks.check(models)

    def check_many(self) -> None:
        self.check(list(self._to_check))

    def _see_health(self) -> None:
        self.health_wanted.emit(self._selected)

    def _noted(self, note: str) -> None:
        if (shown := self.inspector.row) is not None:
            self._controller.session.library.mark(shown.entry.path, note=note)

    def _word_chosen(self, word: str) -> None:
        if (shown := self.shown) is not None:
            self.word_wanted.emit(word, shown.entry)

    def ask_folder(self) -> None:
        file_dialogs.ask_folder(self, Path.home(), self._controller.session.library.add_folder)

    # --- the menu ---------------------------------------------------------------------------------------------------

    def _menu_below(self, opener: QWidget) -> None:
        if (shown := self.shown) is not None:
            self.open_menu(shown, opener.mapToGlobal(QPoint(0, opener.height() + 2)))

    def open_menu(self, chosen: Row, at: QPoint) -> None:
        """What there is to do with one model, or with all that are selected if it is one of them."""
        if self._meant(chosen) == [chosen]:
            self._select(chosen.entry.path)
        else:
            self._chosen(chosen)
        self.menu_of(chosen).popup(at)

    def menu_of(self, chosen: Row) -> QMenu:
        """A new menu, gone when it closes."""
        entry, menu, library = chosen.entry, QMenu(self), self._controller.session.library
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if use_words(chosen):
            menu.addAction(use_words(chosen), partial(self._use, chosen))
        if entry.pickle:
            menu.addAction(tr("Convert to safetensors"), partial(self._act, chosen))
        if chosen.badge is not None:
            menu.addAction(tr("Check"), partial(self.check, [entry.path]))
            menu.addAction(tr("See model health"), partial(self.health_wanted.emit, entry.path))
        menu.addSeparator()
        favourite = tr("Remove from favourites") if chosen.mark.favourite else tr("Add to favourites")
        menu.addAction(favourite, partial(library.mark, entry.path, favourite=not chosen.mark.favourite))
        if entry.path == POCKET:
            return menu
        actions.add_entry(menu, "show", partial(picture_files.show_folder, entry.path))
        menu.addAction(tr("Copy path"), partial(QGuiApplication.clipboard().setText, entry.path))
        actions.add_entry(menu, "delete", partial(self._delete, self._meant(chosen)))
        if (root := self._root_of(entry)) is not None and root != own_models():
            menu.addSeparator()
            name = Path(root).name
            menu.addAction(tr("Remove {0} from the list", name.replace("&", "&&")), partial(library.remove_folder, root))
        return menu

    def _root_of(self, entry: Entry) -> str | None:
        """The watched folder that an entry lies in."""
        inside = Path(entry.path)
        roots = (one.root for one in self._controller.state.library.watched)
        return next((root for root in roots if inside.is_relative_to(root)), None)

    def _meant(self, chosen: Row) -> list[Row]:
        """The rows that a menu is for."""
        selected = self.selected_rows()
        return selected if any(one.entry.path == chosen.entry.path for one in selected) else [chosen]

    def delete(self) -> None:
        """Move what is selected to the bin."""
        self._delete(self.selected_rows())

    def _delete(self, chosen: list[Row]) -> None:
        """Move models to the bin; several files only after a question."""
        rows = [one for one in chosen if one.entry.path != POCKET]
        paths = [one.entry.path for one in rows]
        if len(paths) == 1:
            self._move_to_bin(paths)
        elif paths:
            size = figures.size(sum(one.entry.size for one in rows))
            question = QMessageBox(self)
            question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            question.setText(tr("Move {0} models ({1}) to the bin?", len(paths), size))
            move = question.addButton(actions.words("delete"), QMessageBox.ButtonRole.AcceptRole)
            question.addButton(QMessageBox.StandardButton.Cancel)
            move.clicked.connect(lambda _on=False: self._move_to_bin(paths))
            question.open()

    def _move_to_bin(self, paths: list[str]) -> None:
        controller = self._controller
        controller.session.library.delete(
            paths,
            moved_to_bin,
            lambda binned: say_binned(controller, binned, "models-deleted", lambda count: tr("{0} models", count)),
        )

    # --- drops ------------------------------------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """A folder is watched from now on; a model's file is opened."""
        if event.type() != QEvent.Type.Drop:
            return
        event.acceptProposedAction()
        for path in (Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()):
            if path.is_dir():
                self._controller.session.library.add_folder(str(path))
            else:
                self._controller.session.models.select(str(path))

    def splitter_state(self) -> dict[str, str]:
        """Positions to be kept for the next start."""
        return {} if self._narrow else {"models": ",".join(str(size) for size in self.splitter.sizes())}
