"""A second request of the same model reads nothing of its files again, and still notices each that was rewritten; one that
differs in its seeds alone is not resolved again.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from types import FrameType
from typing import Any, Final

import numpy as np
import pytest
from PIL import Image
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import Recorder, Steady, check, generate, pixels
from tests.helpers.loras import make_lora
from tests.helpers.vaes import other_vae, save_vae

import halftone
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GenerateReport
from halftone.contract.messages import Generate, ModelChanged
from halftone.contract.request import Control, Lora, Numerics, PictureRequest
from halftone.engine.sampling.host_schedule import SHARED
from halftone.engine.service import DiffusersEngine
from halftone.library.records import save_report
from halftone.metadata.picture import RECEIPT_KEY
from halftone.settings.places import data_dir


def spoil(path: Path, size: int) -> None:
    """Overwrite the first bytes of a file in its place, and set back when it was written: who reads them stumbles."""
    then = path.stat()
    with path.open("r+b") as file:
        file.write(b"\0" * size)
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))


def header_size(path: Path) -> int:
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def spoil_all(folder: Path) -> int:
    """Spoil every JSON file and every header below a folder, but no weight; return how many there were."""
    texts, weights = list(folder.rglob("*.json")), list(folder.rglob("*.safetensors"))
    for path in texts:
        spoil(path, path.stat().st_size)
    for path in weights:
        spoil(path, header_size(path))
    return len(texts) + len(weights)


@pytest.fixture
def model(models: dict[str, Path], tmp_path: Path) -> Path:
    return copytree(models["sd15"], tmp_path / "sd15")


@pytest.mark.parametrize("changes", [{}, {"seed": 6, "prompt": "a blue moon", "sampler": "Euler"}], ids=["the same", "another"])
def test_a_warm_request_reads_no_json_and_no_header(model: Path, changes: dict[str, Any]) -> None:
    engine = DiffusersEngine()
    report, _ = check(engine, model, "float32")
    save_report(report)
    first, _ = generate(engine, model, **changes)
    assert spoil_all(model) >= 9
    assert spoil_all(data_dir()) >= 1
    second, emit = generate(engine, model, **changes)
    assert np.array_equal(pixels(first), pixels(second))
    assert second.plan == first.plan
    assert not emit.of(ModelChanged)


def test_another_prompt_reads_nothing_of_what_is_used_beside_the_model(model: Path, tmp_path: Path) -> None:
    """A LoRA, a VAE and a ControlNet: what is known of each holds until its file is rewritten."""
    engine, beside = DiffusersEngine(), tmp_path / "beside"
    beside.mkdir()
    net = save_net(make_net(model), beside / "net")
    given: dict[str, Any] = {
        "loras": (Lora(path=str(make_lora(model, beside / "one.safetensors"))),),
        "vae": str(save_vae(other_vae(), beside / "vae.safetensors")),
        "controls": (Control(path=str(net), image=str(picture(tmp_path / "square.png"))),),
    }
    generate(engine, model, **given)
    assert spoil_all(model) + spoil_all(beside) >= 13
    others: tuple[dict[str, Any], ...] = ({"prompt": "a blue moon"}, {"seed": 6}, {"steps": 2}, {"guidance": 3.0})
    for changes in others:
        made, emit = generate(engine, model, **given, **changes)
        assert made.images[0].state == "clean"
        assert not emit.of(ModelChanged)


def rewrite(path: Path) -> None:
    """Write the same content into a new file of this name."""
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


FILES: dict[str, Callable[[Path], object]] = {
    "the index of the parts": lambda model: rewrite(model / "model_index.json"),
    "a configuration": lambda model: rewrite(model / "unet" / "config.json"),
    "the sampler's configuration": lambda model: rewrite(model / "scheduler" / "scheduler_config.json"),
    "a tokenizer": lambda model: rewrite(model / "tokenizer" / "tokenizer.json"),
    "weights": lambda model: rewrite(model / "vae" / "diffusion_pytorch_model.safetensors"),
    "a file that is added": lambda model: (model / "unet" / "note.txt").write_text("new"),
    "a file that is gone": lambda model: (model / "unet" / "old.txt").unlink(),
    "the model's own defaults": lambda model: (model / "halftone.json").write_text('{"steps": 2}'),
}


@pytest.mark.parametrize("change", FILES)
def test_a_model_is_loaded_again_once_one_of_its_files_changed(model: Path, change: str) -> None:
    engine = DiffusersEngine()
    (model / "unet" / "old.txt").touch()
    generate(engine, model, steps=1)
    _, same = generate(engine, model, steps=1)
    FILES[change](model)
    _, emit = generate(engine, model, steps=1)
    assert not same.of(ModelChanged)
    assert len(emit.of(ModelChanged)) == 1


MOST: Final = 62
"""Files of Halftone in which something runs for a picture of three steps whose request differs from the last in its seed. It
was 109 while every request was resolved anew; where it grows, something is done again that was known, or each picture needs
more, as what steers the network (engine/sampling/steering.py), its name by the
pattern of file names (settings/file_names.py) and the label of its source (metadata/source_type.py).
"""
ONLY_APART: Final = {os.path.join("engine", "sampling", name) for name in ("host_schedule.py", "host_tables.py")}
"""Not counted where the device has memory of its own: they keep the steps from waiting for it. Elsewhere they have no use."""


def files_run(work: Callable[[], object]) -> set[str]:
    """Halftone's own files whose code runs in this thread meanwhile."""
    found: set[str] = set()
    own = str(Path(halftone.__file__).parent) + os.sep

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(own):
            found.add(frame.f_code.co_filename.removeprefix(own))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def test_a_warm_request_visits_few_files(model: Path) -> None:
    engine, emit = DiffusersEngine(), Recorder()
    for seed in (1, 2, 3):
        generate(engine, model, seed=seed)
    command = Generate(job="g", request=request(model, seed=4))
    found = files_run(lambda: engine.generate(command, emit, Steady())) - {os.path.join("contract", "wire.py")}  # the recorder's
    found -= set() if DEVICE.type in SHARED else ONLY_APART
    assert len(found) <= MOST, f"{len(found)}\n" + "\n".join(sorted(found))


