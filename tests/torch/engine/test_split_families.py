"""ComfyUI's split layout of newer families: the same model as the diffusers folder, to the bit, and the same picture."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.comfy_split import SPLITS, save_folder, save_split
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.transformer_files import save_float8, save_gguf

from halftone.contract.errors import HalftoneError
from halftone.engine.loading.load import load_pipeline
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.packed import PackedLinear
from halftone.library.models import describe, runnable
from halftone.metadata.video import read_frames

SHORT: dict[str, Any] = {"options": {"max_sequence_length": 64}}
VIDEO: dict[str, Any] = {**SHORT, "num_frames": 5}
OPTIONS = {"Z-Image": SHORT, "Qwen-Image": SHORT, "Wan": VIDEO, "HunyuanVideo": VIDEO}
PACKED = [
    *((name, kind) for name, split in SPLITS.items() if not split.table for kind in ("Q8_0", "FP8", "scaled FP8")),
    ("HunyuanVideo", "Q8_0"),
    ("HunyuanVideo as ComfyUI names it", "scaled FP8"),
]
"""HunyuanVideo's text encoder is large, so that it is loaded as seldom as can be."""
LACKING = [(name, part) for name, split in SPLITS.items() for part in split.lacking]


@pytest.mark.parametrize("name", [name for name, split in SPLITS.items() if not split.family])
def test_the_parts_become_the_model_of_the_folder(name: str, tmp_path: Path) -> None:
    split = SPLITS[name]
    pipe, path = save_split(split, tmp_path)
    facts = describe(str(path))
    runnable(facts)
    assert (facts.family, facts.parts.keys()) == (split.family or name, split.files.keys())
    loaded = load_pipeline(facts, torch.device("cpu"))
    for component, module in loaded.modules.items():
        ours, theirs = module.state_dict(), pipe.components[component].state_dict()
        assert ours.keys() == theirs.keys(), component
        assert all(torch.equal(ours[key], value) for key, value in theirs.items()), component
    folder = tmp_path / "folder"
    save_folder(split, pipe, folder)
    ours, theirs = (made(name, model) for model in (path, folder))
    assert len(ours) == len(theirs) == OPTIONS[name].get("num_frames", 1)
    assert all((one == other).all() for one, other in zip(ours, theirs, strict=True))
    assert ours[0].std() > 1


def made(name: str, model: Path) -> list[Any]:
    """The picture, or the frames of the video."""
    precision = "bfloat16" if SPLITS[name].table else "float32"  # a table of that size would take gigabytes
    report, _ = generate(DiffusersEngine(), model, precision, **OPTIONS[name])
    return [frame for frame, _ in read_frames(Path(report.images[0].path))] if "num_frames" in OPTIONS[name] else [pixels(report)]


@pytest.mark.parametrize(("name", "part"), LACKING)
def test_the_part_that_lacks_is_named(name: str, part: str, tmp_path: Path) -> None:
    split = SPLITS[name]
    _, path = save_split(split, tmp_path)
    (tmp_path / split.files[part][0]).unlink()
    with pytest.raises(HalftoneError) as caught:
        runnable(describe(str(path)))
    assert caught.value.code == "model-needs-parts"
    assert str(caught.value.facts["detail"]).endswith(f"and the folders vae and text_encoders lack {split.lacking[part]}")


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


@pytest.mark.parametrize("name", [name for name, split in SPLITS.items() if not split.table])
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
