"""Settings of a training that a model's note tells."""

from typing import Any

import msgspec
import pytest

from halftone.library.models import describe
from halftone.library.training_data.training_checks import settings_for, settings_of


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, {}),
        ({"learning_rate": 0.01, "steps": 5}, {"learning_rate": 0.01, "steps": 5}),
        ({"learning_rate": 0.01, "colour": 5}, {"learning_rate": 0.01}),
        ({"steps": 5.5}, {}),
        ({"optimizer": 3}, {}),
    ],
)
def test_only_what_a_training_has(told: dict[str, Any], expected: dict[str, Any]) -> None:
    assert settings_of(msgspec.structs.replace(describe("pocket"), training=told)) == expected


@pytest.mark.parametrize("model", [None, 3, "", "/no/such/model"])
def test_what_is_no_model_tells_none(model: object) -> None:
    assert settings_for(model) == {}


def test_pocket_tells_its_own() -> None:
    assert settings_for("pocket")["learning_rate"] == pytest.approx(0.003)
