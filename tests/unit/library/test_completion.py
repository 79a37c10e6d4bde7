"""What is offered while a prompt is typed."""

from dataclasses import replace
from pathlib import Path

import pytest

from halftone.contract.errors import HalftoneError
from halftone.library.prompts.completion import Known, offers, typed_at
from halftone.library.prompts.tag_files import Tags, in_prompt, read_tags

TAGS = Tags(
    [
        ("long_hair", 900, ("longhair", "Lång hår")),
        ("looking_at_viewer", 800, ()),
        ("lotus", 10, ("long_flower",)),
        ("miku_(vocaloid)", 50, ("hatsune",)),
        ("^_^", 7, ()),
    ]
)
KNOWN = Known(("Ink wash", "soft ink", "Grain"), ("colour", "places/town"), ("EasyNegative", "bad hands"), TAGS)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("a <lora:", ["<lora:Grain:1>", "<lora:Ink wash:1>", "<lora:soft ink:1>"]),
        ("a <lora:ink", ["<lora:Ink wash:1>", "<lora:soft ink:1>"]),
        ("a <LoRA:GR", ["<lora:Grain:1>"]),
        ("<lora:ink:0.8> ", []),
        ("<lora:ink:", []),
        ("a __", ["__colour__", "__places/town__"]),
        ("a __tow", ["__places/town__"]),
        ("a __colour__", []),
        ("a __colour__, __co", ["__colour__"]),
        ("lo", ["long hair", "looking at viewer", "lotus"]),
        ("a girl, long h", ["long hair"]),
        ("a girl with long", ["long hair", "lotus"]),
        ("a girl with long ha", ["long hair", "miku \\(vocaloid\\)"]),
        ("longh", ["long hair"]),
        ("lång", ["long hair"]),
        ("(lotu", ["lotus"]),
        ("lotus", []),
        ("miku", ["miku \\(vocaloid\\)"]),
        ("easy", ["EasyNegative"]),
        ("l", []),
        ("", []),
        ("a sun,\nlot", ["lotus"]),
    ],
)
def test_what_is_offered_at_the_end_of_a_text(text: str, offered: list[str]) -> None:
    assert [one.text for one in offers(text, len(text), KNOWN)] == offered


@pytest.mark.parametrize(
    ("text", "marked", "offered"),
    [
        ("a easy", True, ["embedding:EasyNegative"]),
        ("a embedding:ea", True, ["embedding:EasyNegative"]),
        ("a (embedding:", True, ["embedding:EasyNegative"]),
        ("bad", True, []),
        ("embedding:EasyNegative", True, []),
        ("a embedding:ba", False, ["bad hands"]),
        ("myembedding:ea", False, ["EasyNegative"]),
    ],
)
def test_an_embedding_is_written_as_the_syntax_wants_it(text: str, marked: bool, offered: list[str]) -> None:
    assert [one.text for one in offers(text, len(text), replace(KNOWN, marked=marked))] == offered


def test_what_stands_behind_the_cursor_does_not_count() -> None:
    text = "lo, a <lora:x:1>"
    assert [one.name for one in offers(text, 2, KNOWN)] == ["long_hair", "looking_at_viewer", "lotus"]
    (first,) = typed_at(text, 2)
    assert (first.start, first.text) == (0, "lo")


def test_an_alias_is_named() -> None:
    (offer,) = offers("hats", 4, KNOWN)
    assert (offer.name, offer.alias, offer.uses) == ("miku_(vocaloid)", "hatsune", 50)


@pytest.mark.parametrize(("name", "text"), [("long_hair", "long hair"), ("^_^", "^_^"), ("o_o", "o_o"), ("a_(b)", "a \\(b\\)")])
def test_a_tag_is_written_as_a_prompt_has_it(name: str, text: str) -> None:
    assert in_prompt(name) == text


def test_a_file_is_read_with_what_others_write(tmp_path: Path) -> None:
    file = tmp_path / "danbooru.csv"
    text = 'name,category,count,aliases\n1girl,0,5000,"1girls,sole_female"\n\nlong_hair,0,4000,\nshort,0\n,0,3,\nodd,0,many,x\n'
    file.write_text(text, encoding="utf-8")
    tags = read_tags(file)
    assert [one.name for one in tags.beginning("1", 5)] == ["1girl"]
    assert tags.beginning("sole f", 5)[0].alias == "sole_female"
    assert tags.beginning("short", 5)[0].uses == 0
    assert tags.beginning("odd", 5) == []
    assert len(tags) == 5


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError) as gone:
        read_tags(tmp_path / "none.csv")
    assert gone.value.code == "words-unreadable"
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HalftoneError):
        read_tags(tmp_path / "bytes.csv")
