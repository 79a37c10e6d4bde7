"""Models whose parts lie in files of their own, as ComfyUI and Forge keep them: found, put together, and told what lacks."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel, SD3Transformer2DModel
from safetensors.torch import load_file, save_file
from tests.helpers import all_in_one
from tests.helpers import file_forms as forms
from tests.helpers.all_in_one import put_small_files
from tests.helpers.engine_runs import Recorder, Steady, check, generate, pixels
from tests.helpers.gguf_files import gguf
from tests.helpers.headers import header_of, tensors, write_sparse
from tests.helpers.originals import save_original, tiny_original, vae_tensors
from tests.helpers.tiny import liven
from tests.helpers.transformer_files import flux_original, save_gguf, sd3_original
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Repair
from halftone.engine.loading.load import load_pipeline
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.file_tensors import filled_component
from halftone.engine.weights.packed import PackedLinear
from halftone.library.families import single_configs
from halftone.library.families.single_files import of_component, places
from halftone.library.families.split_files import part_tensors
from halftone.library.files.header import Header
from halftone.library.models import describe, is_as_it_was, list_models, runnable
from halftone.settings.store import Settings, save

T5 = """shared.weight[32128,4096] encoder.block.0.layer.0.SelfAttention.{q,k,v}.weight[16,4096]
    encoder.block.0.layer.0.SelfAttention.o.weight[4096,16]
    encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight[32,2]
    encoder.block.0.layer.{0,1}.layer_norm.weight[4096] encoder.block.0.layer.1.DenseReluDense.wi_{0,1}.weight[8,4096]
    encoder.block.0.layer.1.DenseReluDense.wo.weight[4096,8] encoder.final_layer_norm.weight[4096]"""
"""A small T5 of the width of T5-XXL, by which it is recognised."""


@pytest.fixture(scope="module")
def sdxl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_original(tiny_original("sdxl"), tmp_path_factory.mktemp("sdxl") / "whole.safetensors")


@pytest.fixture
def engine() -> DiffusersEngine:
    return DiffusersEngine()


def split(whole: Path, models: Path, *, wrapped: bool = True) -> Path:
    """A file without its VAE in the folder "checkpoints", and the VAE in "vae"."""
    held = load_file(whole)
    (models / "checkpoints").mkdir(parents=True)
    (models / "vae").mkdir()
    save_file(forms.without(forms.VAE)(held), models / "checkpoints" / "part.safetensors")
    vae = forms.only(forms.VAE)(held)
    vae = vae if wrapped else {name.removeprefix(forms.VAE): value for name, value in vae.items()}
    save_file(vae, models / "vae" / "sdxl_vae.safetensors")
    return models / "checkpoints" / "part.safetensors"


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_checkpoint_without_a_vae_makes_the_same_picture_with_one_beside_it(
    engine: DiffusersEngine, sdxl: Path, tmp_path: Path, wrapped: bool
) -> None:
    path = split(sdxl, tmp_path, wrapped=wrapped)
    facts = describe(str(path))
    runnable(facts)
    assert facts.parts == {"vae": str(tmp_path / "vae" / "sdxl_vae.safetensors")}
    ours, theirs = (generate(engine, model, "float32")[0] for model in (path, sdxl))
    assert (pixels(ours) == pixels(theirs)).all()
    report, _ = check(engine, path, "float16")
    assert (report.verdict, report.findings) == ("healthy", ())


def test_damage_in_a_part_is_told_of_the_part(engine: DiffusersEngine, sdxl: Path, tmp_path: Path) -> None:
    path = split(sdxl, tmp_path)
    file = tmp_path / "vae" / "sdxl_vae.safetensors"
    held = load_file(file)
    held[f"{forms.VAE}decoder.conv_in.weight"][0, 0, 0, 0] = float("nan")
    save_file(held, file)
    report, _ = check(engine, path, "float16")
    assert [(one.component, one.module) for one in report.findings] == [("vae", "decoder.conv_in")]


def test_what_comes_and_goes_beside_a_file_is_seen(sdxl: Path, tmp_path: Path) -> None:
    path = split(sdxl, tmp_path)
    vae = tmp_path / "vae" / "sdxl_vae.safetensors"
    whole = describe(str(path))
    assert is_as_it_was(whole)
    vae.rename(tmp_path / "away.safetensors")
    lacking = describe(str(path))
    assert not is_as_it_was(whole)
    assert str(lacking.why) == "it and the folders vae and text_encoders lack the VAE"
    assert is_as_it_was(lacking)
    (tmp_path / "away.safetensors").rename(vae)
    assert not is_as_it_was(lacking)
    known = {str(path): lacking}
    assert [one.parts for one in list_models([str(path.parent)], known.get) if one.id == str(path)] == [{"vae": str(vae)}]


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (("a.safetensors",), "a.safetensors"),
        (("a.safetensors", "sdxl.vae.safetensors"), "sdxl.vae.safetensors"),
        (("a.safetensors", "part.vae.safetensors", "xl.safetensors"), "part.vae.safetensors"),
        (("vae-ft-mse-840000-ema-pruned.safetensors",), ""),
    ],
)
def test_the_vae_is_the_one_that_is_named_as_the_model_or_its_family(
    sdxl: Path, tmp_path: Path, names: tuple[str, ...], taken: str
) -> None:
    path = split(sdxl, tmp_path)
    vae = tmp_path / "vae" / "sdxl_vae.safetensors"
    data = vae.read_bytes()
    vae.unlink()
    for name in names:
        (tmp_path / "vae" / name).write_bytes(data)
    assert describe(str(path)).parts == ({"vae": str(tmp_path / "vae" / taken)} if taken else {})


def clip(kind: Any, width: int) -> Any:
    config = CLIPTextConfig(
        vocab_size=100,
        hidden_size=width,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=width // 64,
        projection_dim=width,
        eos_token_id=2,
        hidden_act="quick_gelu" if width == 768 else "gelu",
    )
    return kind(config)


def vae() -> Any:
    kinds: Any = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    sizes: Any = {"block_out_channels": (32, 32), "layers_per_block": 1, "latent_channels": 16}
    return AutoencoderKL(**kinds, **sizes, use_quant_conv=False, use_post_quant_conv=False)


def flux() -> dict[str, Any]:
    transformer = FluxTransformer2DModel(
        in_channels=64, num_layers=1, num_single_layers=1, attention_head_dim=32, num_attention_heads=2,
        joint_attention_dim=4096, pooled_projection_dim=768, guidance_embeds=True, axes_dims_rope=(4, 14, 14),
    )  # fmt: skip
    return {"transformer": transformer, "vae": vae(), "text_encoder": clip(CLIPTextModel, 768)}


def sd3() -> dict[str, Any]:
    transformer = SD3Transformer2DModel(
        sample_size=128, in_channels=16, num_layers=2, attention_head_dim=32, num_attention_heads=2, out_channels=16,
        joint_attention_dim=4096, caption_projection_dim=64, pooled_projection_dim=2048,
        pos_embed_max_size=96, qk_norm="rms_norm",
    )  # fmt: skip
    return {
        "transformer": transformer,
        "vae": vae(),
        "text_encoder": clip(CLIPTextModelWithProjection, 768),
        "text_encoder_2": clip(CLIPTextModelWithProjection, 1280),
    }


FILES = {"text_encoder": "clip_l", "text_encoder_2": "clip_g"}
MAKERS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[Any], dict[str, torch.Tensor]]]] = {
    "flux1-dev": (flux, flux_original),
    "sd3.5_medium": (sd3, sd3_original),
}


def save_split(name: str, models: Path) -> tuple[dict[str, Any], Path]:
    """In the folders of ComfyUI; the parts, and the transformer's file."""
    torch.manual_seed(0)
    build, original = MAKERS[name]
    parts = build()
    for part in parts.values():
        liven(part)
        part.to(torch.bfloat16)
    for folder in ("diffusion_models", "text_encoders/t5", "vae"):
        (models / folder).mkdir(parents=True)
    file = models / "diffusion_models" / f"{name}.safetensors"
    forms.save(original(parts["transformer"]), file)
    forms.save(vae_tensors(parts["vae"]), models / "vae" / ("ae.safetensors" if "flux" in name else "sd3_vae.safetensors"))
    for component, stem in FILES.items():
        if component in parts:
            state = parts[component].state_dict()
            held = {key if key.startswith("text_") else f"text_model.{key}": value for key, value in state.items()}
            forms.save(held, models / "text_encoders" / f"{stem}.safetensors")
    write_sparse(models / "text_encoders" / "t5" / "t5xxl_fp16.safetensors", header_of(tensors(T5)))
    return parts, file


