"""Every form of a single file: each number comes to where it belongs, or the file is refused with the reason.

Each row is a test, so pytest counts the rows.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from tests.helpers import file_forms as forms
from tests.helpers.all_in_one import put_small_files
from tests.helpers.engine_runs import generate
from tests.helpers.file_forms import CLIP, UNET, VAE, XL, XL_CLIP, Tensors
from tests.helpers.originals import original_names, tiny_original
from tests.helpers.tiny import load_tiny
from tests.torch.engine.test_own_names import TINY, as_made

from halftone.contract.errors import HalftoneError
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.extras.denoiser import places_in_file
from halftone.engine.extras.own_names import converted
from halftone.engine.loading.load import load_pipeline
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.file_tensors import mapped, misfit, unread
from halftone.engine.weights.packed import Packed, PackedLinear
from halftone.library.add_ons.denoiser_files import denoiser_tensors
from halftone.library.files.header import read_header
from halftone.library.models import describe, runnable


@dataclass(frozen=True)
class Whole:
    """model: whose parts it was written from. change: how its writer named and kept them. dtype: of its numbers."""

    model: str
    change: forms.Change = dict
    dtype: torch.dtype = torch.float16
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


WHOLE: dict[str, Whole] = {
    "SD 1.x": Whole("sd1"),
    "SD 1.x, float32": Whole("sd1", dtype=torch.float32),
    "SD 1.x, bfloat16": Whole("sd1", dtype=torch.bfloat16),
    "SD 1.x with averages": Whole("sd1", forms.averaged),
    "SD 1.x with positions": Whole("sd1", forms.beside(**{f"{CLIP}text_model__embeddings__position_ids": torch.arange(77)})),
    "SD 1.x with a linear VAE": Whole("sd1", forms.linear),
    "SD 1.x with a loss": Whole("sd1", forms.beside(first_stage_model__loss__logvar=torch.zeros(()))),
    "SD 1.x inpainting": Whole("inpaint"),
    "SD 1.x, the encoder's old names": Whole("sd1", forms.renamed(rf"^{CLIP}text_model\.", CLIP)),
    "SD 1.x in a state_dict": Whole("sd1", forms.renamed("^", "state_dict.")),
    "SD 1.x, scaled FP8": Whole("sd1", lambda tensors: forms.eight_bits(tensors, UNET, scaled="scale_weight")),
    "InstructPix2Pix": Whole("pix2pix"),
    "SD 1.x, FP8": Whole("sd1", lambda tensors: forms.eight_bits(tensors, UNET)),
    "SD 2.x": Whole("sd2"),
    "SD 2.x, float32": Whole("sd2", dtype=torch.float32),
    "SD 2.x, velocity": Whole("sd2", metadata={"modelspec.prediction_type": "v"}),
    "SD Turbo's encoder": Whole("sd2", forms.renamed(r"^cond_stage_model\.", "conditioner.embedders.0.")),
    "SDXL": Whole("sdxl"),
    "SDXL in a state_dict": Whole("sdxl", forms.renamed("^", "state_dict.")),
    "SDXL, scaled FP8": Whole("sdxl", lambda tensors: forms.eight_bits(tensors, UNET, scaled="scale_weight")),
    "SDXL, scaled FP8 with CLIP": Whole("sdxl", lambda tensors: forms.eight_bits(tensors, UNET, XL, scaled="weight_scale")),
    "SDXL InstructPix2Pix": Whole("sdxl-pix2pix"),
    "SDXL, bfloat16": Whole("sdxl", dtype=torch.bfloat16),
    "SDXL, velocity and zero SNR": Whole("sdxl", forms.beside(v_pred=torch.zeros(0), ztsnr=torch.zeros(0))),
    "SDXL with averages": Whole("sdxl", forms.averaged),
    "SDXL, FP8": Whole("sdxl", lambda tensors: forms.eight_bits(tensors, UNET)),
    "SDXL with CLIP's projection": Whole("sdxl", forms.beside(**{f"{XL_CLIP}text_projection__weight": torch.ones(64, 64)})),
    "SDXL with CLIP's scale": Whole("sdxl", forms.beside(**{f"{XL}1.model.logit_scale": torch.tensor(4.6)})),
    "SDXL refiner": Whole("sdxl-refiner"),
    "FLUX.1": Whole("flux"),
    "FLUX.1, bfloat16": Whole("flux", dtype=torch.bfloat16),
    "FLUX.1, FP8": Whole("flux", lambda tensors: forms.eight_bits(tensors, UNET, "text_encoders.t5xxl.")),
    "FLUX.1, scaled FP8": Whole("flux", lambda tensors: forms.eight_bits(tensors, UNET, scaled="scale_weight")),
    "FLUX.1 with ComfyUI's marks": Whole("flux", forms.beside(text_encoders__t5xxl__logit_scale=torch.tensor(4.6))),
    "FLUX.1 with the VAE of the first files": Whole("flux", forms.renamed(r"^vae\.", VAE)),
    "SD 3": Whole("sd3"),
    "SD 3, bfloat16": Whole("sd3", dtype=torch.bfloat16),
    "SD 3, scaled FP8": Whole("sd3", lambda tensors: forms.eight_bits(tensors, UNET, scaled="weight_scale")),
    "SD 3 with the VAE of ComfyUI": Whole("sd3", forms.renamed(rf"^{VAE}", "vae.")),
}
LACKS = "it and the folders vae and text_encoders lack"
FOLDER = (
    "which runs only as a diffusers folder, with these small files beside its weights: model_index.json, "
    "scheduler/scheduler_config.json, unet/config.json, vae/config.json, text_encoder/config.json, tokenizer/vocab.json, "
    "tokenizer/merges.txt"
)
ONLY_SD1 = "it holds only the denoiser of Stable Diffusion 1.x, and the folders vae and text_encoders"
REFUSED: dict[str, tuple[str, forms.Change, str]] = {
    "SD 1.x without a VAE": ("sd1", forms.without(VAE), f"{LACKS} the VAE"),
    "SD 1.x without an encoder": ("sd1", forms.without(CLIP), f"{LACKS} the text encoder CLIP-L"),
    "SD 1.x, the UNet alone": ("sd1", forms.only(UNET), f"{ONLY_SD1} lack the VAE, the text encoder CLIP-L"),
    "SD 1.x, the encoder alone": ("sd1", forms.only(CLIP), "it is a text encoder (CLIP), not a whole model"),
    "SD 1.x, the VAE alone": ("sd1", forms.only(VAE), "it is a VAE (4 channels), not a whole model"),
    "SD 1.x under diffusers' names": ("sd1", lambda _: forms.by_diffusers("sd1"), f"it holds Stable Diffusion 1.x, {FOLDER}"),
    "SD 1.x LCM": (
        "sd1",
        forms.beside(**{f"{UNET}time_embed__cond_proj__weight": torch.ones(32, 256)}),
        f"it holds Stable Diffusion 1.x LCM, {FOLDER}",
    ),
    "CosXL": (
        "sdxl",
        forms.beside(edm_vpred__sigma_max=torch.tensor(120.0)),
        f"it holds CosXL, {FOLDER}, text_encoder_2/config.json, tokenizer_2/vocab.json, tokenizer_2/merges.txt",
    ),
    "SDXL without OpenCLIP": ("sdxl", forms.without(f"{XL}1."), f"{LACKS} the text encoder OpenCLIP-G"),
    "SDXL in NF4": ("sdxl", forms.nf4, "its weights are quantised (NF4), which Halftone does not read; it holds SDXL"),
    "FLUX.1 without T5": ("flux", forms.without("text_encoders.t5xxl."), f"{LACKS} the text encoder T5-XXL"),
    "FLUX.1 in NF4": ("flux", forms.nf4, "its weights are quantised (NF4), which Halftone does not read; it holds FLUX.1 dev"),
    "SD 3 without its encoders": (
        "sd3", forms.without("text_encoders."), f"{LACKS} the text encoder CLIP-L, the text encoder OpenCLIP-G",
    ),
    "SD 3 without a VAE": ("sd3", forms.without(VAE), f"{LACKS} the VAE"),
}  # fmt: skip
"""Model, what is done to it, and why it is refused."""
PIPELINES = {
    "pix2pix": "StableDiffusionInstructPix2PixPipeline",
    "sd1": "StableDiffusionPipeline",
    "sd2": "StableDiffusionPipeline",
    "inpaint": "StableDiffusionInpaintPipeline",
    "sdxl": "StableDiffusionXLPipeline",
    "sdxl-refiner": "StableDiffusionXLImg2ImgPipeline",
}
UNREAD = {
    "GLIGEN": ("sd1", f"{UNET}input_blocks.1.1.transformer_blocks.0.fuser.linear"),
    "a net of positions": ("sd1", f"{UNET}position_net.linears.0"),
    "a block of FLUX.1": ("flux", f"{UNET}double_blocks.0.img_attn.gate"),
    "a block of SD 3": ("sd3", f"{UNET}joint_blocks.0.x_block.attn3.proj"),
    "a layer of the VAE": ("sdxl", f"{VAE}decoder.mid.attn_2.q"),
}
"""Model, and a layer that its networks in diffusers do not have."""
DENOISERS: dict[str, Callable[[Tensors, Tensors], Tensors]] = {
    "makers' names": lambda theirs, _: theirs,
    "makers' names below a prefix": lambda theirs, _: {UNET + name: value for name, value in theirs.items()},
    "diffusers' names": lambda _, ours: ours,
    "scaled FP8": lambda theirs, _: forms.eight_bits(theirs, "", scaled="scale_weight"),
}
"""From (tensors under their makers' names, under those of diffusers)."""


@pytest.mark.parametrize("name", WHOLE)
def test_every_number_comes_to_its_place(name: str, tmp_path: Path) -> None:
    form = WHOLE[name]
    tensors = form.change(forms.usual(form.model, form.dtype))
    ours = load(forms.save(tensors, tmp_path / "m.safetensors", form.metadata))
    theirs, dtype = forms.parts_of(form.model), form.dtype
    if any(value.dtype in forms.PACKED for value in tensors.values()):  # the same as the file with what they stand for
        theirs, dtype = load(forms.save(forms.unpacked(tensors), tmp_path / "plain.safetensors")), torch.float32
    assert set(ours) == set(theirs)
    worst = max(compare(module, theirs[component], dtype) for component, module in ours.items())
    print(f"{name}: equal, worst difference {worst:.1e}")


def load(path: Path) -> dict[str, Any]:
    put_small_files()
    facts = describe(str(path))
    runnable(facts)
    return load_pipeline(facts, torch.device("cpu")).modules


@pytest.mark.parametrize("model", PIPELINES)
def test_diffusers_own_reader_gives_the_same_networks(model: str, tmp_path: Path) -> None:
    """What the table compares with is what diffusers reads from such a file."""
    parts = forms.parts_of(model)
    pipe = tiny_original(model)
    pipe.register_modules(**parts)
    path = forms.save(forms.usual(model, torch.float32), tmp_path / "m.safetensors")
    with quiet_libraries():
        pipe.save_pretrained(tmp_path / "folder")
        own = getattr(diffusers, PIPELINES[model])
        theirs = own.from_single_file(str(path), config=str(tmp_path / "folder"), local_files_only=True)
    for component, module in load(path).items():
        compare(module, getattr(theirs, component), torch.float32)
        compare(module, parts[component], torch.float32)


@pytest.mark.logs("loading .* failed")
@pytest.mark.parametrize("name", UNREAD)
def test_a_layer_that_no_network_has_is_not_dropped(name: str, tmp_path: Path) -> None:
    model, layer = UNREAD[name]
    tensors = forms.usual(model) | {f"{layer}.weight": torch.zeros(2, 2, dtype=torch.float16)}
    with pytest.raises(HalftoneError) as caught:
        load(forms.save(tensors, tmp_path / "m.safetensors"))
    assert caught.value.code == "model-load-failed"
    assert str(caught.value.facts["detail"]) == f"it has the layer {layer}, which diffusers does not build"


def test_a_layer_of_a_denoiser_alone_is_not_dropped(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    layer = "input_blocks.1.1.transformer_blocks.0.fuser.linear"
    given = forms.only(UNET)(original_names(load_tiny(models["sd15"]).components))
    save = {name.removeprefix(UNET): value for name, value in given.items()} | {f"{layer}.weight": torch.zeros(2, 2)}
    path = forms.save(save, tmp_path / "m.safetensors")
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], transformer=str(path))
    assert caught.value.code == "transformer-other-model"
    assert str(caught.value.facts["detail"]) == f"it has the layer {layer}, which diffusers does not build"


