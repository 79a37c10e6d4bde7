"""How a prompt's weights, breaks and changes are read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.wording import Words
from halftone.library.prompts.prompt_syntax import MOST, at_step, changes, is_plain, is_weighted, notes, parse, plain

PROMPTS = st.text(st.sampled_from("ab ,.:|()[]\\0159-+é中\n") | st.characters(codec="utf-8"), max_size=80) | st.lists(
    st.sampled_from(["(", ")", "[", "]", ":", "|", "\\", "1.3", "0.5", "BREAK", "AND", "cat", " ", ":9)", "9" * 400]), max_size=40
).map("".join)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="()[]\\"), max_size=60).filter(lambda text: "BREAK" not in text)


def flat(text: str) -> list[tuple[str, float]]:
    return [(part.text, round(part.weight, 4)) for section in parse(text) for part in section]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a red sun", [("a red sun", 1)]),
        ("a (red) sun", [("a ", 1), ("red", 1.1), (" sun", 1)]),
        ("((red))", [("red", 1.21)]),
        ("(red:1.3)", [("red", 1.3)]),
        ("(red : .5 )", [("red ", 0.5)]),
        ("(red:-1)", [("red", -1)]),
        ("[red]", [("red", 0.9091)]),
        ("(a [b] (c:2):1.5)", [("a ", 1.5), ("b", 1.3636), (" ", 1.5), ("c", 3)]),
        ("(a)(b)", [("ab", 1.1)]),
        (r"miku \(vocaloid\)", [("miku (vocaloid)", 1)]),
        (r"(miku \(vocaloid\):1.2)", [("miku (vocaloid)", 1.2)]),
        (r"C:\models and \\", [("C:\\models and \\", 1)]),
        ("a sad face :( in rain", [("a sad face :( in rain", 1)]),
        ("red) sun", [("red) sun", 1)]),
        ("((red:1.2)", [("(", 1), ("red", 1.2)]),
        ("(a [b) c]", [("a [b", 1.1), (" c]", 1)]),
        ("a:1.2", [("a:1.2", 1)]),
        ("(a:b:1.2)", [("a:b", 1.2)]),
        ("(red:99)", [("red", MOST)]),
        ("", []),
    ],
)
def test_weights_are_read_as_they_are_written(text: str, parts: list[tuple[str, float]]) -> None:
    assert flat(text) == parts


@pytest.mark.parametrize("text", ["()", "[]", "(())", "([()])", "(:1.2)", "((:1.2):0.5)", "()()", "() BREAK []"])
def test_brackets_around_nothing_are_an_empty_prompt_as_in_a1111(text: str) -> None:
    assert flat(text) == []
    assert not is_plain(text)
    assert plain(text) == ""


@pytest.mark.parametrize("text", ["( )", "[ ]", "(( ))"])
def test_brackets_around_spaces_hold_no_word(text: str) -> None:
    assert plain(text).strip() == ""


def test_a_break_begins_a_new_section_inside_brackets_too() -> None:
    assert [[part.text for part in section] for section in parse("a BREAK\n(b BREAK c:1.5)")] == [["a"], ["b"], ["c"]]
    assert flat("(b BREAK c:1.5)") == [("b", 1.5), ("c", 1.5)]
    assert flat("BREAKFAST") == [("BREAKFAST", 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a [b:3]", [(3, "a "), (10, "a b")]),
        ("a [b::3]", [(3, "a b"), (10, "a ")]),
        ("a [b:c:.5] d", [(5, "a b d"), (10, "a c d")]),
        ("a[b:[c:d:2]:1]e", [(1, "abe"), (2, "ace"), (10, "ade")]),
        ("[(a:2):3]", [(3, ""), (10, "(a:2)")]),
        ("([red:blue:0.2] sky:1.3)", [(2, "(red sky:1.3)"), (10, "(blue sky:1.3)")]),
        ("((a][:b:c [d:3]", [(3, "((a][:b:c "), (10, "((a][:b:c d")]),
        ("a [b:c:-9]", [(10, "a c")]),
        ("a [b:c:99]", [(10, "a b")]),
        ("a [b:c:d]", [(10, "a [b:c:d]")]),
        ("a [unbalanced", [(10, "a [unbalanced")]),
        (r"a \[b:3\]", [(10, r"a \[b:3\]")]),
        ("[a|b:c]", [(10, "[a|b:c]")]),
    ],
)
def test_what_changes_with_the_step(text: str, expected: list[tuple[int, str]]) -> None:
    found: list[tuple[int, str]] = []
    for step in range(1, 11):
        now = at_step(text, step, 10)
        found = [*found[:-1], (step, now)] if found and found[-1][1] == now else [*found, (step, now)]
    assert found == expected


def test_alternatives_take_turns() -> None:
    assert [at_step("[a|(b:1.1)|] c", step, 10) for step in range(1, 5)] == ["a c", "(b:1.1) c", " c", "a c"]


def test_the_words_alone() -> None:
    assert plain("a (red:1.3) [sun:moon:0.5] BREAK by [x]") == "a red sun by x"
    assert plain("an [old|young] cat") == "an old cat"
    assert plain(r"miku \(vocaloid\)") == "miku (vocaloid)"


def test_each_sign_that_is_not_followed_is_told_once() -> None:
    both = ("a (red:1.3) [sun|moon]", "(bad) AND [ugly]")
    assert len(notes(both, weights=False)) == 3
    assert len(notes(both, weights=True)) == 1, "the negative prompt is not composed"
    assert notes(("a red sun", ""), weights=False) == ()
    assert notes(("a red AND blue sun", ""), weights=True) == ()
    assert notes(("", "red AND blue"), weights=True) == (Words("AND in the negative prompt is read as a word, as in A1111."),)


def test_a_hypernetwork_is_named_as_unsupported() -> None:
    told = "Hypernetworks are not supported. Read as text: “<hypernet:x:0.8>”. Remove it from the prompt."
    assert [str(note) for note in notes(("a <hypernet:x:0.8>, b", "<hypernet:y>"), weights=True)] == [told]


@given(PROMPTS)
def test_anything_can_be_typed(text: str) -> None:
    for part in (part for section in parse(text) for part in section):
        assert math.isfinite(part.weight)
        assert abs(part.weight) <= MOST
    letters = sum(len(part.text) for section in parse(text) for part in section)
    assert letters <= len(text)
    for step in (1, 2, 10):
        assert changes(text) or at_step(text, step, 10) == text
        parse(at_step(text, step, 10))
    assert isinstance(plain(text), str)
    assert not (is_plain(text) and is_weighted(text))


@given(WORDS)
def test_text_without_signs_stays_as_it_is(text: str) -> None:
    assert is_plain(text)
    assert plain(text) == text
    assert flat(text) == ([(text, 1)] if text else [])


@pytest.mark.parametrize("sign", ["(", "[", ")", "]", "[a:", "[a|", "(a:1.1", "\\", "[[a]", "([a:b:0.5]", "BREAK ", ":1)"])
def test_ten_thousand_of_a_sign_are_read(sign: str) -> None:
    text = sign * 10_000 + ")]" * 100
    assert parse(text)
    at_step(text, 3, 10)


@given(st.text(st.sampled_from("abc, é"), max_size=30), st.floats(-MOST, MOST).map(lambda weight: round(weight, 3)))
def test_a_weight_is_what_it_says(words: str, weight: float) -> None:
    assert flat(f"({words}:{weight})") == ([(words, weight)] if words else [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a (red sun, over green hills", "( read as text: “(red”."),
        ("a red sun), hills", ") read as text: “sun)”."),
        ("a red sun )", ") read as text: “sun )”."),
        ("a [cat", "[ read as text: “[cat”."),
        ("((a:1.2)", "( read as text: “(”."),
        ("a (b] c", "( ] read as text, the first in “(b”."),
        ("a sun)) ]] (moon:abc)", ") ) ] ] read as text, the first in “sun)”."),
        ("a" + "(" * 20, "( ( ( ( ( ( ( ( … read as text, the first in “(”."),
        ("(" + "红" * 40, "( read as text: “(" + "红" * 20 + "”."),
        ("a (red:1.3) [sun] \\( b", ""),
        ("a happy dog :) and a sad one :-(", ""),
        ("", ""),
    ],
)
def test_a_bracket_without_its_partner_is_told(text: str, told: str) -> None:
    found = [str(note) for note in notes((text,), weights=True) if note.template.startswith("Unmatched")]
    assert found == ([f"Unmatched {told}"] if told else [])


@given(st.text("ab()[]:;\\ ", max_size=30))
def test_only_an_odd_bracket_is_told_of(text: str) -> None:
    told = any(note.template.startswith("Unmatched") for note in notes((text,), weights=False))
    assert not told or set(text) & set("()[]")
