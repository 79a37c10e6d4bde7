"""What of a model's networks its memory depends on, read from configurations and headers."""

from pathlib import Path

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.headers import header_of, write_sparse
from tests.helpers.originals import original_names, published

from halftone.library.models import describe
from halftone.library.networks import known_networks, networks_of


def test_a_folder_tells_each_network() -> None:
    found = {one.name: one for one in networks_of(describe("pocket"))}
    assert {name: one.work for name, one in found.items()} == {"text_encoder": "encode", "unet": "denoise", "vae": "decode"}
    assert found["vae"].kind == "AutoencoderKL"
    assert found["unet"].numbers("block_out_channels")
    for one in found.values():
        assert 0 < one.largest <= one.parameters
        assert one.blocks > 1


@pytest.mark.parametrize(("kind", "unet"), [("sd1", 859_520_964), ("sdxl", 2_567_463_684)])
def test_a_whole_file_tells_the_same_as_its_folder_would(tmp_path: Path, kind: str, unet: int) -> None:
    header = header_of({name: tuple(value.shape) for name, value in original_names(published(kind)).items()})
    file = tmp_path / "model.safetensors"
    write_sparse(file, header)
    found = {one.name: one for one in networks_of(describe(str(file)))}
    assert found["unet"].parameters == unet
    assert found["unet"].numbers("block_out_channels")[0] == 320
    assert found["vae"].parameters == pytest.approx(83_653_863)
    assert found["text_encoder"].parameters == pytest.approx(123_060_480, rel=0.01)


def test_what_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    assert known_networks(msgspec.structs.replace(samples.POCKET, path=str(tmp_path))) == ()
    assert known_networks(msgspec.structs.replace(samples.POCKET, path=str(tmp_path / "gone.safetensors"))) == ()
