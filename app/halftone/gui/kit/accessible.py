"""Roles for screen readers that Qt does not give to widgets that paint themselves."""

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget, QWidget

_ROLES: dict[type[QWidget], QAccessible.Role] = {}


def give_role(kind: type[QWidget], role: QAccessible.Role) -> None:
    """Widgets of this class have the role; name and description are the widget's own."""
    if not _ROLES:
        QAccessible.installFactory(_interface)
    _ROLES[kind] = role


def _interface(_name: str, made: QObject) -> QAccessibleInterface | None:
    role = _ROLES.get(type(made))  # pyright: ignore[reportArgumentType] - any object may be asked for
    return QAccessibleWidget(made, role) if role is not None and isinstance(made, QWidget) else None
