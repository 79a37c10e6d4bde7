"""IP-Adapters: what diffusers makes with them, and nothing of them left afterwards."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file
from tests.helpers.controls import picture
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.ip_adapters import save_adapter, save_encoder
from tests.helpers.tiny import load_tiny
from transformers import CLIPImageProcessorPil, CLIPVisionModelWithProjection

from halftone.contract.errors import HalftoneError
from halftone.contract.plan import Plan
from halftone.contract.request import IpAdapter, Numerics, Start
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded, exact_source
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import damaged, exact_weights
from halftone.library.learned import remember
from halftone.measure.devices import find_device
from halftone.measure.pictures import psnr

FORMS = ("plain", "plus", "full face")


@pytest.fixture(scope="module")
def files(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Official layout: models/image_encoder beside one file of every form for two families; two pictures."""
    folder = tmp_path_factory.mktemp("ip") / "models"
    save_encoder(folder)
    for family in ("sd15", "sdxl"):
        for form in FORMS:
            save_adapter(models[family], folder / f"{family} {form}.safetensors", form)
    picture(folder / "one.png")
    picture(folder / "two.png", 48, 40)
    return folder


def adapter(files: Path, name: str, *images: str, scale: float = 0.8) -> IpAdapter:
    return IpAdapter(
        path=str(files / f"{name}.safetensors"), images=tuple(str(files / image) for image in images or ("one.png",)), scale=scale
    )


def of(engine: DiffusersEngine) -> Loaded:
    assert engine.loaded is not None
    return engine.loaded


def theirs(models: dict[str, Path], files: Path, family: str, adapters: list[IpAdapter]) -> torch.Tensor:
    """What diffusers itself makes, in [0, 255]."""
    from PIL import Image

    pipe = load_tiny(models[family])
    encoder = CLIPVisionModelWithProjection.from_pretrained(files / "image_encoder")
    pipe.register_modules(image_encoder=encoder, feature_extractor=CLIPImageProcessorPil(size=32, crop_size=32))
    names = [Path(one.path).name for one in adapters]
    pipe.load_ip_adapter(str(files), subfolder="", weight_name=names, local_files_only=True)
    pipe.set_ip_adapter_scale([one.scale for one in adapters])
    images = [[Image.open(image).convert("RGB") for image in one.images] for one in adapters]
    with quiet_libraries():
        made = pipe.to(DEVICE)(
            "a red sun",
            width=32,
            height=32,
            num_inference_steps=3,
            generator=torch.Generator("cpu").manual_seed(5),
            output_type="np",
            ip_adapter_image=images,
            **OPTIONS[family],
        ).images[0]
    return torch.from_numpy(made) * 255


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
@pytest.mark.parametrize("form", FORMS)
def test_the_picture_is_the_one_that_diffusers_makes(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, family: str, form: str
) -> None:
    wanted = [adapter(files, f"{family} {form}", "one.png", "two.png")]
    plain, _ = generate(engine, models[family], family=family)
    report, _ = generate(engine, models[family], family=family, ip_adapters=tuple(wanted))
    ours = torch.from_numpy(pixels(report).copy()).float()
    assert (ours - theirs(models, files, family, wanted)).abs().max() <= 1
    assert not (pixels(plain) == pixels(report)).all()
    assert "image_encoder" in report.images[0].dtypes


