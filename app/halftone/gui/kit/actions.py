"""The actions that have keys or stand in more than one menu, each declared once. The keys of pages stand in their own table."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from halftone.contract.wording import Words
from halftone.gui.i18n import say, tr

ActionName = Literal[
    "generate", "cancel", "guide", "prompt", "seed", "save", "reuse", "check", "save-repaired", "left-panel", "right-panel",
    "message", "full-screen", "previous", "next", "fit", "actual-size", "delete", "before", "job-up", "job-down",
    "open", "show", "copy", "start", "vary", "upscale",
]  # fmt: skip


class Action(NamedTuple):
    """text: in menus, as a tooltip, and in the list of shortcuts. keys: any of them. held: the key is held down."""

    text: Words
    keys: tuple[str, ...] = ()
    held: bool = False


ACTIONS: Final[dict[ActionName, Action]] = {
    "generate": Action(Words("Generate, or add to the queue"), ("Ctrl+Enter",)),
    "cancel": Action(Words("Cancel the running job"), ("Esc",)),
    "guide": Action(Words("Guide to this page"), ("F1",)),
    "prompt": Action(Words("Prompt"), ("Ctrl+L",)),
    "seed": Action(Words("New random seed"), ("Ctrl+D",)),
    "save": Action(Words("Save as…"), ("Ctrl+S",)),
    "reuse": Action(Words("Reuse settings"), ("Ctrl+R",)),
    "check": Action(Words("Check the model"), ("Ctrl+H",)),
    "save-repaired": Action(Words("Save repaired copy…"), ("Ctrl+Shift+S",)),
    "left-panel": Action(Words("Toggle the left panel"), ("F6",)),
    "right-panel": Action(Words("Toggle the right panel"), ("F7",)),
    "message": Action(Words("Newest message"), ("F8",)),
    "full-screen": Action(Words("Full screen"), ("F11",)),
    "previous": Action(Words("Previous picture"), ("Left",)),
    "next": Action(Words("Next picture"), ("Right",)),
    "fit": Action(Words("Fit to window"), ("Space", "0")),
    "actual-size": Action(Words("Zoom to 100 %"), ("1",)),
    "delete": Action(Words("Move to bin"), ("Delete",)),
    "before": Action(Words("Show the picture before recovery"), ("B",), held=True),
    "job-up": Action(Words("Move a waiting job up"), ("Alt+Up",)),
    "job-down": Action(Words("Move a waiting job down"), ("Alt+Down",)),
    "open": Action(Words("Open")),
    "show": Action(Words("Show file")),
    "copy": Action(Words("Copy")),
    "start": Action(Words("Send to image to image")),
    "vary": Action(Words("Make four variations")),
    "upscale": Action(Words("Upscale…")),
}
"""In the order of the list of shortcuts."""


def words(name: ActionName) -> str:
    return say(ACTIONS[name].text)


def with_keys(text: str, *keys: str) -> str:
    """A tooltip: what something does, and the key that does it."""
    return tr("{0} ({1})", text, keys[0]) if keys else text


def tip(name: ActionName, text: str = "") -> str:
    """The tooltip of a button that does this. text: what stands there in place of the action's own."""
    return with_keys(text or words(name), *ACTIONS[name].keys)


def keys_shown(name: ActionName) -> str:
    """The keys as the list of shortcuts has them."""
    action = ACTIONS[name]
    shown = ", ".join({"Left": "←", "Right": "→"}.get(key, key) for key in action.keys)
    return tr("{0} (hold)", shown) if action.held else shown


def _sequences(*keys: str) -> list[QKeySequence]:
    """Both Enter keys where one is meant."""
    return [QKeySequence(key) for one in keys for key in dict.fromkeys((one, one.replace("Enter", "Return")))]


def add_shortcut(widget: QWidget, call: Callable[[], object], *keys: str, inside: bool = False) -> None:
    """Do something when a key is pressed anywhere in the window. inside: only while the widget has the focus in it."""
    made = QAction(widget)
    made.setShortcuts(_sequences(*keys))
    if inside:
        made.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    made.triggered.connect(lambda _on=False: call())
    widget.addAction(made)


def add_entry(menu: QMenu, name: ActionName, call: Callable[[], object], *, enabled: bool = True) -> None:
    """Add an action to a menu, which shows its key. The key acts in the menu alone: elsewhere another action has it."""
    made = menu.addAction(words(name), call)
    made.setShortcuts(_sequences(*ACTIONS[name].keys))
    made.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
    made.setEnabled(enabled)


def pressed(event: QKeyEvent, *names: ActionName) -> ActionName | None:
    """Which of these actions has the key that was pressed."""
    combination = QKeySequence(event.key() | (event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier).value)
    return next((name for name in names if combination in _sequences(*ACTIONS[name].keys)), None)
