"""LoRAs: what diffusers gives with them, and the file's weights again without them."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import OPTIONS, generate, pixels
from tests.helpers.loras import RANK, TEXT, broken_lora, make_lora
from tests.helpers.read_back import parse_parameters, read_picture
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import JobStarted, PictureReady, StepDone
from halftone.contract.request import Lora
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import put_loras
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import damaged, exact_weights
from halftone.engine.weights.recipe import forget

pytestmark = pytest.mark.usefixtures("made_on_the_device")


WEIGHTS = (0.6, -0.4)


@pytest.fixture(scope="module")
def loras(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> file: of every family, and of two of them in kohya's form with a text encoder."""
    folder = tmp_path_factory.mktemp("loras")
    made = {family: make_lora(models[family], folder / f"{family}.safetensors") for family in models}
    for family in ("sd15", "sdxl"):
        name = f"{family}-kohya"
        made[name] = make_lora(models[family], folder / f"{name}.safetensors", text=TEXT, seed=2, kohya=True)
    return made


def of(loaded: Loaded | None) -> Loaded:
    assert loaded is not None
    return loaded


def drawn(pipe: Any, family: str) -> Any:
    """The same picture that `generate` makes, in [0, 1]."""
    generator = torch.Generator("cpu").manual_seed(5)
    with quiet_libraries():
        return pipe(
            "a red sun", width=32, height=32, num_inference_steps=3, generator=generator, output_type="np", **OPTIONS[family]
        ).images[0]


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("sd15", ["sd15"]),
        ("sd15", ["sd15-kohya"]),
        ("sd15", ["sd15", "sd15-kohya"]),
        ("sdxl", ["sdxl", "sdxl-kohya"]),
        ("sd3", ["sd3"]),
        ("sana", ["sana"]),
    ],
)
def test_the_weights_are_those_that_diffusers_fuses(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path], family: str, names: list[str]
) -> None:
    wanted = tuple(Lora(path=str(loras[name]), weight=weight) for name, weight in zip(names, WEIGHTS, strict=False))
    plain, _ = generate(engine, models[family], family=family)
    report, _ = generate(engine, models[family], family=family, loras=wanted)
    pipe = load_tiny(models[family])
    for index, lora in enumerate(wanted):
        pipe.load_lora_weights(str(loras[names[index]]), adapter_name=f"lora{index}")
        # one after another: a text encoder forgets the first where a second one is read
        pipe.set_adapters([f"lora{index}"], [lora.weight])
        pipe.fuse_lora(adapter_names=[f"lora{index}"])
        pipe.unload_lora_weights()
    loaded = of(engine.loaded)
    for component, module in loaded.modules.items():
        ours = dict(module.named_parameters())
        for name, parameter in getattr(pipe, component).named_parameters():
            torch.testing.assert_close(ours[name].data, parameter.data, rtol=1e-5, atol=1e-6)
    assert not (pixels(plain) == pixels(report)).all()


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_the_text_encoder_may_have_a_weight_of_its_own(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path], family: str
) -> None:
    file = str(loras[f"{family}-kohya"])
    report, _ = generate(engine, models[family], family=family, loras=(Lora(path=file, weight=0.8, encoder_weight=0.3),))
    pipe = load_tiny(models[family])
    pipe.load_lora_weights(file, adapter_name="one")
    encoders = {name: 0.3 for name in ("text_encoder", "text_encoder_2") if getattr(pipe, name, None) is not None}
    pipe.set_adapters(["one"], [{"unet": 0.8, **encoders}])
    pipe.fuse_lora(adapter_names=["one"])
    pipe.unload_lora_weights()
    for component, module in of(engine.loaded).modules.items():
        ours = dict(module.named_parameters())
        for name, parameter in getattr(pipe, component).named_parameters():
            torch.testing.assert_close(ours[name].data, parameter.data, rtol=1e-5, atol=1e-6)
    written = parse_parameters(read_picture(Path(report.images[0].path)).parameters or "")
    assert f"<lora:{family}-kohya:0.3:0.8>" in written.prompt


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`")
def test_the_picture_is_the_one_that_diffusers_makes_with_set_adapters(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path]
) -> None:
    wanted = tuple(Lora(path=str(loras[name]), weight=0.5) for name in ("sd15", "sd15-kohya"))
    report, _ = generate(engine, models["sd15"], loras=wanted)
    pipe = load_tiny(models["sd15"])
    pipe.load_lora_weights(str(loras["sd15-kohya"]), adapter_name="second")
    pipe.load_lora_weights(str(loras["sd15"]), adapter_name="first")
    pipe.set_adapters(["first", "second"], [0.5, 0.5])
    theirs = torch.from_numpy(drawn(pipe, "sd15")) * 255
    assert (torch.from_numpy(pixels(report).copy()).float() - theirs).abs().max() <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_without_them_the_weights_are_the_files_bit_for_bit(
    models: dict[str, Path], loras: dict[str, Path], tmp_path: Path, precision: Any, dtype: torch.dtype
) -> None:
    pipe = load_tiny(models["sd15"]).to(dtype)
    pipe.save_pretrained(tmp_path / "model")
    engine = DiffusersEngine()
    generate(engine, tmp_path / "model", precision)
    loaded = of(engine.loaded)
    before = {name: {key: value.clone() for key, value in exact_weights(m).items()} for name, m in loaded.modules.items()}
    generate(engine, tmp_path / "model", precision, loras=(Lora(path=str(loras["sd15-kohya"])),))
    assert engine.loaded is loaded
    changed = exact_weights(loaded.modules["unet"])
    assert any(not torch.equal(value, changed[key]) for key, value in before["unet"].items())
    generate(engine, tmp_path / "model", precision)
    for name, module in loaded.modules.items():
        for key, value in exact_weights(module).items():
            assert value.dtype == before[name][key].dtype
            assert torch.equal(value, before[name][key]), f"{name}.{key}"


def test_added_weights_do_not_count_as_damage(engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path]) -> None:
    from halftone.engine.loading.load import exact_source

    generate(engine, models["sd15"], "float16", loras=(Lora(path=str(loras["sd15"]), weight=0.7),))
    loaded = of(engine.loaded)
    masters = exact_source(loaded, "unet")
    assert damaged(loaded.modules["unet"], masters, loaded.states["unet"]) == []
    parameter = next(loaded.modules["unet"].parameters())
    parameter.data.view(-1)[0] = 99.0
    found = damaged(loaded.modules["unet"], masters, loaded.states["unet"])
    assert len(found) == 1
    forget(loaded.modules["unet"], found)
    put_loras(loaded, ())


def test_the_picture_says_which_were_used(engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], loras=(Lora(path=str(loras["sd15"]), weight=0.25),))
    found = read_picture(Path(report.images[0].path))
    assert parse_parameters(found.parameters or "").prompt == "a red sun <lora:sd15:0.25>"
    assert '"loras":[{"path":"sd15","weight":0.25}]' in (found.receipt or "")
    assert str(loras["sd15"].parent) not in (found.receipt or "")


def test_pictures_of_a_batch_have_each_those_that_were_drawn(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path], tmp_path: Path
) -> None:
    folder = (str(loras["sd15"].parent),)
    prompt = "a red sun{ <lora:sd15:1.5>| <lora:sd15-kohya:1.5>|}"
    run: Any = {"prompt": prompt, "lora_folders": folder, "seed": 0, "steps": 2}
    report, heard = generate(engine, models["sd15"], **run, batch=3, output=str(tmp_path / "sun.png"))
    names = [[lora.name for lora in picture.loras] for picture in report.images]
    assert sorted(map(len, names)) == [0, 1, 1]
    assert [event.facts for event in heard.of(PictureReady)] == list(report.images)
    assert [(one.index, one.seed, Path(one.path).name) for one in report.images] == [
        (0, 0, "sun.png"), (1, 1, "sun-2.png"), (2, 2, "sun-3.png")
    ]  # fmt: skip
    assert len(heard.of(JobStarted)) == 1
    assert [step.picture for step in heard.of(StepDone)] == [1, 1, 2, 2, 3, 3]
    for index, picture in enumerate(report.images):
        assert picture.prompt == "a red sun"
        plain: Any = {"prompt": "a red sun", "seed": picture.seed, "steps": 2, "loras": picture.loras}
        alone, _ = generate(engine, models["sd15"], **plain)
        assert (pixels(alone) == pixels(report, index)).all()
        text = parse_parameters(read_picture(Path(picture.path)).parameters or "").prompt
        assert text == " ".join(("a red sun", *(f"<lora:{lora.name}:1.5>" for lora in picture.loras)))
        told = json.loads(read_picture(Path(picture.path)).receipt or "")["receipt"]["loras"]
        assert told == [{"path": lora.name, "weight": 1.5} for lora in picture.loras]


def test_a_picture_of_drawn_ones_that_goes_on_still_tells_them(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path]
) -> None:
    run: Any = {"prompt": "a red sun{ <lora:sd15:1.5>}", "lora_folders": (str(loras["sd15"].parent),)}
    whole, _ = generate(engine, models["sd15"], **run)
    with broken_step(engine):
        left, _ = generate(engine, models["sd15"], **run, on_black="stop")
    kept = left.images[0].latents
    assert kept is not None
    again, heard = generate(engine, models["sd15"], **run, resume_latents=kept)
    assert (again.images[0].prompt, again.images[0].loras) == ("a red sun", whole.images[0].loras)
    assert [event.facts for event in heard.of(PictureReady)] == list(again.images)


@contextmanager
def broken_step(engine: DiffusersEngine) -> Generator[None]:
    """The second step gives bad numbers."""
    assert engine.loaded is not None
    calls: list[int] = []

    def strike(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        calls.append(1)
        return output * float("nan") if len(calls) > 1 else None

    handle = engine.loaded.modules["unet"].get_submodule("conv_in").register_forward_hook(strike)
    try:
        yield
    finally:
        handle.remove()


def test_one_that_does_not_fit_is_told_before_the_first_picture(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path], tmp_path: Path
) -> None:
    output = str(tmp_path / "sun.png")
    run: Any = {"prompt": "{<lora:sdxl>|a}", "lora_folders": (str(loras["sdxl"].parent),), "output": output, "batch": 8}
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], **run)
    assert caught.value.code == "lora-other-base"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("weight", ["50", "nan"])
def test_a_drawn_one_is_weighed_as_any(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path], weight: str
) -> None:
    run: Any = {"prompt": f"a <lora:sd15:{{{weight}|{weight}}}>", "lora_folders": (str(loras["sd15"].parent),)}
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd15"], **run)
    assert caught.value.code == "value-out-of-range"


def test_one_that_does_not_fit_is_refused_and_changes_nothing(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path], tmp_path: Path
) -> None:
    good = (Lora(path=str(loras["sd15"])),)
    first, _ = generate(engine, models["sd15"], loras=good)
    broken, tensor = broken_lora(loras["sd15"], tmp_path / "broken.safetensors")
    for path, code in ((loras["sdxl"], "lora-other-base"), (loras["sd3"], "lora-other-base"), (broken, "lora-broken")):
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models["sd15"], loras=(*good, Lora(path=str(path))))
        assert caught.value.code == code
        assert path.stem in str(caught.value)
        assert of(engine.loaded).loras == good
    assert tensor in str(caught.value)
    again, _ = generate(engine, models["sd15"], loras=good)
    assert (pixels(first) == pixels(again)).all()


@pytest.mark.parametrize("kohya", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_layers_without_a_place_in_the_model_are_counted_and_told(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, kohya: bool, count: int
) -> None:
    file = make_lora(models["sd15"], tmp_path / "mine.safetensors", kohya=kohya)
    tensors = load_file(file)
    total = count + sum("lora_up" in name or "lora_B" in name for name in tensors)
    for index in range(count):
        layer = f"lora_unet_down_blocks_9_{index}_to_q" if kohya else f"unet.down_blocks.9.{index}.to_q"
        for side, size in (("down" if kohya else "A", (4, 32)), ("up" if kohya else "B", (32, 4))):
            tensors[f"{layer}.lora_{side}.weight"] = torch.ones(size)
    save_file(tensors, file)
    report, _ = generate(engine, models["sd15"], loras=(Lora(path=str(file)),))
    told = [reason for reason in map(str, report.plan.reasons) if "left out" in reason]
    said = f"{count} of {total} layers of the LoRA mine do not fit this model and were left out."
    assert told == ([said] if count else [])


def test_a_changed_file_is_read_again(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    file = make_lora(models["sd15"], tmp_path / "mine.safetensors")
    first, _ = generate(engine, models["sd15"], loras=(Lora(path=str(file)),))
    make_lora(models["sd15"], file, seed=7, strength=2.0)
    second, _ = generate(engine, models["sd15"], loras=(Lora(path=str(file)),))
    assert not (pixels(first) == pixels(second)).all()


def test_a_weight_of_nothing_adds_nothing(engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path]) -> None:
    plain, _ = generate(engine, models["sd15"])
    report, _ = generate(engine, models["sd15"], loras=(Lora(path=str(loras["sd15"]), weight=0.0),))
    assert (pixels(plain) == pixels(report)).all()


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_a_text_encoder_without_output_layers_is_changed_whole(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, family: str
) -> None:
    """diffusers leaves out q, k and v of kohya's form where the file has no out_proj."""
    file = make_lora(models[family], tmp_path / "q.safetensors", text=("q_proj", "v_proj", "fc1"), kohya=True)
    report, _ = generate(engine, models[family], family=family, loras=(Lora(path=str(file), weight=0.5),))
    assert not any("left out" in reason for reason in map(str, report.plan.reasons))
    tensors = {name: value.to(DEVICE) for name, value in load_file(file).items()}
    prefix = next(name for name in tensors if "layers_1_self_attn_q_proj" in name).partition(".")[0]
    added = 0.5 * tensors[f"{prefix}.lora_up.weight"] @ tensors[f"{prefix}.lora_down.weight"] * tensors[f"{prefix}.alpha"] / RANK
    plain = dict(load_tiny(models[family]).text_encoder.named_parameters())
    ours = dict(of(engine.loaded).modules["text_encoder"].named_parameters())
    attention = next(name for name in ours if "layers.1.self_attn" in name).partition("self_attn")[0]
    q, out = (f"{attention}self_attn.{part}.weight" for part in ("q_proj", "out_proj"))
    torch.testing.assert_close(ours[q].data, plain[q].data + added, rtol=1e-5, atol=1e-6)
    assert torch.equal(ours[out].data, plain[out].data)


def test_t5_is_changed_for_a_picture_and_comes_back(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    """diffusers adds no LoRA to it."""
    layer = "encoder.block.0.layer.0.SelfAttention.q"
    place = f"lora_te3_{layer.replace('.', '_')}"
    up, down = torch.randn(16, RANK) * 0.1, torch.randn(RANK, 32) * 0.1
    save_file({f"{place}.lora_down.weight": down, f"{place}.lora_up.weight": up}, tmp_path / "t5.safetensors")
    plain: torch.Tensor = load_tiny(models["sd3"]).text_encoder_3.get_submodule(layer).weight.data
    run: Any = {"family": "sd3", "loras": (Lora(path=str(tmp_path / "t5.safetensors"), weight=0.5),)}
    report, _ = generate(engine, models["sd3"], **run)
    assert not any("left out" in reason for reason in map(str, report.plan.reasons))
    ours: Any = of(engine.loaded).modules["text_encoder_3"].get_submodule(layer)
    torch.testing.assert_close(ours.weight.data.cpu(), plain + 0.5 * up @ down, rtol=1e-5, atol=1e-6)
    generate(engine, models["sd3"], family="sd3")
    assert torch.equal(ours.weight.data.cpu(), plain)


def test_a_lora_for_another_base_is_refused_without_a_word_of_the_libraries(
    engine: DiffusersEngine, models: dict[str, Path], loras: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("sdxl", "sdxl-kohya", "sd3"):
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models["sd15"], loras=(Lora(path=str(loras[name])),))
        assert caught.value.code == "lora-other-base"
    said = "".join(capfd.readouterr())
    assert "unsuccessful" not in said
    assert "mismatch" not in said
