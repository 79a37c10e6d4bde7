"""Finite and yet wrong: what is said of it was measured on whole outputs."""

import warnings
from pathlib import Path

import pytest
import torch
from tests.bench.faults.families import FAMILIES, Sound, make_sound
from tests.bench.faults.offsets import cases, planted
from tests.helpers.engine_runs import check
from torch import nn

from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.finding.departure import SAMPLE, Samples, Size, code_of, offset_layer, samples_of, size_of
from halftone.engine.service import DiffusersEngine
from halftone.health.explain import finding_words
from halftone.health.part_names import module_words


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    with quiet_libraries(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_sound(FAMILIES["sd15"], tmp_path_factory.mktemp("sound"), 0)


def test_the_peak_is_that_of_the_whole_output_not_of_the_sample() -> None:
    module, values = nn.Identity(), torch.zeros(4 * SAMPLE)
    values[1] = 70000.0
    with samples_of(module) as found:
        module(values)
    assert float(found.kept[""].max()) == 0.0
    assert found.peaks == {"": 70000.0}


@pytest.mark.parametrize(("peak", "code"), [(0.93, "inexact-output"), (65504.0, "inexact-output"), (7e4, "saturated-output")])
def test_only_what_passes_the_limit_is_said_to_stop_there(peak: float, code: str) -> None:
    assert code_of(peak, 65504.0, flat=False, shrunk=False) == code
    assert code_of(peak, 65504.0, flat=False, shrunk=True) == "underflow"


@pytest.mark.parametrize(
    ("component", "method", "layer"),
    [
        ("vae", "decode", "decoder.conv_in"),
        ("vae", "decode", "decoder.mid_block.attentions.0.to_out.0"),
        ("vae", "decode", "decoder.up_blocks.1.resnets.1.conv2"),
        ("unet", "forward", "up_blocks.0.resnets.0.time_emb_proj"),
    ],
)
def test_the_layer_that_adds_an_offset_is_named_and_not_the_norm_where_it_shows(
    engine: DiffusersEngine, sound: Sound, tmp_path: Path, component: str, method: str, layer: str
) -> None:
    offset = next(one for one in cases(sound, component, method, layer))
    report, _ = check(engine, planted(sound, component, offset, tmp_path / "planted"))
    found = next(one for one in report.findings if one.component == component)
    cure = next(one for one in report.cures if one.suggested)
    assert (cure.kind, set(cure.plan.upcast)) == ("upcast-region", {component}), "from the layer to the norm, not the whole part"
    assert (found.module, found.code) in ((layer, "flat-output"), (layer, "inexact-output"))
    assert "norm" in str(found.facts["shows"])
    assert found.peak == pytest.approx(offset.size, rel=0.05)
    assert str(finding_words(found)[0]).startswith(f"{module_words(component, layer).text()}: an offset of up to ")


def test_an_offset_that_the_type_can_hold_is_no_cause() -> None:
    sizes = Samples(made={"conv": Size(10.0, 1.0)}, read={"norm": Size(10.0, 1.0)})
    assert offset_layer(sizes, "norm", "float16") is None
    assert offset_layer(sizes, "norm", "bfloat16") == "conv"


def test_the_first_layer_that_makes_most_of_an_offset_is_its_cause() -> None:
    made = {"early": Size(5.0, 4.0), "large": Size(900.0, 800.0), "first": Size(700.0, 1.0), "second": Size(1000.0, 1.0)}
    assert offset_layer(Samples(made=made, read={"norm": Size(1000.0, 1.0)}), "norm", "float16") == "first"
    assert offset_layer(Samples(made=made), "norm", "float16") is None


@pytest.mark.parametrize("shape", [(2, 8, 4, 4), (2, 16, 8), (1, 8, 3, 4, 4), (2, 8), (1, 8, 1, 1)])
def test_an_offset_leaves_the_spread_as_it_was(shape: tuple[int, ...]) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    near, far = size_of(values), size_of(values + 4096.0)
    assert not near.is_offset
    assert far.is_offset
    assert far.spread == pytest.approx(near.spread, rel=1e-2)
    assert far.rms == pytest.approx(4096.0, rel=1e-2)
