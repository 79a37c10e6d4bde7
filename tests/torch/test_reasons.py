"""What the engine gives as reasons is known to the window, which can say it in its language."""

import re
from pathlib import Path

import msgspec
import pytest
import torch
from tests.helpers.tiny import save_tiny
from tests.helpers.wording import CHINESE, translated

from halftone.contract.facts import Finding
from halftone.contract.request import Numerics, PictureRequest
from halftone.engine.basics.torch_settings import without_effect
from halftone.engine.inputs.resolve import resolve
from halftone.engine.inputs.wanted import of_request
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.loading.plans import base_plan
from halftone.health.device_faults import OPERATIONS
from halftone.health.explain import finding_words
from halftone.library.models import describe
from halftone.measure.cases import cases_for
from halftone.measure.habits import Guarded
from halftone.measure.modes import MODES
from halftone.measure.selftest import check_casting, habits_of

ALWAYS = Numerics(vae_float32="always", upcast_cross_attention="always")


def _loaded(folder: Path, family: str) -> Loaded:
    return load_pipeline(describe(str(save_tiny(folder / family, family))), torch.device("cpu"))


@pytest.mark.parametrize("family", ["sd15", "sd3"])
def test_what_the_settings_order_is_translated(tmp_path: Path, family: str) -> None:
    reasons = base_plan(_loaded(tmp_path, family), "float16", ALWAYS).reasons
    assert len(reasons) == 2
    assert all(map(translated, reasons))


def test_what_a_request_leaves_open_is_translated(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path, "sd15")
    request = PictureRequest(prompt="a red sun", model=loaded.facts.id)
    reasons = resolve(request, loaded, loaded.pipe, of_request(request, loaded.facts), "float16", ()).reasons
    assert len(reasons) >= 2
    assert all(map(translated, reasons))


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_settings_without_effect_are_translated(device: str) -> None:
    switches = Numerics(
        fp16_reduction=True,
        bf16_reduction=True,
        fp16_accumulation=True,
        math_attention_reduction=True,
        attention_backend="cudnn",
        offload="model",
    )
    reasons = without_effect(switches, torch.device(device))
    assert len(reasons) >= 4
    assert all(map(translated, reasons))


def test_every_case_of_the_self_test_is_said_in_chinese() -> None:
    habits = [habit(MODES[0], "cpu", Guarded("cpu")) for habit in habits_of("cuda")]
    sizes = {case.size for kind in ("cpu", "cuda") for case in cases_for(kind)} | {one.size for one in habits}
    said = " ".join(size.text(CHINESE) for size in sizes)
    assert set(re.findall(r"\b[a-z]{3,}\b", said)) <= {"exp"}


def test_the_size_that_a_device_failed_at_is_said_in_chinese() -> None:
    sizes = {(case.operation, case.size) for kind in ("cpu", "cuda") for case in cases_for(kind) if case.operation in OPERATIONS}
    casting = check_casting(MODES[0], "cpu")
    for operation, size in (*sizes, (casting.operation, casting.size)):
        failing = msgspec.structs.replace(casting, operation=operation, size=size)
        finding = Finding(code="device-fault", component="", module="", dtype="float16", peak=None, limit=None, failing=failing)
        said = finding_words(finding)[0].text(CHINESE)
        assert set(re.findall(r"\b[a-z]{3,}\b", said)) <= {"exp", "erf", "sin"}
