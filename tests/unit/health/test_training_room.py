"""The estimate of what a training needs."""

from typing import Any

import pytest

from halftone.contract.training import TrainConfig
from halftone.health.training.training_memory import (
    TrainingForecast,
    kept_numbers,
    lora_numbers,
    training_forecast,
    training_room,
)
from halftone.library.families.networks import Network
from halftone.library.models import describe

SDXL: dict[str, Any] = {
    "block_out_channels": [320, 640, 1280],
    "layers_per_block": 2,
    "cross_attention_dim": 2048,
    "transformer_layers_per_block": [1, 2, 10],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
}
SD3: dict[str, Any] = {"num_layers": 24, "num_attention_heads": 24, "attention_head_dim": 64, "patch_size": 2}


@pytest.mark.parametrize(
    ("kind", "config", "numbers", "wide", "mixed"),
    [
        ("UNet2DConditionModel", SDXL, 42.6e6, 3578e6, 4462e6),
        ("SD3Transformer2DModel", SD3, 20.9e6, 2781e6, 3454e6),
    ],  # counted on the meta device, at 1024 x 1024 pixels
)
def test_a_lora_has_so_many_numbers_and_its_steps_keep_so_many(
    kind: str, config: dict[str, Any], numbers: float, wide: float, mixed: float
) -> None:
    network = Network(name="denoiser", work="denoise", kind=kind, parameters=1, config=config)
    assert lora_numbers(network, 16) == pytest.approx(numbers, rel=0.05)
    assert kept_numbers(network, None, 1024, mixed=False) == pytest.approx(wide, rel=0.1)
    assert kept_numbers(network, None, 1024, mixed=True) == pytest.approx(mixed, rel=0.1)


def told(free: int | None, *, on_cpu: bool = False, narrow: Any = None, **changes: Any) -> TrainingForecast:
    config = TrainConfig(model="pocket", pictures="", output="", **changes)
    found = training_forecast(config, describe("pocket"), "float32", on_cpu=on_cpu, free=free, narrow=narrow)
    assert found is not None
    return found


def test_it_is_told_whether_it_fits_and_what_would_save_most() -> None:
    peak = told(None).room.peak
    assert (told(None).fit, told(None).saving) == (None, None)
    assert (told(2 * peak).fit, told(2 * peak).saving) == ("fits", None)
    tight = told(peak + 1)
    assert tight.fit == "tight"
    assert tight.saving is not None
    assert tight.saving.peak < peak
    small = told(peak // 2, batch=2)
    assert small.fit == "no"
    assert small.saving is not None
    assert (small.saving.change, small.saving.value, small.saving.fit) == ("checkpointing", True, "tight")
    assert told(peak // 2, checkpointing=True, batch=8).saving[:2] == ("batch", 1)  # type: ignore[index]
    assert told(peak // 3, checkpointing=True, batch=1, narrow="bfloat16").saving[:2] == ("precision", "bfloat16")  # type: ignore[index]
    assert told(1, checkpointing=True, batch=1).saving is None


def test_a_processor_holds_all_networks_at_once_while_it_reads() -> None:
    room = told(None, on_cpu=True, checkpointing=True, batch=1, rank=1, size=64).room
    assert room.loading > room.base
    assert room.peak == max(room.base + room.lora + room.activations, room.loading) + room.process


def test_what_costs_more_is_told_to_cost_more() -> None:
    model = describe("pocket")

    def peak(*, dtype: Any = "float32", on_cpu: bool = False, **changes: Any) -> int:
        found = training_room(TrainConfig(model="pocket", pictures="", output="", **changes), model, dtype, on_cpu=on_cpu)
        assert found is not None
        return found.peak

    plain = peak()
    assert peak(batch=4) > plain > peak(batch=1)
    assert peak(rank=64) > plain > peak(checkpointing=True)
    assert peak(on_cpu=True) > peak(optimizer="prodigy") > plain > peak(optimizer="adamw8bit")
    assert plain > peak(dtype="float16")
