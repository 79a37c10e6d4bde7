"""Embeddings in ComfyUI's syntax: where they are recognised, and what happens with those that are not there."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Lora
from halftone.library.add_ons.inversions import named_in, unknown_names
from halftone.library.add_ons.unread_inversions import check_named
from halftone.library.prompts.comfyui_words import comfy_pieces, named_embeddings
from halftone.library.prompts.prompt_syntax import OWN, Rules, Syntax

COMFYUI = Rules(Syntax.COMFYUI)
SD = replace(samples.POCKET, family="Stable Diffusion 1.x", format="single-file")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a red sun", ["a red sun"]),
        ("embedding:cat", ["embedding:cat"]),
        ("a embedding:cat, b", ["a", "embedding:cat", ", b"]),
        ("a\nembedding:cat  b   c", ["a", "embedding:cat", "b c"]),
        ("a, embedding:cat,, b", ["a,", "embedding:cat", ",, b"]),
        ("embedding: cat b", ["embedding:cat", "b"]),
        ("embedding:a embedding:b.pt", ["embedding:a", "embedding:b.pt"]),
        ("xembedding:cat", ["xembedding:cat"]),
        ("embedding:", ["embedding:"]),
        ("  a  b ", ["  a  b "]),
        ("", []),
    ],
)
def test_a_text_is_cut_as_in_comfyui(text: str, pieces: list[str]) -> None:
    assert list(comfy_pieces(text)) == pieces


def test_a_name_is_that_of_a_file() -> None:
    text = "embedding:cat embedding:cat.pt embedding:Cat.SafeTensors embedding:my/dir/cat.bin embedding:my\\cat embedding:cat.v2"
    assert named_embeddings(text) == ("cat", "cat", "Cat", "cat", "cat", "cat.v2")


def test_work_grows_with_the_length_alone() -> None:
    for text in ("embedding:" * 10_000, "embedding:" + "," * 100_000 + "x", " embedding:," * 8_000, "embedding:" + " " * 100_000):
        assert sum(map(len, comfy_pieces(text))) <= len(text) + 20


def refusal(text: str, *files: str, loras: tuple[Lora, ...] = (), family: str = SD.family) -> str | None:
    try:
        check_named((text, ""), files, loras, replace(SD, family=family), COMFYUI)
    except HalftoneError as error:
        return error.code
    return None


def test_an_unknown_one_is_refused_and_a_known_one_is_used(tmp_path: Path) -> None:
    file = tmp_path / "words" / "cat.safetensors"
    file.parent.mkdir()
    file.write_bytes(safetensors({"emb_params": ramp(2, 768)}))
    for text in ("a embedding:cat", "(embedding:cat.pt:1.3), b", "embedding:sub/cat.safetensors, b", "a\nembedding:CAT"):
        named = named_in((text, ""), [str(tmp_path)], SD, rules=COMFYUI)
        assert named == (str(file),), text
        assert refusal(text, *named) is None
    for text in ("embedding:dog", "(embedding:dog:1.2)", "embedding:cat embedding:dog.pt", "((a embedding:x/dog, b))"):
        assert refusal(text, str(file)) == "inversion-unknown", text
    with pytest.raises(HalftoneError, match="no embedding dog for Pocket"):
        check_named(("embedding:dog.pt",), (), (), SD, COMFYUI)


def test_one_that_cannot_be_used_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "wide.safetensors").write_bytes(safetensors({"emb_params": ramp(2, 1024)}))
    (tmp_path / "old.pt").write_bytes(b"PK\x03\x04")
    (tmp_path / "page.pt").write_bytes(b"<html>")
    for text, code in (
        ("embedding:wide", "inversion-other-base"),
        ("embedding:old.pt", "model-pickle"),
        ("embedding:page.pt", "model-bad-header"),
    ):
        with pytest.raises(HalftoneError) as caught:
            check_named((text,), (), (), SD, COMFYUI, [str(tmp_path)])
        assert caught.value.code == code


def test_words_stay_words() -> None:
    for text in ("embeddings: a", "xembedding:dog", r"\(embedding:dog\)", "embedding:"):
        assert refusal(text) is None, text
    assert unknown_names(("embedding:dog",), (), OWN) == (), "Halftone and A1111 know no such mark"


def test_a_model_without_embeddings_says_so() -> None:
    assert refusal("a embedding:dog", family="FLUX") == "inversion-other-base"


def test_one_in_a_lora_is_known(tmp_path: Path) -> None:
    lora = tmp_path / "cat.safetensors"
    lora.write_bytes(safetensors({"bundle_emb.dog.string_to_param.*": ramp(2, 768)}))
    assert refusal("embedding:dog", loras=(Lora(path=str(lora)),)) is None
    assert refusal("embedding:fox", loras=(Lora(path=str(lora)),)) == "inversion-unknown"
