"""Another VAE in the place of the model's own: the picture that diffusers makes with it, its own cures, and the way back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.bench.families import flows
from tests.bench.faults import videos
from tests.helpers import tiny as tiny_pipelines
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import check, faulty_copy, generate, pixels
from tests.helpers.memory import Full
from tests.helpers.originals import save_original, tiny_original
from tests.helpers.read_back import parse_parameters, read_picture
from tests.helpers.tiny import load_tiny
from tests.helpers.vaes import Form, other_vae, save_vae
from tests.helpers.wording import translated

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.messages import ModelChanged
from halftone.contract.request import Extras, Numerics
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.curing.first_plan import first_plan
from halftone.engine.extras.vae import put_vae
from halftone.engine.loading.load import Loaded
from halftone.engine.sampling.preview import preview_map
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.offload import Places
from halftone.library.add_ons.extras import extra_files
from halftone.library.learned import recall
from halftone.library.models import describe
from halftone.library.records import load_report, save_report
from halftone.measure.devices import find_device
from halftone.settings.places import cache_dir

FAULT = "stream of decoder"


def of(engine: DiffusersEngine) -> Loaded:
    assert engine.loaded is not None
    return engine.loaded


@pytest.fixture(scope="module")
def crisp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vae(other_vae(), tmp_path_factory.mktemp("vaes") / "crisp")


@pytest.fixture(scope="module")
def overflowing(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder; it gives the pictures of sd15's own VAE, and overflows in float16."""
    return faulty_copy(models["sd15"], tmp_path_factory.mktemp("faulty") / "model", "vae", FAULT, 16) / "vae"


@pytest.mark.parametrize("form", get_args(Form))
def test_the_picture_is_the_one_that_diffusers_makes_with_it(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, form: Form
) -> None:
    made = other_vae()
    report, _ = generate(engine, models["sd15"], vae=str(save_vae(made, tmp_path / "other", form)))
    pipe = load_tiny(models["sd15"])
    made.register_to_config(force_upcast=False)
    pipe.register_modules(vae=made)
    generator = torch.Generator("cpu").manual_seed(5)
    pipe.to(DEVICE)
    with quiet_libraries():
        theirs = pipe("a red sun", width=32, height=32, num_inference_steps=3, generator=generator, output_type="np").images[0]
    assert abs(pixels(report).astype(float) - theirs * 255).max() <= 1


def test_nothing_else_is_loaded_anew_and_going_back_gives_the_picture_from_before(
    engine: DiffusersEngine, models: dict[str, Path], crisp: Path
) -> None:
    first, _ = generate(engine, models["sd15"], "float16")
    loaded = of(engine)
    before = {name: id(module) for name, module in loaded.modules.items() if name != "vae"}
    other, events = generate(engine, models["sd15"], "float16", vae=str(crisp))
    back, more = generate(engine, models["sd15"], "float16")
    assert of(engine) is loaded
    assert {name: id(module) for name, module in loaded.modules.items() if name != "vae"} == before
    assert not [*events.of(ModelChanged), *more.of(ModelChanged)]
    assert (pixels(back) == pixels(first)).all()
    assert not (pixels(other) == pixels(first)).all()


def test_a_model_in_one_file_takes_one_too(tmp_path: Path, crisp: Path) -> None:
    pipe = tiny_original("sd1")
    file = save_original(pipe, tmp_path / "model.safetensors", dtype=torch.float32)
    torch.manual_seed(3)
    for parameter in pipe.vae.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    vae = save_vae(pipe.vae, tmp_path / "vae")
    engine = DiffusersEngine()
    report, _ = generate(engine, file, vae=str(vae))
    whole = save_original(pipe, tmp_path / "whole.safetensors", dtype=torch.float32)
    baked, _ = generate(DiffusersEngine(), whole)
    assert (pixels(report) == pixels(baked)).all()
    with pytest.raises(HalftoneError) as caught:
        generate(engine, file, vae=str(save_vae(other_vae(channels=8), tmp_path / "wide")))
    assert caught.value.code == "vae-other-model"


def test_the_picture_says_which(engine: DiffusersEngine, models: dict[str, Path], crisp: Path) -> None:
    report, _ = generate(engine, models["sd15"], vae=str(crisp))
    found = read_picture(Path(report.images[0].path))
    assert parse_parameters(found.parameters or "").fields["VAE"] == "crisp.safetensors"
    assert '"vae":"crisp.safetensors"' in (found.receipt or "")
    assert str(crisp.parent) not in (found.receipt or "")
    own, _ = generate(engine, models["sd15"])
    assert "VAE" not in parse_parameters(read_picture(Path(own.images[0].path)).parameters or "").fields


