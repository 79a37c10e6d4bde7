"""Textual inversions: a file whose vectors are those of a model's own words makes the very picture that the words make."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.helpers.engine_runs import check, generate, pixels
from tests.helpers.inversions import rows_of, same_as, saved
from tests.helpers.loras import make_lora
from tests.helpers.tiny import load_tiny
from tests.torch.engine.test_prompts import FAULTS, planted

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Lora
from halftone.contract.vocabulary import Precision
from halftone.engine.service import DiffusersEngine

WORDS = "red sun"
SPOKEN, LEARNT = f"a {WORDS} above", "a learnt above"


@pytest.fixture(scope="module")
def files(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Family -> a file called "learnt" that says WORDS."""
    folder = tmp_path_factory.mktemp("inversions")
    return {
        family: str(same_as(models[family], folder / family / "learnt.safetensors", WORDS)) for family in ("sd15", "sdxl", "sd3")
    }


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_its_picture_is_that_of_the_words_it_holds(
    engine: DiffusersEngine, models: dict[str, Path], files: dict[str, str], family: str, precision: Precision
) -> None:
    spoken, _ = generate(engine, models[family], precision, prompt=SPOKEN)
    learnt, _ = generate(engine, models[family], precision, prompt=LEARNT, inversions=(files[family],))
    after, _ = generate(engine, models[family], precision, prompt=SPOKEN)
    unknown, _ = generate(engine, models[family], precision, prompt=LEARNT)
    assert (pixels(spoken) == pixels(learnt)).all()
    assert (pixels(spoken) == pixels(after)).all(), "nothing of it is left"
    assert (pixels(spoken) != pixels(unknown)).any(), "without the file it is a word as any other"


@pytest.mark.parametrize(
    ("prompt", "negative"),
    [("a ({}:1.4), " + "b" * 100, "bad"), ("red", "bad {}, ({}:0.7)"), ("[{}:blue:2] [c|{}]", "[{}]")],
    ids=["long", "negative", "steps"],
)
def test_it_may_be_weighted_negative_and_change_with_the_step(
    engine: DiffusersEngine, models: dict[str, Path], files: dict[str, str], prompt: str, negative: str
) -> None:
    pictures = [
        pixels(
            generate(
                engine,
                models["sd15"],
                prompt=prompt.replace("{}", word),
                negative=negative.replace("{}", word),
                guidance=5.0,
                inversions=(files["sd15"],),
            )[0]
        )
        for word in ("learnt", "Embedding:LEARNT", WORDS)
    ]
    assert (pictures[0] == pictures[2]).all()
    assert (pictures[1] == pictures[2]).all() or ":blue:" in prompt, "a colon divides what changes with the step"


def test_a_model_with_another_encoder_beside_clip_reads_both(
    engine: DiffusersEngine, models: dict[str, Path], files: dict[str, str]
) -> None:
    plain, _ = generate(engine, models["sd3"], family="sd3", prompt=LEARNT)
    learnt, _ = generate(engine, models["sd3"], family="sd3", prompt=LEARNT, inversions=(files["sd3"],))
    assert (pixels(plain) != pixels(learnt)).any()


def test_with_a_lora_of_the_text_encoder_too(
    engine: DiffusersEngine, models: dict[str, Path], files: dict[str, str], tmp_path: Path
) -> None:
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "lora.safetensors", text=("q_proj", "fc1"))))
    spoken, _ = generate(engine, models["sd15"], "float16", prompt=SPOKEN, loras=(lora,))
    learnt, _ = generate(engine, models["sd15"], "float16", prompt=LEARNT, loras=(lora,), inversions=(files["sd15"],))
    assert (pixels(spoken) == pixels(learnt)).all()


def with_bundled(lora: Path, embedding: str, file: Path) -> Lora:
    """The LoRA with the embedding in its file, in the names of A1111 and OneTrainer."""
    own = load_file(embedding)
    ends = {name: name if name in ("clip_l", "clip_g") else "string_to_param.*" for name in own}
    return Lora(path=str(saved(file, load_file(lora) | {f"bundle_emb.learnt.{ends[name]}": own[name] for name in own})))


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_one_in_the_file_of_a_lora_is_a_word_while_that_is_used(
    engine: DiffusersEngine, models: dict[str, Path], files: dict[str, str], tmp_path: Path, family: str
) -> None:
    lora = make_lora(models[family], tmp_path / "lora.safetensors", text=("q_proj", "fc1"))
    both = with_bundled(lora, files[family], tmp_path / "both.safetensors")
    spoken, _ = generate(engine, models[family], prompt=SPOKEN, loras=(Lora(path=str(lora)),))
    learnt, _ = generate(engine, models[family], prompt=LEARNT, loras=(both,))
    after, _ = generate(engine, models[family], prompt=LEARNT)
    unknown, _ = generate(engine, models[family], prompt=LEARNT, loras=(Lora(path=str(lora)),))
    assert (pixels(spoken) == pixels(learnt)).all()
    assert (pixels(unknown) != pixels(learnt)).any()
    assert (pixels(after) != pixels(learnt)).any()


