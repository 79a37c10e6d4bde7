"""A configuration is compared with its weights once in a process, and again where one of them differs."""

import json
from pathlib import Path

import pytest
import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from safetensors.torch import load_file, save_file
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.engine.loading.folder_parts import load_network


class Counted(ModelMixin, ConfigMixin):
    """A network that counts how often it is built."""

    built = 0

    @register_to_config
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        type(self).built += 1
        self.inner = nn.Linear(width, width)


def test_a_network_that_was_compared_is_not_built_for_it_again(tmp_path: Path) -> None:
    Counted().save_pretrained(tmp_path / "unet")

    def builds() -> int:
        Counted.built = 0
        load_network(tmp_path, "unet", Counted, torch.float32)
        return Counted.built

    assert [builds(), builds(), builds()] == [2, 1, 1]
    weights = next((tmp_path / "unet").glob("*.safetensors"))
    save_file({**load_file(weights), "more": torch.zeros(1)}, weights)
    assert [builds(), builds()] == [2, 1]
    config = tmp_path / "unet" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"width": 8}))
    for _ in range(2):  # what was refused is refused again
        with pytest.raises(HalftoneError, match="asks for a tensor"):
            builds()
