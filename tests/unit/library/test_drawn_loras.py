"""LoRAs in alternatives and wildcards: read from the words of each picture, and refused where one of them is not there."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import HalftoneError
from halftone.contract.request import PictureRequest, Style
from halftone.library.add_ons.loras import known_loras, take_tags
from halftone.library.prompts.drawn_prompts import check_drawn_loras, drawn_loras, may_draw_loras, spoken

Asked = Callable[..., PictureRequest]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    loras, words = tmp_path / "loras", tmp_path / "words"
    for folder in (loras, words):
        folder.mkdir()
    for name in ("ink", "sepia", "my__best__one"):
        (loras / f"{name}.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    (words / "look.txt").write_text("old <lora:sepia:0.5>\n{new|} <lora:ink>\n")
    (words / "lost.txt").write_text("plain\n<lora:gone:1>\n")

    def make(prompt: str, *styles: str, draws: bool = True) -> PictureRequest:
        named = tuple(Style(name=f"style {style}", prompt=style) for style in styles)
        return PictureRequest(prompt=prompt, styles=named, draws=draws, wildcards=(str(words),), lora_folders=(str(loras),))

    return make


@pytest.mark.parametrize(
    ("prompt", "pairs"),
    [
        ("{<lora:ink:0.5>|<lora:sepia:0.25>} sun", {("sun", "ink 0.5"), ("sun", "sepia 0.25")}),
        ("sun {<lora:ink>|}", {("sun", "ink 1"), ("sun ", "")}),
        ("sun <lora:{ink|sepia}:1>", {("sun", "ink 1"), ("sun", "sepia 1")}),
        ("a __look__ sun", {("a old sun", "sepia 0.5"), ("a new sun", "ink 1"), ("a sun", "ink 1")}),
        ("{2$$ $$<lora:ink>|<lora:sepia>} sun", {("sun", "ink 1, sepia 1"), ("sun", "sepia 1, ink 1")}),
        ("{a|b} sun", {("a sun", ""), ("b sun", "")}),
    ],
)
def test_each_picture_has_those_that_its_words_name(asked: Asked, prompt: str, pairs: set[tuple[str, str]]) -> None:
    request = asked(prompt)
    loras = drawn_loras(request, range(60))
    named = [", ".join(f"{lora.name} {lora.weight:g}" for lora in several) for several in loras]
    said = [spoken(request, seed)[0] for seed in range(60)]
    assert set(zip(said, named, strict=True)) == pairs
    assert may_draw_loras(request) == any(named)
    check_drawn_loras(request)


def test_those_of_a_style_are_drawn_with_it(asked: Asked) -> None:
    request = asked("sun", "{prompt} in {<lora:ink>|<lora:sepia>}")
    assert {lora.name for (lora,) in drawn_loras(request, range(20))} == {"ink", "sepia"}


def test_without_draws_there_are_none_of_their_own(asked: Asked) -> None:
    assert not may_draw_loras(asked("{<lora:ink>|<lora:gone>}", draws=False))


@pytest.mark.parametrize("prompt", ["{<lora:gone>|a} sun", "a __lost__", "{{<lora:gone>|a}|b}", "{a|<lora:../gone:1>}"])
def test_one_that_is_not_there_is_told_whatever_the_seed(asked: Asked, prompt: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        check_drawn_loras(asked(prompt))
    assert caught.value.code == "lora-unknown"
    assert "gone in " in str(caught.value)


@pytest.mark.parametrize(
    ("prompt", "left", "taken"),
    [
        ("<lora:ink:0.5> a {<lora:sepia>|b} sun", "a {<lora:sepia>|b} sun", ["ink"]),
        ("a <lora:{ink|sepia}:1> sun", "a <lora:{ink|sepia}:1> sun", []),
        ("a <lora:ink:{0.5|1}>", "a <lora:ink:{0.5|1}>", []),
        ("a <lora:__look__:1>", "a <lora:__look__:1>", []),
        ("a <lora:my__best__one:1>", "a", ["my__best__one"]),
        (r"a \{<lora:ink>\}", r"a \{\}", ["ink"]),
        ("{a|b <lora:ink>", "{a|b", ["ink"]),
    ],
)
def test_what_every_picture_has_is_taken_at_once(asked: Asked, prompt: str, left: str, taken: list[str]) -> None:
    folders = asked("").lora_folders or ()
    rest, loras = take_tags(prompt, known_loras(folders), folders, draws=True)
    assert (rest, [lora.name for lora in loras]) == (left, taken)
