"""Keeps pictures that have no file of their own, such as painted masks, in files named by what they hold."""

import hashlib

from PySide6.QtCore import QBuffer, QIODevice
from PySide6.QtGui import QImage, QImageWriter

from halftone.settings.atomic import write_atomically
from halftone.settings.places import masks_dir


def png(image: QImage) -> bytes:
    """The file of a picture."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, b"png").write(image)
    return bytes(buffer.data().data())


def keep(image: QImage) -> str:
    """Write a picture, whole or not at all, and return its path. Raises OSError."""
    content = png(image)
    path = masks_dir() / f"{hashlib.sha256(content).hexdigest()[:16]}.png"
    write_atomically(path, content)  # also where it is there already: an old one is young again, see forget_painted_masks
    return str(path)
