"""What a file of an unfinished picture may hold, and what it may go on with: all else is refused in one sentence."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.helpers.engine_runs import generate
from tests.helpers.interrupted import stopped
from tests.helpers.loras import make_lora

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Lora, Start
from halftone.engine.basics import snapshot as snapshots
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.sampling.handover import Handover, from_tensors
from halftone.engine.sampling.unfinished import LOOP, read_loop
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.unfinished_pictures import RECORD
from halftone.library.files.header import read_header
from halftone.library.models import describe

Change = Callable[[dict[str, torch.Tensor], dict[str, Any], dict[str, Any]], None]


@pytest.fixture(scope="module")
def kept(engine: DiffusersEngine, models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After step 3 of 6, where no test removes it."""
    path = tmp_path_factory.mktemp("kept") / "kept.safetensors"
    path.write_bytes(Path(str(stopped(engine, models["sd15"]).latents)).read_bytes())
    return path


HANDED = Handover(0, Image.new("RGB", (16, 8)), torch.zeros(1, 4, 1, 2), torch.Generator().get_state()).tensors()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image", torch.zeros(4)),
        ("image", torch.zeros(8, 16, 3)),
        ("image", torch.zeros(0, 0, 3, dtype=torch.uint8)),
        ("image", torch.zeros(8, 16, 4, dtype=torch.uint8)),
        ("latents", torch.zeros(2, 3)),
        ("latents", torch.zeros(2, 4, 1, 2)),
        ("latents", torch.zeros(1, 4, 1, 2, dtype=torch.int64)),
        ("noise", torch.zeros(3, dtype=torch.uint8)),
        ("noise", torch.zeros(5056)),
    ],
)
def test_what_a_pass_cannot_have_been_handed_is_none(models: dict[str, Path], name: str, value: torch.Tensor) -> None:
    model = describe(str(models["sd15"]))
    assert from_tensors(HANDED, 0, model) is not None
    assert from_tensors({**HANDED, f"handed.{name}": value}, 0, model) is None


def changed(kept: Path, path: Path, change: Change) -> str:
    """A copy of the file. change: what is done to its tensors, its loop and its record."""
    tensors, texts = load_file(kept), dict(read_header(kept).metadata)
    loop, record = json.loads(texts[LOOP]), json.loads(texts[RECORD])
    change(tensors, loop, record)
    save_file(tensors, path, {**texts, LOOP: json.dumps(loop), RECORD: json.dumps(record)})
    return str(path)


def told(**values: Any) -> Change:
    return lambda _tensors, loop, _record: loop.update(values)


def planned(**values: Any) -> Change:
    return lambda _tensors, _loop, record: record["plan"].update(values)


def asked(**values: Any) -> Change:
    return lambda _tensors, _loop, record: record["asked"].update(values)


