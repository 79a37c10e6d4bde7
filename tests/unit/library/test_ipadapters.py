"""IP-Adapters from headers alone: what numbers that were learned belong to."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.helpers.model_files import ramp, safetensors, write_json

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Extras, IpAdapter
from halftone.library.add_ons.extras import extras_key
from halftone.library.add_ons.ipadapters import adapter_facts


def test_what_was_learned_belongs_to_the_file_and_its_encoder_not_to_pictures(tmp_path: Path) -> None:
    path, encoder = tmp_path / "plus.safetensors", tmp_path / "image_encoder"
    shapes = {"ip_adapter.1.to_k_ip.weight": ramp(8, 16), "ip_adapter.1.to_v_ip.weight": ramp(8, 16)}
    path.write_bytes(safetensors({"image_proj.proj.weight": ramp(64, 12), "image_proj.norm.weight": ramp(16), **shapes}))
    write_json(encoder / "config.json", {"projection_dim": 12})
    (encoder / "model.safetensors").write_bytes(safetensors({"a.weight": ramp(2)}))

    def key(*images: str, scale: float = 1.0) -> str:
        return extras_key(Extras(ip_adapters=(IpAdapter(path=str(path), images=images, scale=scale),)))

    first = key("a.png")
    assert first == key("b.png", "c.png", scale=0.4)
    (encoder / "model.safetensors").write_bytes(safetensors({"a.weight": ramp(3)}))
    second = key()
    assert second not in ("", first)
    (encoder / "config.json").unlink()
    third = key()
    path.unlink()
    assert len({first, second, third, key()}) == 4, "files that are gone are no reason to fail"


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        (
            {"image_proj.proj.0.weight": ramp(16, 512), "image_proj.proj.2.weight": ramp(64, 16)},
            "it reads a face's numbers, which only insightface measures",
        ),
        (
            {"image_proj.proj.0.weight": ramp(16, 512), "image_proj.perceiver_resampler.proj_in.weight": ramp(16, 24)},
            "FaceID plus looks at a face's numbers and at its picture at once",
        ),
        (
            {"image_proj.latents": ramp(1, 4, 16), "image_proj.proj_in.weight": ramp(16, 512)},
            "InstantID works with a ControlNet of its own and the points of a face",
        ),
        (
            {"image_proj.proj.weight": ramp(64, 12), "ip_adapter.0.to_q_lora.down.weight": ramp(4, 8)},
            "it holds LoRAs as FaceID does, but its other layers are not FaceID's",
        ),
    ],
    ids=["FaceID", "FaceID plus", "InstantID", "LoRAs"],
)
def test_what_goes_by_a_face_is_refused_with_its_reason(
    tmp_path: Path, added: dict[str, NDArray[np.float16]], reason: str
) -> None:
    path = tmp_path / "face.safetensors"
    path.write_bytes(safetensors({"ip_adapter.1.to_k_ip.weight": ramp(8, 768), "image_proj.norm.weight": ramp(16), **added}))
    with pytest.raises(HalftoneError) as caught:
        adapter_facts(str(path))
    assert reason in str(caught.value)