@pytest.mark.parametrize("name", MAKERS)
def test_the_parts_in_comfyuis_folders_become_one_model(name: str, tmp_path: Path) -> None:
    parts, path = save_split(name, tmp_path)
    put_small_files()
    facts = describe(str(path))
    runnable(facts)
    t5 = "text_encoder_2" if name == "flux1-dev" else "text_encoder_3"
    assert set(facts.parts) == {*parts, t5} - {"transformer"}
    assert facts.takes_place
    loaded = load_pipeline(facts, torch.device("cpu"))
    for component, part in parts.items():
        ours = {key.removeprefix("text_model."): value for key, value in loaded.modules[component].state_dict().items()}
        theirs = {key.removeprefix("text_model."): value for key, value in part.state_dict().items()}
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], value) for key, value in theirs.items()), component
    assert cast("Any", loaded.modules[t5]).config.num_layers == 1
    assert facts.size_bytes == sum(Path(file).stat().st_size for file in (path, *facts.parts.values()))


def test_a_packed_transformer_joins_the_same_parts(tmp_path: Path) -> None:
    parts, path = save_split("flux1-dev", tmp_path)
    put_small_files()
    packed = path.with_name("flux1-dev-Q8_0.gguf")
    numbers = save_gguf(flux_original(parts["transformer"]), packed)
    facts = describe(str(packed))
    runnable(facts)
    loaded = load_pipeline(facts, torch.device("cpu"))
    layer = loaded.modules["transformer"].get_submodule("context_embedder")
    assert torch.equal(cast("PackedLinear", layer).exact, numbers["txt_in.weight"])


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("text_encoders/clip_l.safetensors", "the text encoder CLIP-L"),
        ("text_encoders/t5/t5xxl_fp16.safetensors", "the text encoder T5-XXL"),
        ("vae/ae.safetensors", "the VAE"),
    ],
)
def test_the_part_that_lacks_is_named(tmp_path: Path, lost: str, said: str) -> None:
    _, path = save_split("flux1-dev", tmp_path)
    (tmp_path / lost).unlink()
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    assert caught.value.code == "model-needs-parts"
    assert str(caught.value.facts["detail"]) == (
        f"it holds only the denoiser of FLUX.1 dev, and the folders vae and text_encoders lack {said}"
    )


