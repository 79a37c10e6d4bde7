"""What can be told of a transformer's file before anything is loaded: one sentence for each that cannot be used."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.gguf_files import gguf
from tests.helpers.headers import header, write_sparse
from tests.helpers.model_files import ramp, safetensors
from tests.helpers.reports import MODEL
from tests.helpers.wording import translated
from tests.unit.library.test_recognise import DEV, SCHNELL, SVD

from halftone.contract.errors import HalftoneError
from halftone.contract.request import ALONE, Extras
from halftone.contract.wording import Words
from halftone.library.add_ons.denoisers import check_transformer, check_transformer_fit, denoiser_name
from halftone.library.add_ons.extras import extras_key, parts_of
from halftone.library.models import describe

FILL = DEV.replace("img_in.weight[3072,64]", "img_in.weight[3072,384]")
SMALL = {"double_blocks.0.img_attn.norm.key_norm.scale": ("F32", (64,)), "img_in.weight": ("Q8_0", (64, 64))}
"""Of a FLUX transformer as little as tells it."""


def packed(kind: str = "Q4_K", block: str = "img_in.weight") -> bytes:
    return gguf({**SMALL, "double_blocks.0.img_attn.qkv.weight": ("F32", (4, 4)), block: (kind, (4, 256))})


def written(place: Path, data: bytes) -> Path:
    place.write_bytes(data)
    return place


def pickled(place: Path) -> Path:
    with zipfile.ZipFile(place, "w") as made:
        made.writestr("model/data.pkl", b"\x80\x02.")
    return place


def folder(place: Path) -> Path:
    place.mkdir()
    return place


NO_TRANSFORMER: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "nothing": (lambda at: at / "none.gguf", "transformer-missing", "There is no transformer file at"),
    "folder": (lambda at: folder(at / "transformer"), "transformer-not-one", "it is a folder; choose the file inside it"),
    "picture": (lambda at: written(at / "a.png", b"no"), "transformer-not-one", "it is not a .gguf or .safetensors file"),
    "pickle": (lambda at: pickled(at / "a.ckpt"), "model-pickle", "is a pickle file"),
    "pickle by another name": (lambda at: pickled(at / "a.safetensors"), "model-pickle", "is a pickle file"),
    "page called a pickle": (lambda at: written(at / "a.pt", b"<html>"), "model-bad-header", "it is a web page, not a model"),
    "half": (lambda at: written(at / "a.gguf", packed()[:-40]), "model-truncated", "is incomplete"),
    "its beginning": (lambda at: written(at / "a.gguf", packed()[:20]), "model-truncated", "is incomplete"),
    "page": (lambda at: written(at / "a.gguf", b"<!DOCTYPE html>" * 9), "model-bad-header", "it does not start like a GGUF file"),
    "unknown kind": (
        lambda at: written(at / "a.gguf", gguf({"token_embd.weight": ("F32", (8, 4))}, {"general.architecture": "llama"})),
        "transformer-not-one",
        "it is not clear what model it is",
    ),
    "type that is not read": (
        lambda at: written(at / "a.gguf", packed("IQ2_XXS")),
        "transformer-not-one",
        "diffusers cannot unpack its IQ2_XXS weights",
    ),
    "four bits of another kind": (
        lambda at: write_sparse(at / "a.safetensors", header(DEV + " img_in.weight.quant_state.bitsandbytes__nf4[8]")),
        "transformer-not-one",
        "its weights are quantised (NF4), which Halftone does not read",
    ),
    "LoRA": (
        lambda at: written(at / "a.safetensors", safetensors({"lora_unet_a.lora_down.weight": ramp(2)})),
        "transformer-not-one",
        "it is a LoRA",
    ),
    "shard": (
        lambda at: write_sparse(at / "diffusion_pytorch_model-00001-of-00003.safetensors", header(DEV)),
        "transformer-not-one",
        "it is file 1 of 3 of a split model",
    ),
    "names that diffusers does not read": (
        lambda at: write_sparse(at / "a.safetensors", header(SVD)),
        "transformer-not-one",
        "in its own names only",
    ),
    "name that is too long": (lambda at: at / ("a" * 300 + ".gguf"), "transformer-not-one", " as a transformer"),
}


@pytest.mark.parametrize("case", NO_TRANSFORMER)
def test_what_is_none_is_told_in_a_sentence(tmp_path: Path, case: str) -> None:
    make, code, said = NO_TRANSFORMER[case]
    with pytest.raises(HalftoneError) as caught:
        check_transformer(str(make(tmp_path)))
    assert caught.value.code == code
    assert said in str(caught.value)
    assert translated(caught.value.facts.get("detail", Words("it is a folder")))


def model(tmp_path: Path, patterns: str, name: str = "dev") -> Path:
    """A diffusers folder's place in the list, its transformer only a header."""
    root = tmp_path / name
    (root / "transformer").mkdir(parents=True)
    (root / "model_index.json").write_text(
        '{"_class_name": "FluxPipeline", "transformer": ["diffusers", "FluxTransformer2DModel"]}', encoding="utf-8"
    )
    (root / "transformer" / "config.json").write_text('{"_class_name": "FluxTransformer2DModel"}', encoding="utf-8")
    write_sparse(root / "transformer" / "diffusion_pytorch_model.safetensors", header(patterns))
    return root


