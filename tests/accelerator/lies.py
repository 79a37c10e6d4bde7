"""Cards that lie: the self-test names each fault, Auto goes around it, and the sound card has none.

`test_card.py` runs this in a process of its own.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Final

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.accelerator import faults
from tests.bench.faults import sound as settings
from tests.helpers.engine_runs import check, generate, pixels
from tests.helpers.tiny import save_tiny

from halftone.contract.facts import OperationResult, SelfTestReport, SpeedResult
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.sampling.host_schedule import HostSchedule
from halftone.engine.service import DiffusersEngine
from halftone.health.device_faults import copies_are_faulty, sound_backends
from halftone.health.explain import finding_words
from halftone.health.precision import choose_auto
from halftone.library.records import save_selftest
from halftone.measure.cases import cases_for
from halftone.measure.devices import find_device
from halftone.measure.late import await_copies
from halftone.measure.modes import modes_for
from halftone.measure.pictures import psnr
from halftone.measure.selftest import judge_dtype, run_tests

CARD: Final = "card:0"
TYPES: Final[tuple[DType, ...]] = ("float16", "bfloat16", "float32")
FOUND: Final = {
    "FP16 sums in matrix products": ("float16", "matmul"),
    "FP16 sums in fused attention": ("float16", "attention-backend"),
    "LayerNorm gives NaN in FP16": ("float16", "layer-norm"),
    "convolution gives NaN in FP16": ("float16", "convolution"),
    "GroupNorm with FP16 statistics": ("float16", "group-norm"),
    "softmax with FP16 sums": ("float16", "softmax"),
    "scores in FP16 in flash attention": ("float16", "attention-backend"),
    "flash attention gives NaN in FP16": ("float16", "attention-backend"),
    "efficient attention gives NaN with a mask": ("float16", "attention-backend"),
    "FP16 subnormal numbers flushed": ("float16", "tiny-values"),
    "FP16 clips at 65 504": ("float16", "casting"),
    "BF16 cut off instead of rounded": ("bfloat16", "casting"),
    "FP16 products above one size": ("float16", "matmul"),
    "TF32 in matrix products whatever is set": ("float32", "matmul"),
    "noise that follows no seed": ("float32", "random-numbers"),
    "a kernel that corrupts memory once": ("float32", "memory"),
    "BF16 upsampling": ("bfloat16", "upsampling"),
    "copies that nobody waits for": ("float32", "copies"),
}
"""Fault -> (type, operation) that the self-test must name. The others act on a setting or on time alone."""


def measured(*types: str) -> tuple[OperationResult, ...]:
    modes = [mode for mode in modes_for(find_device(CARD)) if mode.name in types]
    return tuple(run_tests(modes, cases_for("card"), CARD, lambda: None))


def bad(tests: tuple[OperationResult, ...]) -> set[tuple[str, str]]:
    return {(one.mode, one.operation) for one in tests if one.outcome not in ("right", "missing")}


def auto(tests: tuple[OperationResult, ...]) -> DType:
    """What Auto takes where FP16 is the fastest, then BF16."""
    seconds = {"float16": 1.0, "bfloat16": 1.2, "float32": 4.0}
    speeds = [SpeedResult(mode=mode, operation="unet-step", tflops=1.0, seconds=one) for mode, one in seconds.items()]
    return choose_auto(tuple(judge_dtype(dtype, tests, speeds) for dtype in TYPES))[0]


@pytest.fixture(scope="module")
def sound() -> tuple[OperationResult, ...]:
    return measured(*TYPES)


def test_the_sound_card_has_no_fault(sound: tuple[OperationResult, ...]) -> None:
    assert bad(sound) == set()
    assert auto(sound) == "float16"
    assert [mode.name for mode in modes_for(find_device(CARD))] == ["float32", "float16", "bfloat16"]


def test_the_sound_card_has_no_fault_whatever_is_set(model: Path, tmp_path: Path) -> None:
    """A few sets that hold every value of every setting; any two values together: `python -m tests.bench.faults.sound`."""
    ours = settings.Sound(tmp_path, str(model), size=32, steps=2)
    alarms = {settings.said(chosen): ours.alarms(chosen) for chosen in settings.covering()}
    assert not any(alarms.values()), alarms


@pytest.mark.parametrize("name", FOUND)
def test_a_fault_is_named_and_avoided(name: str, sound: tuple[OperationResult, ...]) -> None:
    mode, operation = FOUND[name]
    with faults.lying(faults.BY_NAME[name]):
        faulty = measured(mode)
    found = bad(faulty)
    assert (mode, operation) in found
    tests = (*faulty, *(one for one in sound if one.mode != mode))
    if operation == "attention-backend":
        assert found == {(mode, operation)}, "attention itself runs on the others"
        assert auto(tests) == "float16"
    elif mode == "float16":
        assert auto(tests) == "bfloat16"


@pytest.mark.parametrize(("what", "operation"), [("matrix products", "matmul"), ("convolutions", "convolution")])
def test_tf32_that_a_setting_turns_off_is_a_mode(what: str, operation: str) -> None:
    with faults.lying(faults.BY_NAME[f"TF32 in {what}, unless the setting is off"]):
        tests = measured("float32", "tf32")
    assert bad(tests) == set()
    errors = {one.mode: one.error or 0.0 for one in tests if one.operation == operation}
    assert errors["tf32"] > 1e-4 > errors["float32"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model") / "sd15", "sd15")


@pytest.fixture
def reference(model: Path) -> NDArray[np.uint8]:
    report, _ = generate(DiffusersEngine(), model, "float32")
    return pixels(report)


def keep(tests: tuple[OperationResult, ...]) -> SelfTestReport:
    report = SelfTestReport(
        device=find_device(CARD), dtypes=tuple(judge_dtype(dtype, tests, []) for dtype in TYPES), tests=tests, speeds=(), bits=(),
        effects=(), auto="float16", auto_reason=Words("FP16."), measured_at="2026-01-01T00:00:00+00:00", seconds=1.0,
    )  # fmt: skip
    save_selftest(report)
    return report


def test_a_picture_goes_around_a_backend(model: Path, reference: NDArray[np.uint8], sound: tuple[OperationResult, ...]) -> None:
    with faults.lying(faults.BY_NAME["flash attention gives NaN in FP16"]):
        report, _ = generate(DiffusersEngine(), model, "float16")
        assert report.events, "unknown, the fault is met"
        kept = keep((*measured("float16"), *(one for one in sound if one.mode != "float16")))
        assert sound_backends(kept.tests) == ("efficient", "math"), "this card has no other"
        report, _ = generate(DiffusersEngine(), model, "float16")
    assert report.events == ()
    assert psnr(pixels(report), reference) >= 30
    with Image.open(report.images[0].path) as image:
        assert "Attention avoids flash, which failed the self-test" in str(image.info), "the picture tells it"


def test_a_picture_waits_for_its_copies(model: Path, reference: NDArray[np.uint8]) -> None:
    with faults.lying(faults.BY_NAME["copies that nobody waits for"]):
        kept = keep(measured("float32"))
        assert copies_are_faulty(kept)
        report, _ = generate(DiffusersEngine(), model, "float32", sampler="Euler a")
    plain, _ = generate(DiffusersEngine(), model, "float32", sampler="Euler a")
    assert (pixels(report) == pixels(plain)).all()


def test_a_scheduler_that_copies_ahead_itself_is_made_to_wait() -> None:
    values, place = torch.arange(1.0, 9.0), torch.device(CARD)
    scheduler = SimpleNamespace(timesteps=values.to(CARD))
    with faults.lying(faults.BY_NAME["copies that nobody waits for"]), HostSchedule().held(scheduler, (), {}):
        await_copies(place, wanted=True)
        try:
            pinned = values.pin_memory()
            there = (
                pinned.to(CARD, non_blocking=True),
                pinned.to(CARD, torch.float32, True),
                pinned.to(scheduler.timesteps.to(CARD), non_blocking=True),
            )
            back = there[0].to("cpu", non_blocking=True)
            found = (back.clone(), *(one.cpu() for one in there))
        finally:
            await_copies(place, wanted=False)
    assert all(torch.equal(one, values) for one in found)


def test_the_check_names_the_operation_of_a_faulty_type(model: Path, sound: tuple[OperationResult, ...]) -> None:
    with faults.lying(faults.BY_NAME["LayerNorm gives NaN in FP16"]):
        keep((*measured("float16"), *(one for one in sound if one.mode != "float16")))
        report, _ = check(DiffusersEngine(), model, "float16")
    assert [finding.code for finding in report.findings] == ["device-fault"]
    assert str(finding_words(report.findings[0])[0]) == "FP16 is faulty on this device. Failed test: Layer norm, 16 × 64."
    assert report.plan.verified
    assert set(report.plan.dtypes.values()) == {"bfloat16"}
