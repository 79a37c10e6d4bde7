"""A check with LoRAs: what overflows only because of one says so, is cured, and costs a sound model nothing."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.engine_runs import Recorder, Steady, check, faulty_copy, generate, pixels
from tests.helpers.loras import VALUES, broken_lora, make_lora

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import LoraCause
from halftone.contract.messages import Examine
from halftone.contract.plan import Plan
from halftone.contract.request import CheckInputs, Lora, Numerics
from halftone.engine.finding.lora_cause import cause_of
from halftone.engine.loading.load import exact_source, load_pipeline
from halftone.engine.loading.plans import apply_plan, put_loras
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.calls import Call
from halftone.health.explain import finding_words
from halftone.library.models import describe
from halftone.measure.pictures import psnr

STRONG = 3e3


@pytest.fixture(scope="module")
def strong(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Lora:
    file = make_lora(models["sd15"], tmp_path_factory.mktemp("strong") / "too much.safetensors", layers=VALUES, strength=STRONG)
    return Lora(path=str(file), weight=0.8)


@pytest.fixture(scope="module")
def mild(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Lora:
    return Lora(path=str(make_lora(models["sd15"], tmp_path_factory.mktemp("mild") / "mild.safetensors", strength=0.1)))


def test_a_lora_that_is_too_strong_is_named(engine: DiffusersEngine, models: dict[str, Path], strong: Lora, mild: Lora) -> None:
    report, _ = check(engine, models["sd15"], loras=(mild, strong))
    assert report.verdict == "fixable"
    assert report.loras == (mild, strong)
    first = report.findings[0]
    assert (first.code, first.component) == ("activation-overflow", "unet")
    assert ".attentions.0.transformer_blocks.0.attn" in first.module
    assert first.facts["lora"] == "too much"
    said = " Without the LoRA too much (weight 0.8), the model stays in range here."
    assert str(finding_words(first)[0]).endswith(said)
    assert sum("lora" in finding.facts for finding in report.findings) == 1, "it is said once"
    held = 0.8 * float(first.facts["lora_share"])
    assert str(finding_words(first)[1]) == f"Apply the cure, or lower the weight of too much: at {held:g}, the same step held."
    lighter, _ = check(engine, models["sd15"], loras=(mild, Lora(path=strong.path, weight=held)))
    assert lighter.verdict in ("healthy", "tight")
    cure = next(cure for cure in report.cures if cure.suggested)
    assert cure.plan.verified


def test_a_mild_one_leaves_a_sound_model_sound(engine: DiffusersEngine, models: dict[str, Path], mild: Lora) -> None:
    report, _ = check(engine, models["sd15"], loras=(mild,))
    assert report.verdict == "healthy"
    assert report.findings == ()


def test_it_is_not_blamed_for_what_the_model_does_alone(
    engine: DiffusersEngine, models: dict[str, Path], mild: Lora, tmp_path: Path
) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "stream of unet", 15)
    report, _ = check(engine, model, loras=(mild,))
    assert report.verdict == "fixable"
    assert all("lora" not in finding.facts for finding in report.findings)


def test_each_layer_is_decided_by_itself_where_the_model_overflows_too(
    engine: DiffusersEngine, models: dict[str, Path], strong: Lora, tmp_path: Path
) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "stream of unet", 15)
    plain = {finding.module for finding in check(engine, model)[0].findings if finding.code == "activation-overflow"}
    report, _ = check(engine, model, loras=(strong,))
    found = {finding.module: finding for finding in report.findings if finding.code == "activation-overflow"}
    for module, finding in found.items():
        assert ("lora" in finding.facts) == (module not in plain)
    assert len(found) > len(plain & set(found)) > 0, "some of each kind"
    named = next(finding for finding in found.values() if "lora" in finding.facts)
    assert str(finding_words(named)[1]) == "Apply the cure: the model overflows elsewhere without too much too."


def test_a_rescaled_model_with_a_lora_gives_its_float32_picture(
    engine: DiffusersEngine, models: dict[str, Path], mild: Lora, tmp_path: Path
) -> None:
    loud = Lora(path=mild.path, weight=2.0)
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "stream of unet", 15)
    wide, _ = generate(engine, model, "float32", loras=(loud,))
    plain, _ = generate(engine, model, "float32")
    report, _ = generate(engine, model, "float16", loras=(loud,))
    assert report.images[0].events[0].cure == "rescale"
    assert psnr(pixels(report), pixels(wide)) >= 30
    assert psnr(pixels(report), pixels(wide)) > psnr(pixels(report), pixels(plain))
    again, _ = generate(engine, model, "float16", loras=(loud,))
    assert again.images[0].state == "clean", "the cure was remembered for the model with this LoRA"
    other, _ = generate(engine, model, "float16")
    assert other.images[0].state == "recovered", "and not for the model without"


def test_a_strong_one_is_cured_while_the_picture_is_made(engine: DiffusersEngine, models: dict[str, Path], strong: Lora) -> None:
    wide, _ = generate(engine, models["sd15"], "float32", loras=(strong,))
    report, _ = generate(engine, models["sd15"], "float16", loras=(strong,))
    assert report.images[0].state == "recovered"
    assert psnr(pixels(report), pixels(wide)) >= 30
    cause = report.images[0].events[0].lora
    assert cause is not None
    assert (cause.names, cause.weight, cause.alone) == (("too much",), 0.8, True)
    assert cause.share is not None
    lighter, _ = generate(engine, models["sd15"], "float16", loras=(Lora(path=strong.path, weight=0.8 * cause.share),))
    assert lighter.images[0].state == "clean"


def test_a_picture_blames_no_lora_for_what_the_model_does_alone(
    engine: DiffusersEngine, models: dict[str, Path], mild: Lora, tmp_path: Path
) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "stream of unet", 15)
    report, _ = generate(engine, model, "float16", loras=(mild,), on_black="stop")
    assert report.images[0].state == "not-recovered"
    assert report.images[0].events[0].lora is None


def test_a_picture_that_is_not_recovered_names_it(engine: DiffusersEngine, models: dict[str, Path], strong: Lora) -> None:
    report, _ = generate(engine, models["sd15"], "float16", loras=(strong,), on_black="stop", seed=6)
    assert report.images[0].state == "not-recovered"
    cause = report.images[0].events[0].lora
    assert cause is not None
    assert cause.names == ("too much",)


def test_bad_numbers_in_its_file_end_the_check_before_anything_runs(
    engine: DiffusersEngine, models: dict[str, Path], mild: Lora, tmp_path: Path
) -> None:
    file, tensor = broken_lora(Path(mild.path), tmp_path / "holed.safetensors")
    report, _ = check(engine, models["sd15"], loras=(mild, Lora(path=str(file))))
    assert report.verdict == "broken"
    (finding,) = report.findings
    assert (finding.code, finding.component) == ("weights-nonfinite", "unet")
    assert finding.module
    assert finding.module in tensor
    assert str(finding_words(finding)[0]) == f"The LoRA holed has NaN in tensor {tensor}."
    assert report.layers == ()


def test_it_is_tried_under_the_settings_of_the_check(
    engine: DiffusersEngine, models: dict[str, Path], mild: Lora, tmp_path: Path
) -> None:
    """Attention scores that overflow only with sums in float16 do so without the LoRA too."""
    folder = tmp_path / "scores"
    shutil.copytree(models["sd15"], folder)
    (file,) = (folder / "unet").glob("*.safetensors")
    tensors = load_file(file)
    for name in tensors:
        if name.startswith("mid_block.") and name.endswith((".attn1.to_q.weight", ".attn1.to_k.weight")):
            tensors[name] = tensors[name] * 2.0**10
    save_file(tensors, file, {"format": "pt"})
    numerics = Numerics(precision="float16", attention_backend="math", math_attention_reduction=True)
    inputs = CheckInputs(width=32, height=32, loras=(mild,))
    report = engine.examine(Examine(job="c", model=str(folder), numerics=numerics, inputs=inputs), Recorder(), Steady())
    assert [finding.code for finding in report.findings][:1] == ["attention-overflow"]
    assert all("lora" not in finding.facts for finding in report.findings)


def test_a_cause_that_cannot_be_sought_costs_only_its_words(models: dict[str, Path], strong: Lora) -> None:
    """It is asked before the cure, where memory may be short already."""
    loaded = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
    put_loras(loaded, [strong])
    apply_plan(loaded, Plan(dtypes=dict.fromkeys(loaded.modules, "float16")))
    unet = loaded.modules["unet"]
    call = Call(
        "unet", "forward", (torch.randn(1, 4, 16, 16), torch.tensor(5)), {"encoder_hidden_states": torch.randn(1, 77, 16)}
    )
    masters = exact_source(loaded, "unet")

    def asked(failure: BaseException) -> LoraCause | None:
        def check() -> None:
            raise failure

        return cause_of(loaded, call, "conv_in", masters, check)

    assert asked(MemoryError("out of memory")) is None
    assert asked(HalftoneError("model-load-failed", path="x", detail="y")) is None
    with pytest.raises(JobCancelled):
        asked(JobCancelled())
    assert {parameter.dtype for parameter in unet.parameters()} == {torch.float16}