def test_a_model_of_several_files_is_not_repaired_as_one(engine: DiffusersEngine, sdxl: Path, tmp_path: Path) -> None:
    path = split(sdxl, tmp_path)
    with pytest.raises(HalftoneError) as caught:
        engine.repair(Repair(job="r", model=str(path), output=str(tmp_path / "copy")), Recorder(), Steady())
    assert caught.value.code == "repair-several-files"


@pytest.mark.parametrize("watched", ["", "models", "models/vae"])
def test_a_part_lies_in_a_watched_folder(sdxl: Path, tmp_path: Path, watched: str) -> None:
    path = split(sdxl, tmp_path / "mine")
    vae = tmp_path / "other" / "models" / "vae" / "sdxl_vae.safetensors"
    vae.parent.mkdir(parents=True)
    (tmp_path / "mine" / "vae" / "sdxl_vae.safetensors").rename(vae)
    assert describe(str(path)).parts == {}
    save(Settings(model_folders=(str(tmp_path / "other" / watched),)))
    assert describe(str(path)).parts == {"vae": str(vae)}


def test_the_nearest_of_two_alike_is_taken(sdxl: Path, tmp_path: Path) -> None:
    near, far = split(sdxl, tmp_path / "near"), split(sdxl, tmp_path / "far")
    save(Settings(model_folders=(str(far.parent.parent),)))
    assert describe(str(near)).parts == {"vae": str(tmp_path / "near" / "vae" / "sdxl_vae.safetensors")}


