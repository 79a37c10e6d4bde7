"""A device that clips at the limit of float16 in place of infinity: the check names the layer, the guard recovers the step."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.bench.families import run
from tests.bench.families.table import CASES
from tests.helpers.clipping import LIMIT, Clipping
from tests.helpers.engine_runs import check, faulty_copy, generate, load_tiny, pixels

from halftone.engine.finding.findings import clipped_findings
from halftone.engine.service import DiffusersEngine
from halftone.health.explain import finding_words
from halftone.health.reports.report_sentences import verdict_words
from halftone.library.files.scan import TensorScan


@pytest.mark.parametrize(
    ("family", "component", "group", "k", "module"),
    [
        ("sd15", "vae", "stream of decoder", 16, "decoder.conv_in"),
        ("sd15", "unet", "stream of unet", 17, "conv_in"),
        ("sd15", "unet", "first half of mid_block.resnets.0", 17, "mid_block.resnets.0.conv1"),
        ("sd3", "vae", "stream of decoder", 16, "decoder.conv_in"),
    ],
)
def test_the_check_names_the_layer_that_clips_as_an_overflow(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, family: str, component: str, group: str, k: int, module: str
) -> None:
    model = faulty_copy(models[family], tmp_path / "faulty", component, group, k)
    with Clipping():
        report, _ = check(engine, model, "float16", family=family)
    first = report.findings[0]
    assert (first.code, first.component, first.module) == ("activation-overflow", component, module)
    assert first.peak is not None
    assert first.peak > LIMIT
    assert report.verdict == "fixable"
    assert report.cures[0].kind == "rescale"


@pytest.mark.parametrize("family", ["sd15", "sd3"])
def test_a_sound_model_stays_healthy_on_a_device_that_clips(
    engine: DiffusersEngine, models: dict[str, Path], family: str
) -> None:
    with Clipping():
        report, _ = check(engine, models[family], "float16", family=family)
    assert report.verdict in {"healthy", "tight"}
    assert not [finding for finding in report.findings if finding.code != "tight"]


def test_latents_that_were_clipped_are_recovered(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    """The last layer of the denoiser overflows in one call on a device that clips; the step is repeated, as after infinity."""
    clean, _ = generate(engine, models["sd15"], "float16", steps=5, upcast_sampling=False)
    kept = engine.loaded
    assert kept is not None
    calls: list[int] = []

    def strike(_module: torch.nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        calls.append(1)
        return output * float("inf") if len(calls) == 3 else None

    handle = kept.modules["unet"].get_submodule("conv_out").register_forward_hook(strike)
    try:
        with Clipping():
            report, _ = generate(engine, models["sd15"], "float16", steps=5, upcast_sampling=False)
    finally:
        handle.remove()
    picture = report.images[0]
    assert picture.state == "recovered"
    assert (picture.events[0].step, picture.events[0].action, picture.events[0].cure) == (3, "went-back-one-step", "none")
    assert (pixels(report) == pixels(clean)).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("channels", "code"), [(1, None), (32, "saturated-output")])
def test_a_block_that_clips_on_purpose_counts_only_where_the_result_is_wrong(
    engine: DiffusersEngine, tmp_path: Path, channels: int, code: str | None
) -> None:
    """FLUX holds its streams at the limit in float16. One outlier that norms read leaves the result as it is; a whole stream of
    numbers that were of different sizes does not.
    """
    case = next(case for case in CASES if case.name == "FLUX.1 schnell")
    pipe = load_tiny(run.save(case, tmp_path / "m"))
    block = pipe.transformer.single_transformer_blocks[-1]
    width = block.proj_out.out_features
    with torch.no_grad():
        block.norm.linear.bias[2 * width : 2 * width + channels] = 60000.0
        block.proj_out.bias[:channels] = torch.linspace(1.0, 4.0, channels) * (-1.0) ** torch.arange(channels)
    pipe.save_pretrained(tmp_path / "large")
    report, _ = check(engine, tmp_path / "large", "float16", family="sd3")
    named = [finding for finding in report.findings if finding.component == "transformer" and finding.code != "tight"]
    assert [finding.code for finding in named] == ([] if code is None else [code])
    assert all(finding.module == "single_transformer_blocks.0" for finding in named)


def _edited(source: Path, target: Path, change: Any) -> Path:
    """A copy of a tiny model whose parts were changed."""
    pipe = load_tiny(source)
    with torch.no_grad():
        change(pipe)
    pipe.save_pretrained(target)
    return target


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_weights_that_were_cut_off_in_the_file_are_told(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, precision: Any
) -> None:
    def cut(pipe: Any) -> None:
        pipe.unet.conv_norm_out.weight[1] = -65504.0

    report, _ = check(engine, _edited(models["sd15"], tmp_path / "cut", cut), precision, family="sd15")
    told = next(finding for finding in report.findings if finding.code == "weights-clipped")
    assert (told.component, told.module) == ("unet", "conv_norm_out")
    assert told.facts == {
        "file": "diffusion_pytorch_model.safetensors",
        "tensor": "conv_norm_out.weight",
        "count": 1,
        "read": True,
    }
    assert "(count: 1)" in str(finding_words(told)[0])


def test_a_file_with_weights_at_the_limit_is_not_called_healthy(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    """Every layer of it stays in range, so that nothing but the file gives it away."""

    def cut(pipe: Any) -> None:
        pipe.unet.conv_norm_out.weight[1] = -65504.0

    report, _ = check(engine, _edited(models["sd15"], tmp_path / "cut", cut), "float32", family="sd15")
    words, tone = verdict_words(report)
    assert (report.verdict, tone) == ("healthy", "warn")
    assert words.text().endswith(". Weights in diffusion_pytorch_model.safetensors sit at the FP16 limit.")


def test_constants_at_the_limit_are_no_weights_that_were_cut_off() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Embedding(2, 2))

    def scanned(tensor: str, clipped: int) -> TensorScan:
        return TensorScan(
            component="unet", file="m", tensor=tensor, dtype="F16", shape=(2, 2), nonfinite=0, peak=LIMIT, clipped=clipped
        )

    scans = [scanned("0.weight", 4), scanned("0.mask", 1), scanned("1.weight", 1), scanned("0.weight", 0)]
    assert clipped_findings(scans, {}, {"unet": module}) == []
    assert len(clipped_findings([scanned("0.weight", 2)], {}, {"unet": module})) == 1
