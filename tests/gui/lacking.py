"""What the Chinese catalogue lacks, and what it holds that the program no longer says.

python -m tests.gui.lacking
"""

from tests.gui import words
from tests.helpers.wording import entries, keys


def lacking() -> dict[str, str]:
    """Sentence without Chinese -> the file it stands in."""
    found = {text: file for text, file in words.sentences().items() if (text, "") not in keys()}
    return found | {many: file for (one, many), file in words.plurals().items() if (one, many) not in keys()}


def left_over() -> list[str]:
    """Entries whose English stands nowhere in the program."""
    known = words.strings() | words.sentences().keys()
    alone = [entry for entry in entries() if not entry.msgctxt]
    gone = [entry.msgid for entry in alone if not entry.msgid_plural and entry.msgid not in known]
    counted = words.plurals()
    return gone + [one.msgid_plural for one in alone if one.msgid_plural and (one.msgid, one.msgid_plural) not in counted]


if __name__ == "__main__":
    for sentence, file in sorted(lacking().items(), key=lambda found: found[1]):
        print(f"lacks Chinese: {file}: {sentence}")
    for sentence in left_over():
        print(f"said nowhere: {sentence}")
