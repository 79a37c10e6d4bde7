"""Catalogues of the languages: `resources/translations/<language>.po`, in gettext's format. English is the key."""

from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path

from halftone.contract.wording import ENGLISH
from halftone.settings.places import resources


class _Catalogue(GNUTranslations):
    def gettext(self, message: str) -> str:
        return super().gettext(message) if message else ""  # gettext keeps the head of the file under the empty message


def catalogue_file(language: str) -> Path:
    return resources() / "translations" / f"{language}.po"


@cache
def catalogue_of(language: str) -> NullTranslations:
    """Read the catalogue of a language; English needs none."""
    if language == "en":
        return ENGLISH
    import polib  # 20 ms that an English window does not need

    return _Catalogue(BytesIO(polib.pofile(str(catalogue_file(language)), encoding="utf-8").to_binary()))
