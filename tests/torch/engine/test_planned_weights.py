"""The weights that are planned for are those that lie in memory, whatever is used with a model."""

from pathlib import Path
from typing import Any, cast

import pytest
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import generate
from tests.helpers.ip_adapters import save_adapter, save_encoder
from tests.helpers.loras import make_lora
from tests.helpers.tiny import load_tiny
from tests.helpers.transformer_files import save_float8, save_gguf

from halftone.contract.request import Control, IpAdapter, Lora, Numerics, PictureRequest
from halftone.contract.vocabulary import DType
from halftone.engine.inputs.memory import Room, weight_bytes
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.packed import packed_layers
from halftone.health.forecasts.activations import Size
from halftone.health.forecasts.memory_forecast import Job, Need, need
from halftone.health.forecasts.picture_memory import Next, forecast
from halftone.library.families.networks import known_networks
from halftone.library.models import describe
from halftone.measure.devices import find_device

NEAR = 0.02


@pytest.fixture(scope="module")
def given(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a request names."""
    folder = tmp_path_factory.mktemp("given")
    save_encoder(folder)
    image = str(picture(folder / "one.png"))
    float8 = folder / "unet-fp8.safetensors"
    save_float8(load_tiny(models["sd15"]).unet.state_dict(), float8, scaled=True)
    save_gguf(load_tiny(models["sd3"]).transformer.state_dict(), folder / "sd3-Q8_0.gguf")
    adapter = save_adapter(models["sd15"], folder / "adapter.safetensors", "plus")
    return {
        "fp8": str(float8),
        "gguf": str(folder / "sd3-Q8_0.gguf"),
        "adapter": (IpAdapter(path=str(adapter), images=(image,)),),
        "net": (Control(path=str(save_net(make_net(models["sd15"]), folder / "net")), image=image),),
        "lora": (Lora(path=str(make_lora(models["sd15"], folder / "add.safetensors"))),),
    }


def planned(model: Path, extras: Any) -> Need:
    return need(known_networks(describe(str(model)), extras), Job(Size(32, 32)), lambda _: "bfloat16", "cpu")


@pytest.mark.parametrize(
    ("family", "used"),
    [
        ("sd15", {"transformer": "fp8"}),
        ("sd15", {"ip_adapters": "adapter"}),
        ("sd15", {"transformer": "fp8", "ip_adapters": "adapter", "controls": "net", "loras": "lora"}),
        ("sd3", {"transformer": "gguf"}),
    ],
    ids=["8-bit file", "IP-Adapter", "all", "GGUF"],
)
def test_weights_are_planned_as_they_lie_in_memory(
    models: dict[str, Path], given: dict[str, Any], family: str, used: dict[str, str]
) -> None:
    engine = DiffusersEngine()
    changes = {field: given[name] for field, name in used.items()}
    generate(engine, models[family], "bfloat16", family=family, steps=1, **changes)
    loaded = engine.loaded
    assert loaded is not None
    layers = (layer for module in loaded.modules.values() for layer in packed_layers(module).values())
    beside = sum(part.nbytes for layer in layers for added in layer.added for part in added)
    if loaded.controlnet is not None:
        beside += sum(parameter.nbytes for parameter in loaded.controlnet.parameters())
    told = planned(models[family], loaded.extras)
    assert told.resident == pytest.approx(weight_bytes(loaded) + beside, rel=NEAR)
    assert told.resident != pytest.approx(planned(models[family], type(loaded.extras)()).resident, rel=NEAR)


def test_before_the_job_the_same_is_told_as_in_it(models: dict[str, Path], given: dict[str, Any]) -> None:
    used = {"transformer": given["fp8"], "ip_adapters": given["adapter"], "controls": given["net"], "loras": given["lora"]}
    engine = DiffusersEngine()
    generate(engine, models["sd15"], "bfloat16", steps=1, fp8_storage=True, **used)
    loaded = engine.loaded
    assert loaded is not None
    request = PictureRequest(
        prompt="a", width=64, height=32, guidance=5.0, numerics=Numerics(fp8_storage=True, vae_tiling="never"), **used
    )
    dtypes = cast("dict[str, DType]", dict.fromkeys([*loaded.modules, "controlnet"], "bfloat16"))
    room = Room(loaded, find_device("cpu"), request, Size(64, 32), guided=True, dtypes=dtypes, networks=loaded.networks)
    facts = describe(str(models["sd15"]))
    told = forecast(known_networks(facts, request.extras), Next(request, facts, "bfloat16", "cpu"), None)
    assert told is not None
    assert told.peak == room.plain.peak
