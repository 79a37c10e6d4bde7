"""What other programs write is read as they meant it, and nothing else is said; `samples` prints the table."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.metadata.samples import SAMPLES, score, table

from halftone.metadata.a1111_relatives import parameters_of_text

NAMES = [f"{sample['program']}, {sample['title']}" for sample in SAMPLES]


@pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
def test_a_sample_is_read_right_and_nothing_false_is_said(sample: dict[str, Any], tmp_path: Path) -> None:
    found = score(sample, tmp_path)
    assert (found.missing, found.false) == ((), ())


def test_there_are_samples_of_all_programs() -> None:
    assert len(set(NAMES)) == len(SAMPLES) >= 90
    assert len({sample["program"] for sample in SAMPLES}) >= 11
    print(table(SAMPLES))


LINE = "\nSteps: 20, Sampler: Euler, Seed: 1"


@pytest.mark.parametrize(
    ("rest", "prompt", "model"),
    [
        (", Civitai resources: [", "a sun", None),
        (", Civitai resources: {}", "a sun", None),
        (', Civitai resources: [1, {"type": "lora"}, {"type": "checkpoint"}]', "a sun", None),
        (', Civitai resources: [{"type": "LORA", "modelName": "ink", "weight": null}]', "a sun <lora:ink:1>", None),
        (', Model: tiny, Civitai resources: [{"type": "checkpoint", "modelName": "other"}]', "a sun", "tiny"),
    ],
)
def test_damaged_resources_of_civitai_leave_the_rest(rest: str, prompt: str, model: str | None) -> None:
    found = parameters_of_text("a sun" + LINE + rest)
    assert (found.prompt, found.fields.get("Model")) == (prompt, model)
    assert found.fields["Seed"] == "1"


@given(
    st.text(),
    st.sampled_from((", Civitai resources: ", ", Civitai metadata: ", ", App: SD.Next, Hires steps: ", ", Version: Fooocus")),
)
def test_any_text_can_be_read(text: str, key: str) -> None:
    for whole in (text + LINE + key + text, LINE + key + "[" * 2000 + text):
        assert parameters_of_text(whole).prompt is not None
