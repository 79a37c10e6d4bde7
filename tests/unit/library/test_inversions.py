"""Textual inversions on disk and in a prompt; no torch."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import HalftoneError
from halftone.library.add_ons.inversions import (
    MOST,
    inner,
    list_inversions,
    named_in,
    names_any,
    places,
    read_inversion,
    with_words,
)
from halftone.library.add_ons.unread_inversions import unread_notes
from halftone.library.prompts.prompt_chunks import split_prompt, split_text
from halftone.library.prompts.prompt_syntax import OWN, Rules, Syntax, parse
from halftone.library.prompts.tokens import clip_tokenizer

ROOM = 75
SD = replace(samples.POCKET, family="Stable Diffusion 1.x", format="single-file")


def put(path: Path, **tensors: np.ndarray) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(safetensors(tensors))
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three that are, one for each base, and a LoRA of such a name."""
    put(tmp_path / "easynegative.safetensors", emb_params=ramp(8, 768))
    put(tmp_path / "deep" / "bad-hands-5.safetensors", emb_params=ramp(4, 768))
    put(tmp_path / "xl.v2.safetensors", clip_l=ramp(2, 768), clip_g=ramp(2, 1280))
    put(tmp_path / "sun.safetensors", **{"lora_unet_mid_block_attentions_0_proj_in.lora_down.weight": ramp(4, 8)})
    return tmp_path


def test_what_a_header_tells(folder: Path) -> None:
    one = read_inversion(str(folder / "easynegative.safetensors"))
    assert (one.name, one.widths, one.vectors, one.tensors) == ("easynegative", {"": 768}, 8, {"": "emb_params"})
    two = read_inversion(str(folder / "xl.v2.safetensors"))
    assert (two.name, two.widths, two.vectors) == ("xl.v2", {"clip_l": 768, "clip_g": 1280}, 2)
    assert two.tensors == {"clip_l": "clip_l", "clip_g": "clip_g"}


def test_one_vector_may_have_one_dimension(tmp_path: Path) -> None:
    assert read_inversion(put(tmp_path / "one.safetensors", emb_params=ramp(768))).vectors == 1


@pytest.mark.parametrize(
    ("name", "content", "code", "word"),
    [
        ("gone.safetensors", None, "inversion-missing", "gone"),
        ("old.pt", b"PK", "model-pickle", "pickle"),
        ("cut.safetensors", b"\x10\0\0", "model-truncated", "cut"),
        ("lora.safetensors", safetensors({"lora_te_x.lora_down.weight": ramp(4, 8)}), "inversion-not-one", "LoRA"),
        ("much.safetensors", safetensors({"emb_params": ramp(MOST + 1, 768)}), "inversion-not-one", str(MOST)),
        ("none.safetensors", safetensors({"emb_params": np.zeros((0, 768), np.float16)}), "inversion-not-one", "vectors"),
        ("other.safetensors", safetensors({"a.b.weight": ramp(4, 8)}), "inversion-not-one", "names"),
    ],
)
def test_what_is_none_is_told(tmp_path: Path, name: str, content: bytes | None, code: str, word: str) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(HalftoneError) as caught:
        read_inversion(str(file))
    assert caught.value.code == code
    assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a sun, EasyNegative", ["easynegative"]),
        ("(embedding:easynegative:1.2), (bad-hands-5:0.8)", ["easynegative", "bad-hands-5"]),
        ("easynegatives, my-easynegative, bad-hands-55, bad-hands", []),
        ("xl.v2 and sun", []),
        ("", []),
    ],
)
def test_a_prompt_names_them_by_their_files(folder: Path, text: str, found: list[str]) -> None:
    named = named_in(("", text), [str(folder)], SD)
    assert sorted(Path(path).stem for path in named) == sorted(found), "of another base, and of another kind, none is taken"


def test_one_of_the_models_own_base_is_taken(folder: Path) -> None:
    named = named_in(("xl.v2, easynegative",), [str(folder)], replace(SD, family="SDXL"))
    assert [Path(path).stem for path in named] == ["xl.v2"]


def test_a_file_that_was_given_goes_before_one_of_its_name(folder: Path, tmp_path: Path) -> None:
    given_file = str(tmp_path / "mine" / "EasyNegative.safetensors")
    assert named_in(("easynegative",), [str(folder)], SD, (given_file,)) == (given_file,)


def test_their_tokens_count_from_the_end() -> None:
    learned = places({"a": 2, "b": 3})
    assert learned == {"a": (-5, -4), "b": (-3, -2, -1)}
    assert inner(learned) == {-4, -2, -1}


def test_names_stand_for_their_tokens() -> None:
    encode = with_words(lambda text: [len(word) for word in text.split()], places({"sun": 2, "sun set": 1}))
    assert list(encode("the sun is a Sun Set, sunny")) == [3, -3, -2, 2, 1, -1, 1, 5]
    assert list(encode("  ")) == []


