"""Style rules that only the Health, Device and Settings pages need, on top of the application's sheet."""

from PySide6.QtWidgets import QWidget

from halftone.gui import theme

_RULES = """
QFrame[tag="true"] {{ border: 1px solid {border_strong}; border-radius: 3px; background: transparent; }}
QPushButton[kind="title"] {{
    border: 1px solid transparent; background: transparent;
    font-size: 18px; font-weight: 600; padding: 0 4px; min-height: 32px; text-align: left;
}}
QPushButton[kind="title"]:hover, QPushButton[kind="title"]:open {{ background: {hover}; }}
QPushButton[joined="left"] {{ border-top-right-radius: 0; border-bottom-right-radius: 0; border-right: none; }}
QPushButton[joined="right"] {{ border-top-left-radius: 0; border-bottom-left-radius: 0; padding: 0; }}
QLabel#disc {{ border: 1px solid {border_control}; border-radius: 11px; }}
QScrollArea, QWidget#scrolled {{ background: transparent; }}
"""


def apply_style(page: QWidget) -> None:
    """Dress a page; called again whenever the theme changes."""
    style = theme.current()
    colours = {
        name.replace("-", "_"): style.color(name).name()
        for name in ("border-strong", "border-control", "hover", "text-muted", "surface")
    }
    page.setStyleSheet(_RULES.format(**colours))