def request(model: Path, **changes: Any) -> PictureRequest:
    """What `generate` asks for."""
    return PictureRequest(
        prompt="a red sun", model=str(model), width=32, height=32, steps=3, numerics=Numerics(precision="float32"), **changes
    )


def receipt(report: GenerateReport) -> dict[str, Any]:
    """What stands in the file of the first picture."""
    with Image.open(report.images[0].path) as image:
        return json.loads(image.info[RECEIPT_KEY])


def test_a_request_with_other_seeds_gives_what_a_new_engine_gives(model: Path) -> None:
    engine = DiffusersEngine()
    for seed in (1, 2, 3):
        warm, _ = generate(engine, model, seed=seed, batch=2, variation_strength=0.3, variation_seed=seed)
    cold, _ = generate(DiffusersEngine(), model, seed=3, batch=2, variation_strength=0.3, variation_seed=3)
    assert [np.array_equal(pixels(warm, one), pixels(cold, one)) for one in (0, 1)] == [True, True]
    assert receipt(warm) == receipt(cold)


def test_a_seed_that_is_not_asked_for_is_drawn_for_each_request(model: Path) -> None:
    engine = DiffusersEngine()
    for _ in range(3):
        made, _ = generate(engine, model, seed=None, steps=1)
        drawn = [reason for reason in receipt(made)["request"]["reasons"] if "drawn at random" in reason]
        assert drawn == [f"Seed {made.images[0].seed}: drawn at random."]


def test_a_warm_request_is_still_refused_for_its_seed_and_its_file(model: Path, tmp_path: Path) -> None:
    engine, output = DiffusersEngine(), tmp_path / "a.png"
    for seed in (1, 2):
        generate(engine, model, seed=seed, steps=1, output=str(output))
        output.rename(tmp_path / f"{seed}.png")
    with pytest.raises(HalftoneError, match="Seed"):
        generate(engine, model, seed=-1, steps=1, output=str(output))
    generate(engine, model, seed=3, steps=1, output=str(output))
    with pytest.raises(HalftoneError) as refused:
        generate(engine, model, seed=4, steps=1, output=str(output))
    assert refused.value.code == "output-exists"


def test_a_warm_request_heeds_each_file_that_it_names_and_what_is_learned(model: Path, tmp_path: Path) -> None:
    engine, start = DiffusersEngine(), tmp_path / "start.png"
    lora = make_lora(model, tmp_path / "one.safetensors")
    given: dict[str, Any] = {"loras": (Lora(path=str(lora)),), "image": str(start), "steps": 2}
    Image.new("RGB", (32, 32), "red").save(start)
    made = [pixels(generate(engine, model, **given)[0]) for _ in range(3)]
    assert np.array_equal(made[1], made[2])
    Image.new("RGB", (32, 32), "blue").save(start)
    blue = pixels(generate(engine, model, **given)[0])
    assert not np.array_equal(made[2], blue)
    make_lora(model, tmp_path / "other.safetensors", seed=9).replace(lora)
    assert not np.array_equal(blue, pixels(generate(engine, model, **given)[0]))
    lora.unlink()
    with pytest.raises(HalftoneError) as refused:
        generate(engine, model, **given)
    assert refused.value.code == "lora-missing"
