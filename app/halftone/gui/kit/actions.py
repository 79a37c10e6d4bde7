"""The actions that have keys or stand in more than one menu, each declared once. The keys of pages stand in their own table."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, cast

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from halftone.contract.wording import Words
from halftone.gui.i18n import say, tr

ActionName = Literal[
    "generate", "cancel", "guide", "prompt", "seed", "save", "reuse", "check", "save-repaired", "left-panel", "right-panel",
    "message", "full-screen", "previous", "next", "fit", "actual-size", "delete", "before", "job-up", "job-down",
    "open", "show", "copy", "start", "inpaint", "vary", "upscale", "search", "seed-only", "compare", "large", "grid",
    "weigh-more", "weigh-less", "brush-smaller", "brush-larger", "brush", "eraser", "undo-stroke", "redo-stroke",
]  # fmt: skip


class Action(NamedTuple):
    """text: in menus, as a tooltip, and in the list of shortcuts. keys: any of them. held: the key is held down."""

    text: Words
    keys: tuple[str, ...] = ()
    held: bool = False


ACTIONS: Final[dict[ActionName, Action]] = {
    "generate": Action(Words("Generate, or add to the queue"), ("Ctrl+Enter",)),
    "grid": Action(Words("Grid…"), ("Ctrl+G",)),
    "cancel": Action(Words("Cancel the running job"), ("Esc",)),
    "guide": Action(Words("Guide to this page"), ("F1",)),
    "prompt": Action(Words("Prompt"), ("Ctrl+L",)),
    "weigh-more": Action(Words("Increase the weight of the words"), ("Ctrl+Up",)),
    "weigh-less": Action(Words("Decrease the weight of the words"), ("Ctrl+Down",)),
    "seed": Action(Words("New random seed"), ("Ctrl+D",)),
    "save": Action(Words("Save as…"), ("Ctrl+S",)),
    "reuse": Action(Words("Reuse settings"), ("Ctrl+R",)),
    "check": Action(Words("Check the model"), ("Ctrl+H",)),
    "save-repaired": Action(Words("Save repaired copy…"), ("Ctrl+Shift+S",)),
    "left-panel": Action(Words("Toggle the left panel"), ("F6",)),
    "right-panel": Action(Words("Toggle the right panel"), ("F7",)),
    "search": Action(Words("Search"), ("Ctrl+F",)),
    "message": Action(Words("Newest message"), ("F8",)),
    "full-screen": Action(Words("Full screen"), ("F11",)),
    "previous": Action(Words("Previous picture"), ("Left",)),
    "next": Action(Words("Next picture"), ("Right",)),
    "fit": Action(Words("Fit to window"), ("Space", "0")),
    "actual-size": Action(Words("Zoom to 100 %"), ("1",)),
    "delete": Action(Words("Move to bin"), ("Del",)),
    "before": Action(Words("Show the picture before recovery"), ("B",), held=True),
    "brush-smaller": Action(Words("Smaller brush"), ("[",)),
    "brush-larger": Action(Words("Larger brush"), ("]",)),
    "brush": Action(Words("Brush"), ("P",)),
    "eraser": Action(Words("Eraser on or off"), ("E",)),
    "undo-stroke": Action(Words("Undo the last stroke"), ("Ctrl+Z",)),
    "redo-stroke": Action(Words("Redo the last stroke"), ("Ctrl+Shift+Z", "Ctrl+Y")),
    "job-up": Action(Words("Move a waiting job up"), ("Alt+Up",)),
    "job-down": Action(Words("Move a waiting job down"), ("Alt+Down",)),
    "open": Action(Words("Open")),
    "show": Action(Words("Show file")),
    "copy": Action(Words("Copy")),
    "start": Action(Words("Send to image to image")),
    "inpaint": Action(Words("Inpaint"), ("Ctrl+I",)),
    "vary": Action(Words("Make four variations")),
    "upscale": Action(Words("Upscale…")),
    "seed-only": Action(Words("Seed only")),
    "compare": Action(Words("Compare")),
    "large": Action(Words("Show large")),
}
"""In the order of the list of shortcuts."""


_ALT_GR: Final = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
"""What Windows reports for AltGr."""
_HELD: Final = _ALT_GR | Qt.KeyboardModifier.MetaModifier
_chosen: dict[str, tuple[str, ...]] = {}


def choose_keys(chosen: Mapping[str, str]) -> None:
    """Put the user's keys in force: name -> keys with ", " between them. Names that are not there have their usual keys."""
    _chosen.clear()
    _chosen.update({name: tuple(filter(None, keys.split(", "))) for name, keys in chosen.items()})


def keys_of(name: str, usual: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The keys in force. name: of an action, or of something else with the usual keys."""
    action = ACTIONS.get(cast("ActionName", name))
    return _chosen.get(name, usual if action is None else action.keys)


def words(name: ActionName) -> str:
    return say(ACTIONS[name].text)


def with_keys(text: str, *keys: str) -> str:
    """A tooltip: what something does, and the key that does it."""
    return tr("{0} ({1})", text, keys[0]) if keys else text


def tip(name: ActionName, text: str = "") -> str:
    """The tooltip of a button that does this. text: what stands there in place of the action's own."""
    return with_keys(text or words(name), *keys_of(name))


def keys_shown(name: ActionName) -> str:
    """The keys as the list of shortcuts has them."""
    action = ACTIONS[name]
    shown = ", ".join({"Left": "←", "Right": "→"}.get(key, key) for key in keys_of(name))
    return tr("{0} (hold)", shown) if action.held else shown


def _sequences(*keys: str) -> list[QKeySequence]:
    """Both Enter keys where one is meant."""
    return [QKeySequence(key) for one in keys for key in dict.fromkeys((one, one.replace("Enter", "Return")))]


def add_shortcut(widget: QWidget, call: Callable[[], object], *keys: str, inside: bool = False) -> QAction:
    """Do something when a key is pressed anywhere in the window. inside: only while the widget has the focus in it."""
    made = QAction(widget)
    made.setShortcuts(_sequences(*keys))
    if inside:
        made.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    made.triggered.connect(lambda _on=False: call())
    widget.addAction(made)
    return made


def add_entry(menu: QMenu, name: ActionName, call: Callable[[], object], *, enabled: bool = True) -> None:
    """Add an action to a menu, which shows its key. The key acts in the menu alone: elsewhere another action has it."""
    made = menu.addAction(words(name), call)
    made.setShortcuts(_sequences(*keys_of(name)))
    made.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
    made.setEnabled(enabled)


def takes_escape(event: QEvent) -> bool:
    """Accept Esc, if the event asks who has it: the widget under the focus uses it in place of the window."""
    asks = event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
    if asks:
        event.accept()
    return asks


def pressed(event: QKeyEvent, *names: ActionName) -> ActionName | None:
    """Which of these actions has the key that was pressed, or the sign that was typed, which may need AltGr or Shift."""
    combination = QKeySequence(event.key() | (event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier).value)
    for name in names:
        if combination in _sequences(*keys_of(name)):
            return name
    held = event.modifiers() & _HELD
    typed = "" if (held and held != _ALT_GR) or event.text().isalpha() else event.text()
    return next((name for name in names if typed in keys_of(name)), None)
