"""Whether a LoRA or an embedding fits a model, from headers alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.headers import header_of, tensors, write_sparse
from tests.helpers.model_files import ramp, safetensors, write_folder, write_json

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Lora
from halftone.library.add_ons.inversions import check_inversion_fit
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.models import describe

LAYER = "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k"
FLAT = LAYER.replace(".", "_")


def kohya(inward: int, outward: int, place: str = f"lora_unet_{FLAT}") -> str:
    return f"{place}.lora_down.weight[4,{inward}] {place}.lora_up.weight[{outward},4] {place}.alpha[1]"


def peft(inward: int, outward: int, place: str = f"unet.{LAYER}") -> str:
    return f"{place}.lora_A.weight[4,{inward}] {place}.lora_B.weight[{outward},4]"


@pytest.fixture
def model(tmp_path: Path) -> ModelFacts:
    """Stable Diffusion 1.x with one layer that a LoRA may change, and one of its text encoder."""
    root = write_folder(tmp_path / "model")
    write_sparse(root / "unet" / "diffusion_pytorch_model.safetensors", header_of(tensors(f"{LAYER}.weight[320,768]")))
    text = tensors("text_model.encoder.layers.0.mlp.fc1.weight[3072,768]")
    write_sparse(root / "text_encoder" / "model.safetensors", header_of(text))
    write_json(root / "text_encoder" / "config.json", {"hidden_size": 768})
    return describe(str(root))


def lora(tmp_path: Path, patterns: str) -> tuple[Lora, ...]:
    return (Lora(path=str(write_sparse(tmp_path / "mine.safetensors", header_of(tensors(patterns))))),)


FITTING = (
    kohya(768, 320),
    peft(768, 320),
    kohya(768, 3072, "lora_te_text_model_encoder_layers_0_mlp_fc1"),
    f"lora_unet_{FLAT}.hada_{{w1,w2}}_a[320,4] lora_unet_{FLAT}.hada_{{w1,w2}}_b[4,768] lora_unet_{FLAT}.alpha[1]",
    f"lora_unet_{FLAT}.lokr_w1[8,16] lora_unet_{FLAT}.lokr_w2[40,48]",
    f"{kohya(768, 320)} {kohya(2048, 640, 'lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k')}",
    kohya(40, 40, "lora_unet_something_of_its_own"),
)


@pytest.mark.parametrize("patterns", FITTING)
def test_what_fits_or_cannot_be_told_is_let_through(model: ModelFacts, tmp_path: Path, patterns: str) -> None:
    check_lora_fit(lora(tmp_path, patterns), model)


SD1 = "Stable Diffusion 1.x"


@pytest.mark.parametrize(
    ("patterns", "why", "wanted"),
    [
        (kohya(2048, 640), "it was made for SDXL or Kolors", SD1),
        (peft(1024, 320), "it was made for Stable Diffusion 2.x", SD1),
        (kohya(768, 640), "one of its layers has the widths 768 → 640, the model's 768 → 320", "model"),
        (peft(3072, 3072, "transformer.single_transformer_blocks.0.attn.to_q"), "it was made for FLUX", SD1),
        (kohya(2048, 640, "lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k"), "it was made for SDXL or Kolors", SD1),
        (kohya(1280, 5120, "lora_te_text_model_encoder_layers_0_mlp_fc1"), "widths 1280 → 5120", "model"),
        (f"lora_unet_{FLAT}.lokr_w1[8,16] lora_unet_{FLAT}.lokr_w2[40,64]", "it was made for Stable Diffusion 2.x", SD1),
    ],
)
def test_one_of_another_base_is_refused_from_its_header(
    model: ModelFacts, tmp_path: Path, patterns: str, why: str, wanted: str
) -> None:
    with pytest.raises(HalftoneError) as caught:
        check_lora_fit(lora(tmp_path, patterns), model)
    assert caught.value.code == "lora-other-base"
    assert why in str(caught.value)
    assert str(caught.value).endswith(f"Choose a LoRA for {wanted}, or remove it.")


@pytest.mark.parametrize("width", [768, 1024, 2048])
@pytest.mark.parametrize("trainer", [kohya, peft])
def test_loras_for_its_family_are_not_advised_for_a_model_of_other_widths(
    tmp_path: Path, trainer: Callable[[int, int, str], str], width: int
) -> None:
    """Pocket is built as Stable Diffusion 1.x, but far narrower: no LoRA for that family fits it."""
    layer = "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"
    place = f"unet.{layer}" if trainer is peft else f"lora_unet_{layer.replace('.', '_')}"
    with pytest.raises(HalftoneError) as caught:
        check_lora_fit(lora(tmp_path, trainer(width, 640, place)), describe("pocket"))
    assert str(caught.value).endswith("Choose a LoRA for Pocket (demo), or remove it.")


def test_a_file_with_the_whole_model_is_read_by_its_own_names(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    unet = "model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight[320,768]"
    joined = "cond_stage_model.model.transformer.resblocks.0.attn.in_proj_weight[3072,1024]"
    write_sparse(file, header_of(tensors(unet, joined, "model.diffusion_model.input_blocks.3.0.op.weight[320,320,3,3]")))
    for family in ("Stable Diffusion 1.x", "Stable Diffusion 2.x"):
        facts = ModelFacts(
            id="m",
            name="m",
            path=str(file),
            family=family,
            format="safetensors",
            stored_dtype="float16",
            fingerprint="",
            size_bytes=1,
        )
        check_lora_fit(lora(tmp_path, kohya(768, 320)), facts)
        if family == "Stable Diffusion 2.x":
            check_lora_fit(lora(tmp_path, kohya(1024, 1024, "lora_te_text_model_encoder_layers_0_self_attn_q_proj")), facts)
        with pytest.raises(HalftoneError):
            check_lora_fit(lora(tmp_path, kohya(1024, 320)), facts)


def chroma(tmp_path: Path, width: int) -> ModelFacts:
    root = write_folder(tmp_path / "chroma", "ChromaPipeline")
    write_json(root / "transformer" / "config.json", {"_class_name": "ChromaTransformer2DModel"})
    layers = tensors(f"transformer_blocks.0.attn.{{to_q,to_k,to_v}}.weight[{width},{width}]")
    write_sparse(root / "transformer" / "diffusion_pytorch_model.safetensors", header_of(layers))
    return ModelFacts(
        id="m", name="m", path=str(root), family="Chroma", format="diffusers", stored_dtype="float16", fingerprint="",
        size_bytes=1, components=("transformer",),
    )  # fmt: skip


@pytest.mark.parametrize("place", ["lora_unet_double_blocks_0_img_attn_qkv", "diffusion_model.double_blocks.0.img_attn.qkv"])
def test_layers_that_a_maker_joins_are_compared(tmp_path: Path, place: str) -> None:
    """The widths of FLUX.1 are Chroma's, too."""
    for patterns in (kohya(3072, 9216, place), f"{place}.oft_blocks[8,1152,1152]"):
        check_lora_fit(lora(tmp_path, patterns), chroma(tmp_path, 3072))
    with pytest.raises(HalftoneError) as caught:
        check_lora_fit(lora(tmp_path, kohya(3072, 9216, place)), chroma(tmp_path, 1536))
    assert "it was made for FLUX" in str(caught.value)


def test_an_embedding_of_another_width_is_refused_from_its_header(model: ModelFacts, tmp_path: Path) -> None:
    for width, fits in ((768, True), (1024, False)):
        file = tmp_path / f"{width}.safetensors"
        file.write_bytes(safetensors({"emb_params": ramp(2, width)}))
        if fits:
            check_inversion_fit((str(file),), model)
            continue
        with pytest.raises(HalftoneError) as caught:
            check_inversion_fit((str(file),), model)
        assert caught.value.code == "inversion-other-base"
        assert "its vectors have 1024 values, the model's 768" in str(caught.value)
