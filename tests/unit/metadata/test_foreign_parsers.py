"""Halftone's pictures say the same to the parsers of other programs, in four formats; references are what these parsers gave.

Where one of them cannot read what A1111 itself would write, that is named.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.metadata.written import KINDS

from halftone.metadata.parameters import a1111_text
from halftone.metadata.reading import Parameters, parse_parameters
from halftone.metadata.source_type import source_type

REFERENCES = Path(__file__).parents[2] / "references" / "foreign_parsers.json"
FOUND: dict[str, dict[str, Any]] = json.loads(REFERENCES.read_text(encoding="utf-8"))["kinds"]
FORMATS = {
    "a1111": {"png", "jpg", "webp", "jxl"},
    "civitai": {"png", "jpg", "webp", "jxl"},
    "sdnext": {"png", "jpg", "webp", "jxl"},
    "sd-prompt-reader": {"png", "jpg", "webp"},
}
"""sd-prompt-reader opens no JPEG XL."""
LIMITS: dict[tuple[str, str], set[str]] = {
    ("a model with a comma", "sd-prompt-reader"): {"model"},
    ("no prompt", "sd-prompt-reader"): {"positive", "model", "sampler", "seed", "cfg", "steps", "size"},
    ("no prompt", "sdnext"): {"Prompt", "Steps"},
    ("an IP-Adapter", "sdnext"): {"IP-Adapter 0"},
}
"""What a parser does not read in A1111's own pictures either: quotes, a text that begins with "Steps", names with a dash."""
UNREADABLE: set[tuple[str, str, str]] = {("Chinese", "sdnext", "jpg,webp,jxl")}
"""It takes UTF-16 in EXIF for other text."""


def written(kind: str) -> str:
    request, facts = KINDS[kind]
    return a1111_text(request, facts, distilled=kind == "FLUX.1")


def as_a1111_has_it(said: Parameters) -> dict[str, str]:
    return {**_sizes(said), "Prompt": said.prompt, "Negative prompt": said.negative}


def as_sdnext_has_it(said: Parameters) -> dict[str, str]:
    """It keeps a size beside its two edges, and spaces at the ends of prompts."""
    sizes = {key: value for key, value in said.fields.items() if key in ("Size", "Seed resize from")}
    return as_a1111_has_it(said) | sizes


def _sizes(said: Parameters) -> dict[str, str]:
    fields = dict(said.fields)
    for name in ("Size", "Seed resize from"):
        if name in fields:
            fields[f"{name}-1"], fields[f"{name}-2"] = fields.pop(name).split("x")
    return fields


def as_civitai_has_it(said: Parameters) -> dict[str, str]:
    """It reads what is quoted as further pairs."""
    names = {"Seed": "seed", "CFG scale": "cfgScale", "Sampler": "sampler", "Steps": "steps", "Clip skip": "clipSkip"}
    plain = {key: value for key, value in said.fields.items() if not set(value) & set(',:"')}
    wide, high = plain.pop("Size").split("x")
    fields = {names.get(key, key): value for key, value in plain.items()}
    return {**fields, "width": wide, "height": high, "prompt": said.prompt, "negativePrompt": said.negative}


def as_sd_prompt_reader_has_it(said: Parameters) -> dict[str, str]:
    names = {"Model": "model", "Sampler": "sampler", "Seed": "seed", "CFG scale": "cfg", "Steps": "steps", "Size": "size"}
    return {"positive": said.prompt, "negative": said.negative} | {ours: said.fields[theirs] for theirs, ours in names.items()}


READERS: dict[str, Callable[[Parameters], dict[str, str]]] = {
    "a1111": as_a1111_has_it,
    "civitai": as_civitai_has_it,
    "sdnext": as_sdnext_has_it,
    "sd-prompt-reader": as_sd_prompt_reader_has_it,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_parsers_were_given_what_halftone_writes(kind: str) -> None:
    """Else they are to be asked again."""
    assert written(kind) == FOUND[kind]["text"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_library_reads_iptcs_source_type_in_four_formats(kind: str) -> None:
    assert FOUND[kind]["exifreader"] == {"png,jpg,webp,jxl": source_type(KINDS[kind][0])}


@pytest.mark.parametrize("program", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_other_programs_read_the_same(kind: str, program: str) -> None:
    expected = READERS[program](parse_parameters(written(kind)))
    answers: dict[str, dict[str, Any]] = FOUND[kind][program]
    assert set(",".join(answers).split(",")) == FORMATS[program]
    for formats, found in answers.items():
        if (kind, program, formats) in UNREADABLE:
            continue
        wrong = {name for name, value in expected.items() if str(found.get(name)).strip() != value}
        assert wrong <= LIMITS.get((kind, program), set())
