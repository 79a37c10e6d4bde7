"""ComfyUI's split layout of newer families: the same model as the diffusers folder, to the bit, and the same picture."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.bench.families import flows
from tests.helpers.comfy_split import save_folder, save_split
from tests.helpers.comfy_split_newer import ALL as SPLITS
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.file_forms import save
from tests.helpers.transformer_files import save_float8, save_gguf

from halftone.contract.errors import HalftoneError
from halftone.engine.loading.load import load_pipeline
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.file_tensors import filled_component
from halftone.engine.weights.packed import PackedLinear
from halftone.library.families.llm_parts import decoder, inner_names
from halftone.library.families.original_names import Place
from halftone.library.files.header import read_header
from halftone.library.index.entries import part_files
from halftone.library.models import describe, runnable
from halftone.metadata.video import read_frames

SHORT: dict[str, Any] = {"options": {"max_sequence_length": 64}}
VIDEO: dict[str, Any] = {**SHORT, "num_frames": 5}
PACKED = [
    *(
        (name, kind)
        for name, split in SPLITS.items()
        if split.packed and not split.table
        for kind in ("Q8_0", "FP8", "scaled FP8")
    ),
    ("HunyuanVideo", "Q8_0"),
    ("HunyuanVideo as ComfyUI names it", "scaled FP8"),
]
"""HunyuanVideo's text encoder is large, so that it is loaded as seldom as can be."""
LACKING = [(name, part) for name, split in SPLITS.items() for part in split.lacking]


@pytest.mark.parametrize("name", [name for name, split in SPLITS.items() if split.whole])
def test_the_parts_become_the_model_of_the_folder(name: str, tmp_path: Path) -> None:
    split = SPLITS[name]
    pipe, path = save_split(split, tmp_path)
    facts = describe(str(path))
    runnable(facts)
    assert (facts.family, facts.parts.keys()) == (split.family or name, split.files.keys())
    assert split.base in ("", facts.base)
    listed = {part.component: (Path(part.path), part.dtype, part.size) for part in part_files(facts)}
    assert listed["transformer"] == (path, "bfloat16", path.stat().st_size)
    assert {name: str(file) for name, (file, _, _) in listed.items()} == {"transformer": str(path), **facts.parts}
    loaded = load_pipeline(facts, torch.device("cpu"))
    for component, module in loaded.modules.items():
        ours, theirs = module.state_dict(), pipe.components[component].state_dict()
        assert ours.keys() == theirs.keys(), component
        assert all(torch.equal(ours[key], value) for key, value in theirs.items()), component
    assert loaded.modules.keys() == {key for key, part in pipe.components.items() if isinstance(part, torch.nn.Module)}
    steps, wanted = (dict(one.scheduler.config) for one in (loaded.pipe, pipe))
    assert {key: value for key, value in steps.items() if key[0] != "_"} == {k: v for k, v in wanted.items() if k[0] != "_"}
    print(f"{name}, split: equal, worst difference 0")
    folder = tmp_path / "folder"
    save_folder(split, pipe, folder)
    ours, theirs = (made(name, model) for model in (path, folder))
    assert len(ours) == len(theirs) == options(name).get("num_frames", 1)
    assert all((one == other).all() for one, other in zip(ours, theirs, strict=True))
    assert ours[0].std() > 1


@torch.no_grad()
def test_an_encoder_that_is_cut_off_reads_as_the_whole_one(tmp_path: Path) -> None:
    """ComfyUI's file of Mistral ends behind the thirtieth layer, and holds its tokenizer's words."""
    config: Any = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 31,
        "num_attention_heads": 1,
        "vocab_size": 50,
    }
    config |= {"num_key_value_heads": 1, "head_dim": 128}
    whole = transformers.MistralModel(transformers.MistralConfig(**config)).eval()
    whole.norm.weight.uniform_(0.5, 2.0)
    kept = {name: value for name, value in whole.state_dict().items() if not name.startswith(("norm.", "layers.30."))}
    words = {"tekken_model": torch.zeros(9, dtype=torch.uint8)}
    header = read_header(save({f"model.{name}": value for name, value in kept.items()} | words, tmp_path / "m.safetensors"))
    names = inner_names(one.name for one in header.tensors)
    found = whole.config.to_dict() | decoder({one.name: one.shape for one in header.tensors})
    places = {ours: Place(theirs) for theirs, ours in names.items()}
    cut: Any = filled_component(transformers.MistralModel, found, tmp_path / "m.safetensors", header, places).eval()
    assert len(cut.layers) == 30
    ids = torch.arange(3, 40)[None]
    read, wanted = (one(ids, output_hidden_states=True, use_cache=False).hidden_states for one in (cut, whole))
    assert all(torch.equal(read[at], wanted[at]) for at in (10, 20, 30))


