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
        return f"{self.family}, {self.names}, {self.kind}, {self.spelling}, {next(iter(self.layers))}"


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
    "XLabs": lambda name: f".{name.removeprefix('lora_')}",
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
TEXT_OWN = "encoder.layers.1.self_attn.q_proj"
TEXT = "text_model.encoder.layers.1.self_attn.q_proj"
DEEP = "mid_block.attentions.0.transformer_blocks.0.attn2.to_k"
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
WHOLE_KINDS = ("lokr whole", "full", "ia3 input", "ia3 output", "lora rs", "no alpha", "kohya lora", "comfy lora")
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


def texts() -> Iterator[Form]:
    for names, place in (
        ("kohya", f"lora_te_{flat(TEXT)}"),
        ("kohya, two", f"lora_te1_{flat(TEXT)}"),
        ("diffusers", f"text_encoder.{TEXT}"),
        ("ComfyUI", f"text_encoders.clip_l.transformer.{TEXT}"),
        ("OneTrainer", f"clip_l.{TEXT}"),
        ("peft, alone", f"base_model.model.{TEXT}"),
    ):
        yield one(SD1, names, place, TEXT_OWN, "kohya lora", component="text_encoder")
    for names, place in (
        ("kohya", f"lora_te2_{flat(TEXT)}"),
        ("diffusers", f"text_encoder_2.{TEXT}"),
        ("ComfyUI", f"text_encoders.clip_g.transformer.{TEXT}"),
    ):
        yield one(SDXL, names, place, TEXT, "lora", component="text_encoder_2")
    yield one(SD1, "diffusers", f"text_encoder.{TEXT}", TEXT_OWN, "lora", "linear layer", "text_encoder")


def turned() -> Iterator[Form]:
    """OFT, BOFT and GLoRA."""
    kohya = UNET["kohya"]
    kinds = ("oft", "oft diag", "oft constraint", "oft rescale", "boft", "boft constraint", "boft rescale", "glora", "old glora")
    for names in ("kohya", "kohya, original", "LyCORIS"):
        yield from (one(SD1, names, UNET[names](LINEAR), LINEAR, kind) for kind in kinds)
    yield from (one(SD1, "kohya", kohya(CONV), CONV, kind) for kind in ("oft", "oft diag", "oft rescale", "boft", "glora"))
    yield one(SD1, "kohya", kohya(POINT), POINT, "oft")
    for place, kind in ((LINEAR, "kohya oft"), (LINEAR, "kohya oft constraint"), (CONV, "kohya oft")):
        yield one(SD1, "kohya's OFT", f"oft_unet_{flat(place)}", place, kind)
    yield one(SDXL, "kohya", kohya(DEEP), DEEP, "old glora")
    for place, kind in ((LINEAR, "onetrainer oft"), (LINEAR, "onetrainer oft scaled"), (CONV, "onetrainer oft")):
        yield one(SD1, "OneTrainer", kohya(place), place, kind)
    yield one(FLUX, "OneTrainer", "lora_transformer_transformer_blocks_0_attn_to_out_0", FLUX_OUT, "onetrainer oft")
    yield Form(FLUX, "OneTrainer", {"lora_unet_double_blocks_0_img_attn_qkv": IMG_QKV}, "onetrainer oft")


PEFT_KINDS = ("peft lora", "peft rslora", "peft dora", "peft pattern", "peft loha", "peft lokr")


def adapters() -> Iterator[Form]:
    """What peft saves, with its configuration beside the file or in it."""
    for kind in (*PEFT_KINDS, "peft oft", "peft oft neumann", "peft oft shared", "peft ia3", "peft ia3 inward"):
        for prefix in ("base_model.model.", "unet.base_model.model."):
            yield Form(SD1, f"{prefix} folder", {prefix + LINEAR: (LINEAR,)}, kind, "peft", "", "folder")
    yield Form(SD1, "default folder", {f"base_model.model.{LINEAR}": (LINEAR,)}, "peft lora", "peft default", "", "folder")
    for kind in ("peft lora", "peft dora", "peft oft"):
        yield Form(SD1, "folder", {f"base_model.model.{CONV}": (CONV,)}, kind, "peft", "", "folder")
    for kind in ("peft lora", "peft rslora", "peft dora", "peft pattern"):
        yield Form(SD1, "metadata", {f"unet.{LINEAR}": (LINEAR,)}, kind, "peft", "", "metadata")
    yield Form(FLUX, "metadata", {"transformer." + FLUX_OUT: (FLUX_OUT,)}, "peft lora", "peft", "", "metadata")


