"""Offload: weights come to the device for the length of their own use, and nothing that a model is given is lost on the way.

The processor stands for a device with memory of its own (`tests.helpers.apart`); `tests/gpu` runs the same on a real one.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.apart import Watch, apart
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import check, faulty_copy, generate, pixels
from tests.helpers.loras import make_lora
from tests.helpers.memory import Full
from tests.helpers.vaes import other_vae, save_vae

from halftone.contract.request import Control, Lora, Numerics
from halftone.contract.vocabulary import OffloadMode
from halftone.engine.basics.torch_settings import without_effect
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.offload import Piece, onload, put_offload
from halftone.health.pictures.run_reasons import how_it_ran

MODES: tuple[OffloadMode, ...] = ("model", "group", "sequential")
CPU = torch.device("cpu")


def offloading(model: Path, family: str = "sd15") -> DiffusersEngine:
    """An engine with a model in memory that can be offloaded."""
    engine = DiffusersEngine()
    generate(engine, model, family=family, steps=1)
    apart(engine)
    return engine


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3", "sana"])
def test_the_same_bytes_come_out_and_only_onloaded_weights_are_computed_with(models: dict[str, Path], family: str) -> None:
    engine = offloading(models[family], family)
    whole, _ = generate(engine, models[family], family=family, offload="none")
    loaded = apart(engine)
    held: list[float] = []
    for mode in MODES:
        first, _ = generate(engine, models[family], family=family, offload=mode)
        with Watch(loaded, mode) as watch:
            again, _ = generate(engine, models[family], family=family, offload=mode, prompt="read anew", batch=2)
        assert watch.astray == set(), mode
        assert (pixels(first) == pixels(whole)).all()
        assert again.images[0].state == "clean"
        held.append(watch.most / watch.size)
    assert 1.0 > held[0] > held[1] >= held[2]
    assert held[-1] < held[0] / 2


@pytest.mark.parametrize("mode", MODES)
def test_what_is_used_with_a_model_acts_as_ever(models: dict[str, Path], tmp_path: Path, mode: OffloadMode) -> None:
    model = models["sd15"]
    net = Control(path=str(save_net(make_net(model), tmp_path / "net")), image=str(picture(tmp_path / "square.png")))
    lora = Lora(path=str(make_lora(model, tmp_path / "add.safetensors")))
    vae = save_vae(other_vae(), tmp_path / "other.safetensors")
    given: dict[str, Any] = {"loras": (lora,), "vae": str(vae), "controls": (net,), "image": str(tmp_path / "square.png")}
    engine = offloading(model)
    whole, _ = generate(engine, model, "float16", **given)
    generate(engine, model, "float16", offload=mode)
    offloaded, _ = generate(engine, model, "float16", offload=mode, **given)
    assert (pixels(offloaded) == pixels(whole)).all()
    with Watch(apart(engine), mode) as watch:
        generate(engine, model, "float16", offload=mode, prompt="read anew", **given)
    assert watch.astray == set()
    assert watch.most < watch.size


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("component", "group"), [("unet", "stream of unet"), ("vae", "stream of decoder")])
def test_a_fault_is_cured_in_weights_that_are_offloaded(
    models: dict[str, Path], tmp_path: Path, mode: OffloadMode, component: str, group: str
) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", component, group, 17)
    engine = offloading(model)
    offloaded, _ = generate(engine, model, "float16", offload=mode)
    whole, _ = generate(DiffusersEngine(), model, "float16", tf32=True)  # nothing that was learned holds for other settings
    assert [event.action for event in offloaded.images[0].events] == [event.action for event in whole.images[0].events]
    assert [event.cure for event in offloaded.images[0].events] == [event.cure for event in whole.images[0].events]
    assert offloaded.plan.rescale == whole.plan.rescale
    assert (pixels(offloaded) == pixels(whole)).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_check_finds_the_same(models: dict[str, Path], tmp_path: Path, mode: OffloadMode) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "vae", "stream of decoder", 16)
    whole, _ = check(DiffusersEngine(), model)
    engine = offloading(model)
    found, _ = check(engine, model, offload=mode)
    assert found.verdict == whole.verdict == "fixable"
    assert found.findings == whole.findings
    assert (found.plan.rescale, found.plan.verified, found.plan.error) == (whole.plan.rescale, True, whole.plan.error)
    assert [(cure.kind, cure.refusal, cure.psnr) for cure in found.cures] == [
        (cure.kind, cure.refusal, cure.psnr) for cure in whole.cures
    ]


def test_a_model_goes_from_one_mode_to_another(models: dict[str, Path]) -> None:
    engine = offloading(models["sd15"])
    whole, _ = generate(engine, models["sd15"], "bfloat16")
    for mode in ("group", "none", "sequential", "model", "group"):
        made, _ = generate(engine, models["sd15"], "bfloat16", offload=mode, prompt="a red sun")
        assert (pixels(made) == pixels(whole)).all(), mode
    generate(engine, models["sd15"], "bfloat16", offload="none")
    hooks = [len(part._forward_pre_hooks) for part in apart(engine).modules["unet"].modules()]
    generate(DiffusersEngine(), models["sd15"], "bfloat16")
    assert max(hooks) == 0, "nothing needs a cast, and no mode leaves a hook behind"


@pytest.mark.processor("addresses of the host are compared")
def test_a_piece_that_does_not_fit_leaves_every_weight_at_home(models: dict[str, Path]) -> None:
    loaded = apart(offloading(models["sd15"]))
    unet = loaded.modules["unet"]
    before = {name: tensor.data_ptr() for name, tensor in unet.named_parameters()}
    for mode in MODES:
        put_offload(loaded.places, mode)
        with Full(4), pytest.raises(torch.OutOfMemoryError):
            Piece(unet.modules()).onload(CPU)
        assert {name: tensor.data_ptr() for name, tensor in unet.named_parameters()} == before
    put_offload(loaded.places, "model")
    with Full(4), pytest.raises(torch.OutOfMemoryError):
        onload(unet)
    assert loaded.places.present == []
    onload(unet)
    assert len(loaded.places.present) == 1
    assert all(tensor.data_ptr() != before[name] for name, tensor in unet.named_parameters())


def test_what_is_written_to_an_onloaded_weight_goes_home(models: dict[str, Path]) -> None:
    layer = torch.nn.Linear(3, 3)
    home = layer.weight.data
    piece = Piece([layer])
    piece.onload(CPU)
    layer.weight.data = torch.ones(3, 3, dtype=torch.float16)
    piece.offload()
    assert layer.weight.dtype == torch.float16
    assert (layer.weight == 1).all()
    piece.onload(CPU)
    piece.offload()
    assert home.data_ptr() != layer.weight.data_ptr()


def test_a_processor_says_that_it_gains_nothing() -> None:
    (told,) = without_effect(Numerics(offload="model"), CPU)
    assert str(told) == "Offload has no effect on cpu: the weights are in its memory already."
    assert without_effect(Numerics(offload="model"), torch.device("cuda")) == ()


def test_a_setting_that_did_nothing_is_told_with_the_picture(models: dict[str, Path]) -> None:
    report, _ = generate(DiffusersEngine(), models["sd15"], offload="group", attention_backend="efficient", device="cpu")
    told = how_it_ran(report.plan.reasons)
    assert told == report.images[0].ran
    assert told == without_effect(Numerics(offload="group", attention_backend="efficient"), CPU)
    assert len(told) == 2


def in_a_file(tensor: torch.Tensor) -> bool:
    """Whether its numbers lie in a mapped weight file, from where the system may read them again."""
    spans = (line.split() for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())
    held = (span[0].split("-") for span in spans if span[-1].endswith(".safetensors"))
    return any(int(first, 16) <= tensor.data_ptr() < int(last, 16) for first, last in held)


@pytest.mark.processor("elsewhere no weight runs in a mapped file")
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what is mapped")
def test_weights_that_run_as_they_are_stored_stay_in_the_file(models: dict[str, Path]) -> None:
    loaded = apart(offloading(models["sd15"]))
    unet = loaded.modules["unet"]
    assert all(in_a_file(tensor) for tensor in unet.parameters())
    put_offload(loaded.places, "group")
    onload(unet)
    assert all(in_a_file(tensor) for tensor in unet.parameters())
