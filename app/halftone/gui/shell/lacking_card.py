"""The card of a model that lacks small files: what is missing, how large, from where and whereto; fetched only on its button."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QProgressBar, QVBoxLayout, QWidget

from halftone.gui import text
from halftone.gui.controller import Controller
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit.message_bars import Act, Message, MessageBar, announce
from halftone.gui.kit.stock_widgets import column, label
from halftone.session.models.small_files import SmallFile, hub, source
from halftone.session.state import Lacking
from halftone.settings.disk import size_text

_BREAK = "\u200b"
"""The character at which a long path may wrap."""


class LackingCard(QWidget):
    """Stands above every page while a model that was chosen, or the one in use, lacks small files."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._small = controller.session.small_files
        self.bar: MessageBar | None = None
        self._lines = QVBoxLayout(self)
        self._lines.setContentsMargins(12, 8, 12, 8)
        self.came = label("", "caption", "muted")
        self._meter = QProgressBar()
        self._meter.setTextVisible(False)
        self._meter.setFixedHeight(4)
        self._coming = QWidget()
        self._coming.setLayout(column(self.came, self._meter, spacing=4, margins=(0, 6, 0, 0)))
        self._lines.addWidget(self._coming)
        controller.small_files_changed.connect(self._refresh)
        self._refresh()

    def _show_coming(self) -> None:
        """How much of a file came. It is written over in its place: nothing is announced, and the button keeps the focus."""
        known = self._controller.state.lacking
        came = known.came if known.fetching else None
        self._coming.setVisible(came is not None)
        if came is not None:
            done, whole = came
            self.came.setText(tr("{0} of {1}", size_text(done), size_text(whole)))
            self._meter.setRange(0, whole)
            self._meter.setValue(done)

    def _refresh(self) -> None:
        self._show_coming()
        message = message_of(self._controller.state.lacking)
        if self.bar is not None:
            if self.bar.message == message:
                return
            self.bar.hide()
            self.bar.deleteLater()
            self.bar = None
        self.setVisible(message is not None)
        if message is None:
            return
        self.bar = MessageBar(message, closable=not self._controller.state.lacking.fetching)
        self.bar.acted.connect(self.act)
        self.bar.closed.connect(self._small.close)
        self._lines.insertWidget(0, self.bar)
        announce(self.bar, message.spoken)

    def act(self, key: str) -> None:
        """Carry out what a button says."""
        match key:
            case "fetch":
                self._small.fetch()
            case "cancel":
                self._small.cancel()
            case _:
                self._choose()

    def _choose(self) -> None:
        files = self._controller.state.lacking.files
        if not files:
            return
        name = _name(files[0])
        dialog = QFileDialog(self, tr("Choose {0}", name))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilter(f"{name} (*.json)")
        dialog.fileSelected.connect(self._small.take)
        dialog.open()


def message_of(known: Lacking) -> Message | None:
    """What the card says, None where nothing is missing."""
    model, files = known.model, known.files
    if model is None or not files:
        return None
    count = len(files)
    size = size_text(sum(file.size for file in files))
    title = tr("{1} needs {0} small files.", count, model.name, one="{1} needs 1 small file.")
    if known.fetching:
        words = tr("Fetching {0} from {1}…", listed(*map(_name, files)), hub())
        return Message("info", title, words, actions=(Act("cancel", tr("Cancel")),))
    get = tr("Fetch {0} small files ({1})", count, size, one="Fetch 1 small file ({1})")
    own = Act("choose", tr("Choose an existing file…"), kind="")
    error = known.error
    if error is None:
        return Message("info", title, _wanted(files), actions=(Act("fetch", get, kind="primary"), own))
    reason = sentences(text.error_sentence(error), text.error_remedy(error))
    again = get if error.code == "small-file-unfit" else tr("Try again")
    return Message("warn", reason, actions=(Act("fetch", again, kind="primary"), own))


def _wanted(files: tuple[SmallFile, ...]) -> str:
    """What is missing, how large it is, from where it would come and where it goes."""
    listing = listed(*(tr("{0} ({1}) from {2}", _name(file), size_text(file.size), source(file)) for file in files))
    folder = str(files[0].place.parent).replace("/", f"/{_BREAK}").replace("\\", f"\\{_BREAK}")
    return sentences(tr("{0}, for the folder {1}.", listing, folder), tr("Nothing is fetched before you click."))


def _name(file: SmallFile) -> str:
    return file.place.name