def split(family: str, names: str, theirs: str, block: str, parts: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[Form]:
    """A layer whose rows are several of the network's."""
    for kind in kinds:
        yield Form(family, names, {theirs: tuple(f"{block}.{part}" for part in parts)}, kind, _spelling(theirs))


def _spelling(theirs: str, names: str = "") -> str:
    return "kohya" if theirs.startswith(("lora_", "lycoris_")) or names == "OneTrainer, dotted" else "peft"


QKV = ("attn.to_q", "attn.to_k", "attn.to_v")
ADDED = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")
FUSED = ("lora", "lokr", "loha", "lora dora rows", "oft", "glora", "full")
SOME = ("lora", "lokr")
FLUX_OUT = "transformer_blocks.0.attn.to_out.0"
IMG_QKV = tuple(f"transformer_blocks.0.{part}" for part in QKV)


def bfl(name: str) -> dict[str, str]:
    """Names of trainers -> a layer in the names of its maker."""
    return {
        "kohya": f"lora_unet_{flat(name)}",
        "ComfyUI": f"diffusion_model.{name}",
        "OneTrainer, original": name,
        "peft": f"base_model.model.{name}",
        "LyCORIS": f"lycoris_{flat(name)}",
    }


def own(name: str) -> dict[str, str]:
    """Names of trainers -> a layer in diffusers' names."""
    return {
        "diffusers, ai-toolkit": f"transformer.{name}",
        "ai-toolkit": f"diffusion_model.{name}",
        "OneTrainer": f"lora_transformer_{flat(name)}",
        "OneTrainer, dotted": f"transformer.{name}",
        "SimpleTuner's LyCORIS": f"lycoris_{flat(name)}",
        "musubi": f"lora_unet_{flat(name)}",
        "without a prefix": name,
        "peft": f"base_model.model.{name}",
    }


_TXT = "double_blocks.0.txt_attn.qkv"
_PROJ = "double_blocks.0.txt_attn.proj"
_SINGLE = "single_blocks.0.linear1"
_DOUBLE, _JOINT = "transformer_blocks.0", "single_transformer_blocks.0"
_TO_OUT = ("attn.to_out.0",)
_Z_QKV = ("attention.to_q", "attention.to_k", "attention.to_v")
MAKERS: Final[tuple[tuple[str, str, str, tuple[str, ...], tuple[str, ...]], ...]] = (
    (FLUX, "double_blocks.0.img_attn.qkv", _DOUBLE, QKV, FUSED),
    (FLUX, _TXT, _DOUBLE, ADDED, SOME),
    (FLUX2, _TXT, _DOUBLE, ADDED, FUSED),
    (CHROMA, _TXT, _DOUBLE, ADDED, SOME),
    (FLUX, _SINGLE, _JOINT, (*QKV, "proj_mlp"), SOME),
    (FLUX2, _SINGLE, _JOINT, ("attn.to_qkv_mlp_proj",), SOME),
    *((family, _PROJ, _DOUBLE, ("attn.to_add_out",), ("lora",)) for family in (FLUX, FLUX2, CHROMA)),
    (SD3, "joint_blocks.0.x_block.attn.qkv", _DOUBLE, QKV, SOME),
    (SD3, "joint_blocks.0.context_block.attn.proj", _DOUBLE, ("attn.to_add_out",), ("lora",)),
    (Z_IMAGE, "layers.0.attention.qkv", "layers.0", _Z_QKV, FUSED),
    (Z_IMAGE, "layers.0.attention.out", "layers.0", ("attention.to_out.0",), ("lora",)),
    (LUMINA, "layers.0.attention.out", "layers.0", _TO_OUT, ("lora",)),
    (WAN, "blocks.0.cross_attn.o", "blocks.0", ("attn2.to_out.0",), ("lora", "loha", "lora dora rows")),
)
"""Layers in the names of their makers: family, the layer, the network's block, its layers there, kinds."""
OWN: Final[tuple[tuple[str, str, str, tuple[str, ...]], ...]] = (
    (FLUX, _DOUBLE, "attn.to_out.0", FUSED),
    *((family, _DOUBLE, "attn.to_out.0", ("lora", "lokr", "lora dora rows")) for family in (FLUX2, QWEN, CHROMA)),
    (SD3, _DOUBLE, "attn.to_out.0", SOME),
    (WAN, "blocks.0", "attn1.to_q", SOME),
    (Z_IMAGE, "layers.0", "attention.to_q", SOME),
    (LUMINA, "layers.0", "attn.to_q", ("lora",)),
    (FLUX, "", "context_embedder", ("lora",)),
    (QWEN, _DOUBLE, "attn.to_add_out", ("lora",)),
)
"""Layers in diffusers' names: family, the block, its layer, kinds."""


def xlabs() -> Iterator[Form]:
    """It writes no alpha."""
    added = tuple(f"{_DOUBLE}.{part}" for part in ADDED)
    yield Form(FLUX, "XLabs", {"double_blocks.0.processor.qkv_lora1": IMG_QKV}, "no alpha", "XLabs")
    yield Form(FLUX, "XLabs", {"diffusion_model.double_blocks.0.processor.qkv_lora2": added}, "no alpha", "XLabs")
    yield one(FLUX, "XLabs", "double_blocks.0.processor.proj_lora1", FLUX_OUT, "no alpha", "XLabs")
    yield one(FLUX, "XLabs", "double_blocks.0.processor.proj_lora2", f"{_DOUBLE}.attn.to_add_out", "no alpha", "XLabs")
    single = tuple(f"{_JOINT}.{part}" for part in QKV)
    yield Form(FLUX, "XLabs", {"single_blocks.0.processor.qkv": single}, "no alpha", "processor")


def transformers() -> Iterator[Form]:
    for family, layer, block, parts, kinds in MAKERS:
        for names, theirs in bfl(layer).items():
            yield from split(family, names, theirs, block, parts, kinds)
    for family, block, part, kinds in OWN:
        for names, theirs in own(f"{block}.{part}".lstrip(".")).items():
            for kind in kinds:
                yield one(family, names, theirs, f"{block}.{part}".lstrip("."), kind, _spelling(theirs, names))


FORMS: Final[tuple[Form, ...]] = (*unets(), *texts(), *turned(), *adapters(), *transformers(), *xlabs())


if __name__ == "__main__":
    for family, count in Counter(form.family for form in FORMS).items():
        print(f"{family}: {count}")
    print(f"{len(FORMS)} forms of {len(REFERENCES)} kinds and shapes")
