"""What is asked of messages: that the window's other languages have them."""

from halftone.contract.wording import Words
from halftone.gui.i18n import table


def translated(words: object) -> bool:
    """Whether it is a message, and it and all messages among its values stand in the Chinese tables."""
    if not isinstance(words, Words):
        return False
    parts = [part for value in words.values for part in (value if isinstance(value, tuple) else (value,))]
    templates = {words.template, words.one or words.template}
    return templates <= table("zh_CN").keys() and all(translated(part) for part in parts if isinstance(part, Words))
