"""FaceID: the network is the one that diffusers makes of a file, and nothing of it is left afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.faces import numbers_of, save_face, save_models, stand_in
from tests.helpers.formula_nets import READER_TEXT, formula_adapter, formula_reader, formula_sight, numbers
from tests.helpers.ip_adapters import save_adapter, save_encoder
from tests.helpers.loras import make_lora
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.plan import Plan
from halftone.contract.request import Control, Hires, IpAdapter, Lora, Numerics, Start
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded, exact_source
from halftone.engine.patches.face_loras import read_face_loras
from halftone.engine.patches.image_prompts import attach, read_halves, weigh
from halftone.engine.patches.lora import patches_of
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import damaged, exact_weights
from halftone.library.learned import remember
from halftone.measure.devices import find_device
from halftone.measure.pictures import psnr

REFERENCES = json.loads((Path(__file__).parents[2] / "references" / "face_adapters.json").read_text())
GREY = 90


@pytest.fixture(scope="module")
def files(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A FaceID file for two families and a plain one beside insightface's models and pictures."""
    folder = tmp_path_factory.mktemp("faces")
    for family in ("sd15", "sdxl"):
        save_adapter(models[family], folder / f"{family} face.safetensors", "face")
    save_adapter(models["sd15"], folder / "sd15 plain.safetensors")
    save_encoder(folder)
    save_models(folder)
    save_face(folder / "one.png", GREY)
    save_face(folder / "two.png", 180)
    save_face(folder / "several.png", GREY, 255)
    save_face(folder / "none.png", 0)
    picture(folder / "mask.png")
    with stand_in(folder / "packages"):
        yield folder


def adapter(files: Path, *images: str, name: str = "sd15 face", scale: float = 1.0) -> IpAdapter:
    shown = tuple(str(files / image) for image in images or ("one.png",))
    return IpAdapter(path=str(files / f"{name}.safetensors"), images=shown, scale=scale)


