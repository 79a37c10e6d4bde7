"""LoRAs without torch: prompts that name them, and what a remembered cure or report belongs to."""

from pathlib import Path

import pytest
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import HalftoneError
from halftone.contract.plan import Plan
from halftone.contract.request import Extras, Lora, Numerics
from halftone.contract.wording import Words
from halftone.library.add_ons.loras import check_loras, has_tags, known_loras, lora_folders, own_names, take_tags, without_tags
from halftone.library.learned import forget, recall, remember
from halftone.settings.store import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Grain v2", "sepia"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    return tmp_path


@pytest.mark.parametrize(
    ("prompt", "left", "named"),
    [
        ("a red sun", "a red sun", []),
        ("a < b, lora:x", "a < b, lora:x", []),
        ("a sun <lora:sepia:0.8>, sea", "a sun, sea", [("sepia", 0.8)]),
        ("<lora:grain V2> a <LORA:sepia:-.5:>", "a", [("Grain v2", 1.0), ("sepia", -0.5)]),
        ("<lora:sepia:>", "", [("sepia", 1.0)]),
        ("a sun, <lora:sepia:1>, sea", "a sun, , sea", [("sepia", 1.0)]),
        ("a sun, <lora:sepia:1>", "a sun,", [("sepia", 1.0)]),
        ("a <lora:sepia:1>sun", "a sun", [("sepia", 1.0)]),
        ("a, <lora:sepia:1> <lora:grain v2:1>, b", "a, , b", [("sepia", 1.0), ("Grain v2", 1.0)]),
    ],
)
def test_a_prompt_names_loras_as_a1111_does(folder: Path, prompt: str, left: str, named: list[tuple[str, float]]) -> None:
    folders = (str(folder),)
    text, loras = take_tags(prompt, known_loras(folders), folders)
    assert text == without_tags(prompt) == left
    assert has_tags(prompt) == bool(named)
    assert [(lora.name, lora.weight) for lora in loras] == named
    check_loras(loras)


@pytest.mark.parametrize(
    ("weights", "encoder", "rest"),
    [
        ("0.3:0.9", 0.3, 0.9),
        ("0.3:0", 0.3, 0),
        ("te=0.3:unet=0.9", 0.3, 0.9),
        ("0.3:unet=0.9", 0.3, 0.9),
        ("te=0.3", 0.3, 0.3),
        ("unet=0.9", 1, 0.9),
        ("0.5:0.5", 0.5, 0.5),
    ],
)
def test_the_text_encoder_may_have_a_weight_of_its_own(folder: Path, weights: str, encoder: float, rest: float) -> None:
    _, (lora,) = take_tags(f"a sun <lora:sepia:{weights}>", known_loras((str(folder),)), (str(folder),))
    assert [lora.weight_in(name) for name in ("text_encoder", "text_encoder_2", "unet")] == [encoder, encoder, rest]
    assert (lora.encoder_weight is None) == (encoder == rest)
    check_loras((lora,))


def test_the_name_that_kohya_gave_is_found_too(tmp_path: Path) -> None:
    for name, own in (("file", "More_Details"), ("one", "twin"), ("two", "twin"), ("taken", "one"), ("none", "")):
        tensors = {"lora_unet_a.lora_down.weight": ramp(2)}
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(tensors, {"ss_output_name": own}))
    folders = (str(tmp_path),)
    known = known_loras(folders)
    assert {name: Path(path).stem for name, path in known.items()} == {
        **{name: name for name in ("file", "one", "two", "taken", "none")},
        "More_Details": "file",
    }
    assert own_names(known).keys() == {"file", "one", "two", "taken", "none"}
    _, (lora,) = take_tags("a <lora:more_details:0.5>", known, folders)
    assert (lora.name, lora.weight) == ("file", 0.5)
    with pytest.raises(HalftoneError) as caught:  # two files have it
        take_tags("a <lora:twin:0.5>", known, folders)
    assert caught.value.code == "lora-unknown"


def test_both_weights_have_limits(folder: Path) -> None:
    _, loras = take_tags("a <lora:sepia:99:1>", known_loras((str(folder),)), (str(folder),))
    with pytest.raises(HalftoneError) as caught:
        check_loras(loras)
    assert caught.value.code == "value-out-of-range"


