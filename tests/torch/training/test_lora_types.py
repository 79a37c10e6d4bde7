"""A training in another type than was asked for says which layer is why, before its first step and in what it leaves."""

import json
from pathlib import Path

import msgspec
import pytest
import torch
from tests.helpers.engine_runs import Recorder, Steady
from tests.helpers.reports import with_faulty_flash
from tests.helpers.trainings import Directed, Killed, tiny_training, train

from halftone.cli.train.lines import event_line
from halftone.contract.messages import AnyEvent, Examine, TrainBegins, TrainSaved, TrainStep
from halftone.contract.plan import Plan
from halftone.contract.request import CheckInputs, Numerics
from halftone.contract.training import TrainConfig, WiderType
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.engine.basics.torch_settings import heed
from halftone.engine.checks.fragile import make_fragile
from halftone.engine.service import DiffusersEngine
from halftone.library.learned import remember
from halftone.library.models import describe
from halftone.library.records import save_selftest, set_applied
from halftone.measure.devices import find_device
from halftone.settings.places import resources


@pytest.fixture
def wanted(tmp_path: Path) -> TrainConfig:
    """FP16 is asked for, on a model that overflows in it."""
    model = make_fragile(resources() / "pocket", tmp_path / "fragile")
    made = {"size": 64, "steps": 2, "save_every": 1, "precision": "float16", "output": str(tmp_path / "out")}
    return msgspec.structs.replace(tiny_training(tmp_path), model=str(model), **made)


def written(folder: Path) -> WiderType:
    return msgspec.convert(json.loads((folder / "run.json").read_bytes())["wider"], WiderType)


def test_the_layer_of_an_applied_check_is_told_before_the_first_step_and_when_it_goes_on(
    wanted: TrainConfig, tmp_path: Path
) -> None:
    command = Examine(job="c", model=wanted.model, numerics=Numerics(precision="float16"), inputs=CheckInputs(steps=2))
    report = DiffusersEngine().examine(command, Recorder(), Steady())
    set_applied(report, True)
    found = next(one for one in report.findings if one.component == "unet" and one.code != "tight")

    def die(event: AnyEvent) -> None:
        if isinstance(event, TrainSaved):
            raise Killed

    emit = Directed(die)
    with pytest.raises(Killed):
        train(wanted, emit)
    (begins,) = emit.of(TrainBegins)
    wider = begins.wider
    assert wider is not None
    assert (wider.asked, wider.used, wider.name, wider.source) == (
        "float16", begins.dtype, f"unet.{found.module}", "check"
    )  # fmt: skip
    assert (wider.peak, wider.limit) == (found.peak, found.limit)
    assert f"Trains in {DTYPE_NAMES[begins.dtype]}, not FP16: UNet, " in event_line(begins)
    assert written(tmp_path / "out" / "lora") == wider
    set_applied(report, False)  # what was decided for a run holds to its end
    again = Directed()
    report = train(wanted, again, resume=tmp_path / "out" / "lora")
    assert (again.of(TrainBegins)[0].wider, report.wider, report.dtype) == (wider, wider, wider.used)


def test_a_cure_that_a_picture_needed_in_bfloat16_is_told_with_its_component(wanted: TrainConfig, tmp_path: Path) -> None:
    asked = msgspec.structs.replace(wanted, precision="bfloat16")
    plan = Plan(dtypes={"unet": "float32"}, verified=True)
    assert remember(describe(wanted.model), find_device("auto"), "bfloat16", plan, Numerics(precision="bfloat16"))
    emit = Directed()
    report = train(asked, emit)
    assert report.dtype == "float32"
    assert emit.of(TrainBegins)[0].wider == WiderType(asked="bfloat16", used="float32", name="unet", source="picture")
    assert written(tmp_path / "out" / "lora") == report.wider


def test_of_the_type_that_was_asked_for_nothing_is_said(wanted: TrainConfig, tmp_path: Path) -> None:
    emit = Directed()
    train(wanted, emit)
    (begins,) = emit.of(TrainBegins)
    assert (begins.dtype, begins.wider) == ("float16", None)
    assert "instead of" not in event_line(begins)
    assert json.loads((tmp_path / "out" / "lora" / "run.json").read_bytes())["wider"] is None


def test_a_training_goes_around_a_faulty_backend_of_attention(tmp_path: Path) -> None:
    device = find_device("auto")
    save_selftest(with_faulty_flash(device))
    flash: list[bool] = []
    look = Directed(lambda event: flash.append(torch.backends.cuda.flash_sdp_enabled()) if isinstance(event, TrainStep) else None)
    try:
        train(tiny_training(tmp_path, output=str(tmp_path / "out"), steps=1, device=device.id), look)
    finally:
        heed(device.id, None)
    assert flash == [False]
    assert torch.backends.cuda.flash_sdp_enabled(), "put back"
