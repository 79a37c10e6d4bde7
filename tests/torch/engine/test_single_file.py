"""Whole models in one file, as CompVis and Stability AI lay them out: recognised, loaded, checked, cured, repaired, offline."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionInstructPix2PixPipeline
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.helpers.engine_runs import Recorder, Steady, check, generate, pixels
from tests.helpers.originals import original_names, published, save_original, tiny_original
from transformers import CLIPTokenizer

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Repair
from halftone.contract.request import Refiner
from halftone.engine.loading.load import load_pipeline
from halftone.engine.service import DiffusersEngine
from halftone.library.families.single_files import SINGLES, configs, module_names, places
from halftone.library.files.header import Header, TensorInfo, read_header
from halftone.library.models import describe, runnable
from halftone.library.prompts.tokens import clip_tokenizer, make_counter, merges, vocabulary
from halftone.measure.pictures import psnr
from halftone.settings.places import resources

KINDS = ("sd1", "sd2", "sdxl", "sdxl-refiner", "inpaint")
FAMILIES = {
    "sd1": "Stable Diffusion 1.x",
    "sd2": "Stable Diffusion 2.x",
    "sdxl": "SDXL",
    "sdxl-refiner": "SDXL refiner",
    "inpaint": "Stable Diffusion 1.x",
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Path]]:
    folder = tmp_path_factory.mktemp("originals")
    made: dict[str, tuple[Any, Path]] = {}

    def save(kind: str) -> tuple[Any, Path]:
        if kind not in made:
            pipe = tiny_original(kind)
            made[kind] = pipe, save_original(pipe, folder / f"{kind}.safetensors")
        return made[kind]

    return save


@pytest.fixture
def engine() -> DiffusersEngine:
    return DiffusersEngine()


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_the_file_is_where_it_belongs(saved: Callable[[str], tuple[Any, Path]], kind: str) -> None:
    pipe, path = saved(kind)
    facts = describe(str(path))
    runnable(facts)
    assert (facts.family, facts.format, facts.pipeline) == (FAMILIES[kind], "single-file", type(loaded_pipe(path)).__name__)
    loaded = load_pipeline(facts, torch.device("cpu"))
    assert set(loaded.stored.values()) == {torch.float16}
    for name, module in loaded.modules.items():
        theirs = getattr(pipe, name).state_dict()
        assert {key: list(value.shape) for key, value in module.state_dict().items()} == {
            key: list(value.shape) for key, value in theirs.items()
        }
        assert all(torch.equal(value, theirs[key].half()) for key, value in module.state_dict().items()), name


def test_what_the_file_joins_is_not_copied(saved: Callable[[str], tuple[Any, Path]]) -> None:
    """OpenCLIP keeps three projections in one tensor: they still lie side by side, as the file has them."""
    encoder = loaded_pipe(saved("sdxl")[1]).text_encoder_2.text_model
    for layer in encoder.encoder.layers:
        q, k, v = (getattr(layer.self_attn, name).weight for name in ("q_proj", "k_proj", "v_proj"))
        assert (k.data_ptr() - q.data_ptr(), v.data_ptr() - k.data_ptr()) == (q.nbytes, k.nbytes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: None, "the file lacks conv_out.bias"),
        (lambda bias: bias.repeat(2), "model.diffusion_model.out.2.bias has the shape (8,) where (4,) is needed"),
    ],
)
@pytest.mark.logs("loading .* failed")
def test_a_tensor_that_is_missing_or_misshapen_is_named(
    saved: Callable[[str], tuple[Any, Path]], tmp_path: Path, change: Callable[[torch.Tensor], torch.Tensor | None], said: str
) -> None:
    tensors = load_file(saved("sd1")[1])
    other = change(tensors.pop("model.diffusion_model.out.2.bias"))
    if other is not None:
        tensors["model.diffusion_model.out.2.bias"] = other
    save_file(tensors, tmp_path / "odd.safetensors")
    with pytest.raises(HalftoneError) as caught:
        loaded_pipe(tmp_path / "odd.safetensors")
    assert (caught.value.code, str(caught.value.facts["detail"])) == ("model-load-failed", said)


def loaded_pipe(path: Path) -> Any:
    return load_pipeline(describe(str(path)), torch.device("cpu")).pipe


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_its_place_in_the_file(saved: Callable[[str], tuple[Any, Path]], kind: str) -> None:
    pipe, path = saved(kind)
    held = load_file(path)
    found = places(FAMILIES[kind], read_header(path))
    for component in SINGLES[FAMILIES[kind]].prefixes:
        state = {name.removeprefix("text_model."): value for name, value in getattr(pipe, component).state_dict().items()}
        assert {name for part, name in found if part == component} == set(state)
        for name, value in state.items():
            place = found[component, name]
            ours = held[place.tensor] if place.rows is None else held[place.tensor][slice(*place.rows)]
            expected = value.half().T if name == "text_projection.weight" else value.half()
            assert torch.equal(ours.reshape(expected.shape), expected), name


@pytest.mark.parametrize(("kind", "billions"), [("sd1", 1.066), ("sd2", 1.29), ("sdxl", 3.468), ("sdxl-refiner", 3.039)])
def test_the_published_sizes_are_read_from_the_shapes_alone(kind: str, billions: float) -> None:
    names = original_names(published(kind))
    header = Header(tuple(TensorInfo(name, "F16", tuple(value.shape), 0, 0) for name, value in names.items()), {})
    assert sum(int(np.prod(tensor.shape)) for tensor in header.tensors) / 1e9 == pytest.approx(billions, rel=0.01)
    found = configs(FAMILIES[kind], header, "")
    folder = resources() / "configs" / kind
    for file in folder.glob("*/config.json"):
        ours, theirs = found[file.parent.name], json.loads(file.read_text())
        assert {key: ours[key] for key in theirs} == theirs


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("attn2.to_k.weight", "the file lacks attn2.to_k.weight (unet)"),
        ("token_embedding.weight", "the file lacks embeddings.token_embedding.weight (text_encoder)"),
        ("first_stage_model.decoder.conv_in.weight", "the file lacks decoder.conv_in.weight (vae)"),
    ],
)
def test_a_file_without_a_tensor_that_shows_a_shape_is_refused_with_both_names(
    saved: Callable[[str], tuple[Any, Path]], tmp_path: Path, lost: str, said: str
) -> None:
    tensors = {name: value for name, value in load_file(saved("sd1")[1]).items() if not name.endswith(lost)}
    path = tmp_path / "lost.safetensors"
    save_file(tensors, path)
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    assert caught.value.code == "model-load-failed"
    assert caught.value.facts["path"] == str(path)
    assert str(caught.value.facts["detail"]) == said


def test_the_old_names_of_the_text_encoder_are_read(saved: Callable[[str], tuple[Any, Path]], tmp_path: Path) -> None:
    """The first files of SD 1.x were saved before transformers put the encoder into "text_model"."""
    start = "cond_stage_model.transformer."
    old = {name.replace(f"{start}text_model.", start): value for name, value in load_file(saved("sd1")[1]).items()}
    save_file(old, tmp_path / "old.safetensors")
    new, read = (loaded_pipe(path).text_encoder.state_dict() for path in (saved("sd1")[1], tmp_path / "old.safetensors"))
    assert all(torch.equal(value, read[name]) for name, value in new.items())


@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl"])
def test_pictures_are_made_and_the_same_file_is_called_healthy(
    saved: Callable[[str], tuple[Any, Path]], engine: DiffusersEngine, kind: str
) -> None:
    _, path = saved(kind)
    report, _ = generate(engine, path, "float32")
    assert report.images[0].state == "clean"
    found, _ = check(engine, path, "float16")
    assert (found.verdict, found.findings) == ("healthy", ())


def test_a_refiner_in_one_file_makes_the_last_steps(saved: Callable[[str], tuple[Any, Path]], engine: DiffusersEngine) -> None:
    refiner = Refiner(path=str(saved("sdxl-refiner")[1]), at=0.6)
    report, _ = generate(engine, saved("sdxl")[1], refiner=refiner)
    (picture,) = report.images
    assert (picture.state, [one.steps for one in picture.passes]) == ("clean", [1, 2])
    assert engine.loaded is not None
    assert engine.loaded.facts.family == "SDXL refiner"


@pytest.fixture
def overflowing(tmp_path: Path) -> tuple[Any, Path]:
    """SDXL in one file whose VAE and second text encoder pass the limit of float16, in layers that a scale cures."""
    pipe = tiny_original("sdxl")
    with torch.no_grad():
        attention = pipe.vae.decoder.mid_block.attentions[0]
        _scale(attention.to_v, attention.to_out[0])
        attention = pipe.text_encoder_2.text_model.encoder.layers[1].self_attn
        _scale(attention.v_proj, attention.out_proj)
    return pipe, save_original(pipe, tmp_path / "sick.safetensors", dtype=torch.float32)


def _scale(writer: Any, reader: Any) -> None:
    writer.weight.mul_(2.0**20)
    writer.bias.mul_(2.0**20)
    reader.weight.mul_(2.0**-20)


def test_an_overflow_is_named_cured_and_repaired_as_one_file(
    overflowing: tuple[Any, Path], engine: DiffusersEngine, tmp_path: Path
) -> None:
    _, path = overflowing
    wide, _ = generate(engine, path, "float32")
    report, _ = check(engine, path, "float16")
    assert report.verdict == "fixable"
    named = {(finding.component, finding.module) for finding in report.findings}
    assert ("vae", "decoder.mid_block.attentions.0.to_v") in named
    assert any(component == "text_encoder_2" and module.endswith("layers.1.self_attn.v_proj") for component, module in named)
    made, _ = generate(engine, path, "float16")
    assert made.images[0].state == "recovered"
    assert psnr(pixels(made), pixels(wide)) >= 30

    target = tmp_path / "whole"
    repaired = engine.repair(Repair(job="r", model=str(path), output=str(target)), Recorder(), Steady())
    copy = tmp_path / "whole.safetensors"
    assert (repaired.path, repaired.float16_finite) == (str(copy), True)
    assert repaired.float32_error <= 1e-4
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    before, after = load_file(path), load_file(copy)
    assert list(before) == list(after)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert len(changed) == repaired.changed_tensors > 0
    for name in changed:
        ratio = torch.log2((after[name] / before[name]).nan_to_num(1.0, 1.0, 1.0))
        assert bool((ratio == ratio.round()).all()), "powers of two only"
    healthy, _ = check(engine, copy, "float16")
    assert healthy.verdict == "healthy"


def test_a_copy_never_takes_the_place_of_a_file(overflowing: tuple[Any, Path], engine: DiffusersEngine, tmp_path: Path) -> None:
    _, path = overflowing
    (tmp_path / "mine.safetensors").write_bytes(b"mine")
    for output in ("mine", "mine.safetensors", "sick.safetensors"):
        with pytest.raises(HalftoneError) as caught:
            engine.repair(Repair(job="r", model=str(path), output=str(tmp_path / output)), Recorder(), Steady())
        assert caught.value.code == "output-exists"
    assert (tmp_path / "mine.safetensors").read_bytes() == b"mine"


def test_bad_numbers_in_the_file_are_named_by_the_layer_that_reads_them(
    saved: Callable[[str], tuple[Any, Path]], engine: DiffusersEngine, tmp_path: Path
) -> None:
    _, path = saved("sd1")
    tensors = load_file(path)
    tensors["model.diffusion_model.input_blocks.1.0.in_layers.2.weight"][0, 0, 0, 0] = float("nan")
    tensors["model_ema.decay"] = torch.tensor([float("nan")])
    save_file(tensors, tmp_path / "nan.safetensors")
    report, _ = check(engine, tmp_path / "nan.safetensors", "float16")
    assert report.verdict == "broken"
    assert [(one.component, one.module) for one in report.findings] == [("unet", "down_blocks.0.resnets.0.conv1")]


@pytest.mark.parametrize(
    ("left_out", "lacking"),
    [
        ("first_stage_model.", "the VAE"),
        ("conditioner.embedders.1.", "the text encoder OpenCLIP-G"),
        ("conditioner.", "the text encoder CLIP-L, the text encoder OpenCLIP-G"),
    ],
)
def test_a_file_that_is_not_whole_says_what_it_lacks(
    saved: Callable[[str], tuple[Any, Path]], tmp_path: Path, left_out: str, lacking: str
) -> None:
    _, path = saved("sdxl")
    part = {name: value for name, value in load_file(path).items() if not name.startswith(left_out)}
    save_file(part, tmp_path / "part.safetensors")
    facts = describe(str(tmp_path / "part.safetensors"))
    assert (facts.family, facts.pipeline) == ("SDXL", "")
    with pytest.raises(HalftoneError) as caught:
        runnable(facts)
    assert caught.value.code == "model-needs-parts"
    assert f"it and the folders vae and text_encoders lack {lacking}." in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "metadata", "said"),
    [
        ({}, {}, "epsilon"),
        ({"v_pred": torch.zeros(0)}, {}, "v_prediction"),
        ({}, {"modelspec.prediction_type": "v"}, "v_prediction"),
        ({"v_pred": torch.zeros(0), "ztsnr": torch.zeros(0)}, {}, "v_prediction"),
    ],
)
def test_what_the_model_predicts_is_taken_from_the_file(
    saved: Callable[[str], tuple[Any, Path]], tmp_path: Path, extra: dict[str, torch.Tensor], metadata: dict[str, str], said: str
) -> None:
    _, path = saved("sdxl")
    save_file({**load_file(path), **extra}, tmp_path / "m.safetensors", metadata)
    config = loaded_pipe(tmp_path / "m.safetensors").scheduler.config
    assert (config.prediction_type, config.rescale_betas_zero_snr) == (said, "ztsnr" in extra)


def test_the_words_of_the_tokenizer_are_those_of_clip(saved: Callable[[str], tuple[Any, Path]]) -> None:
    """Numbers from CLIP's own tokenizer."""
    assert len(vocabulary()) == 49408
    horse = [320, 1125, 539, 550, 18376, 6765, 320, 4558]
    assert clip_tokenizer().encode("a photo of an astronaut riding a horse", add_special_tokens=False).ids == horse
    tokenizer = loaded_pipe(saved("sd1")[1]).tokenizer
    assert tokenizer("A photo of an ASTRONAUT  riding a horse").input_ids == [49406, *horse, 49407]
    assert tokenizer.model_max_length == 77
    reference = CLIPTokenizer(vocab=vocabulary(), merges=cast("Any", merges()))
    for words in ("don't stop 123 (red:1.2)", "ünï 猫 🎨", "<|endoftext|>", "", "ÅÄ\u00a0x\n"):
        assert (
            clip_tokenizer().encode(words, add_special_tokens=False).ids == reference(words, add_special_tokens=False).input_ids
        )
    counter = make_counter(describe(str(saved("sd1")[1])))
    assert counter is not None
    assert counter("a photo of an astronaut", {}) == 5


