"""Over three hundred nasty prompts as A1111 reads them, in its syntax and in Halftone's, and over sixty as ComfyUI reads them.

`pytest -rP` prints the counts, and the reason for each difference.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from halftone.library.prompts.composed_prompts import composed, is_read_otherwise
from halftone.library.prompts.prompt_syntax import (
    MOST,
    OWN,
    Emphasis,
    Part,
    Rules,
    Syntax,
    at_step,
    changes,
    is_weighted,
    notes,
    parse,
)

REFERENCES: Final[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "references" / "prompts.json").read_text("utf-8"))
ROWS: Final[list[dict[str, Any]]] = REFERENCES["a1111"]["rows"]
STEPS: Final = 10
BACKSLASH: Final = "a backslash before a letter stays; A1111 drops it, and one at the end keeps it from changing any word"
UNBALANCED: Final = "a bracket without its partner is text; in A1111 it weighs all that follows"
LIMIT: Final = "a weight counts 10 at most"
BREAK: Final = "BREAK inside weights begins a new chunk; A1111 reads it as a word"
BAR: Final = "a bar outside alternatives is text; in A1111 it keeps all around it from changing"
COLON: Final = "a further colon around a change is text; in A1111 it keeps the words from changing"
SCHEDULES: Final = {
    "a [b):c:3] d": UNBALANCED,
    "[a:b:3] \\": BACKSLASH,
    "[(a:b:c):d:3]": COLON,
    "[a:(b:c:1.2):3]": COLON,
    "(a:[b:c:3]:2)": COLON,
    "a AND [b:c:0.5]:1.3": COLON,
    "a | b [c:5]": BAR,
    "[(a|b)|c]": BAR,
    "[(a|b):c:3]": BAR,
    "[a|(b|c)]": BAR,
    "[a|b] | c": BAR,
}


AMBIGUOUS: Final = ("(a:[b:c:3]:2)", "a AND [b:c:0.5]:1.3")
"""A1111's grammar has two readings of these, and its parser takes the one in which nothing changes."""


def theirs(pieces: list[tuple[str, float]]) -> list[list[tuple[str, float]]]:
    """A1111's pieces as sections: a BREAK of weight -1 begins one."""
    sections: list[list[tuple[str, float]]] = [[]]
    for text, weight in pieces:
        if text == "BREAK" and weight == -1:
            sections.append([])
        elif text:
            sections[-1].append((text, weight))
    return sections


def ours(prompt: str, rules: Rules = OWN) -> list[list[tuple[str, float]]]:
    return [[(part.text, round(part.weight, 6)) for part in section] for section in parse(prompt, rules)]


def by_step(row: dict[str, Any], steps: int = STEPS) -> list[str]:
    """What A1111 reads at each step, in the second pass of Hires. fix where it has other steps."""
    schedule = row["schedule" if steps == STEPS else "hires"]
    return [next(text for last, text in schedule if step <= last) for step in range(1, steps + 1)]


def is_unbalanced(prompt: str) -> bool:
    opened: list[str] = []
    for sign in re.sub(r"\\.", "", prompt):
        if sign in "([":
            opened.append(sign)
        elif sign in ")]" and (not opened or opened.pop() != {")": "(", "]": "["}[sign]):
            return True
    return bool(opened)


def reason(row: dict[str, Any]) -> str | None:
    """Why we weigh the words of a prompt in another way, None where we should not."""
    prompt: str = row["prompt"]
    if is_unbalanced(prompt):
        return UNBALANCED
    if re.sub(r"\\[()\[\]:|\\]", "", prompt).count("\\"):
        return BACKSLASH
    if any(abs(weight) > MOST for _, weight in row["pieces"]):
        return LIMIT
    return BREAK if any("BREAK" in text and weight != -1 for text, weight in row["pieces"]) else None


def test_weights_are_a1111s_but_for_named_differences() -> None:
    different = [row for row in ROWS if theirs(row["pieces"]) != ours(row["prompt"])]
    found = Counter(map(reason, different))
    print(f"{len(ROWS)} prompts weighed, {len(ROWS) - len(different)} as in A1111")
    for why, count in found.items():
        print(f"{count}: {why}")
    assert len(ROWS) >= 300
    assert [row["prompt"] for row in different if reason(row) is None] == []
    assert found == {UNBALANCED: 36, BACKSLASH: 7, LIMIT: 4, BREAK: 6}


def test_words_change_with_the_step_as_in_a1111_but_for_named_differences() -> None:
    different = [
        row["prompt"] for row in ROWS if [at_step(row["prompt"], step, STEPS) for step in range(1, STEPS + 1)] != by_step(row)
    ]
    print(f"{len(ROWS)} schedules, {len(ROWS) - len(different)} as in A1111")
    for prompt in different:
        print(f"{prompt!r}: {SCHEDULES.get(prompt)}")
    assert sorted(different) == sorted(SCHEDULES)


def test_the_syntax_of_a1111_is_read_as_there() -> None:
    weighed = [row["prompt"] for row in ROWS if theirs(row["pieces"]) != ours(row["prompt"], Rules(Syntax.A1111))]
    changed = [
        row["prompt"]
        for row in ROWS
        if [at_step(row["prompt"], step, STEPS, Rules(Syntax.A1111)) for step in range(1, STEPS + 1)] != by_step(row)
    ]
    print(f"{len(ROWS)} prompts: {len(ROWS) - len(weighed)} weighed, {len(ROWS) - len(changed)} changed as in A1111")
    assert (weighed, changed) == ([], [*AMBIGUOUS])


