"""Models whose files say what cannot be, or hold what must not be opened: refused in a sentence of its own, in little time."""

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import SD3Transformer2DModel
from diffusers.models import embeddings
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.bench.bad_inputs.__main__ import cases_of
from tests.bench.bad_inputs.case import Printed, answers, is_clear, quotes_library
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.hostile_pickles import MARK, hostile
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.engine.extras.controls import read_controls
from halftone.engine.extras.denoiser import read_denoiser
from halftone.engine.loading.folder_parts import load_network
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.file_tensors import filled_component
from halftone.engine.weights.mapped import mapped_component
from halftone.engine.weights.stored_tables import tables_left_empty
from halftone.library.families.single_files import Place
from halftone.library.files.header import read_header

SAMPLES = {"configurations": 90, "folders": 89, "pickles": 53, "single_files": 36, "extras": 50, "gguf": 40, "headers": 40}
"""Kind of the bench of bad inputs -> every how many cases one is taken."""

LOGGED = ("configurations", "folders", "single_files", "extras")
"""Kinds whose sample has a file that a library refuses: what it says goes to the log."""


@pytest.fixture
def copy(models: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(models["sd15"], tmp_path / "case" / "copy"))


def refused(engine: DiffusersEngine, model: Path) -> list[HalftoneError]:
    """Return what a picture and a check of it say."""
    errors: list[HalftoneError] = []
    for run in (generate, check):
        with pytest.raises(HalftoneError) as caught:
            run(engine, model, family="sd15")
        errors.append(caught.value)
    return errors