def of(engine: DiffusersEngine) -> Loaded:
    assert engine.loaded is not None
    return engine.loaded


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_the_network_gives_what_it_gives_in_diffusers(family: str, tmp_path: Path) -> None:
    path = tmp_path / "face.safetensors"
    for case, theirs in REFERENCES[family].items():
        pictures, _, weight = case.partition(" × ")
        unet = formula_reader(family)
        save_file(formula_adapter(unet, "face"), path)
        one = IpAdapter(path=str(path), images=(), scale=float(weight))
        for name, patch in patches_of(read_face_loras("unet", unet, (one,)), "unet").items():
            layer, ((change, share),) = unet.get_submodule(name).double(), patch.steps
            pair = change.pair(share)
            assert pair is not None
            up, down = pair
            layer.weight.data += up.double() @ down.double()  # float32 would be rounded here
        attach(unet, [read_halves(str(path))])
        weigh(unet, [one.scale])
        shown = formula_sight("face", 8, int(pictures)).double()
        given: dict[str, Any] = {"image_embeds": [torch.stack([torch.zeros_like(shown), shown])]}
        if family == "sdxl":
            given |= {"text_embeds": numbers(6, (2, 12)), "time_ids": torch.tensor([[64.0, 64, 0, 0, 64, 64]]).repeat(2, 1)}
        latents, words = numbers(3, (1, 4, 8, 8)).repeat(2, 1, 1, 1), numbers(4, (2, 7, READER_TEXT[family]))
        with torch.no_grad():
            found = unet.double()(latents.double(), 500, words.double(), added_cond_kwargs=given).sample.flatten()[::7]
        wanted = torch.tensor(theirs, dtype=torch.float64)
        assert float((found - wanted).norm() / wanted.norm()) <= 1e-6, case


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_the_picture_is_the_one_that_diffusers_makes(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, family: str
) -> None:
    one = adapter(files, "one.png", "two.png", name=f"{family} face")
    plain, _ = generate(engine, models[family], family=family)
    report, _ = generate(engine, models[family], family=family, ip_adapters=(one,))
    pipe = load_tiny(models[family])
    tensors = load_file(one.path)
    halves = {
        half: {n.partition(".")[2]: v for n, v in tensors.items() if n.startswith(half)} for half in ("image_proj", "ip_adapter")
    }
    shown = torch.stack([torch.from_numpy(numbers_of(grey)) for grey in (GREY, 180)])
    with quiet_libraries():
        pipe.load_ip_adapter(halves, subfolder=None, weight_name=None, image_encoder_folder=None)
        pipe.set_ip_adapter_scale(1.0)
        made = pipe.to(DEVICE)(
            "a red sun",
            width=32,
            height=32,
            num_inference_steps=3,
            generator=torch.Generator("cpu").manual_seed(5),
            output_type="np",
            ip_adapter_image_embeds=[torch.stack([torch.zeros_like(shown), shown])],
            **OPTIONS[family],
        ).images[0]
    ours = torch.from_numpy(pixels(report).copy()).float()
    assert (ours - torch.from_numpy(made) * 255).abs().max() <= 1
    assert not (pixels(plain) == pixels(report)).all()


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_without_it_the_model_is_as_it_was_bit_for_bit(models: dict[str, Path], files: Path, precision: Any) -> None:
    engine = DiffusersEngine()
    first, _ = generate(engine, models["sd15"], precision)
    loaded = of(engine)
    before = {key: value.clone() for key, value in exact_weights(loaded.modules["unet"]).items()}
    during, _ = generate(engine, models["sd15"], precision, ip_adapters=(adapter(files),))
    assert damaged(loaded.modules["unet"], exact_source(loaded, "unet"), loaded.states["unet"]) == []
    weaker, _ = generate(engine, models["sd15"], precision, ip_adapters=(adapter(files, scale=0.4),))
    nothing, _ = generate(engine, models["sd15"], precision, ip_adapters=(adapter(files, scale=0.0),))
    again, _ = generate(engine, models["sd15"], precision)
    assert of(engine) is loaded
    assert loaded.faces == ()
    now = exact_weights(loaded.modules["unet"])
    assert now.keys() == before.keys()
    assert all(torch.equal(now[key], before[key]) and now[key].dtype == before[key].dtype for key in before)
    assert (pixels(first) == pixels(again)).all()
    assert (pixels(first) == pixels(nothing)).all()
    for one, other in ((first, during), (first, weaker), (during, weaker)):
        assert not (pixels(one) == pixels(other)).all()


def test_beside_others_in_every_kind_of_picture(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, tmp_path: Path
) -> None:
    model, face = models["sd15"], adapter(files)
    save_net(make_net(model), tmp_path / "net")
    make_lora(model, tmp_path / "lora.safetensors")
    net = Control(path=str(tmp_path / "net"), image=str(files / "two.png"))
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"ip_adapters": (face,)},
        {"ip_adapters": (adapter(files, "two.png"),)},
        {"ip_adapters": (adapter(files, scale=0.5),)},
        {"ip_adapters": (adapter(files, "one.png", "two.png"),)},
        {"ip_adapters": (face, adapter(files, "two.png", name="sd15 plain", scale=0.6))},
        {"ip_adapters": (face,), "guidance": 1.0},
        {"ip_adapters": (face,), "controls": (net,)},
        {"ip_adapters": (face,), "loras": (Lora(path=str(tmp_path / "lora.safetensors")),)},
        {"ip_adapters": (face,), "image": str(files / "two.png"), "start": Start(strength=0.7)},
        {"ip_adapters": (face,), "image": str(files / "two.png"), "mask": str(files / "mask.png")},
        {"ip_adapters": (face,), "prompt": "a red sun AND a hill"},
        {"ip_adapters": (face,), "guidance": 4.0, "options": {"pag_scale": 2.0}},
        {"ip_adapters": (face,), "batch": 2, "hires": Hires()},
    )
    made = [generate(engine, model, **given)[0] for given in ways]
    assert {one.images[-1].state for one in made} == {"clean"}
    assert len({pixels(one).tobytes() for one in made}) == len(ways)


