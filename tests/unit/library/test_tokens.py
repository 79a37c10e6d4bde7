"""How much of a prompt a model reads."""

import json
import shutil
from pathlib import Path

from msgspec.structs import replace

from halftone.library.models import POCKET, describe
from halftone.library.prompts.tokens import cut_prompt, make_counter, reading_length, room_for


def test_tokens_are_counted_with_the_models_own_tokenizer() -> None:
    pocket = describe(POCKET)
    count = make_counter(pocket)
    assert count is not None
    assert count("", {}) == 0
    assert count("a red sun over green hills", {}) == 6
    assert reading_length(pocket) == 75


def test_a_model_that_reads_in_chunks_has_room_for_all() -> None:
    pocket = describe(POCKET)
    count = make_counter(pocket)
    assert count is not None
    for prompt, used, room in (
        ("", 0, 75),
        ("sun " * 75, 75, 75),
        ("sun " * 80, 80, 150),
        ("a (red:1.4) [sun]", 3, 75),
        ("red BREAK sun", 76, 150),
        ("a [red sun:" + "sun " * 80 + ":0.5]", 81, 150),
    ):
        assert (count(prompt, {}), room_for(pocket, used)) == (used, room), prompt
    assert cut_prompt(pocket, "Sun " * 76) is None


def test_an_embedding_takes_as_many_places_as_it_has_vectors() -> None:
    count = make_counter(describe(POCKET))
    assert count is not None
    words = {"learnt": 8, "other": 70}
    assert count("a (Learnt:1.2) sun", words) == 10
    assert count("red " * 10 + "other", words) == 75 + 70, "it is not cut"


def test_the_part_that_is_read_is_the_users_own_text() -> None:
    other = replace(describe(POCKET), family="Sana")
    count = make_counter(other)
    assert count is not None
    assert (count("(Sun:1.3) " * 80, {}), room_for(other, 80)) == (80, 75)
    assert cut_prompt(other, "Sun " * 75) is None
    assert cut_prompt(other, "Sun  " * 74 + "Hills and red") == (77, "Sun  " * 74 + "Hills")


def test_without_a_tokenizer_nothing_is_said() -> None:
    other = replace(describe(POCKET), format="single-file", family="FLUX")
    assert make_counter(other) is None
    assert cut_prompt(other, "sun " * 100) is None


T5 = {
    "model": {
        "type": "Unigram",
        "unk_id": 2,
        "vocab": [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -3.0], ["▁sun", -1.0], *([one, -2.0] for one in "sunset")],
    },
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
}
"""A tokenizer of T5's kind, which has no word that CLIP's has but one."""


def test_flux_counts_what_t5_reads_and_nothing_without_its_tokenizer(tmp_path: Path) -> None:
    shutil.copytree(Path(describe(POCKET).path) / "tokenizer", tmp_path / "tokenizer")
    flux = replace(describe(POCKET), family="FLUX", path=str(tmp_path), prompt_tokens=512)
    assert make_counter(flux) is None, "CLIP's is there, but CLIP does not read it word by word"
    assert cut_prompt(flux, "sunset " * 600) is None
    (tmp_path / "tokenizer_2").mkdir()
    (tmp_path / "tokenizer_2" / "tokenizer.json").write_text(json.dumps(T5), encoding="utf-8")
    count = make_counter(flux)
    assert count is not None
    assert count("sunset", {}) == 4, "▁sun s e t"
    assert (reading_length(flux), room_for(flux, 4)) == (511, 511)
    assert cut_prompt(flux, "sunset " * 127 + "sunset") == (512, "sunset " * 127 + "sunse")
