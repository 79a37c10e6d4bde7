from pathlib import Path

import pytest
from PIL import Image
from tests.helpers.pictures import picture_facts
from tests.helpers.read_back import parse_parameters

from halftone.contract.request import Upscaled
from halftone.metadata.picture import save_picture
from halftone.metadata.upscaled import upscaled_texts


@pytest.mark.parametrize("before", ["a red sun", "a red sun\nover: hills", "a red sun\nSteps: 20, Sampler: Euler, Seed: 1", ""])
def test_how_it_was_made_larger_is_never_part_of_the_prompt(tmp_path: Path, before: str) -> None:
    source = tmp_path / "a.png"
    save_picture(Image.new("RGB", (8, 8)), source, before, "{}")
    facts = picture_facts(upscaled=Upscaled(source=str(source), upscaler="/u/4x-Sharp.safetensors", scale=4))
    old, new = parse_parameters(before), parse_parameters(upscaled_texts(source, facts, {})[0])
    assert new.prompt == old.prompt
    assert new.fields.items() >= {**old.fields, "Postprocess upscale by": "4", "Postprocess upscaler": "4x-Sharp"}.items()
