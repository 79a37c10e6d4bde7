"""What a request gives does not depend on what ran before it, whatever is used with the model comes and goes."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import generate
from tests.helpers.inversions import saved
from tests.helpers.ip_adapters import save_adapter, save_encoder
from tests.helpers.loras import TEXT, make_lora
from tests.helpers.tiny import WIDTH, vae

from halftone.contract.request import Control, IpAdapter, Lora
from halftone.engine.service import DiffusersEngine


@pytest.fixture(scope="module")
def parts(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Name -> fields of a request."""
    folder = tmp_path_factory.mktemp("parts")
    model = models["sd15"]
    first = make_lora(model, folder / "first.safetensors", text=TEXT, kohya=True)
    second = make_lora(model, folder / "second.safetensors", seed=2)
    shown, edges = str(picture(folder / "shown.png", 40, 32)), str(picture(folder / "edges.png"))
    save_encoder(folder)
    plain = save_adapter(model, folder / "plain.safetensors")
    plus = save_adapter(model, folder / "plus.safetensors", "plus", seed=2)
    net = save_net(make_net(model), folder / "net")
    word = saved(folder / "zebra.safetensors", {"emb_params": torch.randn(2, WIDTH)})
    vae().save_pretrained(folder / "vae")
    return {
        "nothing": {},
        "LoRA": {"loras": (Lora(path=str(first), weight=0.6),)},
        "LoRAs": {"loras": (Lora(path=str(second), weight=-0.4), Lora(path=str(first)))},
        "ControlNet": {"controls": (Control(path=str(net), image=edges, scale=0.8),)},
        "embedding": {"prompt": "a red zebra", "inversions": (str(word),)},
        "IP-Adapter": {"ip_adapters": (IpAdapter(path=str(plain), images=(shown,), scale=0.7),)},
        "other IP-Adapter": {"ip_adapters": (IpAdapter(path=str(plus), images=(shown, edges)),)},
        "VAE": {"vae": str(folder / "vae")},
    }


def together(*some: dict[str, Any]) -> dict[str, Any]:
    return {name: value for one in some for name, value in one.items()}


def drawn(engine: DiffusersEngine, model: Path, precision: Any, fields: dict[str, Any]) -> bytes:
    from tests.helpers.engine_runs import pixels

    report, _ = generate(engine, model, precision, steps=2, **fields)
    return pixels(report).tobytes()


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_picture_does_not_depend_on_what_was_made_before(
    models: dict[str, Path], parts: dict[str, dict[str, Any]], precision: Any
) -> None:
    asked = {
        **parts,
        "LoRA and IP-Adapter": together(parts["LoRA"], parts["IP-Adapter"]),
        "ControlNet, IP-Adapter and embedding": together(parts["ControlNet"], parts["other IP-Adapter"], parts["embedding"]),
        "all": together(*parts.values()),
    }
    alone = {name: drawn(DiffusersEngine(), models["sd15"], precision, fields) for name, fields in asked.items()}
    assert len(set(alone.values())) == len(alone), "each of them matters"
    engine, order = DiffusersEngine(), [*asked, *asked]
    random.Random(4).shuffle(order)
    for before, name in zip(["", *order], order, strict=False):
        assert drawn(engine, models["sd15"], precision, asked[name]) == alone[name], f"{name} after {before or 'nothing'}"