def with_values(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


# --- indexes ---------------------------------------------------------------------------------------------------------


def without_third(models: dict[str, Path], folder: Path) -> Path:
    """SD 3 as many keep it: its index says that the third text encoder, the largest part, is left out."""
    copy = Path(shutil.copytree(models["sd3"], folder))
    for part in ("text_encoder_3", "tokenizer_3"):
        shutil.rmtree(copy / part)
    with_values(copy / "model_index.json", text_encoder_3=[None, None], tokenizer_3=[None, None])
    return copy


def test_a_folder_of_sd3_without_its_third_text_encoder(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    model = without_third(models, tmp_path / "clips")
    report, _ = generate(engine, model, "float32", family="sd3", guidance=4.0)
    assert report.images[0].state == "clean"
    pipe: Any = load_tiny(models["sd3"])
    pipe.register_modules(text_encoder_3=None, tokenizer_3=None)
    given = {"width": 32, "height": 32, "num_inference_steps": 3, "guidance_scale": 4.0, **OPTIONS["sd3"]}
    plain = pipe("a red sun", generator=torch.Generator().manual_seed(5), **given)
    assert np.array_equal(pixels(report), np.asarray(plain.images[0]))
    assert check(engine, model, family="sd3")[0].verdict == "healthy"


def test_a_stored_table_of_positions_is_read_and_not_computed(models: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(models["sd3"], tmp_path / "copy"))
    config = json.loads((copy / "transformer" / "config.json").read_text())
    file = copy / "transformer" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(file)
    table = tensors["pos_embed.pos_embed"] = torch.rand_like(tensors["pos_embed.pos_embed"])
    save_file(tensors, file)
    with tables_left_empty():
        built: Any = SD3Transformer2DModel.from_config(config)
        assert (built.pos_embed.pos_embed.shape, built.pos_embed.pos_embed.device.type) == (table.shape, "meta")
    usual: Any = SD3Transformer2DModel.from_config(config)
    assert usual.pos_embed.pos_embed.device.type == "cpu"
    found: Any = load_network(copy, "transformer", SD3Transformer2DModel, torch.float32)
    assert torch.equal(found.pos_embed.pos_embed, table)
    del tensors["pos_embed.pos_embed"]
    save_file(tensors, file)
    with pytest.raises(HalftoneError, match=r"pos_embed\.pos_embed"):
        load_network(copy, "transformer", SD3Transformer2DModel, torch.float32)


TABLE = "pos_embed.pos_embed"


@pytest.mark.parametrize(
    ("way", "held"),
    [("single file", True), ("single file", False), ("packed", True), ("packed", False), ("transformer file", True)],
)
def test_a_table_of_positions_comes_from_a_file_or_is_computed(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, way: str, held: bool
) -> None:
    network: Any = load_tiny(models["sd3"]).transformer
    tensors = {name: value.clone() for name, value in network.state_dict().items()}
    own = tensors.pop(TABLE)
    wanted = torch.rand_like(own) if held else own
    if held:
        tensors[TABLE] = wanted
    path = tmp_path / "net.safetensors"
    save_file(tensors, path)
    places = {name: Place(name) for name in tensors}
    config = {name: value for name, value in network.config.items() if not name.startswith("_")}
    with watched_tables() as computed:
        if way == "single file":
            with safe_open(path, "pt") as file:
                made: Any = mapped_component(SD3Transformer2DModel, config, file, places, torch.float32)
        elif way == "packed":
            made = filled_component(SD3Transformer2DModel, config, path, read_header(path), places)
        else:
            generate(engine, models["sd3"], "float32", family="sd3", guidance=4.0)
            assert engine.loaded is not None
            computed.clear()
            made = read_denoiser(engine.loaded, "transformer", str(path))
    assert torch.equal(made.pos_embed.pos_embed.cpu(), wanted.cpu())  # made on the card where the tests run on one
    assert len(computed) == (0 if held else 1)


@contextmanager
def watched_tables() -> Generator[list[int]]:
    """Edges of the tables that are computed meanwhile."""
    whole, computed = embeddings.get_2d_sincos_pos_embed, list[int]()

    def counted(width: int, edge: Any, **kept: Any) -> Any:
        computed.append(edge)
        return whole(width, edge, **kept)

    embeddings.get_2d_sincos_pos_embed = counted
    try:
        yield computed
    finally:
        embeddings.get_2d_sincos_pos_embed = whole


def test_a_control_net_takes_its_table_of_positions_from_its_file(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    folder = save_net(make_net(models["sd3"]), tmp_path / "net")
    (file,) = folder.glob("*.safetensors")
    tensors = load_file(file)
    tensors[TABLE] = torch.rand_like(tensors[TABLE])
    save_file(tensors, file)
    generate(engine, models["sd3"], "float32", family="sd3", guidance=4.0)
    assert engine.loaded is not None
    with watched_tables() as computed:
        net: Any = read_controls(engine.loaded, [str(folder)])
    assert torch.equal(net.pos_embed.pos_embed, tensors[TABLE])
    assert computed == []


@pytest.mark.parametrize("part", ["text_encoder_3", "tokenizer_3", "text_encoder_2", "transformer"])
def test_a_folder_of_sd3_without_a_part_that_it_needs(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, part: str
) -> None:
    """An encoder without its tokenizer among them."""
    copy = Path(shutil.copytree(models["sd3"], tmp_path / "copy"))
    with_values(copy / "model_index.json", **{part: [None, None]})
    with pytest.raises(HalftoneError) as caught:
        generate(engine, copy, family="sd3")
    assert caught.value.code == "model-incomplete"
    assert part in str(caught.value)


# --- configurations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [2**63, 10**9, 10_000_000, 3, 1, 0, -1])
@pytest.mark.parametrize(("part", "field"), [("text_encoder", "num_hidden_layers"), ("unet", "layers_per_block")])
def test_layers_that_the_weights_do_not_have(engine: DiffusersEngine, copy: Path, part: str, field: str, layers: int) -> None:
    if part == "unet" and layers == 1:
        return
    with_values(copy / part / "config.json", **{field: layers})
    for error in refused(engine, copy):
        assert error.code == "model-cannot-run"
        assert f"{part}/config.json" in str(error)


@pytest.mark.logs("loading .* failed")
@pytest.mark.parametrize("field", ["layers_per_block", "transformer_layers_per_block"])
@pytest.mark.parametrize("layers", [2**63, 10**9, 9_000])
def test_layers_that_the_weights_of_a_control_net_do_not_have(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, field: str, layers: int
) -> None:
    net = save_net(make_net(models["sd15"]), tmp_path / "net")
    with_values(net / "config.json", **{field: layers})
    control = Control(path=str(net), image=str(picture(tmp_path / "given.png")))
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], family="sd15", controls=(control,))
    assert caught.value.code == "model-load-failed"
    assert "net/config.json asks for more layers than its weights have" in str(caught.value)


@pytest.mark.logs("loading .* failed")
def test_layers_that_the_weights_of_a_vae_do_not_have(engine: DiffusersEngine, copy: Path, models: dict[str, Path]) -> None:
    with_values(copy / "vae" / "config.json", layers_per_block=2**63)
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], family="sd15", vae=str(copy / "vae"))
    assert caught.value.code == "model-load-failed"
    assert "vae/config.json asks for more layers than its weights have" in str(caught.value)


