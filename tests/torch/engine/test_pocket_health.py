"""Pocket is sound in float16; its fragile twin is not, is named, cured and gives the same picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_runs import Recorder, Steady, pixels

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, GenerateReport
from halftone.contract.messages import Examine, Generate
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import Precision
from halftone.engine.checks.fragile import make_fragile
from halftone.engine.service import DiffusersEngine
from halftone.library.records import set_applied
from halftone.measure.pictures import psnr
from halftone.settings.places import resources

POCKET = resources() / "pocket"


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fragile(POCKET, tmp_path_factory.mktemp("fragile") / "fragile-pocket")


def _check(engine: DiffusersEngine, model: str) -> CheckReport:
    return engine.examine(Examine(job="c", model=model, numerics=Numerics(precision="float16")), Recorder(), Steady())


def _draw(engine: DiffusersEngine, model: str, precision: Precision, **fields: Any) -> GenerateReport:
    request = PictureRequest(
        prompt="a red sun over green hills", model=model, seed=1, steps=4, numerics=Numerics(precision=precision), **fields
    )
    return engine.generate(Generate(job="g", request=request), Recorder(), Steady())


def test_pocket_is_healthy(engine: DiffusersEngine) -> None:
    report = _check(engine, "pocket")
    assert report.verdict == "healthy"
    assert not report.findings
    wide, narrow = _draw(engine, "pocket", "float32"), _draw(engine, "pocket", "float16")
    assert psnr(pixels(narrow), pixels(wide)) >= 30
    assert (wide.images[0].width, wide.images[0].height) == (128, 128)


def test_fragile_pocket_draws_the_same_picture_in_float32(engine: DiffusersEngine, fragile: Path) -> None:
    theirs, ours = _draw(engine, "pocket", "float32"), _draw(engine, str(fragile), "float32")
    assert psnr(pixels(ours), pixels(theirs)) >= 50


def test_fragile_pocket_is_named_cured_and_remembered(engine: DiffusersEngine, fragile: Path) -> None:
    report = _check(engine, str(fragile))
    assert report.verdict == "fixable"
    first = report.findings[0]
    assert (first.component, first.module, first.code) == ("unet", "mid_block.resnets.0.conv1", "activation-overflow")
    decoder = next(finding for finding in report.findings if finding.component == "vae")
    assert decoder.further, "what comes after the origin of the decoder is counted there"
    places = [(finding.component, finding.module) for finding in report.findings]
    places += [(finding.component, layer.module) for finding in report.findings for layer in finding.further]
    assert len(places) == len(set(places))
    cure = report.cures[0]
    assert (cure.kind, cure.suggested, cure.plan.verified) == ("rescale", True, True)
    assert cure.psnr is not None
    assert cure.psnr >= 30
    wide = _draw(engine, str(fragile), "float32")
    set_applied(report, True)
    applied = _draw(DiffusersEngine(), str(fragile), "float16")
    assert applied.images[0].state == "clean"
    assert applied.plan.rescale == report.plan.rescale
    assert psnr(pixels(applied), pixels(wide)) >= 30
    set_applied(report, False)
    recovered = _draw(DiffusersEngine(), str(fragile), "float16")
    assert recovered.images[0].state == "recovered"
    assert {event.component for event in recovered.images[0].events} == {"unet", "vae"}
    assert psnr(pixels(recovered), pixels(wide)) >= 30
    assert _draw(DiffusersEngine(), str(fragile), "float16").images[0].state == "clean", "what worked is remembered"


def test_the_twin_is_the_same_every_time_and_never_overwrites(fragile: Path, tmp_path: Path) -> None:
    again = make_fragile(POCKET, tmp_path / "again")
    names = sorted(path.relative_to(fragile) for path in fragile.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    for name in names:
        assert np.array_equal(np.fromfile(fragile / name, np.uint8), np.fromfile(again / name, np.uint8)), name
    with pytest.raises(HalftoneError) as caught:
        make_fragile(POCKET, tmp_path / "again")
    assert caught.value.code == "output-exists"
