"""The window's words in the user's language: English sentences are keys; JSON tables, one per part, hold the rest."""

from functools import cache
from gettext import NullTranslations
from typing import Literal

import msgspec
from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from halftone.contract.echoes import harmless
from halftone.contract.wording import ENGLISH, Words, fill
from halftone.settings.places import resources

CONTEXT = "halftone"
LanguageChoice = Literal["system", "en", "zh_CN"]


def tr(text: str, *values: object) -> str:
    """`text` in the language in force, its numbered placeholders {0}, {1} filled with `values`, which are made harmless."""
    found = QCoreApplication.translate(CONTEXT, text)
    return fill(found, [_shown(value) for value in values]) if values else found


def _shown(value: object) -> str:
    return value.text(catalogue()) if isinstance(value, Words) else harmless(str(value))


def say(words: Words | None) -> str:
    """The sentence in the language in force; "" for none."""
    return "" if words is None else words.text(catalogue())


def catalogue() -> NullTranslations:
    """The catalogue of the language in force, for `Words.text`."""
    return ENGLISH if _language == "en" else _spoken(_language)


@cache
def _spoken(language: str) -> NullTranslations:
    return _Table(language)


class _Table(NullTranslations):
    """Our tables as a catalogue of gettext."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._words = table(language)

    def gettext(self, message: str) -> str:
        return self._words.get(message, message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


def sentences(*parts: str) -> str:
    """Sentences one after another, with a space between them where the language has one."""
    return ("" if _language.startswith("zh") else " ").join(filter(None, parts))


def listed(*parts: str) -> str:
    """Parts of a list, joined by the language's comma."""
    return harmless(("，" if _language.startswith("zh") else ", ").join(filter(None, parts)))


@cache
def table(language: str) -> dict[str, str]:
    """English -> translation: all files of resources/translations/<language>/."""
    merged: dict[str, str] = {}
    for file in sorted((resources() / "translations" / language).glob("*.json")):
        merged.update(msgspec.json.decode(file.read_bytes(), type=dict[str, str]))
    return merged


@cache
def qt_words(language: str) -> dict[str, str]:
    """English -> translation of what Qt says itself and its own catalogue of that language lacks."""
    file = resources() / "translations" / "qt" / f"{language}.json"
    return msgspec.json.decode(file.read_bytes(), type=dict[str, str])


class Catalogue(QTranslator):
    """Our tables as a Qt translator, so that LanguageChange events and Qt's own look-up work as usual."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._words = table(language)
        self._of_qt = qt_words(language)

    def isEmpty(self) -> bool:
        return not self._words

    def translate(self, context: str, text: str, disambiguation: str | None = None, n: int = -1) -> str | None:
        del disambiguation, n
        return (self._words if context == CONTEXT else self._of_qt).get(text)


_installed: list[QTranslator] = []
_language = "en"


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
    """Install the translators of a language (and Qt's own for its dialogs); returns the language in force."""
    global _language
    app = QCoreApplication.instance()
    _language = system_language() if choice == "system" else choice
    for old in _installed:
        QCoreApplication.removeTranslator(old)
    _installed.clear()
    QLocale.setDefault(QLocale.system() if choice == "system" else QLocale(_language))
    if app is None or _language == "en":
        return _language
    qt_own = QTranslator()
    if qt_own.load(QLocale(_language), "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
        _install(qt_own)
    _install(Catalogue(_language))
    return _language


def _install(translator: QTranslator) -> None:
    QCoreApplication.installTranslator(translator)
    _installed.append(translator)
