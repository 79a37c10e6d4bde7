"""What the engine keeps between jobs: the model as it was asked for, and what cured it."""

from pathlib import Path

import pytest
from tests.helpers.engine_runs import Recorder
from tests.helpers.memory import Full

from halftone.contract.errors import HalftoneError, say
from halftone.contract.messages import Load
from halftone.contract.plan import Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType
from halftone.engine.curing.first_plan import first_plan, remember_cure
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import apply_state
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import ComponentState
from halftone.library.learned import recall
from halftone.measure.devices import find_device

CPU = find_device("cpu")


def load(model: Path, numerics: Numerics) -> Loaded:
    engine = DiffusersEngine()
    engine.load(Load(model=str(model), numerics=numerics), Recorder())
    assert engine.loaded is not None
    return engine.loaded


def test_a_model_is_loaded_as_its_first_picture_will_need_it(models: dict[str, Path]) -> None:
    numerics = Numerics(precision="float16", vae_float32="always")
    loaded = load(models["sd15"], numerics)
    assert {name: state.dtype for name, state in loaded.states.items()} == {
        "text_encoder": "float16",
        "unet": "float16",
        "vae": "float32",
    }


@pytest.mark.parametrize(
    ("asked", "plan", "how"),
    [
        (
            "bfloat16",
            Plan(dtypes={"unet": "bfloat16"}, rescale={"unet": {"conv_in.weight": -1}}),
            "with rescaled layers",
        ),
        (
            "bfloat16",
            Plan(dtypes={"unet": "bfloat16"}, upcast={"unet": ("mid_block",)}),
            "with the failing parts in FP32",
        ),
        ("float16", Plan(dtypes={"unet": "bfloat16"}), "in BF16"),
        ("float16", Plan(dtypes={"unet": "float16"}, settings={"attention_backend": "math"}), "with a safer setting"),
    ],
)
def test_a_cure_is_remembered_whole_and_told_plainly(models: dict[str, Path], asked: DType, plan: Plan, how: str) -> None:
    loaded = load(models["sd15"], Numerics(precision=asked))
    numerics = Numerics(precision=asked)
    remember_cure(loaded, CPU, asked, numerics, plan, "unet")
    learned = recall(loaded.facts, CPU, asked, numerics)
    assert learned is not None
    assert tuple(map(str, learned.reasons)) == (f"UNet: computed {how}, which worked before on this device.",)
    again, _ = first_plan(loaded, CPU, asked, numerics)
    assert (again.settings, again.rescale, again.upcast) == (plan.settings, plan.rescale, plan.upcast)


@pytest.mark.parametrize("after", [0, 9])
def test_a_model_that_is_too_large_is_told_as_such(models: dict[str, Path], after: int) -> None:
    with Full(after), pytest.raises(HalftoneError) as caught:
        load(models["sd15"], Numerics(precision="float16"))
    told = say(caught.value.as_facts())
    assert caught.value.code == "model-too-large"
    assert "does not fit into the free memory of cpu" in told
    assert "size" not in told.replace(str(models["sd15"]), "")


def test_another_error_stays_what_it_is(models: dict[str, Path]) -> None:
    loaded = load(models["sd15"], Numerics(precision="float32"))
    with Full(9, RuntimeError("odd driver")), pytest.raises(RuntimeError, match="odd driver"):
        apply_state(loaded, "unet", ComponentState(dtype="float16"))
