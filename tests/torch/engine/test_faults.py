"""Faults planted by exact scaling: found, named, cured by rescaling, and the cured picture is the float32 one."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.engine_runs import check, faulty_copy, generate, pixels

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import FindingMade, JobStarted, PhaseChanged, PictureReady, PlanChanged, Repair
from halftone.engine.service import DiffusersEngine
from halftone.health.explain import finding_words
from halftone.library.models import describe
from halftone.measure.pictures import psnr

FAULTS = [
    ("sd15", "vae", "stream of decoder", 16, "decoder.conv_in", "activation-overflow"),
    ("sd15", "vae", "stream of encoder", 18, "encoder.conv_in", "activation-overflow"),
    ("sd15", "unet", "stream of unet", 17, "conv_in", "activation-overflow"),
    ("sd15", "unet", "first half of mid_block.resnets.0", 17, "mid_block.resnets.0.conv1", "activation-overflow"),
    (
        "sd15",
        "unet",
        "values of mid_block.attentions.0.transformer_blocks.0.attn1",
        20,
        "mid_block.attentions.0.transformer_blocks.0.attn1.to_v",
        "weights-overflow",
    ),
    (
        "sdxl",
        "unet",
        "gate of mid_block",
        20,
        "mid_block.attentions.0.transformer_blocks.0.ff.net.0.proj",
        "weights-overflow",
    ),
    ("sd3", "vae", "stream of decoder", 16, "decoder.conv_in", "activation-overflow"),
]


@pytest.mark.parametrize(("family", "component", "group", "k", "module", "code"), FAULTS)
def test_check_names_the_module_and_offers_a_verified_rescaling_first(
    engine: DiffusersEngine,
    models: dict[str, Path],
    tmp_path: Path,
    family: str,
    component: str,
    group: str,
    k: int,
    module: str,
    code: str,
) -> None:
    model = faulty_copy(models[family], tmp_path / "faulty", component, group, k)
    report, events = check(engine, model, "float16", family=family)
    assert report.verdict == "fixable"
    first = report.findings[0]
    assert (first.code, first.component, first.module) == (code, component, module)
    assert str(finding_words(first)[0])
    assert [event.finding for event in events.of(FindingMade)] == list(report.findings)
    cure = report.cures[0]
    assert (cure.kind, cure.suggested, cure.refusal) == ("rescale", True, None)
    assert cure.plan.verified
    assert cure.plan.error is not None
    assert cure.plan.error < 0.02
    assert list(cure.plan.rescale) == [component]
    assert report.plan.rescale == cure.plan.rescale
    assert cure.memory_bytes == 0
    assert cure.time_ratio is not None
    kinds = [cure.kind for cure in report.cures]
    assert kinds.index("float32-component") < kinds.index("float32-all")


@pytest.mark.parametrize(
    ("family", "component", "group", "k", "module", "code"), [fault for fault in FAULTS if "encoder" not in fault[2]]
)
def test_generation_recovers_by_itself_and_gives_the_float32_picture(
    engine: DiffusersEngine,
    models: dict[str, Path],
    tmp_path: Path,
    family: str,
    component: str,
    group: str,
    k: int,
    module: str,
    code: str,
) -> None:
    model = faulty_copy(models[family], tmp_path / "faulty", component, group, k)
    wide, _ = generate(engine, model, "float32", family=family)
    assert wide.images[0].state == "clean"
    report, events = generate(engine, model, "float16", family=family)
    picture = report.images[0]
    assert (picture.state, picture.black, picture.finite) == ("recovered", False, True)
    assert psnr(pixels(report), pixels(wide)) >= 30
    (event,) = picture.events
    assert (event.component, event.module, event.cure) == (component, module, "rescale")
    assert event.action == ("decoded-again" if component == "vae" else "went-back-one-step")
    assert event.layers
    (begun,) = events.of(JobStarted)
    (change,) = events.of(PlanChanged)
    assert (begun.plan, change.after) == (change.before, report.plan)
    again, _ = generate(engine, model, "float16", family=family)
    assert again.images[0].state == "clean", "what worked is remembered"


def test_a_failed_decode_is_repeated_alone_and_the_failing_picture_is_shown(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "vae", "stream of decoder", 16)
    report, events = generate(engine, model, "float16")
    ready, blob = next((event, blob) for event, blob in events.events if isinstance(event, PictureReady))
    assert report.images[0].steps == 3
    assert ready.failed_size > 0
    assert blob[ready.thumbnail_size :][:4] == b"\x89PNG"
    assert len(blob) == ready.thumbnail_size + ready.failed_size


def test_upcast_region_is_priced_and_smaller_than_the_component(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", "first half of mid_block.resnets.0", 17)
    report, _ = check(engine, model)
    region = next(cure for cure in report.cures if cure.kind == "upcast-region")
    assert region.refusal is None
    assert any("mid_block.resnets.0" in module for module in region.plan.upcast["unet"])
    assert 0 < region.plan.upcast_parameters < report.components["unet"].parameters
    assert region.memory_bytes is not None
    assert region.memory_bytes > 0


def _with_nan(model: Path, target: Path, component: str, tensor: str) -> Path:
    shutil.copytree(model, target)
    (file,) = (target / component).glob("*.safetensors")
    tensors = load_file(file)
    tensors[tensor].view(-1)[0] = float("nan")
    save_file(tensors, file, {"format": "pt"})
    return target


def test_nan_in_the_file_is_broken_and_named(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    tensor = "mid_block.resnets.0.conv1.weight"
    report, events = check(engine, _with_nan(models["sd15"], tmp_path / "nan", "unet", tensor))
    assert report.verdict == "broken"
    (first,) = report.findings
    assert (first.code, first.component, first.module) == ("weights-nonfinite", "unet", "mid_block.resnets.0.conv1")
    assert (first.facts["file"], first.facts["tensor"]) == ("diffusion_pytorch_model.safetensors", tensor)
    assert [event.finding for event in events.of(FindingMade)] == [first]
    assert {event.phase for event in events.of(PhaseChanged)} <= {"load", "scan"}, "the file settles it: nothing is run"
    assert (report.layers, report.cures, report.plan.verified) == ((), (), False)
    assert {facts.seconds for facts in report.components.values()} == {None}
    assert report.components["unet"].parameters > 0
    made, _ = generate(engine, tmp_path / "nan", "float16")
    picture = made.images[0]
    assert (picture.state, picture.finite, picture.black, picture.path) == ("not-recovered", False, True, "")
    assert picture.events[0].action == "stopped"
    assert (picture.events[0].why, picture.events[0].sound_in_float32) == ("float32", False)


@pytest.mark.parametrize("tensor", ["embeddings.token_embedding.weight", "nobody.reads.weight"])
def test_nan_that_nothing_reads_changes_no_verdict(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, tensor: str
) -> None:
    folder = tmp_path / "unread"
    shutil.copytree(models["sd15"], folder)
    (file,) = (folder / "text_encoder").glob("*.safetensors")
    tensors = load_file(file)
    name = next((name for name in tensors if name.endswith(tensor)), tensor)
    tensors.setdefault(name, torch.zeros(9, 2))[5].fill_(float("nan"))
    save_file(tensors, file, {"format": "pt"})
    report, _ = check(engine, folder)
    assert report.verdict == "healthy"
    (found,) = report.findings
    assert (found.code, found.facts["tensor"], found.facts["read"]) == ("weights-nonfinite", name, False)
    assert report.layers


def test_repair_writes_a_copy_that_is_healthy_everywhere(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    from safetensors import safe_open
    from tests.helpers.engine_runs import Recorder, Steady

    model = faulty_copy(models["sd15"], tmp_path / "faulty", "vae", "stream of decoder", 16)
    target = tmp_path / "fixed"
    report = engine.repair(Repair(job="r", model=str(model), output=str(target)), Recorder(), Steady())
    assert (report.path, report.float16_finite) == (str(target), True)
    assert report.float32_error < 1e-5
    assert check(engine, target)[0].verdict == "healthy"
    assert describe(str(target)).name == "Repaired fixed", "its own metadata tells it from the original"
    changed = 0
    for file in model.rglob("*.safetensors"):
        with safe_open(file, "pt") as before, safe_open(target / file.relative_to(model), "pt") as after:
            for name in before.keys():  # noqa: SIM118
                same = torch.equal(before.get_tensor(name), after.get_tensor(name))
                changed += not same
                assert same or "decoder" in name
            noted = "halftone" in (after.metadata() or {})
        assert noted == ("vae" in file.parts)
    assert changed == report.changed_tensors


def test_a_damaged_file_is_not_repaired_and_its_tensor_is_named(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file
    from tests.helpers.engine_runs import Recorder, Steady

    model = tmp_path / "damaged"
    shutil.copytree(models["sd15"], model)
    file = next((model / "vae").glob("*.safetensors"))
    tensors = load_file(file)
    tensors["decoder.conv_in.weight"].view(-1)[0] = float("nan")
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(HalftoneError) as caught:
        engine.repair(Repair(job="r", model=str(model), output=str(tmp_path / "fixed")), Recorder(), Steady())
    assert caught.value.code == "model-broken"
    assert "tensor decoder.conv_in.weight of vae" in str(caught.value)
    assert not (tmp_path / "fixed").exists()
