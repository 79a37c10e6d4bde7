"""The user guide: chapters in Markdown under `resources/guide/<language>`, read into sections that can be searched."""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from halftone.settings.places import resources

TOPICS: Final = (
    *("first-picture", "models", "gallery", "health", "numerics", "image-to-image", "loras", "training"),
    *("troubles", "farm", "updates", "command-line"),
)
"""Names of the chapters' files, in the order in which they are read."""

_MOST: Final = 60
"""Letters of an unknown topic that are compared."""
_HEADING_COUNTS: Final = 10
"""Weight of a heading that names a topic."""
_FENCE: Final = "```"
_HEADING: Final = re.compile(r"(#{1,6}) +(.+)")
_PICTURE: Final = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_RULE: Final = re.compile(r"^\|[\s:|-]+\|$", re.MULTILINE)
_BAR: Final = re.compile(r"(?<!\\)\|")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_MARKS: Final = re.compile(r"\*\*|(?<!\w)_(?=\S)|(?<=\S)_(?!\w)|^[ \t]*(?:[-*]|\d+\.)[ \t]+|^>[ \t]?", re.MULTILINE)


class Section(msgspec.Struct, frozen=True):
    """A heading and its text up to the next heading, without Markdown. level: 1 for the chapter's title."""

    title: str
    level: int
    text: str


class Chapter(msgspec.Struct, frozen=True):
    """markdown: as in the file; folder: what its pictures are relative to, "" where it has none."""

    topic: str
    title: str
    markdown: str
    sections: tuple[Section, ...]
    folder: str = ""


class Hit(msgspec.Struct, frozen=True):
    """A section with every searched word. section: its index in the chapter; count: of the words in it."""

    chapter: Chapter
    section: int
    count: int


def guide_folder() -> Path:
    """The folder that holds one folder per language."""
    return resources() / "guide"


def chapters(language: str = "en") -> tuple[Chapter, ...]:
    """All chapters in a language ("en", "zh_CN"); English where a chapter is not translated. Raises OSError."""
    return tuple(_chapter(topic, language) for topic in TOPICS)


def chapter(topic: str) -> Chapter:
    """One chapter in English. Raises OSError, KeyError for an unknown topic."""
    if topic not in TOPICS:
        raise KeyError(topic)
    return _chapter(topic, "en")


def parsed(topic: str, markdown: str, folder: str = "") -> Chapter:
    """Read a chapter's Markdown; its first heading is the title."""
    sections = tuple(Section(title, level, plain(body)) for title, level, body in _split(markdown))
    return Chapter(topic, sections[0].title if sections else topic, markdown, sections, folder)


def plain(markdown: str) -> str:
    """The words alone: no pictures, no addresses of links, no marks."""
    lines, code, found = markdown.splitlines(), False, list[str]()
    for line in lines:
        if line.startswith(_FENCE):
            code = not code
        else:
            found.append(line if code else _plain_line(line))
    return "\n".join(found).strip()


def search(among: Sequence[Chapter], words: str) -> tuple[Hit, ...]:
    """Sections with all words, in the order of the guide, in any case of the letters. Nothing for no words."""
    wanted = searched(words)
    return tuple(
        Hit(one, index, sum(text.count(word) for word in wanted))
        for one in among
        for index, section in enumerate(one.sections)
        if wanted and all(word in (text := f"{section.title}\n{section.text}".casefold()) for word in wanted)
    )


def searched(words: str) -> tuple[str, ...]:
    """The single words of what was typed, each once."""
    return tuple(dict.fromkeys(words.casefold().split()))


def closest(words: str) -> tuple[str, ...]:
    """The topics that an unknown one may mean: of a similar name, else those whose chapters mention it most."""
    asked = words.strip().casefold()[:_MOST]
    titles = {topic: re.findall(r"\w{4,}", chapter(topic).title.casefold()) for topic in TOPICS}
    names = {word: topic for topic in TOPICS for word in (topic, *topic.split("-"), *titles[topic])}
    like = dict.fromkeys(names[name] for name in difflib.get_close_matches(asked, names, 3, 0.7))
    if like:
        return tuple(like)
    counts = {one.topic: 0 for one in chapters()}
    for hit in search(chapters(), asked):
        named = any(word in hit.chapter.sections[hit.section].title.casefold() for word in searched(asked))
        counts[hit.chapter.topic] += hit.count + _HEADING_COUNTS * named
    return tuple(sorted(filter(counts.__getitem__, counts), key=lambda topic: -counts[topic])[:3])


def pictures(markdown: str) -> tuple[str, ...]:
    """Addresses of the pictures, in their order."""
    return tuple(address for _words, address in _PICTURE.findall(markdown))


def links(markdown: str) -> tuple[str, ...]:
    """Addresses of the links, in their order: `topic.md` for another chapter."""
    return tuple(address for _words, address in _LINK.findall(_PICTURE.sub("", markdown)))


def linked_topic(address: str) -> str | None:
    """The topic that a link leads to; None for an address outside of the guide."""
    topic = address.removesuffix(".md")
    return topic if topic != address and topic in TOPICS else None


def _chapter(topic: str, language: str) -> Chapter:
    file = guide_folder() / language / f"{topic}.md"
    if not file.is_file():
        file = guide_folder() / "en" / file.name
    return parsed(topic, file.read_text("utf-8"), str(file.parent))


def _split(markdown: str) -> Iterator[tuple[str, int, str]]:
    """(title, level, Markdown below it); text before the first heading is left out."""
    title, level, code, body = "", 0, False, list[str]()
    for line in markdown.splitlines():
        if line.startswith(_FENCE):
            code = not code
        heading = None if code else _HEADING.fullmatch(line)
        if heading is None:
            body.append(line)
            continue
        if level:
            yield title, level, "\n".join(body)
        title, level, body = plain(heading[2]), len(heading[1]), []
    if level:
        yield title, level, "\n".join(body)


def _plain_line(line: str) -> str:
    line = _RULE.sub("", _PICTURE.sub("", line))
    if line.startswith("|"):
        line = "  ".join(cell.strip() for cell in _BAR.split(line.strip("|"))).replace("\\|", "|")
    pieces = _CODE.split(line)  # words, code, words …
    return "".join(piece if at % 2 else _MARKS.sub("", _LINK.sub(r"\1", piece)) for at, piece in enumerate(pieces)).rstrip()
