"""The command that prints the guide."""

import re
from typing import Final

import pytest
from tests.unit.settings.test_guide import fenced

from halftone.cli import main
from halftone.settings import guide

NOISE: Final = re.compile(r"\*\*|```|!\[|\]\(|^\||\\\||^#", re.MULTILINE)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["guide", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_without_a_topic_the_chapters_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys)
    assert (code, err) == (0, "")
    for chapter in guide.chapters():
        assert re.search(rf"^{chapter.topic} +{re.escape(chapter.title)}$", out, re.MULTILINE)


@pytest.mark.parametrize("columns", ["40", "80", "300"])
@pytest.mark.parametrize("topic", guide.TOPICS)
def test_a_chapter_is_plain_text(
    topic: str, columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    code, out, err = said(capsys, topic.upper())
    assert (code, err) == (0, "")
    chapter = guide.chapter(topic)
    assert out.startswith(f"{chapter.title}\n──")
    code_lines = [line for block in fenced(chapter.markdown) for line in block.splitlines()]
    assert [line for line in out.splitlines() if f"{line.strip()}" in code_lines and line.startswith("    ")] or not code_lines
    for line in filter(None, code_lines):
        assert f"\n    {line}\n" in out, "a line of code is whole, however narrow the terminal is"
    rest = out
    for line in filter(None, code_lines):
        rest = rest.replace(f"    {line}\n", "")
    assert not NOISE.search(rest)
    assert "\n\n\n" not in out
    assert max(map(len, rest.splitlines())) <= min(int(columns), 100)


def test_links_name_the_command_as_it_was_typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFTONE_COMMAND", "python3 installer/launch.py")
    _code, out, _err = said(capsys, "troubles")
    words = " ".join(re.sub(r"[│]", " ", out).split())
    assert "python3 installer/launch.py guide health" in words
    _code, out, _err = said(capsys, "health")
    assert "    python3 installer/launch.py check fragile --precision float16\n" in out


@pytest.mark.parametrize("topic", ["healt", "../../README", "", "\x1b[2J", "\ud800", "x" * 100_000, "**", "--", "健康", "a\nb"])
def test_an_unknown_topic_is_one_sentence(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, *(["--", topic] if topic.startswith("--") else [topic]))
    assert (code, out) == (2, "")
    assert err.startswith("The guide has no topic “")
    assert len(err) < 400
    assert "\x1b" not in err
    assert err.count("\n") == 1
    assert ("Did you mean" in err) or all(name in err for name in guide.TOPICS)


def test_near_topics_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _code, _out, err = said(capsys, "healt")
    assert err == "The guide has no topic “healt”. Did you mean health? See halftone guide --help.\n"
