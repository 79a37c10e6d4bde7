"""The window's words in the user's language: English sentences are the keys of a catalogue."""

from collections.abc import Mapping
from gettext import NullTranslations
from struct import pack
from typing import Literal

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from halftone.contract import wording
from halftone.contract.echoes import harmless
from halftone.contract.wording import ENGLISH, Words, fill
from halftone.settings.translations import catalogue_of

_QT = "Qt"
"""The context (msgctxt) of what Qt says itself and its own translation lacks."""
_QT_LACKS = ("&Look in:", "File Folder", "Files of &type:", "Folder")
LanguageChoice = Literal["system", "en", "zh_CN"]


def tr(text: str, *values: object, one: str = "") -> str:
    """Translate and fill {0}, {1} with `values`, which are made harmless. one: the text for a first value of exactly 1."""
    found = wording.look_up(text, one, values, catalogue())
    return fill(found, [_shown(value) for value in values]) if values else found


def _shown(value: object) -> str:
    return value.text(catalogue()) if isinstance(value, Words) else harmless(str(value))


def say(words: Words | None) -> str:
    """The sentence in the language in force; "" for none."""
    return "" if words is None else words.text(catalogue())


def catalogue() -> NullTranslations:
    """The catalogue of the language in force, for `Words.text`."""
    return _catalogue


def sentences(*parts: str) -> str:
    """Sentences one after another, with a space between them where the language has one."""
    return ("" if _language.startswith("zh") else " ").join(filter(None, parts))


def listed(*parts: str) -> str:
    """Parts of a list, joined by the language's comma."""
    return harmless(wording.listed(*parts, catalogue=_catalogue))


_QM_MAGIC = bytes.fromhex("3cb86418caef9c95cd211cbf60a1bddd")
_HASHES, _MESSAGES = 0x42, 0x69
"""Sections of a .qm file."""
_END, _TRANSLATION, _SOURCE_TEXT = 1, 3, 6
"""Tags of the parts of a message in a .qm file."""


def _qm(messages: Mapping[str, str]) -> bytes:
    """Return translations, for any context, as the file that Qt reads itself.

    A QTranslator in Python would not do: Qt translates errors of its readers of pictures while it holds their lock, and a thread
    that waits for the lock may hold Python's.
    """
    hashes, written = list[tuple[int, int]](), b""
    for english, translated in messages.items():
        source, target = english.encode(), translated.encode("utf-16-be")
        hashes.append((_elf_hash(source), len(written)))
        written += pack(f">BI{len(target)}s", _TRANSLATION, len(target), target)
        written += pack(f">BI{len(source)}sB", _SOURCE_TEXT, len(source), source, _END)
    table = b"".join(pack(">II", *one) for one in sorted(hashes))
    return _QM_MAGIC + pack(">BI", _HASHES, len(table)) + table + pack(">BI", _MESSAGES, len(written)) + written


def _elf_hash(text: bytes) -> int:
    found = 0
    for byte in text:
        found = (found << 4) + byte
        high = found & 0xF0000000
        found = (found ^ high >> 24) & ~high
    return found or 1


_installed: list[QTranslator] = []
_language = "en"
_catalogue = ENGLISH
_qt_lacking = b""
"""Qt reads it in place as long as it translates."""


def language() -> str:
    """The language in force: "en" or "zh_CN"."""
    return _language


def system_language() -> str:
    """The first of the user's preferred languages that Halftone speaks."""
    for name in QLocale.system().uiLanguages():
        tag = name.replace("_", "-")
        if tag.startswith("zh") and not any(part in tag for part in ("Hant", "TW", "HK", "MO")):
            return "zh_CN"
        if tag.startswith("en"):
            return "en"
    return "en"


def set_language(choice: LanguageChoice) -> str:
    """Put a language in force, in Qt's own dialogs too; returns its name."""
    global _language, _catalogue, _qt_lacking
    app = QCoreApplication.instance()
    _language = system_language() if choice == "system" else choice
    _catalogue = catalogue_of(_language)
    for old in _installed:
        QCoreApplication.removeTranslator(old)
    _installed.clear()
    QLocale.setDefault(QLocale.system() if choice == "system" else QLocale(_language))
    if app is None or _language == "en":
        return _language
    qt_own = QTranslator()
    if qt_own.load(QLocale(_language), "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        _install(qt_own)
    lacking = QTranslator()
    _qt_lacking = _qm({text: _catalogue.pgettext(_QT, text) for text in _QT_LACKS})
    if lacking.load(_qt_lacking):
        _install(lacking)
    return _language


def _install(translator: QTranslator) -> None:
    QCoreApplication.installTranslator(translator)
    _installed.append(translator)
