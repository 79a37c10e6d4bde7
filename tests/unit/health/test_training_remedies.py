"""What was foreseen is put right by a setting: only by one that the training has not, and by a sane one."""

from typing import Any

import msgspec
import pytest

from halftone.contract.training import Omen, Remedy, TrainConfig
from halftone.health.training.training_remedies import remedied, useful

PLAIN = TrainConfig(model="pocket", pictures="p", output="o", schedule="constant", clip=0.0)
HIGH = Omen(code="rate-too-high", certain=False, value=0.1, limit=0.03, remedies=("lower-rate", "warm-up", "cosine", "clip-1"))


def having(**changes: Any) -> TrainConfig:
    return msgspec.structs.replace(PLAIN, **changes)


@pytest.mark.parametrize(
    ("config", "left"),
    [
        (PLAIN, ("lower-rate", "warm-up", "cosine", "clip-1")),
        (having(schedule="cosine"), ("lower-rate", "warm-up", "clip-1")),
        (having(schedule="linear"), ("lower-rate", "warm-up", "clip-1")),
        (having(warm_up=80), ("lower-rate", "cosine", "clip-1")),
        (having(warm_up=5), ("lower-rate", "warm-up", "cosine", "clip-1")),  # far shorter than is advised
        (having(clip=1.0), ("lower-rate", "warm-up", "cosine")),
        (having(clip=50.0), ("lower-rate", "warm-up", "cosine", "clip-1")),
    ],
)
def test_what_a_training_has_already_is_not_advised(config: TrainConfig, left: tuple[Remedy, ...]) -> None:
    assert useful(HIGH, config).remedies == left


@pytest.mark.parametrize(
    ("config", "limit", "rate"),
    [
        (having(learning_rate=0.1), 0.0005, 0.0005),
        (having(learning_rate=0.1), 0.03, 0.001),  # as large as the weights themselves is far too much for a LoRA
        (having(learning_rate=0.1, optimizer="adamw8bit"), 0.03, 0.001),
        (having(learning_rate=1e30), None, 0.001),
        (having(learning_rate=1e30, optimizer="prodigy"), None, 1.0),
        (having(learning_rate=0.0008), 0.03, None),
        (having(learning_rate=9.7e-4), 9.6e-4, 9e-4),  # rounded down: 0.001 would be higher than it is
        (having(learning_rate=9.5e-4), 9.4e-4, 9e-4),
        (having(learning_rate=9e-4), 8.9999e-4, 8e-4),
        (having(learning_rate=3.5e-4), 3e-4, 3e-4),
        (having(learning_rate=7e-4), 6e-4, 6e-4),
        (having(learning_rate=0.0008), None, None),
    ],
)
def test_a_lower_rate_is_one_that_the_optimizer_is_usually_given(
    config: TrainConfig, limit: float | None, rate: float | None
) -> None:
    omen = msgspec.structs.replace(HIGH, limit=limit, remedies=("lower-rate",))
    found = remedied(omen, config)
    assert (None if found is None else found[1].learning_rate) == rate
