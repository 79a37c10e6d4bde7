"""Textual inversions on disk and in a prompt; no torch."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import HalftoneError
from halftone.library.inversions import MOST, check_inversions, inner, named_in, names_any, places, read_inversion, with_words
from halftone.library.prompt_chunks import split_prompt
from halftone.library.prompt_syntax import parse

ROOM = 75


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
    assert (one.name, one.base, one.vectors, one.tensors) == ("easynegative", "Stable Diffusion 1.x", 8, {"": "emb_params"})
    two = read_inversion(str(folder / "xl.v2.safetensors"))
    assert (two.name, two.base, two.vectors) == ("xl.v2", "SDXL", 2)
    assert two.tensors == {"clip_l": "clip_l", "clip_g": "clip_g"}


def test_one_vector_may_have_one_dimension(tmp_path: Path) -> None:
    assert read_inversion(put(tmp_path / "one.safetensors", emb_params=ramp(768))).vectors == 1


@pytest.mark.parametrize(
    ("name", "content", "code", "word"),
    [
        ("gone.safetensors", None, "inversion-missing", "gone"),
        ("old.pt", b"PK", "inversion-not-one", "pickle"),
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
        check_inversions([str(file)])
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
    named = named_in(("", text), [str(folder)], "Stable Diffusion 1.x")
    assert sorted(Path(path).stem for path in named) == sorted(found), "of another base, and of another kind, none is taken"


def test_one_of_the_models_own_base_is_taken(folder: Path) -> None:
    assert [Path(path).stem for path in named_in(("xl.v2, easynegative",), [str(folder)], "SDXL")] == ["xl.v2"]


def test_a_file_that_was_given_goes_before_one_of_its_name(folder: Path, tmp_path: Path) -> None:
    given_file = str(tmp_path / "mine" / "EasyNegative.safetensors")
    assert named_in(("easynegative",), [str(folder)], "Stable Diffusion 1.x", (given_file,)) == (given_file,)


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


def test_names_any_takes_no_pattern_for_a_name() -> None:
    assert not names_any("aXb", ["a.b"])
    assert names_any("a.b", ["a.b"])
    assert not names_any("anything", [])
