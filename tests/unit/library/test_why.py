"""What is said of files that are recognised and cannot run: one sentence, with everything that is missing."""

from pathlib import Path

import pytest
from tests.helpers.gguf_files import gguf
from tests.helpers.headers import header, tensors, write_sparse
from tests.helpers.model_files import safetensors, write_folder, write_json
from tests.unit.library.test_recognise import (
    ADDITIONS,
    CHROMA,
    DEV,
    MODELS,
    PARTS,
    QWEN,
    SD1_UNET,
    SDXL,
    VAE,
    WAN,
)

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.add_ons.unusable_files import listed_as, small_files, why_not
from halftone.library.families.known_families import FAMILIES, KIND_NAMES
from halftone.library.families.recognise import recognise
from halftone.library.index.entries import part_files
from halftone.library.models import describe, list_models, runnable

ONLY_DEV = "it holds only the denoiser of FLUX.1 dev, and the folders vae and text_encoders"


def described(tmp_path: Path, patterns: str, name: str = "m.safetensors", metadata: dict[str, str] | None = None) -> ModelFacts:
    return describe(str(write_sparse(tmp_path / name, header(patterns, metadata=metadata))))


def refusal(facts: ModelFacts) -> str:
    with pytest.raises(HalftoneError) as caught:
        runnable(facts)
    assert caught.value.code == ("model-needs-parts" if facts.takes_place else "model-unsupported")
    return str(caught.value.facts["detail"])


def test_a_denoiser_alone_says_which_parts_and_which_small_files_are_missing(tmp_path: Path) -> None:
    facts = described(tmp_path, DEV)
    assert (facts.family, facts.base, facts.kind, facts.prediction) == ("FLUX", "FLUX.1 dev", "denoiser", "flow")
    assert facts.lacks == ("VAE (16 channels)", "CLIP-L", "T5-XXL")
    assert (facts.native_width, facts.default_steps, facts.default_guidance, facts.prompt_tokens) == (1024, 28, 3.5, 512)
    assert refusal(facts) == f"{ONLY_DEV} lack the VAE, the text encoder CLIP-L, the text encoder T5-XXL"
    facts = described(tmp_path, CHROMA)
    assert refusal(facts) == (
        "it holds only the denoiser of Chroma; a run also needs these parts: VAE (16 channels), text encoder T5-XXL; and these "
        "small files: model_index.json, scheduler/scheduler_config.json, transformer/config.json, vae/config.json, "
        "text_encoder/config.json, tokenizer/spiece.model"
    )


@pytest.mark.parametrize(
    ("patterns", "name", "detail"),
    [
        (
            SD1_UNET,
            "m.safetensors",
            f"{ONLY_DEV.replace('FLUX.1 dev', 'Stable Diffusion 1.x')} lack the VAE, the text encoder CLIP-L",
        ),
        (VAE, "m.safetensors", "it is a VAE (4 channels), not a whole model"),
        (PARTS["t5"][0], "m.safetensors", "it is a text encoder (T5-XXL), not a whole model"),
        (PARTS["siglip"][0], "m.safetensors", "it is an image encoder (SigLIP), not a whole model"),
        (ADDITIONS["controlnet-flux"][0], "m.safetensors", "it is a ControlNet for FLUX, not a whole model"),
        (ADDITIONS["ip-adapter-sdxl"][0], "m.safetensors", "it is an IP-Adapter for SDXL, not a whole model"),
        (ADDITIONS["esrgan-new"][0], "m.safetensors", "it is an upscaler (ESRGAN), not a whole model"),
        ("emb_params[8,768]", "m.safetensors", "it is a textual inversion for Stable Diffusion 1.x, not a whole model"),
        ("lora_unet_x.lora_down.weight[4,9]", "m.safetensors", "it is a LoRA, not a whole model"),
        ("something.else[3,3]", "m.safetensors", "it is not clear what model it is"),
        (QWEN, "m-00002-of-00009.safetensors", "it is file 2 of 9 of a split model, which runs only as a folder"),
    ],
)
def test_why_a_file_cannot_run(tmp_path: Path, patterns: str, name: str, detail: str) -> None:
    assert refusal(described(tmp_path, patterns, name)) == detail


def test_a_variant_that_is_built_otherwise_is_not_run_as_its_family(tmp_path: Path) -> None:
    for changed, base in (
        (f"{SDXL} edm_vpred.sigma_max", "CosXL"),
        (f"{SDXL} edm_mean", "Playground v2.5"),
    ):
        facts = described(tmp_path, changed)
        assert refusal(facts).startswith(f"it holds {base}, which runs only as a diffusers folder, with these small files")


