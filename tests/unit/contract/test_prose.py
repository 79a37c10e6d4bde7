"""No plain string of the contract holds a sentence: sentences are `Words`, so that each reader gets them in his language."""

import importlib
from collections.abc import Iterator
from typing import Final, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from halftone.contract.wording import Words, of_earlier_versions

MODULES: Final = ("messages", "facts", "request", "plan", "training", "errors")
STRINGS: Final = {
    "ids": "job id model device picture fingerprint",
    "paths": "path folder file_names output image images mask pictures source upscaler vae transformer inversions latents resume "
    "resume_latents log lora_folders parts preprocessor_model",
    "names of what the user or a maker named": "name names alias family base wildcards styles items loras word driver",
    "names inside a model": "component components module pipeline sampler samplers own_sampler lacks further without_add_ons "
    "dtypes cures upcast rescale deviation stored",
    "names of settings, and their values": "setting value settings options training axes preprocessor",
    "what the user wrote": "prompt negative written written_negative caption test_prompt left_out",
    "figures and times as the system gives them": "version capability torch_version measured_at checked_at details was now",
    "codes": "kind action cure why then mode operation outcome backend format stored_dtype prediction made_up problem note "
    "signal command detail",
    "values of errors and findings, each of which is shown as it is": "facts",
}
"""Fields that may be plain strings, by what they hold. A field that holds a sentence belongs to none: make it `Words`."""


def structs() -> Iterator[type[msgspec.Struct]]:
    for name in MODULES:
        module = importlib.import_module(f"halftone.contract.{name}")
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, msgspec.Struct) and found.__module__ == module.__name__:
                yield found


def _holds_text(hint: object) -> bool:
    return hint is str or (get_origin(hint) is not Literal and any(map(_holds_text, get_args(hint))))


def strings() -> dict[str, list[str]]:
    """Field -> the types that have one of this name with plain strings in it."""
    found: dict[str, list[str]] = {}
    for struct in structs():
        for field, hint in get_type_hints(struct).items():
            if field in struct.__struct_fields__ and _holds_text(hint):
                found.setdefault(field, []).append(struct.__name__)
    return found


def test_no_plain_string_holds_a_sentence() -> None:
    allowed = {field for fields in STRINGS.values() for field in fields.split()}
    assert {field: types for field, types in strings().items() if field not in allowed} == {}
    assert allowed - strings().keys() == set(), "fields that are gone"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"ran": ["Compiled."]}, {"ran": [{"template": "{0}", "values": ["Compiled."]}]}),
        ({"size": "2 × 2", "operation": "matmul"}, {"size": {"template": "{0}", "values": ["2 × 2"]}, "operation": "matmul"}),
        (
            {"operation": "attention-backend", "size": "flash, 64 tokens"},
            {
                "operation": "attention-backend",
                "size": {"template": "{0}", "values": ["flash, 64 tokens"]},
                "backend": "flash",
            },
        ),
        ({"details": {"Instruction sets": "AVX2"}, "id": "cpu"}, {"details": {"instruction-sets": "AVX2"}, "id": "cpu"}),
        ({"details": "a trace", "code": "internal"}, {"details": "a trace", "code": "internal"}),
    ],
)
def test_records_of_earlier_versions_are_read(before: object, now: object) -> None:
    assert of_earlier_versions(before) == now


def test_a_mark_travels() -> None:
    marked = Words("Compile is left out: {0}", ("x",), about="run")
    assert msgspec.json.decode(msgspec.json.encode(marked), type=Words) == marked