@given(st.lists(st.sampled_from(["x", "word", ","]), max_size=200), st.integers(1, ROOM))
def test_a_prompt_is_never_cut_inside_one(words: list[str], size: int) -> None:
    learned = places({"word": size})
    encode = with_words(lambda text: [ord(letter) for letter in text.replace(" ", "")], learned)
    chunks = split_prompt(parse(" ".join(words)), encode, ord(","), ROOM, inner(learned))
    assert all(len(chunk.ids) <= ROOM for chunk in chunks)
    assert all(not chunk.ids or chunk.ids[0] not in inner(learned) for chunk in chunks)
    assert sum(len(chunk.ids) for chunk in chunks) == len(list(encode(" ".join(words)))), "nothing is lost"


def test_an_ordinary_word_takes_no_file_that_the_model_cannot_read(tmp_path: Path) -> None:
    put(tmp_path / "cat.safetensors", t5xxl=ramp(4, 4096))
    put(tmp_path / "dog.safetensors", emb_params=ramp(4, 1280))
    put(tmp_path / "sun.safetensors", clip_l=ramp(2, 768), clip_g=ramp(2, 1280))
    words, folders = ("a cat, a dog and a sun",), [str(tmp_path)]
    found = {
        family: sorted(Path(path).stem for path in named_in(words, folders, replace(SD, family=family)))
        for family in ("Stable Diffusion 1.x", "Stable Diffusion 2.x", "SDXL", "SDXL refiner", "FLUX")
    }
    assert found == {
        "Stable Diffusion 1.x": [],
        "Stable Diffusion 2.x": [],
        "SDXL": ["sun"],
        "SDXL refiner": ["dog", "sun"],
        "FLUX": [],
    }


def test_a_name_with_brackets_is_written_as_a_prompt_writes_brackets(tmp_path: Path) -> None:
    put(tmp_path / "easy (1).safetensors", emb_params=ramp(4, 768))
    assert named_in(("easy (1)",), [str(tmp_path)], SD) == (), "a weight, and no name"
    assert len(named_in((r"(easy \(1\):1.2)",), [str(tmp_path)], SD)) == 1
    assert len(named_in((r"[a:easy \(1\):0.9]",), [str(tmp_path)], SD)) == 1


def test_what_is_as_large_as_a_model_is_not_even_read(tmp_path: Path) -> None:
    file = Path(put(tmp_path / "easy.safetensors", emb_params=ramp(4, 768)))
    assert [one.name for one in list_inversions([str(tmp_path), str(tmp_path)])] == ["easy"], "once"
    with file.open("r+b") as opened:
        opened.truncate(2**24)
    assert list_inversions([str(tmp_path)]) == ()


A1111, COMFYUI = Rules(Syntax.A1111), Rules(Syntax.COMFYUI)


@pytest.mark.parametrize(
    ("text", "halftone", "a1111", "comfyui"),
    [
        ("a cat", "a *", "a *", "a cat"),
        ("my-cat, cat", "my - cat , *", "my - * , *", "my - cat , cat"),
        ("category", "category", "category", "category"),
        ("xkcdcat", "x|k|cd|cat", "x|k|cd|*", "x|k|cd|cat"),
        ("embedding:cat, b", "* , b", "embed|ding : * , b", "* , b"),
        ("a embedding:cat.safetensors", "a * . safe|ten|s|ors", "a embed|ding : * . safe|ten|s|ors", "a *"),
        ("(embedding:cat)", "( * )", "( embed|ding : * )", "( embed|ding : cat )"),
        ("a xembedding:cat", "a x|embed|ding : *", "a x|embed|ding : *", "a x|embed|ding : cat"),
        ("bad - hands - 5", "bad - hands - 5", "*", "bad - hands - 5"),
    ],
)
def test_each_syntax_finds_them_in_its_way(text: str, halftone: str, a1111: str, comfyui: str) -> None:
    """* stands for an embedding; a bar divides the tokens of a word."""

    def tokens(text: str) -> list[int]:
        return clip_tokenizer().encode(text, add_special_tokens=False).ids

    def shown(rules: Rules) -> str:
        read = with_words(tokens, {"cat": (-1,), "bad-hands-5": (-1,)}, rules)(text)
        names = ["* " if token < 0 else clip_tokenizer().id_to_token(token) or "" for token in read]
        return "".join(name if name.endswith(("</w>", " ")) else f"{name}|" for name in names).replace("</w>", " ").strip()

    assert (shown(OWN), shown(A1111), shown(COMFYUI)) == (halftone, a1111, comfyui)
    for rules in (OWN, A1111, COMFYUI):
        if "*" in shown(rules):
            assert names_any(text, ("cat", "bad-hands-5"), rules)