def test_several_each_with_its_own_pictures_and_strength(engine: DiffusersEngine, models: dict[str, Path], files: Path) -> None:
    wanted = [adapter(files, "sd15 plain", "one.png"), adapter(files, "sd15 plus", "two.png", scale=0.3)]
    report, _ = generate(engine, models["sd15"], ip_adapters=tuple(wanted))
    ours = torch.from_numpy(pixels(report).copy()).float()
    assert (ours - theirs(models, files, "sd15", wanted)).abs().max() <= 1
    stronger = (wanted[0], adapter(files, "sd15 plus", "two.png", scale=0.9))
    again, _ = generate(engine, models["sd15"], ip_adapters=stronger)
    assert not (pixels(report) == pixels(again)).all()


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_without_them_the_model_is_as_it_was_bit_for_bit(
    models: dict[str, Path], files: Path, tmp_path: Path, precision: Any, dtype: torch.dtype
) -> None:
    load_tiny(models["sd15"]).to(dtype).save_pretrained(tmp_path / "model")
    engine = DiffusersEngine()
    first, _ = generate(engine, tmp_path / "model", precision)
    loaded = of(engine)
    before = {name: {key: value.clone() for key, value in exact_weights(m).items()} for name, m in loaded.modules.items()}
    unet = loaded.pipe.unet
    processors = dict(unet.attn_processors)
    during, _ = generate(engine, tmp_path / "model", precision, ip_adapters=(adapter(files, "sd15 plus"),))
    masters = exact_source(loaded, "unet")
    assert damaged(loaded.modules["unet"], masters, loaded.states["unet"]) == []
    again, _ = generate(engine, tmp_path / "model", precision)
    assert of(engine) is loaded
    assert loaded.modules.keys() == before.keys()
    assert unet.attn_processors == processors
    assert unet.config.encoder_hid_dim_type is None
    for name, module in loaded.modules.items():
        now = exact_weights(module)
        assert now.keys() == before[name].keys()
        for key, value in now.items():
            assert value.dtype == before[name][key].dtype
            assert torch.equal(value, before[name][key]), f"{name}.{key}"
    assert (pixels(first) == pixels(again)).all()
    assert not (pixels(first) == pixels(during)).all()


def test_a_cure_of_the_model_alone_holds_for_what_an_adapter_adds(
    engine: DiffusersEngine, models: dict[str, Path], files: Path
) -> None:
    one = (adapter(files, "sd15 plain"),)
    before, _ = generate(engine, models["sd15"], "float32", ip_adapters=one)
    loaded = of(engine)
    values = [name for name in exact_weights(loaded.modules["unet"]) if name.endswith("attn2.to_v.weight")]
    scaled = dict.fromkeys(values, -3) | {name.replace("to_v", "to_out.0"): 3 for name in values}
    remember(
        loaded.facts, find_device("auto"), "float32", Plan(rescale={"unet": scaled}, verified=True), Numerics(precision="float32")
    )
    after, _ = generate(engine, models["sd15"], "float32", ip_adapters=one)
    assert of(engine).states["unet"].rescale.items() >= scaled.items()
    assert psnr(pixels(after), pixels(before)) > 60


@pytest.mark.parametrize("settings", [{"upcast_cross_attention": "always"}, {"attention_backend": "math"}])
def test_settings_of_attention_hold_for_what_reads_pictures_too(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, settings: dict[str, Any]
) -> None:
    wanted = (adapter(files, "sd15 plus"),)
    exact, _ = generate(engine, models["sd15"], ip_adapters=wanted)
    report, _ = generate(engine, models["sd15"], "float16", ip_adapters=wanted, **settings)
    ours, theirs = (torch.from_numpy(pixels(made).copy()).float() for made in (report, exact))
    assert report.images[0].state == "clean"
    assert (ours - theirs).abs().mean() < 4
    layers = [m for name, m in of(engine).pipe.unet.named_modules() if ".to_v_ip." in name]
    wide = torch.float32 if "upcast_cross_attention" in settings else torch.float16
    assert {layer.weight.dtype for layer in layers} == {wide}


def scaled(source: Path, target: Path, end: str, factor: float) -> Path:
    tensors = load_file(source)
    name = next(name for name in tensors if name.endswith(end))
    tensors[name] = tensors[name] * factor
    save_file(tensors, target)
    return target


