"""Whether a sentence can be said in another language."""

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
