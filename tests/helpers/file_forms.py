"""Forms in which people have whole models and parts of them as one file, written from tiny networks of diffusers."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors.torch import save_file
from tests.helpers import all_in_one
from tests.helpers.originals import original_names, tiny_original
from tests.helpers.tiny import liven

Tensors = dict[str, torch.Tensor]
Parts = dict[str, Any]
Change = Callable[[Tensors], Tensors]

UNET: Final = "model.diffusion_model."
VAE: Final = "first_stage_model."
CLIP: Final = "cond_stage_model.transformer."
XL: Final = "conditioner.embedders."
XL_CLIP: Final = f"{XL}0.transformer."
PACKED: Final = (torch.float8_e4m3fn, torch.float8_e5m2, torch.uint8)
_SCALES: Final = ("scale_weight", "weight_scale")
_WORDS: Final = 100
_ALL_IN_ONE: Final = ("flux", "sd3")


@cache
def parts_of(model: str) -> Parts:
    """The networks of a tiny model, by the name of their component; its encoders know few words."""
    found = all_in_one.parts_of(model) if model in _ALL_IN_ONE else tiny_original(model).components
    parts = {name: part for name, part in found.items() if isinstance(part, torch.nn.Module)}
    for part in parts.values():
        liven(part)
        if "CLIP" in type(part).__name__:
            cast("Any", part).resize_token_embeddings(_WORDS)
    return parts


@cache
def _usual(model: str) -> Tensors:
    parts = parts_of(model)
    if model in _ALL_IN_ONE:
        return all_in_one.named(model, parts)
    return original_names(parts) | {"alphas_cumprod": torch.linspace(1, 0, 1000)}


def usual(model: str, dtype: torch.dtype = torch.float16) -> Tensors:
    """Its tensors in this type, under the names that most files have."""
    return {name: value.detach().to(dtype if value.is_floating_point() else None) for name, value in _usual(model).items()}


def save(tensors: Mapping[str, torch.Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> Path:
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path, dict(metadata or {}))
    return path


def without(*starts: str) -> Change:
    return lambda tensors: {name: value for name, value in tensors.items() if not name.startswith(starts)}


def only(start: str) -> Change:
    return lambda tensors: {name: value for name, value in tensors.items() if name.startswith(start)}


def renamed(pattern: str, new: str) -> Change:
    return lambda tensors: {re.sub(pattern, new, name): value for name, value in tensors.items()}


def beside(**more: torch.Tensor) -> Change:
    """With these, too; "__" stands for a dot."""
    return lambda tensors: tensors | {name.replace("__", "."): value for name, value in more.items()}


def averaged(tensors: Tensors) -> Tensors:
    """With the averages of training, as the first files of SD 1.x were published."""
    means = {"model_ema." + name.removeprefix("model.").replace(".", ""): value for name, value in only(UNET)(tensors).items()}
    return tensors | means | {"model_ema.decay": torch.tensor(0.9999), "model_ema.num_updates": torch.tensor(5)}


def linear(tensors: Tensors) -> Tensors:
    """The attention of the VAE as linear layers, as newer tools write it."""
    return {name: value[:, :, 0, 0] if ".attn_1." in name and value.dim() == 4 else value for name, value in tensors.items()}


def eight_bits(tensors: Tensors, *starts: str, scaled: str = "") -> Tensors:
    """Matrices of parts that begin so in 8 bits. scaled: how the factor beside each is called."""
    found: Tensors = {}
    for name, value in tensors.items():
        if value.dim() != 2 or not name.endswith(".weight") or not name.startswith(starts):
            found[name] = value
            continue
        factor = value.detach().abs().max().float() / 448 if scaled else torch.tensor(1.0)
        found[name] = (value.detach().float() / factor).to(torch.float8_e4m3fn)
        if scaled:
            found[name.removesuffix("weight") + scaled] = factor
    return found


def unpacked(tensors: Tensors) -> Tensors:
    """What numbers in 8 bits stand for."""
    found: Tensors = {}
    for name, value in tensors.items():
        owner = name.removesuffix("weight")
        factors = [tensors[owner + scale] for scale in _SCALES if name.endswith(".weight") and owner + scale in tensors]
        if not name.endswith(_SCALES):
            found[name] = value.float() * factors[0] if factors else value.float() if value.dtype in PACKED else value
    return found


def nf4(tensors: Tensors) -> Tensors:
    """Matrices of the denoiser in bitsandbytes' 4 bits, with their states."""
    wide = [name for name, value in only(UNET)(tensors).items() if value.dim() == 2 and name.endswith(".weight")]
    found = {name: torch.zeros(8, 1, dtype=torch.uint8) if name in wide else value for name, value in tensors.items()}
    return found | {f"{name}.quant_state.bitsandbytes__nf4": torch.zeros(8, dtype=torch.uint8) for name in wide}


def by_diffusers(model: str) -> Tensors:
    """Every part below its name, under the names of diffusers."""
    return {f"{part}.{name}": value for part, module in parts_of(model).items() for name, value in module.state_dict().items()}
