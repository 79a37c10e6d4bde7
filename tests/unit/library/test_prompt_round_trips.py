"""Prompts that go through a picture's text and the window, and prompts of a hundred thousand letters."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import samples
from tests.helpers.pictures import picture_facts, resolved

from halftone.contract.request import Numerics, PictureRequest
from halftone.health.pictures.imported_settings import Known, import_settings
from halftone.library.add_ons.loras import has_tags, without_tags
from halftone.library.prompts.composed_prompts import composed
from halftone.library.prompts.prompt_chunks import split_text
from halftone.library.prompts.prompt_syntax import OWN, Rules, Syntax, at_step, notes, parse, rules_of
from halftone.metadata.parameters import a1111_text
from halftone.metadata.reading import parse_parameters
from halftone.session.pictures.draft import Draft, from_request, to_request
from halftone.settings.store import Settings

PIECES: Final = st.sampled_from(
    ["a", "sun", "(", ")", "[", "]", ":", "|", "\\", "\\(", ", ", " ", "\n", "1.2", "0.5", ":1.3)", " AND ", " BREAK ", "（",
     "：", "😀", "embedding:x", '"', "<", ">", "{", "}", "__", "Steps: 3", "[a:b:0.5]", "[a|b]", "(a:1.2)"]
)  # fmt: skip
PROMPTS: Final = st.lists(PIECES, max_size=20).map("".join).map(str.strip)
NOW: Final = PictureRequest(prompt="", model=samples.POCKET.id)


def read(prompt: str, rules: Rules) -> list[object]:
    """All that a prompt comes to: its parts, and the weighed words of each at every step."""
    steps = range(1, 5)
    return [
        (part.weight, [parse(at_step(part.text, step, 4, rules), rules) for step in steps]) for part in composed(prompt, rules)
    ]


def returned(prompt: str, negative: str, syntax: Syntax) -> PictureRequest:
    """The request that the window makes of a picture of such prompts."""
    request = resolved(prompt=prompt, negative=negative, options={"prompt_syntax": int(syntax)} if syntax else {})
    said = parse_parameters(a1111_text(request, picture_facts()))
    taken = import_settings(said, NOW, Known(models=(samples.POCKET,))).request
    draft = from_request(Draft(), taken, samples.POCKET.id)
    return to_request(draft, Settings(last_model=samples.POCKET.id), Numerics(), samples.POCKET)


@given(prompt=PROMPTS, negative=PROMPTS, syntax=st.sampled_from(Syntax))
@settings(max_examples=150, deadline=None)
def test_a_prompt_comes_back_from_a_picture_as_it_was_read(prompt: str, negative: str, syntax: Syntax) -> None:
    request = returned(prompt, negative, syntax)
    assert rules_of(request.options).syntax is syntax
    for written, own in ((prompt, request.prompt), (negative, request.negative)):
        lines = "\n".join(map(str.strip, written.split("\n")))  # A1111 writes them so, and no encoder reads the difference
        assert read(own, rules_of(request.options)) == read(lines, Rules(syntax)), written


NASTY: Final = (
    "(", ")", "[", "((a:1.2)", "[a:b:", "[a|", "a|", ":", "\\", "\\(", "AND ", " AND", "BREAK ", "embedding:", " embedding:a,",
    ",", "<lora:", "<lora:a:1:1:", "（a：", "(a：1.2)", "{a|", "__", "<hypernet:", " ", "\n", "a:1 ", ":1.2)", "[[",
    "(()", "])", "1",
)  # fmt: skip


def lines_run(work: Callable[[], object]) -> int:
    """Lines of Python that some work runs, which do not depend on the load of the machine."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # pyright: ignore[reportArgumentType]
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def all_of(text: str, rules: Rules) -> None:
    for part in composed(text, rules):
        now = at_step(part.text, 3, 20, rules)
        parse(now, rules)
        split_text(now, rules, lambda words: [1] * len(words.split()), None, 75)
    notes((text, text), weights=True, rules=rules)
    has_tags(text)
    without_tags(text)


@pytest.mark.parametrize("rules", [OWN, Rules(Syntax.A1111), Rules(Syntax.COMFYUI)], ids=lambda rules: rules.syntax.name)
def test_work_grows_with_the_length_of_a_prompt_alone(rules: Rules) -> None:
    for piece in NASTY:
        short, long = (lines_run(partial(all_of, piece * (length // len(piece)), rules)) for length in (1_000, 4_000))
        assert long <= 5 * short + 2_000, f"{piece!r}: {short} lines, then {long}"


def test_a_hundred_thousand_letters_are_read() -> None:
    """A step of a regular expression is no line of Python, so that one that is not linear shows here: it takes minutes."""
    for piece, syntax in (
        ("[a:b:", Syntax.A1111),
        ("(", Syntax.HALFTONE),
        ("<lora:a:1:1:", Syntax.HALFTONE),
        ("（a：", Syntax.HALFTONE),
        (" embedding:a,", Syntax.COMFYUI),
    ):
        all_of(piece * (100_000 // len(piece)), Rules(syntax))


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("（红色：1.3），a", "Full-width"),
        ("(红色：1.3)", "Full-width"),
        ("（a:1.2）", "Full-width"),
        ("a（b）：c", ""),
        ("<lora:>", "<lora:name:weight>"),
        ("a <lora:x, b", "<lora:name:weight>"),
        ("＜lora：x：1＞", "<lora:name:weight>"),
        ("<lora:x:0.8> a <lyco:y:1:1:2>", ""),
        ("a <loranthus> b", ""),
    ],
)
def test_what_is_nearly_a_sign_is_named(prompt: str, said: str) -> None:
    found = " ".join(map(str, notes((prompt, ""), weights=True)))
    assert said in found if said else not found