def other(where: Callable[[dict[str, Any]], str], make: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Another tensor in the place of one that the loop names."""

    def change(tensors: dict[str, torch.Tensor], loop: dict[str, Any], _record: dict[str, Any]) -> None:
        tensors[where(loop)] = make(tensors[where(loop)])

    return change


def latents(loop: dict[str, Any]) -> str:
    return str(loop["result"]["items"][0]["tensor"])


def generator(loop: dict[str, Any]) -> str:
    return str(loop["generator"]["tensor"])


def held(name: str, value: Any) -> Change:
    """One more value in what the sampler remembers."""
    return lambda _tensors, loop, _record: loop["scheduler"]["dict"].append([name, value])


ODD: dict[str, Change] = {
    "no shapes": told(shapes=[], blank={}),
    "a step beyond": told(step=99),
    "a step before": told(step=-3),
    "a number too large": told(result={"rows": "tuple", "items": [{"float": "0x1p99999"}]}),
    "no result": told(result={"rows": "tuple", "items": []}),
    "a negative shape": told(blank={"unet": {"shape": [-1], "dtype": "float16"}}),
    "what is no dtype": held("more", {"dtype": "load"}),
    "a text for a generator": told(generator="x"),
    "another generator": other(generator, lambda _: torch.zeros(3, dtype=torch.uint8)),
    "a list for a sampler": told(scheduler=[]),
    "an empty sampler": told(scheduler={"dict": []}),
    "a sampler of one number": told(scheduler={"dict": [["timesteps", 3]]}),
    "latents of another size": other(latents, lambda _: torch.zeros(1, 4, 3, 3, dtype=torch.float16)),
    "bad latents": other(latents, lambda old: old * math.nan),
    "a layer that is not there": planned(upcast={"unet": ["gone.(result*2^3)"]}),
    "a component that is not there": planned(upcast={"gone": ["conv_in"]}),
    "a scale that is too large": planned(upcast={"unet": ["conv_in.(result*2^2000)"]}),
    "a scaled layer without weights": planned(upcast={"unet": ["mid_block.(result*2^3)"]}),
    "a tensor that is not there": planned(rescale={"unet": {"gone.weight": 3}}),
    "fewer steps": asked(steps=3),
    "more steps": asked(steps=9),
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD.keys())
def test_what_is_odd_is_no_kept_picture(
    engine: DiffusersEngine, models: dict[str, Path], kept: Path, tmp_path: Path, change: Change
) -> None:
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=changed(kept, tmp_path / "odd.safetensors", change))
    assert caught.value.code == "latents-unreadable"


@pytest.mark.parametrize(
    ("values", "code"),
    [({"width": -8}, "value-out-of-range"), ({"steps": 0}, "value-out-of-range"), ({"prompt": " "}, None)],
    ids=["width", "steps", "no prompt"],
)
def test_what_was_asked_for_is_looked_at_as_for_a_new_picture(
    engine: DiffusersEngine, models: dict[str, Path], kept: Path, tmp_path: Path, values: dict[str, Any], code: str | None
) -> None:
    path = changed(kept, tmp_path / "odd.safetensors", asked(**values))
    if code is None:
        generate(engine, models["sd15"], "float16", resume_latents=path)
        return
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=path)
    assert caught.value.code == code


def test_kept_on_a_processor_it_goes_on_where_the_model_is(kept: Path) -> None:
    loop_in_file = json.loads(read_header(kept).metadata[LOOP])
    scheduler = getattr(diffusers, loop_in_file["sampler"])()
    elsewhere = torch.device("meta")
    assert read_loop(kept, scheduler, elsewhere).snapshot.result[0].device == elsewhere
    loop = read_loop(kept, scheduler, torch.device("cpu"))
    with quiet_libraries():
        scheduler.set_timesteps(6)
    scheduler.timesteps = scheduler.timesteps.to(elsewhere)  # as a pipeline there does; what else it has stays here
    where = {name: value.device for name, value in vars(scheduler).items() if isinstance(value, torch.Tensor)}
    assert set(where.values()) == {elsewhere, torch.device("cpu")}
    restored = torch.Generator("cpu")
    snapshots.restore(loop.snapshot, scheduler, restored)
    assert {name: vars(scheduler)[name].device for name in where} == where
    assert torch.equal(restored.get_state(), load_file(kept)[generator(loop_in_file)])


def test_a_model_whose_files_changed_does_not_go_on(
    engine: DiffusersEngine, models: dict[str, Path], kept: Path, tmp_path: Path
) -> None:
    def begun_with_others(_tensors: dict[str, torch.Tensor], _loop: dict[str, Any], record: dict[str, Any]) -> None:
        record["fingerprint"] = "others"

    path = changed(kept, tmp_path / "kept.safetensors", begun_with_others)
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=path)
    assert caught.value.code == "latents-model-changed"
    assert Path(path).exists()


def test_a_lora_that_is_gone_or_another_is_told(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    file = make_lora(models["sd15"], tmp_path / "a.safetensors")
    latents = stopped(engine, models["sd15"], loras=(Lora(path=str(file)),)).latents
    file.rename(tmp_path / "b.safetensors")
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=latents)
    assert caught.value.code == "lora-missing"
    make_lora(models["sd15"], file, layers=("to_q",))
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=latents)
    assert (caught.value.code, caught.value.facts["path"]) == ("input-changed", str(file))
    (tmp_path / "b.safetensors").rename(file)
    assert generate(engine, models["sd15"], "float16", resume_latents=latents)[0].images[0].state == "clean"


@pytest.mark.parametrize("name", ["image", "mask"])
def test_another_picture_of_the_same_name_is_not_gone_on_with(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, name: str
) -> None:
    given: dict[str, Any] = {}
    for number, which in enumerate(("image", "mask")):
        Image.new("RGB", (32, 32), (250 - number, 200, 40)).save(tmp_path / f"{which}.png")
        given[which] = str(tmp_path / f"{which}.png")
    latents = stopped(engine, models["sd15"], start=Start(strength=0.9), **given).latents
    Image.new("RGB", (48, 32), (0, 200, 9)).save(given[name])
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], "float16", resume_latents=latents)
    assert (caught.value.code, caught.value.facts["path"]) == ("input-changed", given[name])
    assert Path(str(latents)).exists()
