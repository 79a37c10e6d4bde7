"""The Gallery page: find, compare and reuse pictures, Halftone's own and those of other programs."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from PySide6.QtCore import QMimeData, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QHideEvent,
    QImage,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QInputDialog, QMenu, QStackedWidget, QWidget

from halftone.contract.request import model_stem
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.picture import picture_files
from halftone.gui.create.picture.picture_images import read_later
from halftone.gui.create.picture.picture_model import model_name
from halftone.gui.create.picture.upscale_dialog import UpscaleMenu
from halftone.gui.gallery import gallery_text
from halftone.gui.gallery.filters import FilterBar, collection_menu
from halftone.gui.gallery.grid import SIZES, USUAL, Grid, as_files, pictures_words
from halftone.gui.gallery.inspector import COMPARED, TILES, Inspector
from halftone.gui.gallery.viewer import Viewer
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import say, tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.actions import ActionName, add_entry
from halftone.gui.kit.message_bars import announce
from halftone.gui.kit.navigation import guide_button
from halftone.gui.kit.page_base import NARROW
from halftone.gui.kit.splitter import LineSplitter
from halftone.gui.kit.stock_widgets import boxed, button, column, icon_button, label, row, surface
from halftone.session.events import Noted
from halftone.session.pictures.gallery import FAVOURITE, Query
from halftone.session.pictures.gallery_state import Detail, GalleryState
from halftone.settings.glance import widths

_DRAWER: Final = 320
_GRID: Final = 1120
_BESIDE: Final = 360
"""Pixels of the grid that stay beside the drawer."""
_KEEP_MS: Final = 600
"""After the slider's last move, until the size is kept."""


