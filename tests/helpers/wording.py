"""Whether a sentence can be said in another language, and how it reads there."""

from gettext import NullTranslations

from halftone.contract.wording import Words
from halftone.gui.i18n import table


def translated(words: Words, language: str = "zh_CN") -> bool:
    """Whether the sentence, and every sentence among its values, has its entry in the tables of a language."""
    known = table(language)
    inside = [part for value in words.values for part in (value if isinstance(value, tuple) else (value,))]
    own = words.template in known and (not words.one or words.one in known)
    return (own or not words.template.strip("{0123456789}")) and all(
        translated(part, language) for part in inside if isinstance(part, Words)
    )


class Chinese(NullTranslations):
    """The window's Chinese tables as a catalogue, without a window."""

    def gettext(self, message: str) -> str:
        return table("zh_CN").get(message, message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)
