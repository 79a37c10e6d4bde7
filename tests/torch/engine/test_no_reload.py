"""Between jobs a model stays in memory as it is; what changes brings anew only the components that it changes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.engine_runs import generate
from tests.helpers.loras import TEXT, make_lora
from tests.helpers.tiny import vae

from halftone.contract.request import Lora
from halftone.engine.service import DiffusersEngine

Held = dict[str, tuple[torch.nn.Module, list[torch.Tensor]]]


def held(engine: DiffusersEngine) -> Held:
    """Each component and its weights, kept alive: nothing else can come to where they lie."""
    assert engine.loaded is not None
    return {name: (module, [one.data for one in module.parameters()]) for name, module in engine.loaded.modules.items()}


def brought_anew(before: Held, after: Held) -> set[str]:
    """Components that are other ones, or have other weights."""

    def same(name: str) -> bool:
        (module, then), (other, now) = before[name], after[name]
        return module is other and [one.data_ptr() for one in then] == [one.data_ptr() for one in now]

    return {name for name in after if not same(name)}


@pytest.fixture(scope="module")
def parts(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("parts")
    plain = make_lora(models["sd15"], folder / "plain.safetensors")
    wide = make_lora(models["sd15"], folder / "wide.safetensors", text=TEXT)
    vae().save_pretrained(folder / "vae")
    return {"plain": str(plain), "wide": str(wide), "vae": str(folder / "vae")}


def test_what_changes_between_jobs_brings_anew_only_what_it_must(models: dict[str, Path], parts: dict[str, Any]) -> None:
    engine = DiffusersEngine()
    plain, wide = Lora(path=parts["plain"]), Lora(path=parts["wide"])
    everything = {"text_encoder", "unet", "vae"}
    jobs: tuple[tuple[dict[str, Any], set[str]], ...] = (
        ({}, set()),
        ({"seed": 6, "prompt": "a blue moon", "steps": 2, "guidance": 2.0, "batch": 2}, set()),
        ({"sampler": "Euler a"}, set()),
        ({"width": 64, "height": 48}, set()),
        ({"nan_check": "at-end", "attention_backend": "math", "vae_tiling": "always"}, set()),
        ({"loras": (plain,)}, {"unet"}),
        ({"loras": (plain,), "seed": 7}, set()),
        ({"loras": (Lora(path=parts["plain"], weight=0.5),)}, {"unet"}),
        ({"loras": (wide,)}, {"unet", "text_encoder"}),
        ({}, {"unet", "text_encoder"}),
        ({"precision": "bfloat16"}, everything),
        ({"precision": "bfloat16", "sampler": "Euler"}, set()),
        ({"precision": "bfloat16", "vae_float32": "always"}, {"vae"}),
        ({"precision": "bfloat16", "vae_float32": "always", "vae": parts["vae"]}, {"vae"}),
    )
    generate(engine, models["sd15"], steps=1)
    before = held(engine)
    for changes, anew in jobs:
        asked: dict[str, Any] = {"steps": 1, **changes}
        generate(engine, models["sd15"], **asked)
        after = held(engine)
        assert brought_anew(before, after) == anew, changes
        before = after
