"""`generate --from`: the settings of a picture, under what is given beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.helpers.hub import WHOLE, save_flux
from tests.helpers.model_files import ramp, safetensors, write_folder
from tests.helpers.scripted import ScriptedEngine

from halftone.cli import main
from halftone.cli.generate.settings_from_picture import from_picture, not_used
from halftone.cli.options.flags import _control
from halftone.contract.errors import HalftoneError
from halftone.contract.request import Hires, PictureRequest, Start
from halftone.gallery.history import History
from halftone.library.files.small_files import T5
from halftone.metadata.control_units import control_of, unit_in
from halftone.settings.store import Settings, save

TEXT = (
    "a sun <lora:ink:0.4>\nNegative prompt: blurry\nSteps: 31, Sampler: Euler a, CFG scale: 4.5, Seed: 42, Size: 128x192, "
    "Model: tiny, Clip skip: 3, Hires upscale: 1.5, Hires upscaler: Lanczos, Denoising strength: 0.3, "
    "Token merging ratio: 0.5, Version: v1.10"
)


@pytest.fixture
def picture(tmp_path: Path) -> str:
    (tmp_path / "loras").mkdir()
    (tmp_path / "loras" / "ink.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    write_folder(tmp_path / "models" / "tiny")
    save(Settings(model_folders=(str(tmp_path / "models"),), lora_folders=(str(tmp_path / "loras"),)))
    return written(tmp_path, TEXT)


def written(folder: Path, text: str, key: str = "parameters") -> str:
    chunks = PngInfo()
    chunks.add_text(key, text)
    Image.new("RGB", (8, 8)).save(folder / "sun.png", pnginfo=chunks)
    return str(folder / "sun.png")


@pytest.mark.parametrize("ending", [".txt", ".json"])
def test_a_text_file_alone_says_what_a_picture_says(picture: str, ending: str) -> None:
    file = Path(picture).with_name("other" + ending)
    file.write_text(TEXT, encoding="utf-8-sig")
    made = asked("--from", str(file))
    assert (made.prompt, made.negative, made.steps, made.seed) == ("a sun", "blurry", 31, 42)


SETTINGS = {"base_model": "tiny", "prompt": "a sun", "steps": 7, "seed": 5, "metadata_scheme": "fooocus"}
SAMPLER = {"seed": 5, "steps": 7, "cfg": 6, "denoise": 1, "sampler_name": "euler", "scheduler": "karras"}
GRAPH: dict[str, dict[str, Any]] = {
    "1": {"class_type": "KSampler", "inputs": {**SAMPLER, "model": ["6", 0], "positive": ["2", 0], "latent_image": ["4", 0]}},
    "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a sun", "clip": ["6", 1]}},
    "3": {"class_type": "VAEDecode", "inputs": {"samples": ["1", 0]}},
    "4": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 64}},
    "5": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}},
    "6": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "tiny.safetensors"}},
}


@pytest.mark.parametrize("said", [SETTINGS, GRAPH])
def test_a_file_of_settings_or_of_a_workflow_is_read(tmp_path: Path, said: dict[str, Any]) -> None:
    (tmp_path / "sun.json").write_text(json.dumps(said))
    found = from_picture(str(tmp_path / "sun.json"), {}, set(), "pocket", Settings()).asked
    assert (found["prompt"], found["steps"], found["seed"]) == ("a sun", 7, 5)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.txt", "only words", "text-silent"),
        ("a.json", "{}", "text-silent"),
        ("a.json", "[1, 2]", "text-silent"),
        ("a.json", '{"nodes": 1}', "picture-graph"),
        ("gone.txt", None, "image-missing"),
    ],
)
def test_a_text_without_settings_says_so(tmp_path: Path, name: str, text: str | None, code: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(HalftoneError) as caught:
        from_picture(str(tmp_path / name), {}, set(), None, Settings())
    assert caught.value.code == code


def asked(*words: str) -> PictureRequest:
    assert main(["generate", *words], engine=lambda: ScriptedEngine({})) == 0
    with History() as history:
        return history.recent()[0].request


def graph_of(text: str) -> str:
    """GRAPH with these words, beside a picture of this name."""
    return json.dumps(GRAPH | {"2": {**GRAPH["2"], "inputs": {**GRAPH["2"]["inputs"], "text": text}}})


def test_an_embedding_of_a_picture_that_is_not_here_is_only_noted(picture: str, capfd: pytest.CaptureFixture[str]) -> None:
    graph = Path(picture).with_name("graph.json")
    graph.write_text(graph_of("a sun, embedding:Glow.pt, (embedding:ink:1.2)"), encoding="utf-8")
    assert asked("--from", str(graph)).prompt == "a sun, embedding:Glow.pt, (embedding:ink:1.2)"
    said = " ".join(capfd.readouterr().err.split())
    for name in ("Glow", "ink"):
        assert (
            f"graph.json was made with the embedding {name}, which is not in your folders. Set its file with --embedding to make "
            "the same picture."
        ) in said
    asked("a moon", "--from", str(graph))
    assert "embedding" not in capfd.readouterr().err, "its words are not used"
    assert main(["generate", "a embedding:mine", "--from", str(graph)], engine=lambda: ScriptedEngine({})) == 2
    assert "Your folders hold no embedding mine" in capfd.readouterr().err


def test_an_embedding_of_a_picture_that_cannot_be_used_is_noted_with_its_reason(
    picture: str, capfd: pytest.CaptureFixture[str]
) -> None:
    graph = Path(picture).with_name("graph.json")
    graph.write_text(graph_of("embedding:wide and embedding:old.pt"), encoding="utf-8")
    (Path(picture).parent / "loras" / "wide.safetensors").write_bytes(safetensors({"emb_params": ramp(2, 33)}))
    (Path(picture).parent / "loras" / "old.pt").write_bytes(b"PK\x03\x04")
    asked("--from", str(graph))
    said = " ".join(capfd.readouterr().err.split())
    assert "graph.json was made with an embedding that cannot be used. The embedding wide does not fit tiny: " in said
    assert "old.pt is a pickle file." in said


@pytest.mark.parametrize("seed", [2**63, 2**64 - 1])
def test_the_seeds_of_comfyui_are_used(picture: str, seed: int) -> None:
    assert asked("--from", picture, "--seed", str(seed)).seed == seed
    file = Path(picture).with_name("graph.json")
    graph = GRAPH | {"1": {**GRAPH["1"], "inputs": {**GRAPH["1"]["inputs"], "seed": seed}}}
    file.write_text(json.dumps(graph), encoding="utf-8")
    assert asked("--from", str(file)).seed == seed


def test_a_picture_is_made_with_the_settings_of_another_one(picture: str, capfd: pytest.CaptureFixture[str]) -> None:
    made = asked("--from", picture)
    assert (made.prompt, made.negative, made.steps, made.guidance, made.seed) == ("a sun", "blurry", 31, 4.5, 42)
    assert (made.sampler, made.width, made.height, made.options) == (
        "Euler a Normal",
        128,
        192,
        {"clip_skip": 2, "noise_source": 1},
    )
    assert made.hires == Hires(scale=1.5, upscaler="lanczos", strength=0.3)
    assert [(lora.name, lora.weight) for lora in made.loras] == [("ink", 0.4)]
    assert Path(made.model).name == "tiny"
    said = capfd.readouterr().err
    assert "sun.png says “Token merging ratio: 0.5”, which is not used.\n" in said
    assert said.count("sun.png") == 1
    assert "--model was left out" not in said


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["a moon"], {"prompt": "a moon", "negative": "blurry", "seed": 42}),
        (["--seed", "-1"], {"seed": None, "steps": 31}),
        (["--seed", "7", "--width", "64"], {"seed": 7, "width": 64, "height": 192}),
        (["--model", "pocket", "--sampler", "DDIM"], {"model": "pocket", "sampler": "DDIM"}),
        (["--clip-skip", "1"], {"options": {"noise_source": 1}}),
        (["--noise-source", "cpu"], {"options": {"clip_skip": 2}}),
        (["--option", "eta=1.0"], {"options": {"clip_skip": 2, "noise_source": 1, "eta": 1.0}}),
        (["--hires", "2", "--steps", "4"], {"hires": Hires(scale=2.0), "steps": 4}),
        (["--hires", "2", "--denoising-strength", "0.3"], {"hires": Hires(scale=2.0, strength=0.3), "start": Start()}),
    ],
)
def test_what_is_given_beside_it_counts_before_it(picture: str, words: list[str], fields: dict[str, Any]) -> None:
    made = asked(*words, "--from", picture)
    assert {name: getattr(made, name) for name in fields} == fields


def test_steps_that_are_given_one_way_count_before_those_of_the_picture(tmp_path: Path) -> None:
    picture = written(
        tmp_path, 'a sun\nSteps: 2, Sampler: Euler, Seed: 1, Options: "{\\"timesteps\\": [900, 100], \\"eta\\": 0.5}"'
    )
    made = asked("--option", "sigmas=[1.0, 0.5]", "--from", picture)
    assert made.options == {"sigmas": [1.0, 0.5], "eta": 0.5}


def test_the_strength_is_taken_over_where_there_is_a_picture_to_start_from(picture: str, tmp_path: Path) -> None:
    text = "a sun\nSteps: 9, Sampler: DDIM, Seed: 1, Denoising strength: 0.35"
    made = asked("--from", written(tmp_path, text), "--image", picture, "--resize", "crop")
    assert (made.start.strength, made.start.resize) == (0.35, "crop")


def test_a_picture_made_from_another_one_is_not_made_without_it(
    picture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path, "a sun\nSteps: 9, Seed: 1, Denoising strength: 0.5, Start picture: boat.png, Version: Halftone 0.1.0"
    )
    assert main(["generate", "--from", path]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert said.startswith("sun.png was made from the picture boat.png, which is missing.")
    assert "Give it with --image FILE, or leave out --from and write the prompt yourself." in said
    assert asked("--from", path, "--image", picture).start.strength == 0.5


def test_a_model_that_is_not_here_is_told(picture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert picture
    assert asked("--from", written(tmp_path, TEXT.replace("tiny", "gone"))).model == "pocket"
    said = capfd.readouterr().err
    assert "sun.png was made with the model gone, which is not in your folders. Set it with --model to make" in said
    assert "Model: Pocket (demo) (no --model)." in said


@pytest.mark.parametrize("named", [True, False])
def test_another_file_of_the_same_name_is_told(tmp_path: Path, named: bool) -> None:
    T5.place.parent.mkdir(parents=True)
    T5.place.write_bytes(WHOLE)
    (tmp_path / "models").mkdir()
    path = save_flux(tmp_path / "models" / "flux.safetensors")
    saved = Settings(model_folders=(str(tmp_path / "models"),))
    text = "a sun\nSteps: 5, Sampler: Euler, Seed: 4, Model hash: 1a2b3c4d5e, Model: flux"
    found = from_picture(written(tmp_path, text), {}, set(), None if named else str(path), saved)
    told = [note for note in found.notes if "hash" in note]
    assert len(told) == named, "who names the file means it"
    assert all(note.startswith("sun.png was made with another file named flux: it had the hash 1a2b3c4d5e, ") for note in told)


OURS = 'a sun\nSteps: 4, Sampler: DDIM, Seed: 1, Model: tiny, Precision: "unet float16, vae float32", Version: Halftone 0.1.0'


def test_the_precision_it_was_made_in_is_told_where_another_one_runs(
    picture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert picture
    path = written(tmp_path, OURS)
    said = "sun.png was made in FP16; this one runs in FP32. To reproduce it: --precision float16\n"
    asked("--from", path)
    assert said in capfd.readouterr().err
    for precision in ("float16", "float32"):
        asked("--from", path, "--precision", precision)
        assert "was made in" not in capfd.readouterr().err


def test_the_model_of_ones_own_picture_is_found_by_what_was_made_before_or_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = write_folder(tmp_path / "elsewhere" / "tiny")
    path = written(tmp_path, OURS)
    assert main(["generate", "--from", path], engine=lambda: ScriptedEngine({})) == 2
    said = capfd.readouterr().err
    assert "sun.png needs the model tiny, which is not in your folders. Give its file or folder, or" in said
    assert "--model PATH" in said
    asked("a moon", "--model", str(model))
    assert asked("--from", path).model == str(model)
    assert asked("--from", path, "--model", "pocket").model == "pocket"


def test_a_plain_workflow_of_comfyui_is_taken_over_and_another_one_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    links = {"model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0], "latent_image": ["3", 0]}
    sampler = {"seed": 9, "steps": 5, "cfg": 3, "sampler_name": "euler", "scheduler": "normal", **links}
    graph: dict[str, Any] = {
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "gone"}},
        "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a sun", "clip": ["1", 1]}},
        "3": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 128}},
        "4": {
            "class_type": "KSampler",
            "inputs": sampler | {"positive": ["2", 0], "negative": ["2", 0], "latent_image": ["3", 0]},
        },
        "5": {"class_type": "VAEDecode", "inputs": {"samples": ["4", 0], "vae": ["1", 2]}},
        "6": {"class_type": "SaveImage", "inputs": {"images": ["5", 0]}},
    }
    made = asked("--from", written(tmp_path, json.dumps(graph), "prompt"))
    assert (made.prompt, made.seed, made.steps, made.guidance, made.sampler) == ("a sun", 9, 5, 3.0, "Euler Normal")
    assert (made.width, made.height) == (64, 128)
    graph["4"]["class_type"] = "KSamplerAdvanced"
    capfd.readouterr()
    assert main(["generate", "--from", written(tmp_path, json.dumps(graph), "prompt")]) == 2
    assert (
        "sun.png comes from a ComfyUI workflow that Halftone cannot read: the node KSamplerAdvanced has no noise_seed. Give what"
        in capfd.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "none.png"], "There is no picture at "),
        (["--from", "plain.png"], "plain.png contains no settings. To start from it, give it with --image FILE."),
        (["--from", "text.png"], "is not a readable picture. Choose a PNG, JPEG or WebP file."),
        (["--from", "plain.png", "--latents", "x"], "--from cannot be given together with --latents"),
    ],
)
def test_what_says_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8)).save("plain.png")
    Path("text.png").write_text("no picture")
    assert main(["generate", *words]) == 2
    assert said in capfd.readouterr().err


def test_a_controlnet_of_a_picture_of_a1111_is_shown_as_it_can_be_given(tmp_path: Path) -> None:
    line = (
        "Module: canny, Model: control_canny [d14c016b], Weight: 0.7, Resize Mode: Crop and Resize, Processor Res: 640, "
        "Threshold A: 80, Threshold B: 160, Guidance Start: 0, Guidance End: 0.9, Pixel Perfect: False, Control Mode: Balanced"
    )
    text = f'a sun\nSteps: 4, Seed: 7, ControlNet 0: "{line}"'
    found = from_picture(written(tmp_path, text), {}, set(), None, Settings())
    word = "control_canny=canny,80.0,160.0,res=640,resize=crop:PICTURE:0.7:0-0.9"
    wanted = f"sun.png was made with a ControlNet. Add --control {word} with its picture to make the same picture."
    assert wanted in found.notes
    given = _control(word)
    unit = unit_in(line)
    assert unit is not None
    assert control_of(unit, given.path, given.image) == given
    other = f'a sun\nSteps: 4, Seed: 7, ControlNet 0: "{line.replace("canny,", "openpose,", 1)}"'
    (note,) = [one for one in from_picture(written(tmp_path, other), {}, set(), None, Settings()).notes if "ControlNet" in one]
    assert note.startswith("sun.png was made with a ControlNet (Module: openpose, Model: control_canny")


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (("Denoising strength: 0.5",), ["says “Denoising strength: 0.5”, which is not used."]),
        (("ControlNet 0: Module: none, Model: pose", "Mask: m"), ["was made with a ControlNet (", "was made with the mask m"]),
        (("<lora:ink:0.4>",), ["was made with <lora:ink:0.4>, which is not in your folders. Set its file with --lora"]),
        (("Stopped after step: 3 of 20",), ["was stopped after step 3 of 20, so a picture with all steps looks different."]),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_with_what_to_do(left: tuple[str, ...], said: list[str]) -> None:
    words = list(not_used(left))
    assert len(words) == len(said)
    assert all(one.startswith(begin) for one, begin in zip(words, said, strict=True))
