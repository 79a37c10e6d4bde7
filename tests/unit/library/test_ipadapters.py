"""IP-Adapters from headers alone: what numbers that were learned belong to."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.helpers.faces import stand_in
from tests.helpers.model_files import ramp, safetensors, write_json

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Extras, IpAdapter
from halftone.library.add_ons.extras import extras_key
from halftone.library.add_ons.faces import face_models
from halftone.library.add_ons.ipadapters import adapter_facts, check_adapter_files, check_ip_adapters
from halftone.library.families.recognise import recognise
from halftone.library.files.header import read_header


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
    ids=["FaceID plus", "InstantID", "LoRAs"],
)
def test_what_goes_by_a_face_is_refused_with_its_reason(
    tmp_path: Path, added: dict[str, NDArray[np.float16]], reason: str
) -> None:
    path = tmp_path / "face.safetensors"
    path.write_bytes(safetensors({"ip_adapter.1.to_k_ip.weight": ramp(8, 768), "image_proj.norm.weight": ramp(16), **added}))
    with pytest.raises(HalftoneError) as caught:
        adapter_facts(str(path))
    assert reason in str(caught.value)


FACE = {
    "image_proj.proj.0.weight": ramp(512, 512),
    "image_proj.proj.2.weight": ramp(64, 512),
    "image_proj.norm.weight": ramp(16),
    "ip_adapter.1.to_k_ip.weight": ramp(8, 768),
    **{
        f"ip_adapter.{index}.to_{part}_lora.{half}.weight": ramp(4, 4)
        for index in (0, 1)
        for part in "qkv"
        for half in ("down", "up")
    },
}
"""The tensors of FaceID that tell what it is. Most of them are of LoRAs."""


def test_faceid_needs_no_image_encoder_but_insightface_and_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    path = tmp_path / "ComfyUI" / "models" / "ipadapter" / "face.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(safetensors(FACE))
    assert recognise(read_header(path)).kind == "IP-Adapter"
    assert adapter_facts(str(path)) == ("face", 768, 512, "UNet2DConditionModel")
    one = (IpAdapter(path=str(path), images=("one.png",)),)
    check_adapter_files((IpAdapter(path=str(path), images=()),))  # a check makes numbers up

    def refused() -> str:
        with pytest.raises(HalftoneError) as caught:
            check_ip_adapters(one)
        assert caught.value.code == "ip-adapter-no-faces"
        return str(caught.value)

    (tmp_path / "insightface").mkdir()  # of models, as ComfyUI has it
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert "the Python package insightface, which measures them, is not installed. Install" in refused()
    with stand_in(tmp_path / "packages"):
        assert "the models of insightface that measure them are neither in" in refused()
        places = (path.parent.parent / "insightface" / "models" / "antelopev2", tmp_path / "home/.insightface/models/buffalo_l")
        for place in places:  # the second is what FaceID was trained with
            place.mkdir(parents=True)
            assert face_models(str(path)) != place, "without models in it"
            (place / "w600k.onnx").write_bytes(b"")
            found = face_models(str(path))
            assert found is not None
            assert found.samefile(place)
            check_ip_adapters(one)