def test_a_gguf_file_is_described_with_its_quantisation(tmp_path: Path) -> None:
    shapes = {name: shape for name, shape in tensors(DEV).items() if ".0." in name or not name.startswith(("double", "single"))}
    path = tmp_path / "flux1-dev-Q4_K_S.gguf"
    path.write_bytes(
        gguf({name: ("F16" if len(shape) < 2 or shape[-1] % 256 else "Q4_K", shape) for name, shape in shapes.items()})
    )
    facts = describe(str(path))
    assert (facts.family, facts.base, facts.stored_dtype, facts.kind) == ("FLUX", "FLUX.1 dev", "q4_k", "denoiser")
    assert refusal(facts).startswith(f"{ONLY_DEV} lack the VAE")
    assert path.name.removesuffix(".gguf") in [found.name for found in list_models([str(tmp_path)])]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(HalftoneError) as caught:
        describe(str(path))
    assert caught.value.code == "model-truncated"


def test_a_part_of_a_folder_is_told_from_the_folder(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m")
    write_json(root / "unet" / "config.json", {"_class_name": "UNet2DConditionModel"})
    with pytest.raises(HalftoneError) as caught:
        describe(str(root / "unet"))
    assert caught.value.code == "model-unsupported"
    assert "one part of a model (UNet2DConditionModel); choose the folder above" in str(caught.value)
    assert describe(str(root)).base == "Stable Diffusion 1.x"


def test_a_folder_says_what_it_predicts_and_which_model_it_is(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "m", "StableDiffusionXLPipeline")
    write_json(root / "scheduler" / "scheduler_config.json", {"_class_name": "DDIMScheduler", "prediction_type": "v_prediction"})
    assert describe(str(root)).prediction == "v_prediction"

    other = write_folder(tmp_path / "models--black-forest-labs--FLUX.1-schnell" / "snapshots" / "abc", "FluxPipeline")
    names = "single_transformer_blocks.0.proj_mlp.weight x_embedder.weight[1,64] time_text_embed.text_embedder.linear_1.weight"
    write_sparse(other / "unet" / "diffusion_pytorch_model.safetensors", header(names))
    write_json(other / "scheduler" / "scheduler_config.json", {"_class_name": "FlowMatchEulerDiscreteScheduler"})
    facts = describe(str(other))
    assert (facts.base, facts.prediction, facts.default_steps, facts.default_guidance) == ("FLUX.1 schnell", "flow", 4, 0.0)

    guided = f"{names} time_text_embed.guidance_embedder.linear_1.weight"
    write_sparse(other / "unet" / "diffusion_pytorch_model.safetensors", header(guided))
    assert describe(str(other)).base == "FLUX.1 dev"
    write_json(
        other / "model_index.json", {"_class_name": "FluxKontextPipeline", "unet": ["diffusers", "FluxTransformer2DModel"]}
    )
    facts = describe(str(other))
    assert (facts.base, facts.default_guidance) == ("FLUX.1 Kontext", 2.5)


@pytest.mark.parametrize("case", [*MODELS, *PARTS, *ADDITIONS])
def test_everything_that_is_recognised_is_listed_and_says_why_it_does_not_run(case: str) -> None:
    patterns = (MODELS.get(case) or PARTS.get(case) or ADDITIONS[case])[0]
    found = recognise(header(patterns))
    assert str(why_not(found)).startswith(("it is ", "it holds "))
    assert listed_as(found) in {family.name for family in FAMILIES} | set(KIND_NAMES.values())


def test_the_small_files_of_every_family_are_named_once() -> None:
    for family in FAMILIES:
        files = small_files(family)
        assert len(set(files)) == len(files)
        assert files[0] == "model_index.json"


def test_a_lora_is_listed_with_the_family_that_it_fits(tmp_path: Path) -> None:
    path = tmp_path / "style.safetensors"
    down, up = "lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight", "lora_unet_double_blocks_0_img_attn_qkv.lora_up.weight"
    write_sparse(path, header(f"{down}[4,3072] {up}[9216,4]"))
    facts = describe(str(path))
    assert (facts.family, facts.kind, facts.base) == ("LoRA", "LoRA", "FLUX")


def test_an_empty_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf({}))
    (tmp_path / "m.sft").write_bytes(safetensors({}))
    for name in ("m.gguf", "m.sft"):
        with pytest.raises(HalftoneError) as caught:
            describe(str(tmp_path / name))
        assert caught.value.code == "model-not-a-model"


