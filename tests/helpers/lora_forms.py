"""Forms of LoRA files: the names that programs give to layers and to factors, and kinds of changes with what other programs'
code makes of them (tests/references/loras.json).

    PYTHONPATH=app:. python -m tests.helpers.lora_forms

prints how many there are.
"""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

Tensors = dict[str, torch.Tensor]

REFERENCES: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "references" / "loras.json").read_text(encoding="utf-8")
)
"""Kind and shape -> by (program, version, file), weight (its shape), tensors (name -> shape), values, and config as peft writes
it; added: what it adds to the weight "weight", times the vector "probe". Numbers are `drawn` for their names.
"""


class Form(NamedTuple):
    """family: of tests/bench/families/table.py; layers: name of a layer in the file -> those of the network whose rows it has;
    kind: of the references, without the shape; spelling: of the factors, by SPELLINGS; beside: where peft's configuration is.
    """

    family: str
    names: str
    layers: dict[str, tuple[str, ...]]
    kind: str
    spelling: str = "kohya"
    component: str = ""
    beside: str = ""

    def __str__(self) -> str:
        return f"{self.family}, {self.names}, {self.kind}, {self.spelling}"


def drawn(name: str, shape: list[int], scale: float = 0.3) -> torch.Tensor:
    """The numbers that the references were computed with."""
    made = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape) * scale
    found = torch.tensor(made, dtype=torch.float32)
    return found.abs() + 0.5 if name in ("dora_scale", "rescale", "lora_magnitude_vector") else found


def _peft(name: str) -> str:
    for kohya, peft in (("lora_down", "lora_A"), ("lora_up", "lora_B")):
        name = name.replace(kohya, peft)
    return name


def _half(before: str) -> Callable[[str], str]:
    def spelled(name: str) -> str:
        end = name.replace("lora_down", f"{before}down").replace("lora_up", f"{before}up")
        return end if end != name else f".{name}"

    return spelled


SPELLINGS: Final[dict[str, Callable[[str], str]]] = {
    "kohya": lambda name: f".{name}",
    "peft": lambda name: f".{_peft(name)}",
    "peft default": lambda name: f".{_peft(name).replace('.weight', '.default.weight')}",
    "peft named": lambda name: f".{_peft(name).replace('.weight', '.mine.weight')}",
    "dotted": _half(".lora."),
    "linear layer": _half(".lora_linear_layer."),
    "processor": _half("_lora."),
    "peft magnitude": lambda name: f".{_peft(name).replace('dora_scale', 'lora_magnitude_vector')}",
    "peft magnitude weight": lambda name: f".{_peft(name).replace('dora_scale', 'lora_magnitude_vector.weight')}",
}
"""The end of a tensor's name, from the name of its factor in the references."""


def flat(name: str) -> str:
    return name.replace(".", "_")


SD1, SDXL, SD3, FLUX, FLUX2 = "SD 1.x", "SDXL", "SD 3.5 medium", "FLUX.1 dev", "FLUX.2 klein"
QWEN, WAN, Z_IMAGE, CHROMA, LUMINA = "Qwen-Image", "Wan", "Z-Image", "Chroma", "Lumina 2"

LINEAR = "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k"
CONV = "down_blocks.1.resnets.0.conv1"
POINT = "down_blocks.1.resnets.0.conv_shortcut"
NORM = "down_blocks.0.resnets.0.norm1"
MIDDLE = "mid_block.attentions.0.transformer_blocks.0.attn1.to_out.0"
TEXT = "text_model.encoder.layers.1.self_attn.q_proj"
ORIGINAL = {
    LINEAR: "input_blocks.1.1.transformer_blocks.0.attn2.to_k",
    CONV: "input_blocks.3.0.in_layers.2",
    POINT: "input_blocks.3.0.skip_connection",
    NORM: "input_blocks.1.0.in_layers.0",
    MIDDLE: "middle_block.1.transformer_blocks.0.attn1.to_out.0",
}
UNET: Final[dict[str, Callable[[str], str]]] = {
    "kohya": lambda name: f"lora_unet_{flat(name)}",
    "kohya, original": lambda name: f"lora_unet_{flat(ORIGINAL[name])}",
    "LyCORIS": lambda name: f"lycoris_{flat(name)}",
    "diffusers": lambda name: f"unet.{name}",
    "ComfyUI": lambda name: f"diffusion_model.{ORIGINAL[name]}",
}
LINEAR_KINDS = ("lora", "loha", "lokr", "lora dora rows", "lora dora columns", "loha dora rows", "lokr dora columns", "lokr both")
WHOLE_KINDS = ("lokr whole", "full", "ia3 input", "ia3 output", "lora rs", "kohya no alpha", "kohya lora", "comfy lora")
CONV_KINDS = (
    "lora", "lora tucker", "lora dora rows", "lora dora columns", "loha", "loha tucker", "lokr", "lokr tucker", "lokr whole",
    "full", "ia3 output", "kohya lora",
)  # fmt: skip


def one(family: str, names: str, theirs: str, ours: str, kind: str, spelling: str = "kohya", component: str = "") -> Form:
    return Form(family, names, {theirs: (ours,)}, kind, spelling, component)


def unets() -> Iterator[Form]:
    for names, name in UNET.items():
        yield from (one(SD1, names, name(LINEAR), LINEAR, kind) for kind in LINEAR_KINDS)
        yield from (one(SD1, names, name(place), place, "lora") for place in (CONV, POINT, MIDDLE))
    kohya = UNET["kohya"]
    yield from (one(SD1, "kohya", kohya(LINEAR), LINEAR, kind) for kind in WHOLE_KINDS)
    yield from (one(SD1, "kohya", kohya(CONV), CONV, kind) for kind in CONV_KINDS[1:])
    yield one(SD1, "kohya", kohya(POINT), POINT, "kohya lora")
    yield one(SD1, "kohya", kohya(NORM), NORM, "norm")
    for spelling in ("peft", "peft default", "dotted", "linear layer"):
        yield one(SD1, "diffusers", f"unet.{LINEAR}", LINEAR, "lora", spelling)
    yield one(SD1, "diffusers, processor", f"unet.{LINEAR.replace('to_k', 'processor.to_k')}", LINEAR, "lora", "processor")
    for place in (LINEAR, CONV):
        yield one(SD1, "diffusers", f"unet.{place}", place, "lora dora rows", "peft magnitude")


FORMS: Final[tuple[Form, ...]] = (*unets(),)


if __name__ == "__main__":
    for family, count in Counter(form.family for form in FORMS).items():
        print(f"{family}: {count}")
    print(f"{len(FORMS)} forms of {len(REFERENCES)} kinds and shapes")
