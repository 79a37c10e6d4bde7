"""What is told of a VAE from its names, shapes and configuration alone."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.model_files import ramp, safetensors
from tests.helpers.reports import MODEL

from halftone.contract.errors import HalftoneError
from halftone.library.add_ons.vaes import check_fit, check_vae


def test_a_file_of_another_class_is_told_to_be_one(tmp_path: Path) -> None:
    """Names of a VAE whose levels are not those of an AutoencoderKL."""
    file = tmp_path / "other.safetensors"
    file.write_bytes(safetensors({"encoder.conv_in.weight": ramp(4, 3, 3, 3), "decoder.conv_in.weight": ramp(4, 4, 3, 3)}))
    with pytest.raises(HalftoneError) as caught:
        check_vae(str(file))
    assert caught.value.code == "vae-not-a-vae"
    assert "can be read only as a diffusers folder" in str(caught.value)


@pytest.mark.parametrize("levels", [None, 3, "many"])
def test_levels_that_are_no_list_are_not_compared(tmp_path: Path, levels: object) -> None:
    model = tmp_path / "model"
    for folder, given in ((model / "vae", [8, 8]), (tmp_path / "other", levels)):
        folder.mkdir(parents=True)
        config = {"_class_name": "AutoencoderKL", "block_out_channels": given, "latent_channels": 4}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (folder / "diffusion_pytorch_model.safetensors").write_bytes(safetensors({"decoder.conv_in.weight": ramp(2)}))
    facts = replace(MODEL, path=str(model), components=("vae",))
    check_fit(str(tmp_path / "other"), facts)
