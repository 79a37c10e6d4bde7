"""Faults that one ordinary prompt does not show: of long prompts, and of brackets that are to be read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tests.helpers.engine_runs import Recorder, Steady, check, generate, pixels
from tests.helpers.tiny import FAMILIES, load_tiny

from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Numerics
from halftone.engine.checks.examine import Examination
from halftone.engine.inputs.prompts import PROMPTS, prompts_to_read
from halftone.engine.loading.load import load_pipeline
from halftone.engine.patches.embeddings import split_text
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe
from halftone.measure.devices import find_device
from halftone.measure.pictures import psnr

LATE = 40
"""A place that the ordinary prompt leaves to padding, letter by letter as the tiny tokenizer reads it."""
LETTERS = slice(0, 188)
LONG = "a photograph of a red sun over green hills with a river and a bridge"


def far_words(embeddings: Any) -> None:
    """Words, and a late place, lie far out in one direction: only their sum is beyond what FP16 holds."""
    direction = torch.ones_like(embeddings.position_embedding.weight[0])
    direction[::2] = -1.0
    embeddings.token_embedding.weight[LETTERS] += 2e4 * direction
    embeddings.position_embedding.weight[LATE] += 5e4 * direction


def far_bracket(embeddings: Any) -> None:
    """The row of the opening bracket is beyond what FP16 holds, in both forms of the letter."""
    table = embeddings.token_embedding.weight
    table[ord("(") - ord("!")] *= 1e5 / table[ord("(") - ord("!")].abs().max()
    table[ord("(") - ord("!") + 94] *= 1e5 / table[ord("(") - ord("!") + 94].abs().max()


FAULTS: list[tuple[str, Callable[[Any], None], str, str]] = [
    ("long", far_words, "embeddings", LONG),
    ("brackets", far_bracket, "embeddings.token_embedding", r"a \(red\) sun"),
]


def planted(source: Path, target: Path, plant: Callable[[Any], None]) -> Path:
    pipe = load_tiny(source)
    with torch.no_grad():
        plant(pipe.text_encoder.embeddings)
    pipe.save_pretrained(target)
    return target


@pytest.mark.parametrize(("name", "plant", "module", "prompt"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_a_fault_of_such_prompts_is_found_named_and_cured(
    engine: DiffusersEngine,
    models: dict[str, Path],
    tmp_path: Path,
    name: str,
    plant: Callable[[Any], None],
    module: str,
    prompt: str,
) -> None:
    del name
    model = planted(models["sd15"], tmp_path / "model", plant)
    report, _ = check(engine, model)
    found = [finding for finding in report.findings if finding.code != "tight"]
    assert [(one.component, one.module) for one in found] == [("text_encoder", module)]
    assert report.verdict == "fixable"
    assert report.plan.verified
    assert next(cure for cure in report.cures if cure.suggested).kind in {"rescale", "upcast-region"}


@pytest.mark.parametrize(("name", "plant", "module", "prompt"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_a_picture_of_such_a_prompt_recovers_and_one_of_an_ordinary_prompt_is_clean(
    engine: DiffusersEngine,
    models: dict[str, Path],
    tmp_path: Path,
    name: str,
    plant: Callable[[Any], None],
    module: str,
    prompt: str,
) -> None:
    del name
    model = planted(models["sd15"], tmp_path / "model", plant)
    ordinary, _ = generate(engine, model, "float16", prompt=PROMPTS[0])
    assert ordinary.images[0].state == "clean", "what only such prompts show"
    report, _ = generate(engine, model, "float16", prompt=prompt)
    assert (report.images[0].state, report.images[0].finite) == ("recovered", True)
    assert {(event.component, event.module) for event in report.events} == {("text_encoder", module)}
    wide, _ = generate(engine, model, "float32", prompt=prompt)
    assert psnr(pixels(report), pixels(wide)) > 30


@pytest.mark.parametrize("family", FAMILIES)
def test_the_long_prompt_fills_what_the_text_encoders_read_and_holds_weights(models: dict[str, Path], family: str) -> None:
    loaded = load_pipeline(describe(str(models[family])), torch.device("cpu"))
    long, empty = prompts_to_read(loaded)
    assert empty == ""
    assert ":1.5)" in long
    assert "((" in long
    tokens = loaded.pipe.tokenizer(long, add_special_tokens=False).input_ids
    assert len(tokens) >= loaded.facts.prompt_tokens


def test_no_call_is_kept_twice(models: dict[str, Path]) -> None:
    facts = describe(str(models["sd15"]))
    loaded = load_pipeline(facts, torch.device("cpu"))
    command = Examine(
        job="c", model=facts.id, numerics=Numerics(precision="float16"), inputs=CheckInputs(width=32, height=32, guidance=7.0)
    )
    examination = Examination(loaded, find_device("cpu"), None, command, Recorder(), Steady())
    examination.run()
    assert examination.wide is not None
    read = [cast("torch.Tensor", call.args[0]) for call, _ in examination.wide.of("text_encoder")]
    chunks = len(split_text(loaded.pipe.tokenizer, prompts_to_read(loaded)[0]))
    assert len(read) == 2 + chunks, "the prompt, the empty negative one, the long one; the empty one is known by then"
    assert len({tuple(tokens.flatten().tolist()) for tokens in read}) == len(read)
