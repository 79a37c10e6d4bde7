"""Whether a sentence can be said in another language, and how it reads there."""

from gettext import NullTranslations

from halftone.contract.wording import Words
from halftone.gui.i18n import table


def translated(words: object) -> bool:
    """Whether it is a message, and it and all messages among its values stand in the Chinese tables."""
    if not isinstance(words, Words):
        return False
    inside = [part for value in words.values for part in (value if isinstance(value, tuple) else (value,))]
    known = {words.template, words.one or words.template} <= table("zh_CN").keys()
    says_nothing = not words.template.strip("{0123456789}:, ")
    return (known or says_nothing) and all(translated(part) for part in inside if isinstance(part, Words))


class Chinese(NullTranslations):
    """The window's Chinese tables as a catalogue, without a window."""

    def gettext(self, message: str) -> str:
        return table("zh_CN").get(message, message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)