def refused(model: Path, vae: Path) -> tuple[ErrorCode, str]:
    """Before anything is loaded."""
    engine = DiffusersEngine()
    with pytest.raises(HalftoneError) as caught:
        generate(engine, model, vae=str(vae))
    assert engine.loaded is None
    with pytest.raises(HalftoneError) as again:
        check(engine, model, vae=str(vae))
    assert engine.loaded is None
    assert str(again.value) == str(caught.value)
    detail = caught.value.facts.get("detail")
    assert detail is None or (isinstance(detail, Words) and translated(detail))
    return caught.value.code, str(caught.value)


def test_a_wrong_one_is_refused_in_a_sentence_before_anything_is_loaded(models: dict[str, Path], tmp_path: Path) -> None:
    model = models["sd15"]
    wide = save_vae(other_vae(channels=16), tmp_path / "wide")
    assert refused(model, wide) == (
        "vae-other-model",
        "The VAE wide.safetensors does not fit sd15: it takes 16 channels, and the model gives 4. "
        "Choose a VAE of this family, or use the model default.",
    )
    scaled = save_vae(other_vae(scaling_factor=0.13025), tmp_path / "scaled", "folder")
    code, said = refused(model, scaled)
    assert code == "vae-other-model"
    assert "it divides by 0.13025, the model's own VAE by 0.18215, so it belongs to another family" in said
    assert refused(model, models["sana"] / "vae")[0] == "vae-other-model"
    assert refused(models["sana"], wide)[0] == "vae-other-model"
    assert "choose the folder of its VAE inside it" in refused(model, models["sd15"])[1]
    assert "its config.json is not that of a VAE" in refused(model, model / "unet")[1]
    assert "it is a folder without a config.json" in refused(model, model / "tokenizer")[1]
    assert refused(model, model / "unet" / "diffusion_pytorch_model.safetensors")[0] == "vae-not-a-vae"
    assert refused(model, tmp_path / "none.safetensors")[0] == "vae-missing"


def test_a_pickle_is_never_opened(models: dict[str, Path], tmp_path: Path) -> None:
    ran = tmp_path / "it ran"
    bad = b"cposix\nsystem\n(S'touch \"" + str(ran).encode() + b"\"'\ntR."
    for name in ("vae.pt", "vae.ckpt"):
        (tmp_path / name).write_bytes(bad)
        code, said = refused(models["sd15"], tmp_path / name)
        assert code == "model-pickle"
        assert "is a pickle file. Halftone does not open these: they can run code" in said
    folder = save_vae(other_vae(), tmp_path / "folder", "folder")
    (folder / "diffusion_pytorch_model.safetensors").unlink()
    (folder / "diffusion_pytorch_model.bin").write_bytes(bad)
    assert "it is a pickle file" in refused(models["sd15"], folder)[1]
    assert not ran.exists()


def test_its_cure_is_not_applied_to_the_models_own(engine: DiffusersEngine, models: dict[str, Path], overflowing: Path) -> None:
    clean, _ = generate(engine, models["sd15"], "float16")
    cured, _ = generate(engine, models["sd15"], "float16", vae=str(overflowing))
    assert cured.images[0].state == "recovered"
    assert {event.component for event in cured.images[0].events} == {"vae"}
    again, _ = generate(engine, models["sd15"], "float16", vae=str(overflowing))
    assert (again.images[0].state, set(again.images[0].cures)) == ("clean", {"vae"}), "the cure is remembered"
    own, _ = generate(engine, models["sd15"], "float16")
    assert (own.images[0].state, own.images[0].cures) == ("clean", {})
    assert (pixels(own) == pixels(clean)).all()
    facts, device, numerics = of(engine).facts, find_device("auto"), Numerics(precision="float16")
    assert recall(facts, device, "float16", numerics) is None
    assert recall(facts, device, "float16", numerics, Extras(vae=str(overflowing))) is not None


def test_a_cure_of_the_models_own_is_not_applied_to_it(overflowing: Path, crisp: Path) -> None:
    engine, model = DiffusersEngine(), overflowing.parent
    assert generate(engine, model, "float16")[0].images[0].state == "recovered"
    other, _ = generate(engine, model, "float16", vae=str(crisp))
    assert (other.images[0].state, other.images[0].cures) == ("clean", {})
    assert not reasons_of_the_vae(engine), "what is not applied is not told either"
    own, _ = generate(engine, model, "float16")
    assert (own.images[0].state, set(own.images[0].cures)) == ("clean", {"vae"})
    assert reasons_of_the_vae(engine)


def reasons_of_the_vae(engine: DiffusersEngine) -> list[Words]:
    plan, _ = first_plan(of(engine), find_device("auto"), "float16", Numerics(precision="float16"))
    return [reason for reason in plan.reasons if "VAE" in str(reason)]


