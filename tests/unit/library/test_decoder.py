"""The least memory of a picture: never more than what is really needed."""

from pathlib import Path

import msgspec
import pytest
from tests.helpers import samples

from halftone.library.decoder import decoder_channels, least_bytes
from halftone.library.models import describe


def test_the_bound_is_the_widest_layer_in_and_out() -> None:
    channels = decoder_channels(describe("pocket"))
    assert channels == 16
    assert least_bytes(16384, 16384, channels, "float32") == 2 * 16 * 16384**2 * 4
    assert least_bytes(16384, 16384, channels, "float16") * 2 == least_bytes(16384, 16384, channels, "float32")


@pytest.mark.parametrize(
    ("config", "channels"),
    [
        ('{"_class_name": "AutoencoderKL", "block_out_channels": [128, 256]}', 128),
        ('{"_class_name": "AutoencoderDC", "block_out_channels": [128, 256]}', None),
        ('{"_class_name": "AutoencoderKL", "block_out_channels": []}', None),
        ('{"_class_name": "AutoencoderKL", "block_out_channels": "many"}', None),
        ("{", None),
    ],
)
def test_a_decoder_that_is_not_known_counts_for_its_picture_only(tmp_path: Path, config: str, channels: int | None) -> None:
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "config.json").write_text(config)
    assert decoder_channels(msgspec.structs.replace(samples.POCKET, path=str(tmp_path))) == channels
    assert least_bytes(100, 100, None, "float32") == 100 * 100 * 3 * 4


def test_a_single_file_is_known_by_its_family() -> None:
    single = msgspec.structs.replace(samples.POCKET, path="/gone.safetensors", family="SDXL")
    assert decoder_channels(single) == 128
    assert decoder_channels(msgspec.structs.replace(single, family="Unknown")) is None
