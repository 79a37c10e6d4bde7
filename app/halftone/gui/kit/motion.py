"""Whether things move: animations ask `is_reduced` and then show their end at once."""

import ctypes
import plistlib
import sys
from functools import cache
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from halftone.settings.glance import Motion

_EFFECTS = (
    Qt.UIEffect.UI_AnimateMenu,
    Qt.UIEffect.UI_FadeMenu,
    Qt.UIEffect.UI_AnimateCombo,
    Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip,
    Qt.UIEffect.UI_AnimateToolBox,
)
_reduced = False


def is_reduced() -> bool:
    return _reduced


def choose(choice: Motion) -> None:
    """Put a choice in force, for Qt's own effects too; "system" follows the desktop."""
    global _reduced
    _reduced = choice == "reduced" or (choice == "system" and _system_reduces())
    for effect, usual in _usual_effects().items():
        QApplication.setEffectEnabled(effect, usual and not _reduced)


@cache
def _usual_effects() -> dict[Qt.UIEffect, bool]:
    """Qt's effects as they were before the first choice."""
    return {effect: QApplication.isEffectEnabled(effect) for effect in _EFFECTS}


def _system_reduces() -> bool:
    """Whether the user asked the system for less motion; Qt does not tell."""
    if sys.platform == "win32":
        moves = ctypes.c_int(1)
        ctypes.windll.user32.SystemParametersInfoW(0x1042, 0, ctypes.byref(moves), 0)  # SPI_GETCLIENTAREAANIMATION
        return not moves.value
    if sys.platform == "darwin":
        try:
            kept = plistlib.loads((Path.home() / "Library/Preferences/com.apple.universalaccess.plist").read_bytes())
        except (OSError, ValueError):
            return False
        return bool(kept.get("reduceMotion"))
    return _desktop_reduces()


def _desktop_reduces() -> bool:
    """Ask the portal of freedesktop's desktops."""
    try:
        from PySide6.QtDBus import QDBusConnection, QDBusInterface, QDBusMessage
    except ImportError:
        return False
    bus = QDBusConnection.sessionBus()
    if not bus.isConnected():
        return False
    portal = "org.freedesktop.portal.Desktop", "/org/freedesktop/portal/desktop", "org.freedesktop.portal.Settings"
    settings = QDBusInterface(*portal, bus)
    settings.setTimeout(200)
    answer = settings.call("ReadOne", "org.gnome.desktop.interface", "enable-animations")
    return answer.type() == QDBusMessage.MessageType.ReplyMessage and answer.arguments() == [False]