def test_a_check_looks_at_it_and_its_report_is_its_own(
    engine: DiffusersEngine, models: dict[str, Path], overflowing: Path
) -> None:
    report, _ = check(engine, models["sd15"], vae=str(overflowing))
    assert report.vae == str(overflowing)
    assert {finding.component for finding in report.findings if finding.code.endswith("overflow")} == {"vae"}
    assert report.verdict == "fixable"
    save_report(report)
    facts, device = report.model, report.device
    assert load_report(facts, device, "float16", Extras(vae=str(overflowing))) == report
    assert load_report(facts, device, "float16") is None
    own, _ = check(engine, models["sd15"])
    assert not [finding for finding in own.findings if finding.code.endswith("overflow")]


def test_broken_numbers_in_its_file_are_named(
    engine: DiffusersEngine, models: dict[str, Path], crisp: Path, tmp_path: Path
) -> None:
    tensors = load_file(crisp)
    tensors["decoder.mid.attn_1.q.weight"].view(-1)[3] = float("nan")
    save_file(tensors, tmp_path / "bad.safetensors")
    report, _ = check(engine, models["sd15"], vae=str(tmp_path / "bad.safetensors"))
    assert report.verdict == "broken"
    (finding,) = report.findings
    assert (finding.component, finding.module) == ("vae", "decoder.mid_block.attentions.0.to_q")
    assert finding.facts["file"] == "bad.safetensors"


def test_its_colours_are_previewed_by_its_own_map(engine: DiffusersEngine, models: dict[str, Path], crisp: Path) -> None:
    generate(engine, models["sd15"])
    own = preview_map(of(engine), 4)
    generate(engine, models["sd15"], vae=str(crisp))
    other = preview_map(of(engine), 4)
    assert own is not None
    assert other is not None
    assert not torch.equal(own, other)
    assert len(list((cache_dir() / "previews").glob("*.npy"))) == 2


def test_kept_latents_are_decoded_by_the_vae_they_were_made_for(models: dict[str, Path], overflowing: Path) -> None:
    engine = DiffusersEngine()
    stopped, _ = generate(engine, models["sd15"], "float16", vae=str(overflowing), on_black="stop")
    latents = stopped.images[0].latents
    assert latents is not None
    again, _ = generate(engine, models["sd15"], "float16", resume_latents=latents)
    assert again.images[0].state == "recovered"
    found = parse_parameters(read_picture(Path(again.images[0].path)).parameters or "")
    assert found.fields["VAE"] == "vae"


def test_one_that_finds_no_room_makes_way_for_the_one_before_and_can_be_tried_again(models: dict[str, Path], crisp: Path) -> None:
    engine = DiffusersEngine()
    own, _ = generate(engine, models["sd15"], "float16")
    loaded = of(engine)
    other, _ = generate(engine, models["sd15"], "float16", vae=str(crisp))
    assert not (pixels(other) == pixels(own)).all()
    for vae, wanted in ((None, own), (str(crisp), other)):
        put_vae(loaded, None if vae else str(crisp))
        put_vae(loaded, vae)
        with Full(10), pytest.raises(HalftoneError, match="does not fit"):
            generate(engine, models["sd15"], "float16", vae=vae)
        again, _ = generate(engine, models["sd15"], "float16", vae=vae)
        assert (pixels(again) == pixels(wanted)).all()


@pytest.mark.parametrize("build", [videos.wan, videos.ltx, flows.flux2, tiny_pipelines.sana], ids=lambda build: build.__name__)
def test_a_folder_of_another_class_is_read_by_its_own_names(build: Callable[[], Any], tmp_path: Path) -> None:
    pipe = build()
    vae = pipe.vae.half()
    with torch.no_grad():
        for value in vae.state_dict().values():
            value.add_(1 if not value.is_floating_point() else 0.25)
    vae.save_pretrained(tmp_path / "other")
    wanted = {name: value.clone() for name, value in vae.state_dict().items()}
    pipe.save_pretrained(tmp_path / "model")
    facts = describe(str(tmp_path / "model"))
    cpu = torch.device("cpu")
    loaded = Loaded(facts=facts, device=cpu, pipe=build(), stored={"vae": torch.float32}, places=Places(cpu, apart=False))
    put_vae(loaded, str(tmp_path / "other"))
    found = loaded.pipe.vae.state_dict()
    assert set(found) == set(wanted)
    assert all(torch.equal(found[name], value) and found[name].dtype == value.dtype for name, value in wanted.items())
    (file,) = extra_files(Extras(vae=str(tmp_path / "other")))
    assert set(file.names.values()) == set(wanted)


def test_a_file_that_is_rewritten_is_read_again(models: dict[str, Path], tmp_path: Path) -> None:
    engine = DiffusersEngine()
    vae = save_vae(other_vae(1), tmp_path / "vae")
    first, _ = generate(engine, models["sd15"], vae=str(vae))
    save_vae(other_vae(2), tmp_path / "vae")
    second, _ = generate(engine, models["sd15"], vae=str(vae))
    assert not (pixels(first) == pixels(second)).all()