def test_changes_count_on_in_the_second_pass_as_in_a1111() -> None:
    steps, rules = 8, Rules(Syntax.A1111, passes=(STEPS, 8))

    def seen(prompt: str, rules: Rules) -> list[str]:
        return [at_step(prompt, step, steps, rules) for step in range(1, steps + 1)]

    different = [row["prompt"] for row in ROWS if seen(row["prompt"], rules) != by_step(row, steps)]
    unlike = sum(seen(row["prompt"], OWN) != by_step(row, steps) for row in ROWS)
    print(f"{len(ROWS) - len(different)} of {len(ROWS)} second passes as in A1111, {unlike} unlike a first pass")
    assert different == [*AMBIGUOUS]


def test_the_syntax_of_comfyui_is_read_as_there() -> None:
    rows: list[dict[str, Any]] = REFERENCES["comfyui"]["rows"]
    different = [row["prompt"] for row in rows if ours(row["prompt"], Rules(Syntax.COMFYUI)) != [[*map(tuple, row["pieces"])]]]
    print(f"{len(rows)} prompts, {len(rows) - len(different)} weighed as in ComfyUI")
    assert len(rows) >= 60
    assert different == []
    assert not any(changes(row["prompt"], Rules(Syntax.COMFYUI)) for row in rows)


@pytest.mark.parametrize(
    ("prompt", "a1111", "comfyui"),
    [
        ("a (red:1.2) sun", False, False),
        ("a [red:blue:0.5] sun", True, True),
        ("a [red] sun", False, True),
        ("(a (red:1.2) sun:1.2)", False, True),
        ("a (red sun", True, False),
        ("a :)", False, False),
        ("a (red:12)", True, True),
        ("[a:b:3] | c", True, True),
    ],
)
def test_a_syntax_counts_where_it_changes_the_meaning(prompt: str, a1111: bool, comfyui: bool) -> None:
    assert (is_read_otherwise(prompt, Rules(Syntax.A1111)), is_read_otherwise(prompt, Rules(Syntax.COMFYUI))) == (a1111, comfyui)


@pytest.mark.parametrize("rules", [Rules(Syntax.HALFTONE), Rules(Syntax.A1111), Rules(Syntax.COMFYUI)])
def test_no_prompt_fails_in_any_syntax(rules: Rules) -> None:
    numbers = ("(a:1.2.3)", "(a:.)", "(a:1e999)", "(a:nan)", "(a:inf)", "(a:99999999999)")
    for text in ("(" * 9000, "(" * 1500 + "a" + ")" * 1500, "\\" * 99, " " * 99_999 + "a", *numbers):
        assert all(abs(part.weight) <= 1e6 for section in parse(text, rules) for part in section)
        assert at_step(text, 1, STEPS, rules) is not None


@pytest.mark.parametrize("syntax", [Syntax.HALFTONE, Syntax.A1111])
def test_emphasis_may_do_nothing_or_leave_brackets_as_text(syntax: Syntax) -> None:
    prompt = "a ((red)) [sea:sky:2] BREAK (b:0.3)"
    ignored = [["".join(part.text for part in section)] for section in parse(prompt, Rules(syntax, Emphasis.IGNORE))]
    assert ignored == [["a red sea:sky:2"], ["b"]]
    assert not is_weighted(prompt, Rules(syntax, Emphasis.IGNORE))
    assert parse(prompt, Rules(syntax, Emphasis.NONE)) == ((Part(prompt, 1.0),),)
    assert at_step(prompt, 1, STEPS, Rules(syntax, Emphasis.NONE)) == "a ((red)) sea BREAK (b:0.3)"


def test_prompts_are_composed_as_in_a1111() -> None:
    different = [row["prompt"] for row in ROWS if [*map(list, composed(row["prompt"], Rules(Syntax.A1111)))] != row["and"]]
    several = sum(len(row["and"]) > 1 for row in ROWS)
    weighed = sum(any(weight != 1 for _, weight in row["and"]) for row in ROWS)
    print(
        f"{len(ROWS)} prompts, {len(ROWS) - len(different)} composed as in A1111; {several} of several, {weighed} with a weight"
    )
    assert different == []


@pytest.mark.parametrize("row", [row for row in ROWS if len(row["and"]) > 1], ids=lambda row: row["prompt"])
def test_a_prompt_of_several_is_composed_in_halftones_syntax_too(row: dict[str, Any]) -> None:
    assert [list(part) for part in composed(row["prompt"])] == row["and"]
    assert notes((row["prompt"],), weights=True) == notes((row["prompt"].replace("AND", "and"),), weights=True)
    assert composed(row["prompt"], Rules(Syntax.COMFYUI)) == (Part(row["prompt"], 1.0),)


@pytest.mark.parametrize("text", [" " * 99_999 + ":", ":" * 9999, "a AND " * 9999, "AND", "a AND b:" + "9" * 999])
def test_any_composition_is_read(text: str) -> None:
    for rules in (OWN, Rules(Syntax.A1111), Rules(Syntax.COMFYUI)):
        assert all(abs(part.weight) <= 1e6 for part in composed(text, rules))


@pytest.mark.parametrize(
    ("prompt", "sections"),
    [("a BREAK BREAK b", [["a"], [], ["b"]]), ("BREAK BREAK", [[], [], []]), ("a \n BREAK\n\nBREAK b", [["a"], [], ["b"]])],
)
def test_two_breaks_leave_a_chunk_empty(prompt: str, sections: list[list[str]]) -> None:
    assert [[part.text for part in section] for section in parse(prompt)] == sections


def test_a_step_may_be_written_with_an_exponent() -> None:
    assert [at_step("[a:b:0.5e0]", step, 10) for step in (5, 6)] == ["a", "b"]
    assert [at_step("[a:b:1e400]", step, 10) for step in (1, 10)] == ["a", "a"]
