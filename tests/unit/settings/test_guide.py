"""The guide: both languages say the same things in the same order, what they name exists, and it can be searched."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from installer.start import OWN_COMMANDS
from PIL import Image
from typer.main import get_command

from halftone.cli.app import application
from halftone.contract.parameters import OPTION_PARAMETERS
from halftone.settings import guide
from halftone.settings.declared import DECLARED
from halftone.settings.places import resources

ROOT: Final = Path(__file__).resolve().parents[3]
LANGUAGES: Final = ("en", "zh_CN")
PAGES: Final = [(language, topic) for language in LANGUAGES for topic in guide.TOPICS]
MOST: Final = 1_500_000
"""Bytes of the whole guide."""
LAUNCHER: Final = ("python3", "installer/launch.py")


def markdown(language: str, topic: str) -> str:
    return (guide.guide_folder() / language / f"{topic}.md").read_text("utf-8")


def fenced(text: str) -> list[str]:
    """What stands in the blocks of code."""
    return re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The words of each command in the blocks of code."""
    lines = [line.partition(" > ")[0] for block in fenced(text) for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith(("halftone", "python3 "))]


OF_APPIMAGES = "--appimage-extract"
"""An option that the runtime of every AppImage takes."""


def understood(words: list[str]) -> Any:
    """Parse a command line as the program does. Raises the parser's exceptions."""
    name, context = "halftone", None
    command: Any = get_command(application())
    while hasattr(command, "commands"):
        context = command.make_context(name, words, parent=context)
        words = [*context._protected_args, *context.args]
        if not words and command.invoke_without_command:
            return context
        name, command, words = command.resolve_command(context, words)
    return command.make_context(name, words, parent=context)


