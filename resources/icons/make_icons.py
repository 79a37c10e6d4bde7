"""Renders halftone.ico and halftone.icns from halftone.svg; run it after a change of the drawing."""

import os
import struct
from pathlib import Path
from typing import Final

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

HERE: Final = Path(__file__).resolve().parent
ICO: Final = (16, 24, 32, 48, 64, 256)
ICNS: Final = {b"icp4": 16, b"icp5": 32, b"icp6": 64, b"ic07": 128, b"ic08": 256, b"ic09": 512, b"ic10": 1024}
"""Type of an entry -> pixels; every one is a PNG."""


def png(renderer: QSvgRenderer, size: int) -> bytes:
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # pyright: ignore[reportCallIssue, reportArgumentType]
    return bytes(data.data())


def ico(pictures: dict[int, bytes]) -> bytes:
    """Lay the pictures out as Windows reads them: a directory of 16 bytes each, then the PNG files."""
    start = 6 + 16 * len(pictures)
    head, body = struct.pack("<HHH", 0, 1, len(pictures)), b""
    for size, data in pictures.items():
        head += struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(data), start + len(body))
        body += data
    return head + body


def icns(pictures: dict[bytes, bytes]) -> bytes:
    """Lay the pictures out as macOS reads them: type and length in front of each."""
    body = b"".join(kind + struct.pack(">I", len(data) + 8) + data for kind, data in pictures.items())
    return b"icns" + struct.pack(">I", len(body) + 8) + body


def main() -> None:
    _app = QGuiApplication([])
    renderer = QSvgRenderer(str(HERE / "halftone.svg"))
    (HERE / "halftone.ico").write_bytes(ico({size: png(renderer, size) for size in ICO}))
    (HERE / "halftone.icns").write_bytes(icns({kind: png(renderer, size) for kind, size in ICNS.items()}))


if __name__ == "__main__":
    main()
