"""The search knows settings by every word of theirs, in each language."""

from collections.abc import Iterable

import pytest

from halftone.settings.declared import DECLARED
from halftone.settings.search import Entry, declared_entries, find


def english(text: str) -> Iterable[str]:
    return (text,)


def fields(text: str) -> list[str]:
    return [entry.field for entry in find(text, declared_entries(), english)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("tf32", "tf32"),
        ("--no-half-vae", "vae_float32"),
        ("--medvram", "offload"),
        ("medvram", "offload"),
        ("filename pattern", "file_names"),
        ("INFOTEXT", "save_metadata"),
        ("vae fp32", "vae_float32"),
        ("jpeg xl", "picture_format"),
        ("numerics.compile", "compile"),
        ("vram", "offload"),
        ("out of memory", "offload"),
        ("no-half", "precision"),
        ("no half vae", "vae_float32"),
        ("xformers", "attention_backend"),
        ("dark mode", "theme"),
        ("font", "text_size"),
        ("black images", "on_black"),
        ("quantization", "fp8_storage"),
        ("output directory", "pictures_folder"),
        ("checkpoints", "model_folders"),
        ("png info", "save_metadata"),
        ("notification", "notify"),
        ("api", "serve"),
    ],
)
def test_words_find_their_setting(text: str, first: str) -> None:
    assert fields(text)[0] == first


def test_nothing_is_found_for_nothing_and_for_nonsense() -> None:
    assert fields("") == fields("  ") == fields("xyzzy") == []


def test_titles_come_before_sentences() -> None:
    found = find("b", (Entry("P", "one", "a", ("b",)), Entry("P", "two", "b")), english)
    assert [entry.field for entry in found] == ["two", "one"]


def test_a_translation_is_searched_too() -> None:
    found = find("精度", declared_entries(), lambda text: (text, {"Precision mode": "精度模式"}.get(text, "")))
    assert [entry.field for entry in found] == ["precision"]


def test_every_setting_is_found_by_its_title() -> None:
    assert all(setting.field in fields(setting.title) for setting in DECLARED)