def options(command: Any) -> set[str]:
    """Every option of a command and of those below it."""
    found = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return found.union(*(options(below) for below in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("topic", guide.TOPICS)
def test_both_languages_have_the_same_shape(topic: str) -> None:
    english, chinese = (guide.parsed(topic, markdown(language, topic)) for language in LANGUAGES)
    assert [one.level for one in english.sections] == [one.level for one in chinese.sections]
    assert english.sections[0].level == 1
    for shape in (fenced, guide.links, guide.pictures):
        assert shape(english.markdown) == shape(chinese.markdown)
    for mark in ("|", "- ", "1. ", "2. "):
        counts = [sum(line.startswith(mark) for line in one.markdown.splitlines()) for one in (english, chinese)]
        assert counts[0] == counts[1], mark


@pytest.mark.parametrize(("language", "topic"), PAGES)
def test_links_and_pictures_are_there(language: str, topic: str) -> None:
    text = markdown(language, topic)
    folder = guide.guide_folder() / language
    for address in guide.links(text):
        assert guide.linked_topic(address) or address.startswith("https://"), address
    for address in guide.pictures(text):
        with Image.open(folder / address) as picture:
            picture.verify()


def test_no_file_of_the_guide_is_left_over_and_it_is_small() -> None:
    wanted = {
        guide.guide_folder() / language / name
        for language, topic in PAGES
        for name in (f"{topic}.md", *guide.pictures(markdown(language, topic)))
    }
    files = {file for file in guide.guide_folder().rglob("*") if file.is_file()}
    assert files == wanted
    assert sum(file.stat().st_size for file in files) < MOST


@pytest.mark.parametrize(("language", "topic"), PAGES)
def test_every_command_is_understood(language: str, topic: str) -> None:
    for words in commands(markdown(language, topic)):
        if tuple(words[:2]) == LAUNCHER:
            assert not words[2:] or words[2] in dict(OWN_COMMANDS), words
        else:
            understood(words[1:])


def test_commands_that_do_not_exist_would_be_found() -> None:
    for words in (["generate", "a sun", "--stepz", "4"], ["paint"], ["train", "--exemple"]):
        with pytest.raises(Exception, match=r"No such|Missing"):
            understood(words)


@pytest.mark.parametrize(("language", "topic"), PAGES)
def test_every_option_and_command_in_the_text_exists(language: str, topic: str) -> None:
    root = get_command(application())
    known = options(root) | {"--help", OF_APPIMAGES}
    for piece in re.findall(r"`([^`\n]+)`", markdown(language, topic)):
        assert set(re.findall(r"(?<!\S)--[a-z0-9-]+", piece)) <= known, piece
        first, *rest = piece.split()
        if first == "halftone" and rest:
            assert rest[0] in getattr(root, "commands", {}), piece
        if piece.startswith(" ".join(LAUNCHER)) and rest[1:]:
            assert rest[1] in dict(OWN_COMMANDS), piece


def test_every_command_is_in_the_guide() -> None:
    rows = re.findall(r"^\| `halftone (\w+)` \|", markdown("en", "command-line"), re.MULTILINE)
    assert set(rows) == set(getattr(get_command(application()), "commands", {}))


def test_every_numerics_setting_is_in_the_guide() -> None:
    text = markdown("en", "numerics")
    titles = [one.title for one in DECLARED if one.page == "Numerics"]
    assert titles
    assert not [title for title in titles if f"**{title}**" not in text]


def test_every_option_of_a_picture_is_in_the_guide_with_its_flag() -> None:
    text = markdown("en", "first-picture")
    for one in OPTION_PARAMETERS.values():
        assert f"**{one.label}**" in text
        assert f"`{one.flags[0]}`" in text


def test_labels_are_bold_and_only_prompts_and_paths_are_quoted() -> None:
    """So that every label is compared with the words of the window."""
    for topic in guide.TOPICS:
        words = re.sub(r"^```\n.*?^```|`[^`]*`", "", markdown("en", topic), flags=re.MULTILINE | re.DOTALL)
        assert set(re.findall(r'"([^"]+)"', words)) <= {"a red sun over green hills"}, topic


def test_a_chapter_without_translation_is_in_english() -> None:
    assert guide.chapters("fr") == guide.chapters("en")
    assert guide.chapters("../..") == guide.chapters("en")


def test_comments_in_code_are_no_headings_and_words_have_no_marks() -> None:
    chapter = guide.parsed(
        "x", "# One *a* `b_c`\n\n**Bold** [link](health.md)\n\n```\n# no\n```\n\n## Two\n\n| a \\| b | `c` |\n|---|---|\n"
    )
    assert [(one.title, one.level) for one in chapter.sections] == [("One *a* b_c", 1), ("Two", 2)]
    assert [one.text for one in chapter.sections] == ["Bold link\n\n# no", "a | b  c"]


def test_search_finds_sections_that_hold_every_word() -> None:
    hits = guide.search(guide.chapters(), "MASK blur")
    first = hits[0].chapter.sections[hits[0].section]
    assert (hits[0].chapter.topic, first.title) == ("image-to-image", "Inpaint")
    assert hits[0].count == sum(f"{first.title} {first.text}".lower().count(word) for word in ("mask", "blur"))
    assert {hit.chapter.topic for hit in guide.search(guide.chapters("zh_CN"), "蒙版模糊")} == {"image-to-image"}


@pytest.mark.parametrize("words", ["", "   ", "qqzzx", "**", "![", "\x00", "a" * 100_000, "\ud800"])
def test_words_that_stand_nowhere_find_nothing(words: str) -> None:
    assert guide.search(guide.chapters(), words) == ()


@pytest.mark.parametrize("mark", ["(", "[", "\\", ".*"])
def test_marks_are_searched_for_as_they_are(mark: str) -> None:
    chapter = guide.parsed("x", "# One\n\nNothing.\n\n## Two\n\n`a(b) [c] (d) \\ .*`\n")
    assert [(hit.section, hit.count) for hit in guide.search([chapter], mark)] == [(1, 2 if mark == "(" else 1)]


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("healt", "health"),
        ("LoRA", "loras"),
        ("train", "training"),
        ("inpaint", "image-to-image"),
        ("gguf", "models"),
        ("overclocking", "troubles"),
    ],
)
def test_an_unknown_topic_has_near_ones(asked: str, first: str) -> None:
    assert guide.closest(asked)[0] == first


def test_nothing_is_near_to_noise() -> None:
    assert guide.closest("\x1b[31mzzqx") == ()


def test_an_unknown_chapter_is_refused() -> None:
    with pytest.raises(KeyError):
        guide.chapter("../../README")


def test_an_installed_copy_has_the_guide() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["resources"] == "halftone/_resources"
    assert guide.guide_folder() == resources() / "guide"
