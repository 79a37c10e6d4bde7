"""The window's words in the user's language: English sentences are the keys of a catalogue."""

from gettext import NullTranslations
from typing import Literal

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from halftone.contract import wording
from halftone.contract.echoes import harmless
from halftone.contract.wording import ENGLISH, Words, fill
from halftone.settings.translations import catalogue_of

_QT = "Qt"
"""The context (msgctxt) of what Qt says itself and its own translation lacks."""
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


class _QtTranslator(QTranslator):
    """Translates what Qt says itself and its own translation lacks."""

    def isEmpty(self) -> bool:
        return False

    def translate(self, context: str, text: str, disambiguation: str | None = None, n: int = -1) -> str | None:
        del context, disambiguation, n
        found = _catalogue.pgettext(_QT, text)
        return found if found != text else None


_installed: list[QTranslator] = []
_language = "en"
_catalogue = ENGLISH


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
    global _language, _catalogue
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
    _install(_QtTranslator())
    return _language


def _install(translator: QTranslator) -> None:
    QCoreApplication.installTranslator(translator)
    _installed.append(translator)