LLAMA = (
    (r"^encoder\.block\.(\d+)\.layer\.0\.SelfAttention\.relative_attention_bias", r"enc.blk.\1.attn_rel_b"),
    (r"^encoder\.block\.(\d+)\.layer\.0\.SelfAttention\.", r"enc.blk.\1.attn_"),
    (r"^encoder\.block\.(\d+)\.layer\.0\.layer_norm", r"enc.blk.\1.attn_norm"),
    (r"^encoder\.block\.(\d+)\.layer\.1\.layer_norm", r"enc.blk.\1.ffn_norm"),
    (r"^encoder\.block\.(\d+)\.layer\.1\.DenseReluDense\.wi_0", r"enc.blk.\1.ffn_gate"),
    (r"^encoder\.block\.(\d+)\.layer\.1\.DenseReluDense\.wi_1", r"enc.blk.\1.ffn_up"),
    (r"^encoder\.block\.(\d+)\.layer\.1\.DenseReluDense\.wo", r"enc.blk.\1.ffn_down"),
    (r"^encoder\.final_layer_norm", "enc.output_norm"),
    (r"^shared", "token_embd"),
)
"""How llama.cpp names the tensors of a T5."""


def test_a_packed_t5_comes_to_its_place(tmp_path: Path) -> None:
    t5 = all_in_one.parts_of("flux")["text_encoder_2"]
    held = {name: value for name, value in t5.state_dict().items() if name != "encoder.embed_tokens.weight"}
    for pattern, theirs in LLAMA:
        held = forms.renamed(pattern, theirs)(held)
    file = tmp_path / "t5.gguf"
    numbers = save_gguf(held, file, architecture="t5encoder")
    whole = Header(tuple(one for _, one in part_tensors("FLUX", "text_encoder_2", str(file))), {})
    shapes = {one.name.removeprefix("text_encoders.t5xxl.transformer."): one.shape for one in whole.tensors}
    config = single_configs.t5(shapes) | {"feed_forward_proj": "gated-gelu"}
    made = filled_component(type(t5), config, file, whole, of_component(places("FLUX", whole), "text_encoder_2"))
    layer = made.get_submodule("encoder.block.1.layer.1.DenseReluDense.wi_1")
    assert torch.equal(cast("PackedLinear", layer).exact, numbers["enc.blk.1.ffn_up.weight"])
    words = torch.tensor([[3, 1, 4, 1, 5]])
    for name, value in t5.named_parameters():
        value.data = stands_for(name, numbers)
    assert torch.allclose(made.eval()(words)[0], t5.eval()(words)[0], rtol=0, atol=1e-5)


def stands_for(name: str, numbers: dict[str, torch.Tensor]) -> torch.Tensor:
    for pattern, theirs in LLAMA:
        name = re.sub(pattern, theirs, name)
    return numbers[name]


def test_a_packed_t5_is_a_part(tmp_path: Path) -> None:
    _, path = save_split("flux1-dev", tmp_path)
    (tmp_path / "text_encoders" / "t5" / "t5xxl_fp16.safetensors").unlink()
    file = tmp_path / "text_encoders" / "t5-v1_1-xxl-encoder-Q3_K_S.gguf"
    kinds = {"token_embd.weight": ("Q2_K", (32128, 4096)), "enc.blk.0.attn_q.weight": ("Q2_K", (256, 4096))}
    rest = {"attn_rel_b": (32, 64), "ffn_gate": (256, 4096)}
    file.write_bytes(gguf(kinds | {f"enc.blk.0.{name}.weight": ("F32", shape) for name, shape in rest.items()}))
    facts = describe(str(path))
    assert (facts.why, facts.parts["text_encoder_2"]) == (None, str(file))
