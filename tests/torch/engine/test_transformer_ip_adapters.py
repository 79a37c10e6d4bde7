"""IP-Adapters of FLUX and SD 3: their transformers read pictures as diffusers lets them, and are as before without them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import DiffusionPipeline
from PIL import Image
from tests.bench.families.flows import flux_dev, flux_fill
from tests.helpers.controls import picture
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.ip_adapters import save_adapter, save_encoder, save_flux_adapter, save_sd3_adapter, save_siglip
from tests.helpers.tiny import load_tiny
from transformers import CLIPImageProcessorPil, CLIPVisionModelWithProjection, SiglipImageProcessorPil, SiglipVisionModel

from halftone.contract.errors import HalftoneError
from halftone.contract.request import IpAdapter
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.service import DiffusersEngine
from halftone.library.add_ons.ipadapters import check_files_fit
from halftone.library.models import describe

SHORT = {"max_sequence_length": 32}


@pytest.fixture(scope="module")
def flux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, two IP-Adapters beside an image encoder, a picture."""
    folder = tmp_path_factory.mktemp("flux")
    with quiet_libraries():
        pipe = flux_dev()
        pipe.save_pretrained(folder / "model")
    for seed, name in enumerate(("first", "second")):
        save_flux_adapter(pipe.transformer, folder / f"{name}.safetensors", seed)
    save_encoder(folder)
    picture(folder / "shown.png", 40, 32)
    return folder


def adapter(folder: Path, name: str, scale: float) -> IpAdapter:
    return IpAdapter(path=str(folder / f"{name}.safetensors"), images=(str(folder / "shown.png"),), scale=scale)


def theirs(folder: Path, scales: dict[str, float]) -> torch.Tensor:
    """What diffusers itself makes, in [0, 255]."""
    with quiet_libraries():
        pipe: Any = DiffusionPipeline.from_pretrained(folder / "model", local_files_only=True)
        encoder = CLIPVisionModelWithProjection.from_pretrained(folder / "image_encoder")
        pipe.register_modules(image_encoder=encoder, feature_extractor=CLIPImageProcessorPil(size=32, crop_size=32))
        names = [f"{name}.safetensors" for name in scales]
        pipe.load_ip_adapter(str(folder), subfolder="", weight_name=names, local_files_only=True)
        pipe.set_ip_adapter_scale(list(scales.values()))
        shown = Image.open(folder / "shown.png").convert("RGB")
        made = pipe(
            "a red sun",
            width=32,
            height=32,
            num_inference_steps=3,
            generator=torch.Generator("cpu").manual_seed(5),
            output_type="np",
            ip_adapter_image=[[shown] for _ in scales],
            **SHORT,
        ).images[0]
    return torch.from_numpy(made) * 255


@pytest.mark.parametrize("scales", [{"first": 0.8}, {"first": 0.6, "second": 0.3}])
def test_the_picture_is_the_one_that_diffusers_makes(engine: DiffusersEngine, flux: Path, scales: dict[str, float]) -> None:
    plain, _ = generate(engine, flux / "model", options=SHORT)
    wanted = tuple(adapter(flux, name, scale) for name, scale in scales.items())
    report, _ = generate(engine, flux / "model", options=SHORT, ip_adapters=wanted)
    ours = torch.from_numpy(pixels(report).copy()).float()
    assert (ours - theirs(flux, scales)).abs().max() <= 1
    assert not (pixels(plain) == pixels(report)).all()
    again, _ = generate(engine, flux / "model", options=SHORT)
    assert (pixels(plain) == pixels(again)).all(), "nothing is left of them"


def test_a_check_reads_pictures_through_them(flux: Path) -> None:
    engine = DiffusersEngine()
    report, _ = check(engine, flux / "model", ip_adapters=(adapter(flux, "first", 1.0),))
    assert report.verdict == "healthy"
    layers = {(layer.component, layer.module) for layer in report.layers}
    assert ("transformer", "transformer_blocks.0.attn.processor.to_k_ip.0") in layers
    assert any(component == "image_encoder" for component, _ in layers)


def test_each_is_for_models_of_its_kind(models: dict[str, Path], flux: Path, tmp_path: Path) -> None:
    save_encoder(tmp_path)
    other = save_adapter(models["sd15"], tmp_path / "other.safetensors")
    with quiet_libraries():
        flux_fill().save_pretrained(tmp_path / "fill")
    mine = adapter(flux, "first", 1.0)
    theirs = IpAdapter(path=str(other), images=mine.images)
    for model, given, code, said in (
        (flux / "model", theirs, "ip-adapter-other-base", "it is for Stable Diffusion models"),
        (models["sd15"], mine, "ip-adapter-other-base", "it is for FLUX models"),
        (tmp_path / "fill", mine, "ip-adapter-unsupported", "Halftone has no IP-Adapter for FLUX.1 Fill models"),
    ):
        with pytest.raises(HalftoneError) as caught:
            check_files_fit((given,), describe(str(model)))
        assert (caught.value.code, said in str(caught.value)) == (code, True), str(caught.value)


@pytest.fixture(scope="module")
def sd3(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An IP-Adapter beside an image encoder of another kind, a picture."""
    folder = tmp_path_factory.mktemp("sd3")
    save_sd3_adapter(load_tiny(models["sd3"]).transformer, folder / "first.safetensors")
    save_siglip(folder)
    picture(folder / "shown.png", 40, 32)
    return folder


def test_sd3_turns_a_picture_into_words_in_every_step(engine: DiffusersEngine, models: dict[str, Path], sd3: Path) -> None:
    plain, _ = generate(engine, models["sd3"])
    report, _ = generate(engine, models["sd3"], ip_adapters=(adapter(sd3, "first", 0.8),))
    again, _ = generate(engine, models["sd3"])
    with quiet_libraries():
        pipe = load_tiny(models["sd3"])
        encoder = SiglipVisionModel.from_pretrained(sd3 / "image_encoder")
        reader = SiglipImageProcessorPil(size={"height": 32, "width": 32})
        pipe.register_modules(image_encoder=encoder, feature_extractor=reader)
        pipe.load_ip_adapter(str(sd3), weight_name="first.safetensors", image_encoder_folder=None)
        pipe.set_ip_adapter_scale(0.8)
        made = pipe.to(DEVICE)(
            "a red sun",
            width=32,
            height=32,
            num_inference_steps=3,
            generator=torch.Generator("cpu").manual_seed(5),
            output_type="np",
            ip_adapter_image=Image.open(sd3 / "shown.png").convert("RGB"),
            **OPTIONS["sd3"],
        ).images[0]
    ours = torch.from_numpy(pixels(report).copy()).float()
    assert (ours - torch.from_numpy(made) * 255).abs().max() <= 1
    assert not (pixels(plain) == pixels(report)).all()
    assert (pixels(plain) == pixels(again)).all(), "nothing is left of it"


def test_sd3_is_given_one_picture_through_one_adapter(models: dict[str, Path], sd3: Path) -> None:
    one = adapter(sd3, "first", 0.8)
    check_files_fit((one,), describe(str(models["sd3"])))
    for given in ((one, one), (IpAdapter(path=one.path, images=one.images * 2),)):
        with pytest.raises(HalftoneError, match="one picture and no other IP-Adapter"):
            check_files_fit(given, describe(str(models["sd3"])))