@pytest.mark.logs("loading .* failed")
def test_a_configuration_of_a_control_net_that_no_list_fits(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    """diffusers looks into an empty list."""
    net = save_net(make_net(models["sd15"]), tmp_path / "net")
    with_values(net / "config.json", conditioning_embedding_out_channels=[])
    control = Control(path=str(net), image=str(picture(tmp_path / "given.png")))
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], family="sd15", controls=(control,))
    assert caught.value.code == "model-load-failed"


def test_a_tensor_that_is_missing_is_not_made_up(engine: DiffusersEngine, copy: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = copy / "text_encoder" / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("mlp.fc1.weight"))
    save_file({key: value for key, value in tensors.items() if key != name}, file, {"format": "pt"})
    for error in refused(engine, copy):
        assert error.code == "model-cannot-run"
        assert f"its weights have no tensor {name}, which text_encoder/config.json asks for" in str(error)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_tokenizer_that_reads_no_word_does_not_loop(engine: DiffusersEngine, copy: Path, length: int) -> None:
    with_values(copy / "tokenizer" / "tokenizer_config.json", model_max_length=length)
    for error in refused(engine, copy):
        assert f"tokenizer/tokenizer_config.json says model_max_length {length}" in str(error)


@pytest.mark.parametrize("length", [10**9, 10**30, None, 512])
def test_a_tokenizer_without_a_limit_reads_what_the_text_encoder_can(
    engine: DiffusersEngine, copy: Path, length: int | None
) -> None:
    with_values(copy / "tokenizer" / "tokenizer_config.json", model_max_length=length)
    report, _ = generate(engine, copy, family="sd15", prompt="a red sun " * 30)
    assert (report.images[0].state, report.images[0].finite) == ("clean", True)
    assert engine.loaded is not None
    assert engine.loaded.pipe.tokenizer.model_max_length == 77


@pytest.mark.logs("running .* failed in its text_encoder")
def test_parts_that_fit_by_their_shapes_and_fail_when_they_run(engine: DiffusersEngine, copy: Path) -> None:
    with_values(copy / "text_encoder" / "config.json", eos_token_id=[-1, 2])
    for error in refused(engine, copy):
        assert (error.code, error.facts["part"]) == ("model-part-failed", "text_encoder")


# --- what is not opened ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["text_encoder", "unet", "vae"])
def test_weights_that_are_a_pickle_of_true_numbers(engine: DiffusersEngine, copy: Path, part: str) -> None:
    import torch
    from safetensors.torch import load_file

    own = next((copy / part).glob("*.safetensors"))
    stem = "pytorch_model" if part == "text_encoder" else "diffusion_pytorch_model"
    torch.save(load_file(own), copy / part / f"{stem}.bin")
    own.rename(own.with_name("other.safetensors"))
    assert {error.code for error in refused(engine, copy)} == {"model-pickle"}


def test_pickles_beside_sound_weights_are_left_alone(engine: DiffusersEngine, copy: Path) -> None:
    mark = copy.parent / MARK
    for part in ("text_encoder", "unet", "vae", "scheduler", "tokenizer"):
        for name in ("pytorch_model.bin", "diffusion_pytorch_model.bin", "model.pt"):
            hostile(copy / part / name, mark)
    generate(engine, copy, family="sd15")
    assert not mark.exists()


# --- the bench -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # what the libraries say of odd files
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.logs("loading .* failed") if kind in LOGGED else ()) for kind in SAMPLES]
)
def test_a_sample_of_the_bench_of_bad_inputs(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = list(cases_of(kind, 0, every=SAMPLES[kind]))
    assert len(found) >= 3
    for index, case in enumerate(found):
        (folder := tmp_path / str(index)).mkdir()
        answer = answers(case, folder)
        assert answer.verdict == "ok", f"{case.name}: {answer.verdict}: {answer.text}"


JUDGED = (
    ("The file x is empty. Download the file again.", ValueError("no"), False, True),
    ("The model x could not be loaded: 'NoneType' object is not subscriptable.", ValueError("no"), True, True),
    ("It cannot be read: weird words of a library.", ValueError("weird words of a library"), True, True),
    ("It cannot be read: No space left on device.", OSError(28, "No space left on device"), False, True),
    ("There is no model at (path).", ValueError("no"), False, False),
    ("A sign of a terminal: \x1b[31m.", ValueError("no"), False, False),
)


@pytest.mark.parametrize(("said", "cause", "quotes", "clear"), JUDGED)
def test_what_a_sentence_is_judged_by(said: str, cause: Exception, quotes: bool, clear: bool) -> None:
    error = Printed("", said)
    error.__cause__ = cause
    assert (quotes_library(said, error), is_clear(said)) == (quotes, clear)