@pytest.mark.parametrize(
    ("own", "given", "why"),
    [
        (DEV, DEV, None),
        (DEV, SCHNELL, "it is FLUX.1 schnell, the model's own is FLUX.1 dev"),
        (SCHNELL, DEV, "it is FLUX.1 dev, the model's own is FLUX.1 schnell"),
        (DEV, FILL, "it is FLUX.1 Fill, the model's own is FLUX.1 dev"),
        (DEV, DEV.replace("{0-18}", "{0-7}"), "values, the model's own"),
    ],
)
def test_a_file_has_to_fit_in_family_base_and_size(tmp_path: Path, own: str, given: str, why: str | None) -> None:
    file = write_sparse(tmp_path / "given.safetensors", header(given))
    facts = describe(str(model(tmp_path, own)))
    if why is None:
        check_transformer_fit(str(file), facts)
        return
    with pytest.raises(HalftoneError) as caught:
        check_transformer_fit(str(file), facts)
    assert caught.value.code == "transformer-other-model"
    assert why in str(caught.value)
    assert translated(caught.value.facts["detail"])


def test_another_family_is_named(tmp_path: Path) -> None:
    file = write_sparse(tmp_path / "given.safetensors", header(DEV))
    with pytest.raises(HalftoneError) as caught:
        check_transformer_fit(str(file), describe("pocket"))
    assert "The transformer given.safetensors does not fit" in str(caught.value)
    assert "it is FLUX.1 dev, and the model is Stable Diffusion 1.x" in str(caught.value)


def test_which_part_is_exchanged() -> None:
    from msgspec.structs import replace

    assert denoiser_name(replace(MODEL, components=("text_encoder", "unet", "vae"))) == "unet"
    assert denoiser_name(replace(MODEL, components=("text_encoder", "transformer", "vae"))) == "transformer"
    assert denoiser_name(replace(MODEL, components=("text_encoder", "transformer", "transformer_2", "vae"))) is None
    assert denoiser_name(replace(MODEL, components=("prior", "decoder"))) is None


def test_what_is_learned_belongs_to_the_file_as_it_is_now(tmp_path: Path) -> None:
    file = written(tmp_path / "a.gguf", packed())
    extras = Extras(transformer=str(file))
    before = extras_key(extras)
    assert before not in ("", extras_key(ALONE))
    file.write_bytes(packed() + bytes(32))
    assert extras_key(extras) != before
    assert set(parts_of(extras)) == {ALONE, extras}
    assert extras_key(Extras(vae=str(file))) != extras_key(extras)
