"""How much of a prompt a model reads."""

from msgspec.structs import replace

from halftone.library.models import POCKET, describe
from halftone.library.tokens import cut_prompt, make_counter, reading_length


def test_tokens_are_counted_with_the_models_own_tokenizer() -> None:
    pocket = describe(POCKET)
    count = make_counter(pocket)
    assert count is not None
    assert count("") == 0
    assert count("a red sun over green hills") == 6
    assert reading_length(pocket) == 75


def test_the_part_that_is_read_is_the_users_own_text() -> None:
    pocket = describe(POCKET)
    assert cut_prompt(pocket, "Sun " * 75) is None
    assert cut_prompt(pocket, "Sun  " * 74 + "Hills and red") == (77, "Sun  " * 74 + "Hills")


def test_without_a_tokenizer_nothing_is_said() -> None:
    other = replace(describe(POCKET), format="single-file", family="FLUX")
    assert make_counter(other) is None
    assert cut_prompt(other, "sun " * 100) is None