@pytest.mark.parametrize("form", DENOISERS)
@pytest.mark.parametrize("name", TINY)
def test_every_number_of_a_denoiser_comes_to_its_place(name: str, form: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries about themselves
        module = TINY[name][0]()
    tensors = DENOISERS[form](as_made(module, TINY[name][1]), module.state_dict())
    path = forms.save(tensors, tmp_path / "m.safetensors")
    facts = describe(str(path))
    assert (facts.takes_place, facts.kind) == (True, "denoiser")
    found = converted(module, mapped(path, denoiser_tensors(read_header(path))))
    assert misfit(module, found) is None
    given = {name.removeprefix(UNET): value for name, value in forms.unpacked(tensors).items()}
    assert unread(given, places_in_file(module, given)) is None
    plain, worst = converted(module, given), 0.0
    for own, value in module.state_dict().items():
        if own in found:
            there = found[own]
            ours = there.unpacked() if isinstance(there, Packed) else there
            wanted = plain[own] if any(one.dtype in forms.PACKED for one in tensors.values()) else value
            assert torch.allclose(ours.float().reshape(value.shape), wanted.float().reshape(value.shape), rtol=0, atol=1e-5), own
            worst = max(worst, float((ours.float().reshape(value.shape) - wanted.float()).abs().max()))
    print(f"{name}, the denoiser alone, {form}: equal, worst difference {worst:.1e}")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_run_says_why(name: str, tmp_path: Path) -> None:
    model, change, why = REFUSED[name]
    path = forms.save(change(forms.usual(model)), tmp_path / "m.safetensors")
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    assert str(caught.value.facts["detail"]) == why
    print(f"{name}: refused, {why}")


def compare(ours: Any, theirs: Any, dtype: torch.dtype) -> float:
    """Every number of a network is that of the other one, as a file with such numbers keeps it; the largest difference."""
    state, wanted = weights(ours), weights(theirs)
    assert state.keys() == wanted.keys()
    worst = 0.0
    for name, value in wanted.items():
        known = value.to(dtype).float() if value.is_floating_point() else value
        assert torch.allclose(state[name].float(), known.float(), rtol=0, atol=1e-5), name
        worst = max(worst, float((state[name].float() - known.float()).abs().max()) if value.numel() else 0.0)
    return worst


def weights(module: Any) -> Tensors:
    found = {name.removeprefix("text_model."): value for name, value in module.state_dict().items()}
    for name, layer in module.named_modules():
        if isinstance(layer, PackedLinear):
            own = name.removeprefix("text_model.")
            found = {key: value for key, value in found.items() if not key.startswith(f"{own}.")}
            found |= {f"{own}.weight": layer.exact} | ({} if layer.bias is None else {f"{own}.bias": layer.bias})
    return found