def test_a_file_is_taken_where_the_syntax_finds_it(folder: Path) -> None:
    def found(text: str, rules: Rules) -> list[str]:
        return sorted(Path(path).stem for path in named_in((text,), [str(folder)], SD, rules=rules))

    assert found("my-easynegative, bad - hands - 5", A1111) == ["bad-hands-5", "easynegative"]
    assert found("easynegatives bad-hands", A1111) == []
    assert found("easynegative, (embedding:bad-hands-5:1.2), (x embedding:easynegative)", COMFYUI) == [
        "bad-hands-5",
        "easynegative",
    ]
    assert found("easynegative, xembedding:bad-hands-5", COMFYUI) == []


def test_one_that_straddles_a_chunk_is_moved_without_the_words_before_it() -> None:
    """As in A1111 (modules/sd_hijack_clip.py, tokenize_line), which goes back to a comma only for words."""
    learned = places({"word": 8})
    encode = with_words(lambda text: [ord(letter) for letter in text.replace(" ", "")], learned)
    chunks = split_prompt(parse("x" * 64 + ", yyyy word z"), encode, ord(","), ROOM, inner(learned))
    assert [len(chunk.ids) for chunk in chunks] == [69, 9]


def test_comfyui_cuts_around_them() -> None:
    """comfy/sd1_clip.py: an embedding is a group of its own, which is cut if it is long."""
    learned = places({"word": 10, "short": 5})
    encode = with_words(lambda text: [ord(letter) for letter in text.replace(" ", "")], learned, COMFYUI)

    def sizes(text: str) -> list[int]:
        return [len(chunk.ids) for chunk in split_text(text, COMFYUI, encode, None, ROOM)]

    assert sizes("x" * 70 + " embedding:word, y") == [75, 7]
    assert sizes("x" * 72 + " embedding:short, y") == [72, 7]


def test_names_any_takes_no_pattern_for_a_name() -> None:
    assert not names_any("aXb", ["a.b"])
    assert names_any("a.b", ["a.b"])
    assert not names_any("anything", [])


@pytest.mark.parametrize(
    ("text", "syntax", "said"),
    [
        ("a easynegative", Syntax.HALFTONE, ()),
        ("(embedding:easynegative:1.2) embedding:BAD-HANDS-5", Syntax.HALFTONE, ()),
        ("(embedding:cat:1.2)", Syntax.HALFTONE, ("“embedding:cat” is read as words: no embedding cat for this model",)),
        ("xembedding:cat, my-embedding:cat, embedding: cat", Syntax.HALFTONE, ()),
        ("embedding:cat", Syntax.A1111, ("“embedding:cat” is read as words, as in A1111. Write cat alone",)),
        ("embedding:easynegative.pt", Syntax.A1111, ("“embedding:easynegative.pt” is read as words, as in A1111",)),
        ("embedding:cat", Syntax.COMFYUI, ()),
        ("xl.v2", Syntax.HALFTONE, ("“xl.v2” is read as words: this embedding does not fit Pocket",)),
        ("embedding:xl.v2", Syntax.HALFTONE, ("“xl.v2” is read as words: this embedding does not fit Pocket",)),
        ("an old.thing", Syntax.HALFTONE, ("“old.thing” is read as words: Halftone does not open ",)),
        ("embedding:old.thing", Syntax.HALFTONE, ("“old.thing” is read as words: Halftone does not open ",)),
        ("bad-hands-5", Syntax.HALFTONE, ()),
    ],
)
def test_what_is_named_and_not_read_is_noted(folder: Path, text: str, syntax: Syntax, said: tuple[str, ...]) -> None:
    (folder / "old.thing.pt").write_bytes(b"PK")
    (folder / "bad-hands-5.bin").write_bytes(b"PK")
    files = [str(folder / "easynegative.safetensors"), str(folder / "deep" / "bad-hands-5.safetensors")]
    notes = [str(note) for note in unread_notes((text, ""), files, (), [str(folder)], SD, Rules(syntax))]
    assert [note.startswith(start) for note, start in zip(notes, said, strict=True)] == [True] * len(said), notes


@pytest.mark.parametrize(("shelf", "noted"), [("embeddings", 1), ("hypernetworks", 0), ("VAE", 0), ("ESRGAN", 0)])
def test_a_word_that_is_called_like_a_pickle_of_another_kind_is_just_a_word(folder: Path, shelf: str, noted: int) -> None:
    (folder / shelf).mkdir()
    (folder / shelf / "anime.pt").write_bytes(b"PK")
    assert len(unread_notes(("an anime girl",), (), (), [str(folder)], SD, OWN)) == noted


def test_a_model_of_another_width_says_which_width_it_reads(folder: Path) -> None:
    narrow = replace(SD, family="Stable Diffusion 2.x")
    (note,) = unread_notes(("easynegative",), (), (), [str(folder)], narrow, OWN)
    assert str(note) == (
        "“easynegative” is read as words: this embedding does not fit Pocket: its vectors have 768 values, "
        "the model's 1024. Use a model that it was trained for."
    )
