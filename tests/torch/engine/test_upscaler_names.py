"""Every architecture of spandrel is recognised from the names in a header, by spandrel's own conditions."""

from itertools import product
from typing import Any

import pytest

from halftone.engine.making import upscale
from halftone.library.families.recognise import recognise
from halftone.library.files.header import Header, TensorInfo

with upscale._without_torchvision():
    from spandrel import MAIN_REGISTRY

NOT_TOLD = {"LaMa", "RestoreFormer"}
NAMES = {"Compact": "Real-ESRGAN compact"}
SHAPES = {"Compact": {"body.0.weight": (64, 3, 3, 3), "body.1.weight": (64,), "body.2.weight": (64, 64, 3, 3)}}


def forms(condition: Any) -> list[frozenset[str]]:
    """The sets of names that fulfil a condition of spandrel."""
    if isinstance(condition, str):
        return [frozenset({condition})]
    inner = [forms(one) for one in condition._keys]
    if condition._kind == "any":
        return [form for found in inner for form in found]
    return [frozenset().union(*chosen) for chosen in product(*inner)]


@pytest.mark.parametrize("architecture", [one.architecture for one in MAIN_REGISTRY], ids=lambda one: one.id)
def test_an_upscaler_of_spandrel_is_recognised(architecture: Any) -> None:
    for form in forms(architecture._detect):
        shapes = dict.fromkeys(sorted(form), (64, 64, 3, 3)) | SHAPES.get(architecture.id, {})
        tensors = tuple(TensorInfo(name=name, dtype="F32", shape=shape, start=0, end=0) for name, shape in shapes.items())
        found = recognise(Header(tensors=tensors, metadata={}))
        wanted = ("unknown", "") if architecture.id in NOT_TOLD else ("upscaler", NAMES.get(architecture.id, architecture.name))
        assert (found.kind, found.base if found.kind == "upscaler" else "") == wanted
        assert found.scale is None or architecture.id == "ESRGAN"
