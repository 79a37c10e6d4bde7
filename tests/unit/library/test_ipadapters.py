"""IP-Adapters from headers alone: what numbers that were learned belong to."""

from pathlib import Path

from tests.helpers.model_files import ramp, safetensors, write_json

from halftone.contract.request import Extras, IpAdapter
from halftone.library.add_ons.extras import extras_key


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
