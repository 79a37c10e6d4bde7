"""FP8 storage: the denoiser's weights in eight bits, exact powers of two around them, and all that Halftone does to a model."""

from pathlib import Path

import pytest
import torch
from tests.helpers.apart import apart
from tests.helpers.engine_runs import check, faulty_copy, generate, pixels
from tests.helpers.loras import make_lora
from tests.helpers.wording import translated

from halftone.contract.request import Lora, Numerics
from halftone.contract.vocabulary import Precision
from halftone.engine.loading.load import exact_source
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.fp8 import EIGHT, computed, stored, stored_exactly
from halftone.engine.weights.offload import own_tensors
from halftone.library.records import changed_setting
from halftone.measure.pictures import psnr


@pytest.mark.parametrize("size", [1e-6, 0.02, 1.0, 449.0, 5e4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_three_bits_of_every_weight_are_kept_whatever_its_size(size: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weight = (torch.randn(64, 64).clamp(-3, 3) * size / 3).to(torch.float32)
    found = stored(weight)
    assert found is not None
    eight, k = found
    assert eight.dtype == EIGHT
    assert eight.float().isfinite().all()
    assert 224 <= float(eight.float().abs().max()) <= 448
    error = (computed(eight, k, torch.float32) - weight).square().mean().sqrt() / weight.square().mean().sqrt()
    assert float(error) < 0.03
    if size > 1e-3:
        narrow = computed(eight, k, dtype)
        assert stored_exactly(narrow) is not None, "rounded once, it loses nothing more"
        assert stored_exactly(narrow * 0.25) is not None, "nor when it is rescaled"
    assert stored(torch.zeros(2, 2)) is None
    assert stored_exactly(weight) is None


def held(engine: DiffusersEngine) -> int:
    """Bytes of the UNet's weights."""
    assert engine.loaded is not None
    return sum(tensor.nbytes for part in engine.loaded.modules["unet"].modules() for tensor in own_tensors(part))


@pytest.mark.parametrize("precision", ["float16", "float32"])
def test_the_denoiser_takes_less_memory_and_gives_nearly_the_same_picture(models: dict[str, Path], precision: Precision) -> None:
    engine, model = DiffusersEngine(), models["sd15"]
    whole, _ = generate(engine, model, precision)
    before = held(engine)
    made, _ = generate(engine, model, precision, fp8_storage=True)
    assert held(engine) < before * (0.6 if precision == "float16" else 0.4)
    assert 20 < psnr(pixels(made), pixels(whole)) < 90
    assert made.images[0].state == "clean"
    (told,) = [reason for reason in made.plan.reasons if "FP8" in str(reason)]
    assert translated(told)
    apart(engine)
    offloaded, _ = generate(engine, model, precision, fp8_storage=True, offload="group")
    assert (pixels(offloaded) == pixels(made)).all()
    again, _ = generate(engine, model, precision, offload="none")
    assert (pixels(again) == pixels(whole)).all()
    assert held(engine) == before


def test_what_is_computed_with_is_the_rounded_model(models: dict[str, Path]) -> None:
    """Packing is a matter of memory alone: with the same weights held wide the same picture comes out."""
    engine = DiffusersEngine()
    made, _ = generate(engine, models["sd15"], "float16", fp8_storage=True)
    assert engine.loaded is not None
    rounded = exact_source(engine.loaded, "unet")
    engine.loaded.fp8 = False
    exact = exact_source(engine.loaded, "unet")
    assert not torch.equal(exact["conv_in.weight"], rounded["conv_in.weight"])
    assert torch.equal(exact["conv_norm_out.weight"], rounded["conv_norm_out.weight"])
    plain = DiffusersEngine()
    generate(plain, models["sd15"], "float16", steps=1)
    assert plain.loaded is not None
    for name, parameter in plain.loaded.modules["unet"].named_parameters():
        parameter.data = rounded[name].to(parameter)
    wide, _ = generate(plain, models["sd15"], "float16")
    assert (pixels(wide) == pixels(made)).all()


def test_a_lora_is_added_to_what_it_changes_in_full(models: dict[str, Path], tmp_path: Path) -> None:
    engine = DiffusersEngine()
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "add.safetensors")))
    without, _ = generate(engine, models["sd15"], fp8_storage=True)
    packed = held(engine)
    made, _ = generate(engine, models["sd15"], fp8_storage=True, loras=(lora,))
    assert held(engine) > packed
    whole, _ = generate(engine, models["sd15"], loras=(lora,))
    assert not (pixels(made) == pixels(without)).all()
    assert psnr(pixels(made), pixels(whole)) > 20


def test_a_fault_is_found_and_cured_as_ever(models: dict[str, Path], tmp_path: Path) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "stream of unet", 17)
    engine = DiffusersEngine()
    made, _ = generate(engine, model, "float16", fp8_storage=True)
    assert made.images[0].state == "recovered"
    assert made.plan.rescale["unet"]
    again, _ = generate(engine, model, "float16", fp8_storage=True)
    assert again.images[0].state == "clean", "the cure was learned, and rescaled weights are packed"
    report, _ = check(engine, model, fp8_storage=True)
    assert report.verdict == "fixable"
    assert report.plan.verified


def test_what_is_learned_with_it_is_not_true_without() -> None:
    assert changed_setting(Numerics(fp8_storage=True), Numerics()) == "fp8_storage"
    assert changed_setting(Numerics(offload="model"), Numerics()) is None