def test_values_that_overflow_in_an_adapter_are_found_and_cured(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, tmp_path: Path
) -> None:
    save_encoder(tmp_path)
    scaled(files / "sd15 plain.safetensors", tmp_path / "loud.safetensors", "to_v_ip.weight", 3e5)
    wanted = (IpAdapter(path=str(tmp_path / "loud.safetensors"), images=(str(files / "one.png"),)),)
    found, _ = check(engine, models["sd15"], ip_adapters=wanted)
    assert found.verdict == "fixable"
    assert any("processor.to_v_ip" in finding.module for finding in found.findings)
    assert found.extras.ip_adapters == wanted
    exact, _ = generate(engine, models["sd15"], ip_adapters=wanted)
    report, _ = generate(engine, models["sd15"], "float16", ip_adapters=wanted)
    assert report.images[0].finite
    assert report.images[0].state == "recovered"
    assert any("to_v_ip" in event.module for event in report.events)
    ours, theirs = (torch.from_numpy(pixels(made).copy()).float() for made in (report, exact))
    assert (ours - theirs).abs().mean() < 8


def test_an_image_encoder_that_overflows_is_found_and_cured(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, tmp_path: Path
) -> None:
    folder = save_encoder(tmp_path)
    for end, factor in (("layers.1.mlp.fc1.weight", 3e5), ("layers.1.mlp.fc2.weight", 1e-5)):  # too large between the two alone
        scaled(folder / "model.safetensors", folder / "model.safetensors", end, factor)
    save_adapter(models["sd15"], tmp_path / "mine.safetensors", "plus")
    wanted = (IpAdapter(path=str(tmp_path / "mine.safetensors"), images=(str(files / "one.png"),)),)
    found, _ = check(engine, models["sd15"], ip_adapters=wanted)
    assert found.verdict == "fixable"
    assert {finding.component for finding in found.findings if finding.code.endswith("overflow")} == {"image_encoder"}
    report, _ = generate(engine, models["sd15"], "float16", ip_adapters=wanted)
    assert report.images[0].finite
    assert [event.component for event in report.events] == ["image_encoder"]


def test_an_image_to_image_picture_and_the_vae_stay_as_they_are(
    engine: DiffusersEngine, models: dict[str, Path], files: Path
) -> None:
    report, _ = generate(
        engine,
        models["sd15"],
        ip_adapters=(adapter(files, "sd15 plain"),),
        image=str(files / "one.png"),
        start=Start(strength=0.7),
    )
    assert report.images[0].state == "clean"
    assert isinstance(of(engine).pipe.vae, AutoencoderKL)


def refusal(engine: DiffusersEngine, model: Path, one: IpAdapter) -> HalftoneError:
    with pytest.raises(HalftoneError) as caught:
        generate(engine, model, ip_adapters=(one,))
    assert "\n" not in str(caught.value)
    return caught.value


