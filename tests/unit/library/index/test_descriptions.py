"""What other programs wrote about a model is read from each of their files, and nothing in them can do harm."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.model_files import write_json

from halftone.library.index.descriptions import NOTHING, described

SHA = "ab" * 32
FILES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "m.json": (
        {
            "description": "soft light",
            "sd version": "SDXL",
            "activation text": "hlf style, glow",
            "preferred weight": 0.7,
            "notes": "",
        },
        {"triggers": ("hlf style", "glow"), "base": "SDXL", "notes": "soft light", "weight": 0.7},
    ),
    "m.civitai.info": (
        {
            "name": "v2",
            "model": {"name": "Harbor"},
            "trainedWords": ["harbor ", "sea,"],
            "baseModel": "SD 1.5",
            "description": "<p>First</p><p>Second &amp; last</p><script>x</script>",
            "files": [{"hashes": {"SHA256": SHA.upper()}}],
        },
        {
            "title": "Harbor v2",
            "triggers": ("harbor", "sea"),
            "base": "SD 1.5",
            "notes": "First\nSecond & last\nx",
            "sha256": SHA,
        },
    ),
    "m.cm-info.json": (
        {"ModelName": "Harbor", "VersionName": "v3", "TrainedWords": ["sea"], "BaseModel": "Pony", "Hashes": {"SHA256": SHA}},
        {"title": "Harbor v3", "triggers": ("sea",), "base": "Pony", "sha256": SHA},
    ),
    "m.metadata.json": (
        {"model_name": "Mine", "base_model": "Flux.1 D", "sha256": SHA, "notes": "nice", "civitai": {"trainedWords": ["q"]}},
        {"title": "Mine", "triggers": ("q",), "base": "Flux.1 D", "notes": "nice", "sha256": SHA},
    ),
    "m.swarm.json": (
        {"modelspec.title": "Titled", "modelspec.trigger_phrase": "a, b", "modelspec.usage_hint": "use 0.8"},
        {"title": "Titled", "triggers": ("a", "b"), "notes": "use 0.8"},
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_each_programs_file(tmp_path: Path, name: str) -> None:
    content, wanted = FILES[name]
    write_json(tmp_path / name, content)
    found = described(str(tmp_path), [name], {})
    assert {field: getattr(found, field) for field in wanted} == wanted


def test_what_a_user_typed_counts_before_what_was_downloaded(tmp_path: Path) -> None:
    for name, (content, _) in FILES.items():
        write_json(tmp_path / name, content)
    found = described(str(tmp_path), FILES, {"modelspec.title": "from the header"})
    assert (found.triggers, found.base, found.title) == (("hlf style", "glow"), "SDXL", "Mine")


def test_the_header_counts_where_nothing_lies_beside_it() -> None:
    counts = {"10_hlf": {"hlf": 20, "sky": 12}, "5_hlf": {"hlf": 3}}
    metadata = {
        "ss_output_name": "hlf",
        "ss_tag_frequency": json.dumps(counts),
        "ss_base_model_version": "sdxl_base_v1-0",
        "modelspec.hash_sha256": "0x" + SHA,
    }
    found = described("", (), metadata)
    assert (found.title, found.triggers, found.base, found.sha256) == ("hlf", ("hlf",), "sdxl_base_v1-0", SHA)


def test_tags_that_share_the_first_place_are_no_trigger_word() -> None:
    assert described("", (), {"ss_tag_frequency": json.dumps({"a": {"sky": 3, "sea": 3}})}).triggers == ()


def test_the_preview_that_was_made_for_the_model_counts_first(tmp_path: Path) -> None:
    found = described(str(tmp_path), ("m.jpg", "m.png", "m.preview.webp"), {})
    assert found.preview == str(tmp_path / "m.preview.webp")


NAMES = sorted({key for content, _ in FILES.values() for key in content} | {"files", "hashes", "SHA256", "name", "model"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=6),
    max_leaves=20,
)


@given(content=JSON, name=st.sampled_from(sorted(FILES)))
def test_any_json_gives_plain_text(tmp_path_factory: pytest.TempPathFactory, content: Any, name: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / name).write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")
    found = described(str(folder), [name], {})
    for text in (found.title, found.base, *found.triggers):
        assert text.isprintable()
        assert len(text) <= 400
    assert len(found.notes) <= 2000
    assert 0 <= found.weight <= 10


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b"{" * 10, b'{"activation text": 3}', b"x" * 5_000_000])
def test_what_is_no_json_describes_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.json").write_bytes(content)
    assert described(str(tmp_path), ["m.json"], {}) == NOTHING