def test_a_cure_of_the_model_alone_holds_with_it(models: dict[str, Path], files: Path) -> None:
    engine, one = DiffusersEngine(), (adapter(files),)
    before, _ = generate(engine, models["sd15"], "float32", ip_adapters=one)
    loaded = of(engine)
    values = [name for name in exact_weights(loaded.modules["unet"]) if name.endswith("attn2.to_v.weight")]
    scaled = dict.fromkeys(values, -3) | {name.replace("to_v", "to_out.0"): 3 for name in values}
    plan = Plan(rescale={"unet": scaled}, verified=True)
    remember(loaded.facts, find_device("auto"), "float32", plan, Numerics(precision="float32"))
    after, _ = generate(engine, models["sd15"], "float32", ip_adapters=one)
    assert of(engine).states["unet"].rescale.items() >= scaled.items()
    assert psnr(pixels(after), pixels(before)) > 60


@pytest.mark.parametrize(("end", "factor", "module"), [("to_v_ip.weight", 3e5, "to_v_ip"), ("attn_lora", 3e6, "to_v")])
def test_what_overflows_in_it_is_found_and_cured(
    models: dict[str, Path], files: Path, tmp_path: Path, end: str, factor: float, module: str
) -> None:
    engine, tensors = DiffusersEngine(), load_file(files / "sd15 face.safetensors")
    ends = "to_v_lora.up.weight" if end == "attn_lora" else end
    name = next(name for name in tensors if name.endswith(ends))
    tensors[name] = tensors[name] * factor
    save_file(tensors, tmp_path / "loud.safetensors")
    save_models(tmp_path)
    found, _ = check(engine, models["sd15"], ip_adapters=(IpAdapter(path=str(tmp_path / "loud.safetensors"), images=()),))
    assert found.verdict == "fixable"
    assert any(module in finding.module for finding in found.findings)
    one = IpAdapter(path=str(tmp_path / "loud.safetensors"), images=(str(files / "one.png"),))
    exact, _ = generate(engine, models["sd15"], ip_adapters=(one,))
    report, _ = generate(engine, models["sd15"], "float16", ip_adapters=(one,))
    assert report.images[0].finite
    ours, theirs = (torch.from_numpy(pixels(made).copy()).float() for made in (report, exact))
    assert (ours - theirs).abs().mean() < 8


def test_a_picture_with_several_faces_is_noted_and_one_without_is_refused(
    engine: DiffusersEngine, models: dict[str, Path], files: Path
) -> None:
    one, _ = generate(engine, models["sd15"], ip_adapters=(adapter(files),))
    several, _ = generate(engine, models["sd15"], ip_adapters=(adapter(files, "several.png"),))
    assert (pixels(one) == pixels(several)).all(), "the largest is the same"
    noted = f"{files / 'several.png'} shows 2 faces. The IP-Adapter sd15 face goes by the largest."
    assert noted in [str(reason) for reason in several.images[0].ran]
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], ip_adapters=(adapter(files, "none.png"),))
    assert (caught.value.code, "none.png" in str(caught.value)) == ("ip-adapter-no-face", True)


def test_a_file_whose_loras_do_not_fit_changes_nothing(
    engine: DiffusersEngine, models: dict[str, Path], files: Path, tmp_path: Path
) -> None:
    plain, _ = generate(engine, models["sd15"])
    tensors = load_file(files / "sd15 face.safetensors")
    tensors["ip_adapter.0.to_q_lora.down.weight"] = torch.ones(2, 5)
    save_file(tensors, tmp_path / "other.safetensors")
    save_models(tmp_path)
    with pytest.raises(HalftoneError) as caught:
        generate(
            engine,
            models["sd15"],
            ip_adapters=(IpAdapter(path=str(tmp_path / "other.safetensors"), images=adapter(files).images),),
        )
    assert caught.value.code == "ip-adapter-other-base"
    again, _ = generate(engine, models["sd15"])
    assert (pixels(plain) == pixels(again)).all()