class Nothing(QWidget):
    """What stands in the place of the grid while it is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.title, self.text = label("", "heading-s"), label("", "body", "secondary", wrap=True)
        for part in (self.title, self.text):
            part.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.act, self.second = button("", "primary"), button("")
        buttons = row(-1, self.act, self.second, -1)
        self.setLayout(column(-1, self.title, self.text, 8, buttons, -1, spacing=6, margins=(40, 0, 40, 0)))

    def say(self, title: str, text: str = "", act: str = "", second: str = "") -> None:
        for part, words in ((self.title, title), (self.text, text)):
            part.setText(words)
            part.setVisible(bool(words))
        for part, words in ((self.act, act), (self.second, second)):
            part.set_words(words)
            part.setVisible(bool(words))


class GalleryPage(QWidget):
    """`reuse_wanted`: Create is to take everything of a picture of Halftone's; `settings_wanted`: what a file says;
    `vary_wanted`: variations of such a picture; `seed_wanted`: a seed, as text; `start_wanted`: a file;
    `inpaint_wanted`: a file, its size and its prompt.
    """

    reuse_wanted = Signal(object)
    vary_wanted = Signal(object)
    settings_wanted = Signal(str)
    seed_wanted = Signal(str)
    start_wanted = Signal(str)
    inpaint_wanted = Signal(str, object, str)

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self.setObjectName("page")
        self._controller = controller
        self._gallery = controller.session.gallery
        self._narrow: bool | None = None
        self._waiting: tuple[tuple[int, ...], Callable[[], object]] | None = None
        """The selection whose details are awaited, and what to do then."""
        self._spoken = 0
        self._chosen: tuple[int, ...] = ()
        self.upscaling = UpscaleMenu(self, controller, lambda: None)
        self._build()
        self._keep = QTimer(self, singleShot=True, interval=_KEEP_MS)
        self._keep.timeout.connect(self._keep_size)
        self._connect()
        self._show()
        self.setAcceptDrops(True)

    @property
    def state(self) -> GalleryState:
        return self._controller.state.gallery

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        controller = self._controller
        size = next(iter(widths(controller.settings.splitters.get("gallery-size", ""), 1) or [USUAL]))
        size = min(SIZES[1], max(SIZES[0], size))
        self.filters = FilterBar(self.state.query, size)
        self.grid = Grid(controller.background)
        self.grid.set_wanted(size)
        self.viewer = Viewer(controller.background)
        self.nothing = Nothing()
        self.stack = QStackedWidget()
        for part in (self.grid, self.viewer, self.nothing):
            self.stack.addWidget(part)
        self.strip_words = label("", "small", "secondary", numbers=True)
        self.unselect = button(tr("Clear selection"), "link", clicked=self.grid.clear_selection)
        self.strip = surface("plain", "top", row(self.strip_words, -1, self.unselect, margins=(20, 0, 20, 0)))
        self.strip.setFixedHeight(theme.grown(30))
        self.unfold = icon_button("panel-right-open", actions.tip("right-panel", tr("Show panel")), clicked=self.toggle_right)
        self.guide = guide_button()
        self.guide.clicked.connect(controller.guide_requested.emit)
        self.filters.add_last(self.guide)
        self.filters.add_last(self.unfold)
        left = boxed(column(self.filters, self.stack, self.strip, spacing=0, stretch=1))
        left.setMinimumWidth(360)
        self.inspector = Inspector(controller.background, self._model_name, self._fill_collections)
        self.side = surface("plain", "left", column(self.inspector, spacing=0))
        self.splitter = LineSplitter()
        self.splitter.addWidget(left)
        self.splitter.addWidget(self.side)
        self.splitter.setStretchFactor(0, 1)
        self.splitter.setStretchFactor(1, 0)
        self._sides = [_GRID, theme.grown(_DRAWER)]
        self.splitter.set_defaults(self._sides)
        self.splitter.setSizes(widths(controller.settings.splitters.get("gallery", ""), 2) or self._sides)
        limits = theme.current().px
        self.side.setMinimumWidth(limits("layout.inspector.min"))
        self.side.setMaximumWidth(limits("layout.inspector.max"))
        self.setLayout(column(self.splitter, spacing=0))

    def _connect(self) -> None:
        self._controller.gallery_changed.connect(self._show)
        filters, grid, viewer, inspector = self.filters, self.grid, self.viewer, self.inspector
        filters.asked.connect(self._ask)
        filters.sized.connect(self._resize_lines)
        filters.folder_wanted.connect(self.ask_folder)
        filters.search.left_down.connect(self._to_grid)
        grid.selected.connect(self._selected)
        grid.opened.connect(lambda: self.act("large"))
        grid.removed.connect(lambda: self.act("delete"))
        grid.copied.connect(lambda: self.act("copy"))
        grid.drag_wanted.connect(lambda: self._gallery.with_files(self.state.selected, self.grid.drag_out))
        grid.menu_requested.connect(self.open_menu)
        grid.sized.connect(self.filters.slider.setValue)
        grid.thumbnails.arrived.connect(self._thumbnail_came)
        viewer.closed.connect(self.close_viewer)
        viewer.stepped.connect(self.grid.step)
        viewer.removed.connect(lambda: self.act("delete"))
        inspector.acted.connect(self.act)
        inspector.folded.connect(self.toggle_right)
        inspector.favourite_set.connect(lambda on: self._gallery.mark(self.state.selected, FAVOURITE, on=on))
        inspector.drop_wanted.connect(self._drop)
        self.nothing.act.clicked.connect(self._nothing_acted)
        self.nothing.second.clicked.connect(self.ask_folder)
        actions.add_shortcut(self, self.focus_search, *actions.keys_of("search"))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._gallery.open(self)
        self._gallery.look()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._gallery.hide(self)

    # --- what is shown ----------------------------------------------------------------------------------------------

    def _show(self) -> None:
        state = self.state
        self.filters.show_known(state)
        before = self.grid.selection_count
        self.grid.show_rows(state.rows)
        if self.grid.selection_count != before:
            self._selected()  # some are not listed any more
        if state.selected is not self._chosen:
            self._chosen = state.selected
            self.grid.restore(state.selected)  # a deleted picture came back, or the page was built in another language
        self._show_page(state)
        self._show_details(state)
        self._show_strip(state)

    def _show_page(self, state: GalleryState) -> None:
        if self.stack.currentWidget() is self.viewer and self._still_viewed(state):
            return
        self.stack.setCurrentWidget(self.grid if len(state.rows) else self.nothing)
        if len(state.rows):
            return
        if state.error and not state.total:
            self.nothing.say(tr("The gallery cannot be read."), say(state.error), tr("Try again"))
        elif not state.read or (state.scan is not None and not state.total):
            self.nothing.say(tr("Reading…"))
        elif state.total:
            words = state.query.words
            title = tr("Nothing matches “{0}”.", words) if words else tr("No picture matches these filters.")
            self.nothing.say(title, "", tr("Clear search") if words else tr("Clear filters"))
        else:
            text = tr("They appear here as you make them. Add a folder to see pictures from other programs, too.")
            self.nothing.say(tr("No pictures yet."), text, tr("Go to Create"), tr("Add folder…"))

    def _still_viewed(self, state: GalleryState) -> bool:
        """Whether what is seen large is still listed."""
        if self.viewer.shown is None:
            return len(state.selected) in COMPARED
        return self.grid.current >= 0

    def _nothing_acted(self) -> None:
        state = self.state
        if state.error and not state.total:
            self._gallery.open(self)
        elif state.total:
            self.filters.clear()
        else:
            self._controller.go("create")

    def _show_details(self, state: GalleryState) -> None:
        self.inspector.show_details(state.details, len(state.selected))
        for one in state.details:
            self.grid.show_gone(one.id, gone=one.gone)
        if len(state.selected) > 1:
            self._thumbnail_came()
        if len(state.selected) == 1 and len(state.details) == 1:
            detail = state.details[0]
            if self.stack.currentWidget() is self.viewer and self.viewer.shown is not None:
                self.viewer.show_picture(detail, self.grid.current, len(self.grid.rows))
            self._speak(detail)
        if self._waiting is None:
            return
        selected, call = self._waiting
        if selected != tuple(state.selected):
            self._waiting = None
        elif len(state.details) == len(state.selected):
            self._waiting = None
            call()

    def _speak(self, detail: Detail) -> None:
        """Screen readers hear which picture was reached."""
        if detail.id != self._spoken:
            self._spoken = detail.id
            words = gallery_text.spoken(detail, self.grid.current, len(self.grid.rows))
            self.grid.setAccessibleDescription(words)
            if QAccessible.isActive() and self.grid.hasFocus():
                announce(self.grid, words)

    def _show_strip(self, state: GalleryState) -> None:
        count = len(state.selected)
        parts: list[str] = []
        if count > 1:
            parts.append(tr("{0} of {1} selected", figures.group(count), pictures_words(len(state.rows))))
        if state.scan is not None:
            read = tr("Reading folders…")
            parts.append(f"{read} {pictures_words(state.scan.done)}" if state.scan.done else read)
        if state.error and state.total:
            parts.append(tr("The gallery cannot be read."))
        self.strip_words.setText("   ".join(parts))
        self.strip.setVisible(bool(parts))
        self.unselect.setVisible(count > 1)

    def _thumbnail_came(self) -> None:
        chosen = self.state.selected
        if len(chosen) > 1 or (chosen and self.inspector.preview.empty):
            self.inspector.show_thumbnails([self.grid.thumbnails.get(str(number)) for number in chosen[:TILES]])

    # --- asking -----------------------------------------------------------------------------------------------------

    def _ask(self, query: Query) -> None:
        self.close_viewer()
        self._gallery.show(query)

    def focus_search(self) -> None:
        """What the key of the search does."""
        self.close_viewer()
        self.filters.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.filters.search.selectAll()

    def _to_grid(self) -> None:
        if len(self.grid.rows):
            self.grid.setFocus(Qt.FocusReason.ShortcutFocusReason)
            if self.grid.current < 0:
                self.grid.select_only(0)

    def ask_folder(self) -> None:
        """Watch one more folder."""
        folders = self._controller.settings.gallery_folders
        file_dialogs.ask_folder(self, Path(folders[-1]) if folders else Path.home(), self.add_folder)

    def add_folder(self, folder: str) -> None:
        settings = self._controller.settings
        folders = tuple(dict.fromkeys((*settings.gallery_folders, str(Path(folder)))))
        self._controller.session.settings.update(msgspec.structs.replace(settings, gallery_folders=folders))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if _folders(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Watch the folders from now on."""
        event.acceptProposedAction()
        for folder in _folders(event.mimeData()):
            self.add_folder(folder)

    def _resize_lines(self, height: int) -> None:
        self.grid.set_wanted(height)
        self._keep.start()

    def _keep_size(self) -> None:
        settings = self._controller.settings
        sizes = settings.splitters | {"gallery-size": str(self.filters.slider.value())}
        self._controller.session.settings.update(msgspec.structs.replace(settings, splitters=sizes))

    # --- the selection ----------------------------------------------------------------------------------------------

    def _selected(self) -> None:
        self._gallery.select(self.grid.selection())

    def _with_details(self, call: Callable[[], object]) -> None:
        """Do something with the selected pictures once it is known what they are."""
        state = self.state
        if len(state.details) == len(state.selected):
            call()
        elif len(state.selected) <= max(COMPARED):  # nothing can be done with more that needs their details
            self._waiting = tuple(state.selected), call

    # --- actions ----------------------------------------------------------------------------------------------------

    def act(self, name: ActionName | str) -> None:
        """Do something with the selected pictures."""
        match name:
            case "right-panel":
                self.toggle_right()
            case "full-screen":
                self._with_details(self._full_screen)
            case "delete":
                self._gallery.with_paths(self.state.selected, partial(self._delete, self.grid.after_selection()))
            case "save":
                self._gallery.with_files(self.state.selected, self._save)
            case "compare":
                self._with_details(self._compare)
            case "copy":
                self._gallery.with_files(self.state.selected, self._copy)
            case _:
                self._with_details(lambda: self._act_on_one(name))

    def _act_on_one(self, name: str) -> None:
        if len(self.state.details) != 1:
            return
        one = self.state.details[0]
        match name:
            case "large":
                self._see_large(one)
            case "reuse":
                self._reuse(one)
            case "vary" if one.made is not None and one.made.facts.sheet is None:
                self.vary_wanted.emit(one.made)
            case "seed-only" if one.seed is not None:
                self.seed_wanted.emit(str(one.seed))
            case "copy-prompt":
                QGuiApplication.clipboard().setText(gallery_text.prompts(one)[0])
                self._controller.take(Noted(kind="copied"))
            case "start" if one.frames == 1 and not one.gone:
                self.start_wanted.emit(one.path)
            case "inpaint" if one.frames == 1 and not one.gone:
                self.inpaint_wanted.emit(one.path, one.size, "" if one.made is None else one.made.request.prompt)
            case "upscale" if one.frames == 1 and not one.gone:
                self.upscaling.offer_for(one.path, at=self.inspector.send.mapToGlobal(QPoint(0, 0)))
            case "show":
                picture_files.show_folder(one.path)
            case "open":
                picture_files.open_file(one.path)
            case _:
                pass

    def _reuse(self, one: Detail) -> None:
        if one.made is not None:
            self.reuse_wanted.emit(one.made)
        elif one.said is not None:
            self.settings_wanted.emit(one.path)

    def _see_large(self, one: Detail) -> None:
        self.stack.setCurrentWidget(self.viewer)
        self.viewer.show_picture(one, self.grid.current, len(self.grid.rows))

    def _full_screen(self) -> None:
        if len(self.state.details) == 1:
            self._see_large(self.state.details[0])
            self.viewer.full_screen_soon()

    def _compare(self) -> None:
        details = [one for one in self.state.details if not one.gone and one.frames == 1]
        if len(details) in COMPARED:
            self.stack.setCurrentWidget(self.viewer)
            self.viewer.show_compared(details)

    def close_viewer(self) -> None:
        """Back to the grid."""
        if self.stack.currentWidget() is self.viewer:
            self.viewer.forget()
            self.stack.setCurrentWidget(self.grid)
            self.grid.setFocus(Qt.FocusReason.OtherFocusReason)
            if self.grid.current >= 0:
                self.grid.show_place(self.grid.current)

    def escape(self) -> bool:
        """Close what lies over the grid, or clear a selection of several; whether there was anything."""
        if self.stack.currentWidget() is self.viewer:
            self.close_viewer()
        elif self._narrow and not self.side.isHidden():
            self.toggle_right()
        elif self.grid.hasFocus() and self.grid.selection_count > 1:
            self.grid.clear_selection()
        else:
            return False
        return True

    def _copy(self, paths: Sequence[str]) -> None:
        """Copy pictures as files, and one as a picture, too."""
        if len(paths) == 1:
            read_later(self._controller.background, self, paths[0], lambda image: self._to_clipboard(paths, image))
        elif paths:
            self._to_clipboard(paths, QImage())

    def _to_clipboard(self, paths: Sequence[str], image: QImage) -> None:
        made = as_files(paths)
        if not image.isNull():
            made.setImageData(image)
        QGuiApplication.clipboard().setMimeData(made)
        self._controller.take(Noted(kind="copied"))

    def _save(self, paths: Sequence[str]) -> None:
        if len(paths) == 1:
            picture_files.save_as(self, self._controller, Path(paths[0]))
        elif paths:
            start = Path(self._controller.settings.pictures_folder or Path.home())
            file_dialogs.ask_folder(self, start, lambda folder: picture_files.copy_all(self._controller, paths, folder))

    def _delete(self, after: int, paths: Sequence[str]) -> None:
        """Move files to the bin off the UI thread. after: the picture that is selected next."""
        if not paths:
            return

        def work() -> picture_files.Binned:
            return picture_files.moved_to_bin((path,) for path in paths if os.path.lexists(path))

        def done(binned: picture_files.Binned) -> None:
            picture_files.pictures_binned(self._controller, binned)
            if binned.things:
                self.grid.select_number(after)

        self._controller.background.run(work, done, receiver=self)

    def _drop(self) -> None:
        """List missing pictures no more."""
        paths = [one.path for one in self.state.details if one.gone]
        after = self.grid.after_selection()
        self._gallery.removed(paths)
        self.grid.select_number(after)

    # --- menus ------------------------------------------------------------------------------------------------------

    def open_menu(self, at: QPoint) -> None:
        """What there is to do with the selected pictures."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        count = len(self.state.selected)
        one: tuple[ActionName, ...] = ("large", "open", "show")
        last: tuple[ActionName, ...] = ("reuse", "seed-only", "vary", "start", "inpaint", "upscale")
        for name in one if count == 1 else ():
            add_entry(menu, name, lambda name=name: self.act(name))
        add_entry(menu, "copy", lambda: self.act("copy"))
        if count in COMPARED:
            add_entry(menu, "compare", lambda: self.act("compare"))
        varies = all(detail.made is not None and detail.made.facts.sheet is None for detail in self.state.details)
        for name in last if count == 1 else ():
            add_entry(menu, name, lambda name=name: self.act(name), enabled=name != "vary" or varies)
        menu.addSeparator()
        favourite = bool(self.state.details) and all(detail.favourite for detail in self.state.details)
        words = tr("Remove from favourites") if favourite else tr("Add to favourites")
        menu.addAction(words, lambda: self._gallery.mark(self.state.selected, FAVOURITE, on=not favourite))
        collections = menu.addMenu(tr("Collections"))
        self._fill_collections(collections)
        menu.addSeparator()
        add_entry(menu, "save", lambda: self.act("save"))
        add_entry(menu, "delete", lambda: self.act("delete"))
        menu.popup(at)

    def _fill_collections(self, menu: QMenu) -> None:
        state = self.state
        marks = frozenset[str].intersection(*(one.marks for one in state.details)) if state.details else frozenset[str]()
        collection_menu(menu, state, marks, self._collect, self._ask_collection)

    def _collect(self, name: str, on: bool) -> None:
        self._gallery.mark(self.state.selected, name, on=on)

    def _ask_collection(self) -> None:
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(tr("New collection"))
        dialog.setLabelText(tr("Name of the collection"))
        dialog.textValueSelected.connect(self.create_collection)
        dialog.open()

    def create_collection(self, name: str) -> None:
        """A collection exists while a picture is in it."""
        if name.strip():
            self._collect(name.strip(), True)

    # --- panels -----------------------------------------------------------------------------------------------------

    def toggle_right(self) -> None:
        self.side.setVisible(self.side.isHidden())
        self.unfold.setVisible(self.side.isHidden())
        self._place_drawer()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < NARROW
        if narrow != self._narrow:
            self._narrow = narrow
            self._arrange(narrow)
        self._place_drawer()

    def _arrange(self, narrow: bool) -> None:
        """In a narrow window the panel is a drawer over the grid."""
        if narrow:
            self.side.setParent(self)
            self.side.hide()
        else:
            self.splitter.addWidget(self.side)
            self.splitter.setSizes(widths(self._controller.settings.splitters.get("gallery", ""), 2) or self._sides)
            self.side.show()
        self.unfold.setVisible(self.side.isHidden())

    def _place_drawer(self) -> None:
        if self._narrow and not self.side.isHidden():
            top = self.filters.height()  # they stay in reach
            width = min(theme.grown(_DRAWER), self.side.maximumWidth(), self.width() - _BESIDE)
            self.side.setGeometry(self.width() - width, top, width, self.height() - top)
            self.side.raise_()

    def splitter_state(self) -> dict[str, str]:
        """Positions to be kept for the next start."""
        sizes = self.splitter.sizes()
        return {"gallery": ",".join(map(str, sizes))} if len(sizes) == 2 and all(sizes) else {}

    def _model_name(self, model: str) -> str:
        known = any(one.id == model for one in self._controller.models)
        return model_name(self._controller, model) if known else model_stem(model)


def _folders(data: QMimeData) -> list[str]:
    """List the folders among what is dragged."""
    return [url.toLocalFile() for url in data.urls() if url.isLocalFile() and Path(url.toLocalFile()).is_dir()]
