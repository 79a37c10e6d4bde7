"""LoRA files made with peft, in the two forms that people have: diffusers' own, and kohya's (which A1111 reads)."""

from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from tests.helpers.tiny import load_tiny

RANK = 4
LAYERS = ("to_q", "to_v", "to_out.0")
VALUES = ("to_v", "to_out.0")
"""Of an attention: what makes numbers large without changing where it looks."""
TEXT = ("q_proj", "out_proj", "fc1")
_PREFIXES = {"unet": "lora_unet", "text_encoder": "lora_te", "text_encoder_2": "lora_te2"}


def make_lora(
    model: Path,
    file: Path,
    *,
    layers: tuple[str, ...] = LAYERS,
    text: tuple[str, ...] = (),
    strength: float = 1.0,
    seed: int = 1,
    kohya: bool = False,
) -> Path:
    """A LoRA of these layers of a model's denoiser (and `text` of its first text encoder), with random numbers times `strength`.

    Alpha is the rank, in both forms.
    """
    pipe = load_tiny(model)
    torch.manual_seed(seed)
    parts = {("unet" if hasattr(pipe, "unet") else "transformer"): list(layers)}
    if text:
        parts["text_encoder"] = list(text)
    found: dict[str, Any] = {}
    for name, chosen in parts.items():
        module = getattr(pipe, name)
        module.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=chosen, init_lora_weights=False))
        state = get_peft_model_state_dict(module)
        found[name] = {key: value * strength if "lora_B" in key else value for key, value in state.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    if kohya:
        save_file(_kohya(found, two=hasattr(pipe, "text_encoder_2")), file)
    else:
        given = {f"{name}_lora_layers": state for name, state in found.items()}
        type(pipe).save_lora_weights(file.parent, weight_name=file.name, **given)
    return file


def _kohya(found: dict[str, Any], *, two: bool) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for component, state in found.items():
        prefix = "lora_te1" if two and component == "text_encoder" else _PREFIXES[component]
        for key, value in cast("dict[str, torch.Tensor]", state).items():
            module, _, side = key.removesuffix(".weight").rpartition(".")
            if component.startswith("text_encoder"):
                module = f"text_model.{module.removeprefix('text_model.')}"
            place = f"{prefix}_{module.replace('.', '_')}"
            tensors[f"{place}.{'lora_down' if side == 'lora_A' else 'lora_up'}.weight"] = value.contiguous()
            tensors[f"{place}.alpha"] = torch.tensor(float(RANK))
    return tensors


def broken_lora(source: Path, file: Path) -> tuple[Path, str]:
    """The same with one number that is none; the file and the tensor's name."""
    tensors = load_file(source)
    name = min(tensors)
    tensors[name].view(-1)[0] = float("nan")
    save_file(tensors, file)
    return file, name
