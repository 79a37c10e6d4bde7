"""Weights that keys change where the cursor stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.library.prompts.prompt_syntax import parse
from halftone.library.prompts.weights import STEP, applied, weighted


def marked(text: str) -> tuple[str, int, int]:
    """The text without its marks: | is the cursor, ‹ and › the ends of a selection."""
    if "¦" in text:
        place = text.index("¦")
        return text.replace("¦", ""), place, place
    start = text.index("‹")
    return text.replace("‹", "").replace("›", ""), start, text.index("›") - 1


@pytest.mark.parametrize(
    ("before", "up", "down"),
    [
        ("a r¦ed sun", "a (‹red›:1.1) sun", "a (‹red›:0.9) sun"),
        ("red¦", "(‹red›:1.1)", "(‹red›:0.9)"),
        ("¦red, sun", "(‹red›:1.1), sun", "(‹red›:0.9), sun"),
        ("a ‹red sun› rises", "a (‹red sun›:1.1) rises", "a (‹red sun›:0.9) rises"),
        ("a‹ red sun › rises", "a (‹red sun›:1.1)  rises", "a (‹red sun›:0.9)  rises"),
        ("(r¦ed:1.1)", "(‹red›:1.2)", "‹red›"),
        ("(red:1¦.1)", "(‹red›:1.2)", "‹red›"),
        ("(r¦ed:0.9)", "‹red›", "(‹red›:0.8)"),
        ("(red s¦un:1.25)", "(‹red sun›:1.35)", "(‹red sun›:1.15)"),
        ("(‹red› sun:1.2)", "((‹red›:1.1) sun:1.2)", "((‹red›:0.9) sun:1.2)"),
        ("‹(red:1.2)› sun", "(‹red›:1.3) sun", "(‹red›:1.1) sun"),
        ("(re¦d)", "(‹red›:1.2)", "‹red›"),
        ("[re¦d]", "‹red›", "(‹red›:0.8)"),
        ("((re¦d))", "((‹red›:1.2))", "(‹red›)"),
        ("(a (re¦d:1.2):1.5)", "(a (‹red›:1.3):1.5)", "(a (‹red›:1.1):1.5)"),
        (r"miku \(voca¦loid\)", r"miku \((‹vocaloid›:1.1)\)", r"miku \((‹vocaloid›:0.9)\)"),
        ("[re¦d:blue:0.5]", "[(‹red›:1.1):blue:0.5]", "[(‹red›:0.9):blue:0.5]"),
        ("__col¦or__ sky", "(‹__color__›:1.1) sky", "(‹__color__›:0.9) sky"),
        ("红¦色, 天", "(‹红色›:1.1), 天", "(‹红色›:0.9), 天"),
        ("a (red sun:1.3)¦, b", "a (‹red sun›:1.4), b", "a (‹red sun›:1.2), b"),
        ("(red:0.1¦)", "(‹red›:0.2)", "(‹red›:0)"),
        ("<lora:in¦k:0.8> a", "<lora:in¦k:0.9> a", "<lora:in¦k:0.7> a"),
        ("<lora:ink:0.¦95>", "<lora:ink:¦1.05>", "<lora:ink:¦0.85>"),
        ("<lora:ink¦>", "<lora:ink:1.1¦>", "<lora:ink:0.9¦>"),
        ("<lora:my ink:1:0.5¦>", "<lora:my ink:1.1:0.5¦>", "<lora:my ink:0.9:0.5¦>"),
    ],
)
def test_keys_weigh_what_stands_under_the_cursor(before: str, up: str, down: str) -> None:
    for step, after in ((STEP, up), (-STEP, down)):
        edit = weighted(*marked(before), step)
        assert edit is not None
        expected, *selected = marked(after)
        assert applied(marked(before)[0], edit) == expected
        assert edit.selected == tuple(selected)


@pytest.mark.parametrize("text", ["", "¦", " ¦ ", "a, ¦, b", "‹  ›", "(re‹d) su›n", "(¦)", "(¦:1.2)", "‹(red› sun)"])
def test_where_nothing_can_be_weighed_nothing_changes(text: str) -> None:
    assert weighted(*(marked(text) if text else ("", 0, 0))) is None


PIECES = st.lists(
    st.sampled_from(
        ["red", "sun", " ", ", ", "(", ")", "[", "]", ":1.2", ":", "|", "\\", "<lora:a:0.5>", "<lora:b>", "__x__", "中"]
    ),
    max_size=14,
).map("".join)


@given(PIECES, st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_up_and_down_again_mean_what_stood_there(text: str, one: int, other: int, rise: bool) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    step = STEP if rise else -STEP
    first = weighted(text, start, end, step)
    if first is None:
        return
    changed = applied(text, first)
    assert changed != text
    assert all(0 <= place <= len(changed) for place in first.selected)
    second = weighted(changed, *first.selected, -step)
    if second is None:  # a selection that stands at no bracket of its own
        return
    plain = not set("()[]<>\\") & set(text)
    if plain:
        assert applied(changed, second) == text


@given(st.lists(st.sampled_from(["red", "sun", "中文", "__x__"]), min_size=1, max_size=6), st.integers(0, 40), st.integers(1, 30))
def test_many_steps_up_and_as_many_down_give_the_text_back(words: list[str], place: int, steps: int) -> None:
    text = now = ", ".join(words)
    start = end = min(place, len(text))
    for step in [STEP] * steps + [-STEP] * steps:
        edit = weighted(now, start, end, step)
        if edit is None:
            assert now == text
            return
        now, (start, end) = applied(now, edit), edit.selected
        weights = {round(part.weight, 2) for section in parse(now) for part in section}
        assert all(0.9 <= weight <= 10 for weight in weights)
    assert now == text
