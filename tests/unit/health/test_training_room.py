"""The estimate of what a training needs."""

from typing import Any

import pytest

from halftone.contract.training import TrainConfig
from halftone.health.training_room import lora_numbers, training_room
from halftone.library.models import describe
from halftone.library.networks import Network

SDXL: dict[str, Any] = {
    "block_out_channels": [320, 640, 1280],
    "layers_per_block": 2,
    "cross_attention_dim": 2048,
    "transformer_layers_per_block": [1, 2, 10],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
}
SD3: dict[str, Any] = {"num_layers": 24, "num_attention_heads": 24, "attention_head_dim": 64}


@pytest.mark.parametrize(
    ("config", "numbers"),
    [(SDXL, 23.2e6), (SD3, 9.4e6)],  # kohya's SDXL LoRA of rank 16 on attention alone, and train_dreambooth_lora_sd3's: counted
)
def test_a_lora_has_about_so_many_numbers(config: dict[str, Any], numbers: float) -> None:
    network = Network(name="unet", work="denoise", kind="", parameters=1, config=config)
    assert lora_numbers(network, 16) == pytest.approx(numbers, rel=0.4)


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
