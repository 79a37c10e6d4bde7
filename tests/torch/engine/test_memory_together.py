"""What saves memory, used together: the picture is the one that is made without."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.helpers.apart import Watch, apart
from tests.helpers.controls import picture
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.ip_adapters import save_adapter, save_encoder
from tests.helpers.tiny import load_tiny
from tests.helpers.transformer_files import save_float8
from tests.torch.engine.test_out_of_memory import FULL, full

from halftone.contract.facts import GenerateReport
from halftone.contract.request import IpAdapter
from halftone.contract.vocabulary import OffloadMode
from halftone.engine.loading.load import Loaded
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.fp8 import EIGHT
from halftone.measure.pictures import psnr

MODES: tuple[OffloadMode, ...] = ("model", "group", "sequential")


@pytest.fixture(scope="module")
def adapter(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[IpAdapter, ...]:
    folder = tmp_path_factory.mktemp("ip")
    save_encoder(folder)
    file = save_adapter(models["sd15"], folder / "adapter.safetensors", "plus")
    return (IpAdapter(path=str(file), images=(str(picture(folder / "one.png")),), scale=0.8),)


@pytest.fixture
def engine(models: dict[str, Path]) -> DiffusersEngine:
    made = DiffusersEngine()
    generate(made, models["sd15"], steps=1)
    return made


def of(engine: DiffusersEngine) -> Loaded:
    assert engine.loaded is not None
    return engine.loaded


def alike(one: Any, other: Any) -> float:
    return psnr(pixels(one), pixels(other))


def kept(failed: GenerateReport, folder: Path) -> Callable[[], str]:
    """Its latents, a fresh copy each time: they are removed once they became a picture."""
    latents = failed.images[0].latents
    assert latents is not None
    whole = Path(latents).read_bytes()

    def copied() -> str:
        file = folder / "kept.safetensors"
        file.write_bytes(whole)
        return str(file)

    return copied


def test_fp8_storage_with_an_ip_adapter_rounds_the_weights_and_nothing_else(
    models: dict[str, Path], engine: DiffusersEngine, adapter: tuple[IpAdapter, ...]
) -> None:
    plain, _ = generate(engine, models["sd15"], ip_adapters=adapter)
    rounded, _ = generate(engine, models["sd15"], ip_adapters=adapter, fp8_storage=True)
    assert (rounded.images[0].finite, rounded.images[0].state) == (True, "clean")
    eight = [name for name, weight in of(engine).pipe.unet.named_parameters() if weight.dtype == EIGHT]
    assert any("to_k_ip" in name for name in eight)
    assert alike(plain, rounded) > 20
    again, _ = generate(engine, models["sd15"], ip_adapters=adapter)
    assert (pixels(again) == pixels(plain)).all(), "nothing of it is left"


@pytest.mark.parametrize("float8", [False, True], ids=["plain", "8-bit"])
def test_an_ip_adapter_reads_pictures_into_a_unet_of_its_own_file(
    models: dict[str, Path], engine: DiffusersEngine, adapter: tuple[IpAdapter, ...], tmp_path: Path, *, float8: bool
) -> None:
    """The file holds the model's own numbers, so that with a plain one nothing may change."""
    own = {name: value.clone() for name, value in load_tiny(models["sd15"]).unet.state_dict().items()}
    file = tmp_path / "unet.safetensors"
    if float8:
        save_float8(own, file, scaled=True)
    else:
        save_file(own, file)
    model, _ = generate(engine, models["sd15"], ip_adapters=adapter)
    alone, _ = generate(engine, models["sd15"], transformer=str(file))
    both, _ = generate(engine, models["sd15"], transformer=str(file), ip_adapters=adapter)
    assert both.images[0].state == "clean"
    assert not (pixels(both) == pixels(alone)).all()
    assert alike(both, model) > (20 if float8 else 60)
    if not float8:
        assert (pixels(both) == pixels(model)).all()
    loaded = apart(engine)
    for mode in MODES:
        offloaded, _ = generate(engine, models["sd15"], transformer=str(file), ip_adapters=adapter, offload=mode)
        assert (pixels(offloaded) == pixels(both)).all(), mode
    with Watch(loaded, "group") as watch:
        generate(engine, models["sd15"], transformer=str(file), ip_adapters=adapter, offload="group", prompt="read anew")
    assert watch.astray == set()


def test_latents_that_were_kept_are_decoded_by_an_offloaded_model(
    models: dict[str, Path], engine: DiffusersEngine, tmp_path: Path
) -> None:
    whole, _ = generate(engine, models["sd15"])
    with full(of(engine).modules["vae"].get_submodule("decoder"), FULL[0], lambda _: True):
        failed, _ = generate(engine, models["sd15"])
    latents = kept(failed, tmp_path)
    apart(engine)
    for mode in MODES:
        decoded, _ = generate(engine, models["sd15"], resume_latents=latents(), offload=mode)
        assert (pixels(decoded) == pixels(whole)).all(), mode
        assert decoded.images[0].offload == mode


def test_steps_go_on_in_an_offloaded_model(models: dict[str, Path], engine: DiffusersEngine, tmp_path: Path) -> None:
    whole, _ = generate(engine, models["sd15"])
    calls: list[int] = []

    def third(_: torch.Tensor) -> bool:
        calls.append(1)
        return len(calls) > 2

    with full(of(engine).modules["unet"], FULL[0], third):
        failed, _ = generate(engine, models["sd15"])
    latents = kept(failed, tmp_path)
    assert failed.images[0].kept_step == 2
    apart(engine)
    for mode in MODES:
        made, _ = generate(engine, models["sd15"], resume_latents=latents(), offload=mode)
        assert (pixels(made) == pixels(whole)).all(), mode
