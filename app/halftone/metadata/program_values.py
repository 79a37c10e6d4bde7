"""How the settings of another program become A1111's: what a program is, and how its values are read."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from halftone.metadata.reading import SYNTAX, Parameters, lora_tag, value_text, whole_signs

Values = Mapping[str, Any]

NOTHING: Final = ("None", "none", "Default (model)", "Automatic")
"""Values that stand for no file."""
_TAG: Final = re.compile(r"<lora:[^<>]*>")


class Program(NamedTuple):
    """names: its keys -> A1111's fields; quiet: keys that do not change the picture, or say again what others say; samplers: its
    names -> ours, where those differ; syntax: what shows that its prompt has weights of its own.
    """

    title: str
    names: Mapping[str, str]
    quiet: frozenset[str]
    samplers: Mapping[str, str] = {}
    prompt: tuple[str, str] = ("prompt", "negative_prompt")
    syntax: re.Pattern[str] | None = None


def read_values(program: Program, values: Values, size: str = "", loras: Iterable[tuple[Any, Any]] = ()) -> Parameters:
    prompt, negative = (whole_signs(str(values.get(key) or "")).strip() for key in program.prompt)
    fields: dict[str, str] = {}
    for key, value in values.items():
        if key in program.quiet or key in program.prompt:
            continue
        text = value_text(value)
        if text and text not in NOTHING:
            fields[program.names.get(key, key)] = text
    if (sampler := fields.get("Sampler", "")) in program.samplers:
        fields["Sampler"] = program.samplers[sampler]
    for name in ("Model", "VAE", "Refiner"):
        if name in fields:
            fields[name] = fields[name].replace("\\", "/").rpartition("/")[2]
    if size:
        fields["Size"] = size
    if program.syntax is not None and any(map(program.syntax.search, (prompt, negative))):
        fields[SYNTAX] = program.title
    version = fields.pop("Version", "")
    fields["Version"] = version if version.startswith(program.title) else f"{program.title} {version}".strip()
    tags = (lora_tag(name, weight) for name, weight in loras if isinstance(name, str) and name not in NOTHING)
    there = set(_TAG.findall(prompt))
    return Parameters(prompt=" ".join((prompt, *(tag for tag in tags if tag not in there))), negative=negative, fields=fields)


def size_text(width: object, height: object) -> str:
    wide, high = value_text(width), value_text(height)
    return f"{wide}x{high}" if wide.isdecimal() and high.isdecimal() else ""


def model_name(model: object) -> str:
    """The name of a model, which every version keeps under another key."""
    if not isinstance(model, dict):
        return value_text(model)
    values = cast("Values", model)
    return next((value_text(values[key]) for key in ("name", "model_name", "key") if values.get(key)), "")


def number_in(value: object) -> float:
    """0 for what is none."""
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else 0.0


def list_in(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def listed(value: object) -> list[Any]:
    """One or several, also as Python shows a list."""
    if isinstance(value, str) and value.startswith("["):
        return [one.strip(" '\"") for one in value.strip("[] ").split(",")]
    return list_in(value) if isinstance(value, list) else [] if value is None else [value]


def dict_in(value: object) -> Values:
    return cast("Values", value) if isinstance(value, dict) else {}


def dicts_in(value: object) -> list[Values]:
    return [cast("Values", one) for one in list_in(value) if isinstance(one, dict)]


def json_in(text: str) -> Values | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Values", found) if isinstance(found, dict) else None
