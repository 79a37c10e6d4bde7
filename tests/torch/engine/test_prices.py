"""What a check says of cures: only what was measured, and everything once it is asked for."""

from pathlib import Path

import pytest
from tests.helpers.engine_runs import check, faulty_copy

from halftone.contract.facts import CheckReport
from halftone.contract.plan import Cure
from halftone.engine.checks import examine
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import apply_plan
from halftone.engine.service import DiffusersEngine


@pytest.fixture
def fragile(models: dict[str, Path], tmp_path: Path) -> Path:
    return faulty_copy(models["sd15"], tmp_path / "faulty", "vae", "stream of decoder", 16)


def _by_kind(report: CheckReport) -> dict[str, Cure]:
    return {cure.kind: cure for cure in report.cures}


def _bytes(loaded: Loaded) -> int:
    return sum(p.numel() * p.element_size() for module in loaded.modules.values() for p in module.parameters())


def test_a_quick_check_runs_cures_until_one_holds(engine: DiffusersEngine, fragile: Path) -> None:
    report, _ = check(engine, fragile)
    cures = _by_kind(report)
    first = report.cures[0]
    assert (first.kind, first.suggested, first.plan.verified) == ("rescale", True, True)
    assert first.time_ratio is not None
    assert first.psnr is not None
    assert first.plan.error is not None
    assert [cure.time_ratio for cure in report.cures[1:]] == [None] * len(report.cures[1:])
    for kind in ("upcast-region", "bfloat16"):
        assert (cures[kind].plan.verified, cures[kind].psnr, cures[kind].plan.error) == (False, None, None)
        assert cures[kind].refusal is None
    whole = cures["float32-component"]
    assert (whole.plan.verified, whole.plan.error) == (True, 0.0), "it runs exactly as it did in the range pass"


def test_what_a_cure_leaves_as_it_was_is_not_run_again(engine: DiffusersEngine, fragile: Path) -> None:
    """The decoder is rescaled: the encoder ran in the range pass and in the target pass, and gives what it gave then."""
    check(engine, fragile)
    assert engine.loaded is not None
    vae = engine.loaded.modules["vae"]
    ran: list[str] = []
    for part in ("encoder", "decoder"):
        vae.get_submodule(f"{part}.conv_in").register_forward_hook(lambda *_, part=part: ran.append(part))
    report, _ = check(engine, fragile)
    cure = report.cures[0]
    assert (cure.kind, cure.plan.verified) == ("rescale", True)
    assert all(name.startswith("decoder.") for name in cure.plan.rescale["vae"])
    assert ran.count("encoder") == 2
    assert ran.count("decoder") > 2


@pytest.mark.parametrize("alike", [30.0, 119.0])
def test_a_cure_that_is_a_little_off_in_one_call_is_seen_in_a_whole_picture(
    engine: DiffusersEngine, fragile: Path, monkeypatch: pytest.MonkeyPatch, alike: float
) -> None:
    monkeypatch.setattr(examine, "NEAR", 0.0)
    monkeypatch.setattr(examine, "ALIKE", alike)
    report, _ = check(engine, fragile)
    first = report.cures[0]
    assert first.kind == "rescale"
    assert first.psnr is not None
    if alike == 30.0:
        assert (first.suggested, first.plan.verified, first.refusal) == (True, True, None)
        assert first.psnr > 30
    else:
        assert (first.suggested, first.plan.verified) == (False, False)
        assert str(first.refusal) == f"Its picture differs from FP32 ({first.psnr:.0f}\u00a0dB)."
        assert report.plan.verified, "a dearer cure is taken"


def test_every_layer_has_its_peak_under_a_rescaling(engine: DiffusersEngine, fragile: Path) -> None:
    report, _ = check(engine, fragile, "float16")
    assert report.plan.rescale
    for layer in report.layers:
        assert layer.peak_after is not None, layer
        assert layer.peak_after < 65504
        if layer.component not in report.plan.rescale:
            assert layer.peak_after == layer.peak


def test_the_memory_of_a_cure_is_what_it_takes_when_applied(engine: DiffusersEngine, fragile: Path) -> None:
    report, _ = check(engine, fragile)
    loaded = engine.loaded
    assert loaded is not None
    before = _bytes(loaded)
    for cure in report.cures:
        apply_plan(loaded, cure.plan)
        assert _bytes(loaded) - before == cure.memory_bytes, cure.kind


def test_a_thorough_check_measures_every_cure(engine: DiffusersEngine, fragile: Path) -> None:
    report, _ = check(engine, fragile, depth="thorough", prompt="a red sun", steps=2)
    assert report.depth == "thorough"
    assert report.verdict == "fixable"
    assert _by_kind(report).keys() >= {"rescale", "upcast-region", "float32-component", "float32-all"}
    for cure in report.cures:
        assert cure.time_ratio is not None, cure.kind
        assert cure.psnr is not None, cure.kind
    assert [cure.suggested for cure in report.cures] == [True] + [False] * (len(report.cures) - 1)
