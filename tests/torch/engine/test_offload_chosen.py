"""Auto offloads wherever a model is placed: for a picture, for a check, and when it is loaded."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.apart import apart
from tests.helpers.device import DEVICE, FACTS
from tests.helpers.engine_runs import Recorder, check, generate, pixels
from torch.overrides import TorchFunctionMode

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Examine, Load
from halftone.contract.request import CheckInputs, Numerics
from halftone.contract.vocabulary import Offload
from halftone.engine.inputs.check_memory import CheckRoom
from halftone.engine.inputs.prompts import pictures_to_check
from halftone.engine.loading.load import Loaded
from halftone.engine.service import DiffusersEngine

WHY = "Offload (Model): all at once would need about"


class Crowded(TorchFunctionMode):
    """The device has no room for whole networks side by side: nothing is brought there while the model is not offloaded."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__()
        self._loaded = loaded

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        moved = func is torch.Tensor.to and isinstance(args[0], torch.nn.Parameter) and DEVICE in args
        if moved and self._loaded.places.mode == "none":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 MiB")
        return func(*args, **(kwargs or {}))


@contextmanager
def too_small_for_all(loaded: Loaded, component: str) -> Generator[None]:
    """The memory ends whenever this component runs while all others lie beside it."""

    def look(_module: torch.nn.Module, _args: Any) -> None:
        if loaded.places.mode == "none":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    layer = next(part for part in loaded.modules[component].modules() if isinstance(part, torch.nn.Conv2d))
    handle = layer.register_forward_pre_hook(look)
    try:
        yield
    finally:
        handle.remove()


@pytest.fixture
def engine(models: dict[str, Path]) -> DiffusersEngine:
    """With a model in memory that can be offloaded."""
    made = DiffusersEngine()
    generate(made, models["sd15"], steps=1)
    apart(made)
    return made


@pytest.mark.parametrize("component", ["unet", "vae"])
def test_a_check_that_does_not_fit_goes_on_offloaded(models: dict[str, Path], engine: DiffusersEngine, component: str) -> None:
    whole, _ = check(DiffusersEngine(), models["sd15"])
    loaded = apart(engine)
    with too_small_for_all(loaded, component):
        found, emit = check(engine, models["sd15"], offload="auto")
    assert loaded.places.mode == "model"
    assert found.layers == whole.layers
    assert (found.verdict, found.findings) == (whole.verdict, whole.findings)
    assert any(str(reason).startswith(WHY) for reason in found.plan.reasons)
    assert emit.events


def test_a_check_with_offload_off_says_that_the_memory_ended(models: dict[str, Path], engine: DiffusersEngine) -> None:
    with too_small_for_all(apart(engine), "unet"), pytest.raises(HalftoneError) as caught:
        check(engine, models["sd15"], offload="none")
    assert caught.value.code == "check-no-memory"
    assert "Offload to Auto" in str(caught.value)


@pytest.mark.parametrize(("share", "mode"), [(100.0, "none"), (0.001, "sequential")])
def test_a_check_is_planned_as_a_picture_is(models: dict[str, Path], engine: DiffusersEngine, share: float, mode: str) -> None:
    """share: of what the whole at once would need."""
    loaded = apart(engine)
    inputs = CheckInputs(width=32, height=32)
    command = Examine(job="c", model=str(models["sd15"]), inputs=inputs)
    pictures = [one for one, _ in pictures_to_check(loaded, inputs, "quick")]
    room = CheckRoom(loaded, FACTS, command, pictures)
    needed = sum(tensor.nbytes for module in loaded.modules.values() for tensor in module.parameters())
    room.settle("float32", lambda: None, free=round(share * 2 * needed))
    assert loaded.places.mode == mode
    assert bool(room.reasons) == (mode != "none")


def load(engine: DiffusersEngine, model: Path, offload: Offload) -> None:
    engine.load(Load(model=str(model), device=FACTS.id, numerics=Numerics(precision="bfloat16", offload=offload)), Recorder())


def test_a_model_that_does_not_fit_is_loaded_offloaded(models: dict[str, Path], engine: DiffusersEngine) -> None:
    loaded = apart(engine)
    load(engine, models["sd15"], "group")
    with Crowded(loaded):
        load(engine, models["sd15"], "auto")
    assert loaded.places.mode == "model"
    with pytest.raises(HalftoneError) as caught, Crowded(loaded):
        load(engine, models["sd15"], "none")
    assert caught.value.code == "model-too-large"
    assert "Offload to Auto" in str(caught.value)


def test_a_picture_of_a_model_that_does_not_fit_is_made_offloaded(models: dict[str, Path], engine: DiffusersEngine) -> None:
    whole, _ = generate(engine, models["sd15"], "bfloat16", offload="none")
    loaded = apart(engine)
    generate(engine, models["sd15"], offload="group")
    with Crowded(loaded):
        made, _ = generate(engine, models["sd15"], "bfloat16", offload="auto")
    assert (made.images[0].offload, loaded.places.mode) == ("model", "model")
    assert any(str(reason).startswith(WHY) for reason in made.plan.reasons)
    assert (pixels(made) == pixels(whole)).all()