def test_what_cannot_be_used_is_refused_in_a_sentence(models: dict[str, Path], files: Path, tmp_path: Path) -> None:
    engine = DiffusersEngine()
    good = files / "sd15 plain.safetensors"
    face = tmp_path / "face.safetensors"
    save_file({"image_proj.norm.weight": torch.ones(4), "ip_adapter.0.to_k_ip.weight": torch.ones(4, 4)}, face)
    (tmp_path / "half.safetensors").write_bytes(good.read_bytes()[:-100])
    (tmp_path / "pickle.bin").write_bytes(b"\x80\x02}")
    (tmp_path / "lonely.safetensors").write_bytes(good.read_bytes())
    place = tmp_path / "image_encoder"
    for path, code, said in (
        (tmp_path / "none.safetensors", "ip-adapter-missing", "There is no IP-Adapter at"),
        (tmp_path, "ip-adapter-not-one", "it is a folder"),
        (tmp_path / "half.safetensors", "model-truncated", "half.safetensors is incomplete: 9508 of 9608 bytes."),
        (tmp_path / "pickle.bin", "model-pickle", "is a pickle file"),
        (face, "ip-adapter-not-one", "its layers are for another kind of denoiser"),
        (models["sd15"] / "vae" / "diffusion_pytorch_model.safetensors", "ip-adapter-not-one", "as an IP-Adapter: it is a VAE"),
        (files / "sdxl plain.safetensors", "ip-adapter-other-base", "its tokens have 32 values, the model's 16"),
        (
            tmp_path / "lonely.safetensors",
            "ip-adapter-no-encoder",
            f"none that gives 12 numbers is at {place}",
        ),
    ):
        error = refusal(engine, models["sd15"], IpAdapter(path=str(path), images=(str(files / "one.png"),)))
        assert (error.code, said in str(error)) == (code, True), str(error)
    assert refusal(engine, models["sd3"], adapter(files, "sd15 plain")).code == "ip-adapter-other-base"
    assert refusal(engine, models["sana"], adapter(files, "sd15 plain")).code == "ip-adapter-unsupported"
    assert refusal(engine, models["sd15"], adapter(files, "sd15 plain", "none.png")).code == "image-missing"
    assert engine.loaded is None, "all that is told from headers, before anything is loaded"
    (save_encoder(tmp_path) / "model.safetensors").unlink()
    error = refusal(
        engine, models["sd15"], IpAdapter(path=str(tmp_path / "lonely.safetensors"), images=(str(files / "one.png"),))
    )
    assert error.code == "ip-adapter-no-encoder"
    assert "lacks its weights of image_encoder (a .safetensors file)" in str(error)


def test_a_file_with_numbers_that_are_none_changes_nothing(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, tmp_path: Path
) -> None:
    save_encoder(tmp_path)
    broken = scaled(files / "sd15 plain.safetensors", tmp_path / "broken.safetensors", "to_v_ip.weight", float("nan"))
    plain, _ = generate(engine, models["sd15"])
    error = refusal(engine, models["sd15"], IpAdapter(path=str(broken), images=(str(files / "one.png"),)))
    assert "its tensor ip_adapter." in str(error)
    assert "holds NaN or infinity" in str(error)
    again, _ = generate(engine, models["sd15"])
    assert (pixels(plain) == pixels(again)).all()


def test_an_encoder_with_a_lora_of_its_own_folder_is_refused(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, tmp_path: Path
) -> None:
    """Transformers would add it to the weights without a word."""
    copy = shutil.copytree(files, tmp_path / "models")
    (copy / "image_encoder" / "adapter_config.json").write_text("{}")
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], ip_adapters=(adapter(copy, "sd15 plain"),))
    detail = "image_encoder/adapter_config.json names other weights than those beside it"
    assert (caught.value.code, str(caught.value.facts["detail"])) == ("model-cannot-run", detail)


@pytest.mark.parametrize("place", ["clip_vision/models/CLIP-ViT-H-14.safetensors", "ipadapter/clip_vision_h.safetensors"])
@pytest.mark.parametrize("form", ["plain", "plus"])
def test_an_encoder_of_one_file_is_that_of_its_folder(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, form: str, place: str
) -> None:
    """As ComfyUI keeps it. Published encoders have 16 heads and, but for OpenAI's, the plain activation."""
    whole, split = tmp_path / "whole", tmp_path / "split"
    folder = save_encoder(whole, torch.float16, heads=16, act="gelu")
    file = split / place
    file.parent.mkdir(parents=True)
    shutil.copyfile(folder / "model.safetensors", file)
    image = picture(tmp_path / "one.png")
    made = []
    for home in (whole, split / "ipadapter"):
        path = save_adapter(models["sd15"], home / "adapter.safetensors", form)
        one = IpAdapter(path=str(path), images=(str(image),), scale=0.8)
        made.append(pixels(generate(engine, models["sd15"], ip_adapters=(one,))[0]))
        assert of(engine).stored["image_encoder"] == torch.float16
    assert (made[0] == made[1]).all()
    report, _ = check(engine, models["sd15"], ip_adapters=(one,))
    assert report.verdict == "healthy"