def test_what_no_part_reads_has_no_place(saved: Callable[[str], tuple[Any, Path]]) -> None:
    header = read_header(saved("sd1")[1])
    assert "alphas_cumprod" in {tensor.name for tensor in header.tensors}
    assert "alphas_cumprod" not in module_names(FAMILIES["sd1"], header)


def test_an_editing_model_in_one_file_makes_the_picture_that_its_folder_makes(
    saved: Callable[[str], tuple[Any, Path]], engine: DiffusersEngine, tmp_path: Path
) -> None:
    pipe, path = saved("pix2pix")
    bundled = {name: getattr(loaded_pipe(path), name) for name in ("scheduler", "tokenizer")}
    parts = {name: getattr(pipe, name) for name in ("unet", "vae", "text_encoder", "safety_checker", "feature_extractor")}
    edit = StableDiffusionInstructPix2PixPipeline(**parts, **bundled, requires_safety_checker=False)
    folder = tmp_path / "folder"
    edit.to(torch.float16).save_pretrained(folder)
    facts = describe(str(path))
    assert (facts.pipeline, facts.base) == (
        "StableDiffusionInstructPix2PixPipeline",
        "Stable Diffusion 1.x edit (InstructPix2Pix)",
    )
    image = tmp_path / "start.png"
    Image.new("RGB", (32, 32), "teal").save(image)
    ours, theirs = (generate(engine, model, "float32", image=str(image))[0] for model in (path, folder))
    assert ours.images[0].state == "clean"
    assert (pixels(ours) == pixels(theirs)).all()
    with pytest.raises(HalftoneError) as caught:
        generate(engine, path)
    assert caught.value.code == "picture-needed"