@pytest.mark.parametrize("weights", ["0.3:0.9:16", "dyn=16", "0.3:strength=2"])
def test_further_weights_are_refused_and_not_dropped(folder: Path, weights: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        take_tags(f"a sun <lora:sepia:{weights}>", known_loras((str(folder),)), (str(folder),))
    assert str(caught.value) == (
        f"The weight of the LoRA sepia cannot be {weights}. "
        "Use one weight, or one for the text encoder and one for the rest, such as 0.6:0.8."
    )


@pytest.mark.parametrize("weight", ["abc", "1,5"])
def test_a_weight_that_is_no_number_is_told_as_such(folder: Path, weight: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        take_tags(f"a sun <lora:sepia:{weight}>", known_loras((str(folder),)), (str(folder),))
    assert str(caught.value) == f"The weight of the LoRA sepia cannot be {weight}. Use a number, such as 0.8."


def test_one_that_is_not_found_names_what_was_looked_through(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    settings = Settings(lora_folders=(str(folder), str(empty)), model_folders=(str(empty),))
    folders = lora_folders(settings)
    assert folders == (str(folder), str(empty))
    for looked, code, told in (
        (folders, "lora-unknown", f"in {folder}, {empty}. Found: Grain v2, sepia."),
        ((str(empty),), "lora-none-found", f"{empty} contains no LoRAs. Add your LoRA folder in Settings, Folders"),
        ((), "lora-no-folder", "no LoRA or model folder is set. Add"),
    ):
        with pytest.raises(HalftoneError) as caught:
            take_tags("a sun <lora:ink>", known_loras(looked), looked)
        assert caught.value.code == code
        assert told in str(caught.value)
        assert str(caught.value).endswith("or choose its file.")


@pytest.mark.parametrize(
    "key",
    [
        "lora_unet_a.lora_down.weight",
        "unet.a.to_q.lora.up.weight",
        "unet.a.to_q.lora_A.weight",
        "text_encoder.a.q_proj.lora_linear_layer.down.weight",
        "transformer.a.lora_B.weight",
    ],
)
def test_every_form_of_keys_is_known(tmp_path: Path, key: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(safetensors({key: ramp(2)}))
    check_loras((Lora(path=str(tmp_path / "a.safetensors")),))


def test_a_cure_belongs_to_the_loras_it_was_found_with(folder: Path) -> None:
    model, device = samples.POCKET, samples.CPU
    file = folder / "sepia.safetensors"
    half, whole = Extras(loras=(Lora(path=str(file), weight=0.5),)), Extras(loras=(Lora(path=str(file)),))
    remember(model, device, "float16", Plan(reasons=(Words("half"),)), Numerics(), half)
    found = recall(model, device, "float16", Numerics(), half)
    assert found is not None
    assert found.reasons == (Words("half"),)
    assert recall(model, device, "float16", Numerics()) is None
    assert recall(model, device, "float16", Numerics(), whole) is None
    file.write_bytes(file.read_bytes() + b"")
    file.touch()
    assert recall(model, device, "float16", Numerics(), half) is None, "another file under the same name"
    remember(model, device, "float16", Plan(), Numerics(), half)
    forget(model, device)
    assert recall(model, device, "float16", Numerics(), half) is None


def test_lyco_in_a_prompt_means_the_same(folder: Path) -> None:
    folders = (str(folder),)
    text, loras = take_tags("a sun <lyco:sepia:0.5>", known_loras(folders), folders)
    assert text == without_tags("a sun <lyco:sepia:0.5>") == "a sun"
    assert [(lora.name, lora.weight) for lora in loras] == [("sepia", 0.5)]


def test_of_many_those_are_told_first_that_are_spelled_nearly_alike(tmp_path: Path) -> None:
    for name in (*(f"a{index}" for index in range(20)), "watercolour", "waterfall"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    with pytest.raises(HalftoneError) as caught:
        take_tags("<lora:Watercolor>", known_loras((str(tmp_path),)), (str(tmp_path),))
    assert "Found: watercolour, waterfall, a0, a1" in str(caught.value)


@pytest.mark.parametrize(("key", "kind"), [("unet.a.oft_r", "OFT (old peft)"), ("unet.a.vera_lambda_b", "VeRA")])
def test_a_kind_that_is_not_understood_is_named_with_those_that_are(tmp_path: Path, key: str, kind: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(safetensors({key: ramp(2, 2)}))
    with pytest.raises(HalftoneError) as caught:
        check_loras((Lora(path=str(tmp_path / "a.safetensors")),))
    assert str(caught.value) == (
        f"The LoRA a is of the unsupported kind {kind}. Supported: LoRA, LoCon, LoHa, LoKr, OFT, BOFT, "
        "GLoRA, IA3, DoRA and full weight differences. Choose another LoRA, or remove it."
    )


@pytest.mark.parametrize("file", ["adapter_model.safetensors", "pytorch_lora_weights.safetensors"])
def test_a_file_that_every_adapter_has_is_called_by_its_folder(tmp_path: Path, file: str) -> None:
    for name in ("ink", "clay"):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes(safetensors({"base_model.model.a.lora_A.weight": ramp(2)}))
        (tmp_path / name / "adapter_config.json").write_text("{}")
    found = known_loras((str(tmp_path),))
    assert found == {name: str(tmp_path / name / file) for name in ("clay", "ink")}
    assert Lora(path=found["ink"]).name == "ink"