def test_a_file_of_that_name_counts_before_the_one_in_a_lora(
    engine: DiffusersEngine, models: dict[str, Path], files: dict[str, str], tmp_path: Path
) -> None:
    lora = make_lora(models["sd15"], tmp_path / "lora.safetensors")
    other = str(same_as(models["sd15"], tmp_path / "learnt.safetensors", "blue"))
    both = with_bundled(lora, files["sd15"], tmp_path / "both.safetensors")
    found, _ = generate(engine, models["sd15"], prompt=LEARNT, loras=(both,), inversions=(other,))
    wanted, _ = generate(engine, models["sd15"], prompt="a blue above", loras=(Lora(path=str(lora)),))
    assert (pixels(found) == pixels(wanted)).all()


@pytest.mark.parametrize(("name", "plant", "module", "prompt"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_a_text_encoder_that_overflows_is_cured_as_it_is_without(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, name: str, plant: object, module: str, prompt: str
) -> None:
    """The failing call is run again in float32 on weights that were read anew, which have to know the words too."""
    del name
    model = planted(models["sd15"], tmp_path / "model", plant)  # pyright: ignore[reportArgumentType]
    file = same_as(model, tmp_path / "learnt.safetensors", WORDS)
    report, _ = generate(engine, model, "float16", prompt=f"learnt {prompt}", inversions=(str(file),))
    assert [event.module for event in report.images[0].events] == [module]
    assert report.images[0].state == "recovered"
    spoken, _ = generate(engine, model, "float32", prompt=f"{WORDS} {prompt}")
    assert abs(pixels(report).astype(int) - pixels(spoken).astype(int)).max() <= 3


def test_vectors_beyond_what_the_precision_holds_are_found_by_a_check_and_cured(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    rows = rows_of(load_tiny(models["sd15"]), "clip_l", WORDS)
    rows[0, 0] = 1e5
    file = saved(tmp_path / "learnt.safetensors", {"emb_params": rows})
    found, _ = check(engine, models["sd15"], prompt=LEARNT, inversions=(str(file),))
    assert found.verdict == "fixable"
    assert {finding.component for finding in found.findings if finding.code != "tight"} == {"text_encoder"}
    unnamed, _ = check(engine, models["sd15"], inversions=(str(file),))
    assert unnamed.verdict == "fixable", "the words that were given are read, whether the prompt names them or not"
    assert found.extras.inversions == (str(file),)
    report, _ = generate(engine, models["sd15"], "float16", prompt=LEARNT, inversions=(str(file),))
    assert report.images[0].state == "recovered"
    assert not report.images[0].black
    alone, _ = generate(engine, models["sd15"], "float16", prompt=LEARNT)
    assert (alone.images[0].state, alone.images[0].cures) == ("clean", {}), "its cure is not the model's"
    again, _ = generate(engine, models["sd15"], "float16", prompt=LEARNT, inversions=(str(file),))
    assert again.images[0].state == "clean", "it is remembered with the file"
    assert set(again.images[0].cures) == {"text_encoder"}


def test_one_that_cannot_be_used_is_told_in_a_sentence(
    engine: DiffusersEngine, models: dict[str, Path], files: dict[str, str], tmp_path: Path
) -> None:
    rows = torch.zeros(2, 16)
    narrow = saved(tmp_path / "narrow.safetensors", {"emb_params": rows[:, :8].contiguous()})
    broken = saved(tmp_path / "broken.safetensors", {"emb_params": rows / 0})
    half = saved(tmp_path / "half.safetensors", {"emb_params": rows})
    for family, path, code in (
        ("sd15", str(narrow), "inversion-other-base"),
        ("sdxl", str(half), "inversion-other-base"),
        ("sana", files["sd15"], "inversion-other-base"),
        ("sd15", str(broken), "inversion-broken"),
        ("sd15", str(tmp_path / "none.safetensors"), "inversion-missing"),
        ("sd15", str(models["sd15"] / "unet" / "diffusion_pytorch_model.safetensors"), "inversion-not-one"),
    ):
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models[family], family=family, prompt=LEARNT, inversions=(path,))
        assert caught.value.code == code
    spoken, _ = generate(engine, models["sd15"], prompt=SPOKEN)
    learnt, _ = generate(engine, models["sd15"], prompt=LEARNT, inversions=(files["sd15"],))
    assert (pixels(spoken) == pixels(learnt)).all(), "nothing of what was refused is left"