SPLIT = {
    "Chroma": (CHROMA, {"vae/ae": PARTS["vae-16"][0], "text_encoders/t5": PARTS["t5"][0]}),
}
"""In ComfyUI's folders: the denoiser, and the file of each part."""


@pytest.mark.parametrize("base", SPLIT)
def test_of_a_model_of_several_files_only_what_lacks_beside_it_is_named(base: str, tmp_path: Path) -> None:
    denoiser, parts = SPLIT[base]
    for folder in ("diffusion_models", "vae", "text_encoders", "clip"):
        (tmp_path / folder).mkdir()
    path = write_sparse(tmp_path / "diffusion_models" / "m.safetensors", header(denoiser))
    for lost in ("", *parts):
        for name, patterns in parts.items():
            file = tmp_path / f"{name}.safetensors"
            file.unlink(missing_ok=True)
            if name != lost:
                write_sparse(file, header(patterns))
        facts = describe(str(path))
        assert facts.base == base
        if not lost:
            assert refusal(facts).startswith(f"it holds only the denoiser of {base}, which runs only as a diffusers folder, with")
        else:
            kind = "VAE" if "vae" in lost else "text encoder"
            said = refusal(facts)
            assert said.startswith(f"it holds only the denoiser of {base}; a run also needs these parts: ")
            assert kind in said.partition("parts: ")[2].partition("; and")[0]
            assert "," not in said.partition("parts: ")[2].partition("; and")[0]


APART = {
    "qwen_image_edit_2509": (QWEN, "Qwen-Image Edit"),
}
"""Name of a file: the denoiser, and its base."""


def test_of_the_two_halves_of_wan_2_2_the_one_for_high_noise_is_the_model(tmp_path: Path) -> None:
    for folder in ("diffusion_models", "vae", "text_encoders"):
        (tmp_path / folder).mkdir()
    high, low = (tmp_path / "diffusion_models" / f"Wan2.2-T2V-A14B-{half}Noise.safetensors" for half in ("High", "Low"))
    write_sparse(high, header(WAN))
    write_sparse(tmp_path / "vae" / "wan_2.1_vae.safetensors", header(PARTS["vae-wan"][0]))
    write_sparse(tmp_path / "text_encoders" / "umt5.safetensors", header(PARTS["umt5"][0]))
    base = "Wan 2.2 14B (high noise)"
    lost = "the denoiser for low noise"
    alone = f"it holds only the denoiser of {base}, and neither beside it nor in the folders vae and text_encoders is {lost}"
    assert (describe(str(high)).base, refusal(describe(str(high)))) == (base, alone)
    write_sparse(low, header(WAN))
    said = "it is the half of Wan 2.2 14B for low noise; choose the file of the half for high noise, which runs with this one"
    assert refusal(describe(str(low))) == said


@pytest.mark.parametrize("name", APART)
def test_a_model_that_needs_more_than_its_family_runs_only_as_a_folder(name: str, tmp_path: Path) -> None:
    denoiser, base = APART[name]
    for folder in ("diffusion_models", "vae", "text_encoders"):
        (tmp_path / folder).mkdir()
    path = write_sparse(tmp_path / "diffusion_models" / f"{name}.safetensors", header(denoiser))
    for file, part in (("vae/vae", "vae-wan"), ("text_encoders/umt5", "umt5"), ("text_encoders/qwen", "qwen2.5-vl")):
        write_sparse(tmp_path / f"{file}.safetensors", header(PARTS[part][0]))
    facts = describe(str(path))
    assert facts.base == base
    assert refusal(facts).startswith(f"it holds only the denoiser of {base}, which runs only as a diffusers folder, with")


def test_the_files_of_a_split_model_are_known(tmp_path: Path) -> None:
    for folder in ("diffusion_models", "vae", "text_encoders"):
        (tmp_path / folder).mkdir()
    path = write_sparse(tmp_path / "diffusion_models" / "wan2.1_t2v_14B.safetensors", header(WAN))
    write_sparse(tmp_path / "vae" / "wan_2.1_vae.safetensors", header(PARTS["vae-wan"][0]))
    assert part_files(describe(str(path))) == ()  # it lacks one, and is no whole model
