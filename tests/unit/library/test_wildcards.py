"""What is drawn from prompts and files, and what is told of those that cannot be."""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.errors import HalftoneError
from halftone.library.prompts.wildcards import Book, check_wildcards, draw, is_drawn, parse, unfollowed

NONE = Book(())


def wild(folder: Path, **files: str) -> Book:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Book((str(folder),))


def drawn(text: str, book: Book = NONE, many: int = 200) -> Counter[str]:
    return Counter(draw(text, seed, book) for seed in range(many))


@pytest.mark.parametrize(
    ("text", "all_of_it"),
    [
        ("a {red|green} sun", {"a red sun", "a green sun"}),
        ("{a|}", {"a", ""}),
        ("{{a|b} c|d}", {"a c", "b c", "d"}),
        ("{2$$a|b}", {"a, b", "b, a"}),
        ("{2$$ and $$a|b}", {"a and b", "b and a"}),
        ("{1-2$$a|b}", {"a", "b", "a, b", "b, a"}),
        ("{2-$$a|b}", {"a, b", "b, a"}),
        ("{5$$a|b}", {"a, b", "b, a"}),
        ("{2$${a|b}|c}", {"a, c", "b, c", "c, a", "c, b"}),
        ("{0::a|b}", {"b"}),
        ("{only}", {"only"}),
        (r"\{a|b\}", {"{a|b}"}),
        ("a { b", {"a { b"}),
        ("a } b|c", {"a } b|c"}),
        ("[a|b] (c:1.2) \\(d\\)", {"[a|b] (c:1.2) \\(d\\)"}),
        ("2$$a ${x=1} c", {"2$$a ${x=1} c"}),
        ("snake_case_name ^__^ __", {"snake_case_name ^__^ __"}),
    ],
)
def test_what_a_prompt_can_come_to(text: str, all_of_it: set[str]) -> None:
    assert set(drawn(text)) == all_of_it


def test_weights_are_shares() -> None:
    found = drawn("{3::a|b}", many=4000)
    assert 0.7 < found["a"] / 4000 < 0.8


def test_the_same_seed_draws_the_same_and_the_negative_prompt_for_itself() -> None:
    text = "{a|b|c|d|e|f|g|h}"
    assert [draw(text, 3, NONE) for _ in range(3)] == [draw(text, 3, NONE)] * 3
    assert [draw(text, seed, NONE) for seed in range(20)] != [draw(text, seed, NONE, "negative") for seed in range(20)]
    assert [draw(text, seed, NONE) for seed in range(6)] == ["h", "a", "b", "b", "g", "a"], "on every machine, for good"


def test_lines_of_files_are_drawn(tmp_path: Path) -> None:
    book = wild(tmp_path, colour="# all\nred\n\n  green  \n", animals__small="mouse\n{cat|dog}", animals__big="a __colour__ cow")
    assert set(drawn("__colour__", book)) == {"red", "green"}
    assert set(drawn("__animals/small__", book)) == {"mouse", "cat", "dog"}
    assert set(drawn("__animals/*__", book)) == {"mouse", "cat", "dog", "a red cow", "a green cow"}
    assert set(drawn("{2$$__colour__}", book)) == {"red, green", "green, red"}
    assert set(drawn("__Colour__", book)) == {"red", "green"}
    assert set(drawn("a__colour__b", book)) == {"aredb", "agreenb"}


def test_names_and_lines_may_be_chinese_and_begin_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "颜色.txt").write_bytes("\ufeff红色\r\n绿色".encode())
    assert set(drawn("__颜色__", Book((str(tmp_path),)))) == {"红色", "绿色"}


def test_the_first_folder_wins_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    wild(first, a="one")
    wild(second, a="two", b="three")
    book = Book((str(first), str(second)))
    assert draw("__a__ __b__", 1, book) == "one three"
    (first / "a.txt").write_text("four")
    os.utime(first / "a.txt", ns=(1, 1))
    assert draw("__a__", 1, book) == "four"


def test_a_missing_one_is_told_with_near_names(tmp_path: Path) -> None:
    wild(
        tmp_path,
        colours="red",
        animals__small="mouse",
        empty="# nothing\n",
        loop="__loop__",
        far="{a|__loop2__}",
        loop2="__far__",
    )
    folders = (str(tmp_path),)

    def said(text: str) -> str:
        with pytest.raises(HalftoneError) as caught:
            check_wildcards((text,), folders)
        return str(caught.value)

    assert said("a __color__") == "There is no wildcard color. Use colours, or turn wildcards off."
    assert "Use animals/small" in said("{a|__small__}")
    assert "has no lines" in said("__empty__")
    check_wildcards(("__loop__", "__far__"), folders)
    with pytest.raises(HalftoneError, match="The wildcard loop contains itself"):
        draw("__loop__", 1, Book(folders))
    with pytest.raises(HalftoneError, match="no folder has wildcards"):
        check_wildcards(("__colours__",), ())
    wild(tmp_path, odd="__colour__")
    assert "There is no wildcard colour." in said("__odd__")


def test_too_much_is_refused(tmp_path: Path) -> None:
    book = wild(tmp_path, many="__more__ " * 200, more="__most__ " * 200, most="x")
    with pytest.raises(HalftoneError, match="too much text"):
        draw("__many__", 1, book)
    with pytest.raises(HalftoneError, match="too much text"):
        draw("__huge__", 1, wild(tmp_path, huge="x" * 300_000))


@pytest.mark.parametrize(("content", "said"), [(b"\xff\xfe\x00broken", "it is no text in UTF-8"), (None, "is a directory")])
def test_a_file_that_is_no_text_is_told(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "bad.txt"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(HalftoneError, match=said):
        check_wildcards(("__bad__",), (str(tmp_path),))


def test_what_is_not_followed_is_told() -> None:
    assert unfollowed(("a {b|c} __d__ {2$${e|f}|g}",)) == ()
    told = unfollowed(("${x=red} {@a|b}", "{% if %}", "a {b"))
    assert [sentence.template.split(" are")[0] for sentence in told[:3]] == [
        "Variables (${…})", "@ and ~ before choices and wildcards", "Jinja templates",
    ]  # fmt: skip
    assert told[3].template.startswith("Unmatched curly bracket")


letters = st.text("ab_{}|$:1.2-\\*@~ \n()[]", max_size=60)


@given(letters, st.integers(0, 2**63 - 1))
def test_any_text_can_be_read_and_drawn(text: str, seed: int) -> None:
    parse(text)
    unfollowed((text,))
    try:
        found = draw(text, seed, NONE)
    except HalftoneError as error:
        if error.code != "wildcard-none":
            raise
        return
    assert found == draw(text, seed, NONE)
    if not set(text) & set("{}\\") and "__" not in text:
        assert not is_drawn(text)
        assert found == text


@given(st.lists(st.text("abc ", min_size=1, max_size=4), min_size=1, max_size=6), st.integers(0, 999))
def test_one_of_the_options_is_drawn(options: list[str], seed: int) -> None:
    assert draw("{" + "|".join(options) + "}", seed, NONE) in options


@given(st.text(max_size=3000).map(lambda text: "{" * 400 + text + "}" * 400))
def test_deep_brackets_end(text: str) -> None:
    assert isinstance(parse(text), tuple)
