"""IP-Adapters: the outputs of ComfyUI's network with cubiq's nodes, for the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.helpers.formula_nets import READER_TEXT, formula_adapter, formula_reader, formula_sight, numbers

from halftone.engine.patches.image_prompts import attach, detach, read_halves, weigh

REFERENCES = json.loads((Path(__file__).parents[2] / "references" / "ip_adapters.json").read_text())
NOISY = 500
BOTH = {"plain": 0.8, "plus": 0.5}


def outputs(unet: Any, family: str, sights: list[torch.Tensor]) -> torch.Tensor:
    """What the network gives for the negative prompt and the prompt."""
    given: dict[str, Any] = {"image_embeds": [sight.double() for sight in sights]}
    if family == "sdxl":
        given |= {"text_embeds": numbers(6, (2, 12)), "time_ids": torch.tensor([[64.0, 64, 0, 0, 64, 64]]).repeat(2, 1)}
    latents, words = numbers(3, (1, 4, 8, 8)).repeat(2, 1, 1, 1), numbers(4, (2, 7, READER_TEXT[family]))
    with torch.no_grad():  # in float64, as rounding grows through so many layers
        return unet.double()(latents.double(), NOISY, words.double(), added_cond_kwargs=given).sample.flatten()[::7]


def seen(form: str, pictures: int) -> torch.Tensor:
    """What the negative prompt and the prompt see; a plain adapter sees nothing beside the negative one."""
    negative = formula_sight(form, 9, pictures) * (form != "plain")
    return torch.stack([negative, formula_sight(form, 8, pictures)])


def apart(ours: torch.Tensor, theirs: list[float]) -> float:
    wanted = torch.tensor(theirs, dtype=torch.float64)
    return float((ours - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(("family", "forms"), [("sd15", ("plain", "plus", "full face")), ("sdxl", ("plain", "plus"))])
def test_the_network_gives_what_it_gives_in_comfyui(family: str, forms: tuple[str, ...], tmp_path: Path) -> None:
    unet, expected = formula_reader(family), REFERENCES[family]
    for form in forms:
        save_file(formula_adapter(unet, form), tmp_path / f"{form}.safetensors")
        attach(unet, [read_halves(str(tmp_path / f"{form}.safetensors"))])
        for case in ("1 × 0.3", "1 × 0.6", "1 × 0.8", "1 × 1.0", "2 × 0.7"):
            pictures, _, weight = case.partition(" × ")
            weigh(unet, [float(weight)])
            found = outputs(unet, family, [seen(form, int(pictures))])
            assert apart(found, expected[form][case]) <= 1e-7, (form, case)
        assert apart(found, expected[form]["1 × 0.3"]) > 1e-2
        detach(unet)
    attach(unet, [read_halves(str(tmp_path / f"{form}.safetensors")) for form in BOTH])
    weigh(unet, list(BOTH.values()))
    assert apart(outputs(unet, family, [seen(form, 1) for form in BOTH]), expected["together"]) <= 1e-7