@torch.no_grad()
@pytest.mark.parametrize(("build", "inner"), [(flows.flux2, "model.language_model"), (flows.flux2_klein, "model")])
def test_the_published_encoder_of_flux_2_gives_what_its_inner_network_gives(build: Any, inner: str) -> None:
    """The folders hold a whole language model; a file without its table of answers is enough."""
    encoder = build().text_encoder.eval()
    words = torch.arange(3, 40)[None]
    both = (encoder, encoder.get_submodule(inner))
    whole, own = (one(input_ids=words, output_hidden_states=True, use_cache=False).hidden_states for one in both)
    assert all(torch.equal(whole[at], own[at]) for at in (9, 10, 18, 20, 27))


def options(name: str) -> dict[str, Any]:
    return VIDEO if name.startswith(("Wan", "HunyuanVideo")) else SHORT


def made(name: str, model: Path) -> list[Any]:
    """The picture, or the frames of the video."""
    precision = "bfloat16" if SPLITS[name].table else "float32"  # a table of that size would take gigabytes
    report, _ = generate(DiffusersEngine(), model, precision, **options(name))
    return [frame for frame, _ in read_frames(Path(report.images[0].path))] if "num_frames" in options(name) else [pixels(report)]


@pytest.mark.parametrize(("name", "part"), LACKING)
def test_the_part_that_lacks_is_named(name: str, part: str, tmp_path: Path) -> None:
    split = SPLITS[name]
    _, path = save_split(split, tmp_path)
    (tmp_path / split.files[part][0]).unlink()
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    assert caught.value.code == "model-needs-parts"
    said = str(caught.value.facts["detail"])
    assert said.endswith(f" {split.lacking[part]}")
    assert "the folders vae and text_encoders" in said
    print(f"{name} without its {part}: refused, {said}")


def exact(module: Any) -> Any:
    """A copy of a network whose packed layers are plain."""
    copy = type(module).from_config(module.config) if hasattr(module, "from_config") else type(module)(module.config)
    state = module.state_dict()
    state |= {f"{name}.weight": layer.exact for name, layer in module.named_modules() if isinstance(layer, PackedLinear)}
    copy.load_state_dict({name: state[name].float() for name in copy.state_dict()}, assign=True)
    return copy.float()


@pytest.mark.parametrize(("name", "kind"), PACKED)
def test_a_packed_transformer_holds_what_its_file_says(name: str, kind: str, tmp_path: Path) -> None:
    split = SPLITS[name]
    pipe, path = save_split(split, tmp_path)
    original = split.original(pipe.transformer)
    if kind == "Q8_0":
        path = path.with_suffix(".gguf")
        numbers = save_gguf(original, path)
    else:
        numbers = save_float8(original, path, scaled=kind == "scaled FP8")
    facts = describe(str(path))
    runnable(facts)
    loaded = load_pipeline(facts, torch.device("cpu"))
    ours = split.original(exact(loaded.modules["transformer"]))
    assert any(isinstance(layer, PackedLinear) for layer in loaded.modules["transformer"].modules())
    assert ours.keys() == numbers.keys()
    assert all(torch.equal(ours[key], value.reshape(ours[key].shape).float()) for key, value in numbers.items())
    print(f"{name}, split, transformer in {kind}: equal, worst difference 0")


@pytest.mark.parametrize("name", [name for name, split in SPLITS.items() if split.packed and not split.table])
def test_a_text_encoder_in_scaled_8_bits_holds_what_its_file_says(name: str, tmp_path: Path) -> None:
    split = SPLITS[name]
    pipe, path = save_split(split, tmp_path)
    file, tensors = split.files["text_encoder"]
    numbers = save_float8(tensors(pipe.text_encoder), tmp_path / file, scaled=True)
    facts = describe(str(path))
    runnable(facts)
    loaded = load_pipeline(facts, torch.device("cpu"))
    ours = tensors(exact(loaded.modules["text_encoder"]))
    assert ours.keys() == numbers.keys()
    assert all(torch.equal(ours[key], value.float()) for key, value in numbers.items())
    print(f"{name}, split, text encoder in scaled FP8: equal, worst difference 0")
