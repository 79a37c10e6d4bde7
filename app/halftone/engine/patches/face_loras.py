"""The LoRAs in FaceID's files: they are added to the exact weights of attention as any LoRA is, as much as the adapter counts.

diffusers numbers the layers of attention in the order of its processors, and so do the files.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open

from halftone.contract.request import IpAdapter, Lora
from halftone.engine.patches.lora import Adapter
from halftone.engine.patches.lycoris import Change
from halftone.library.files.header import file_stamp, read_header

_LORA: Final = re.compile(r"ip_adapter\.(\d+)\.(to_(?:q|k|v|out))_lora\.(down|up)\.weight")
_PROJECTION: Final = "encoder_hid_proj."
"""Attention of adapters that are attached now."""


def read_face_loras(
    component: str, denoiser: Any, adapters: Iterable[IpAdapter], known: Sequence[Adapter] = ()
) -> tuple[Adapter, ...]:
    """Read the LoRAs in these files, without those of no strength. known: read before, and not read again.

    Raises OSError or SafetensorError, and ValueError where one does not fit.
    """
    at_hand = {(one.lora.path, one.version): one for one in known}
    found: list[Adapter] = []
    for one in adapters:
        lora = Lora(path=one.path, weight=one.scale)
        if one.scale and any(_LORA.fullmatch(tensor.name) for tensor in read_header(Path(one.path)).tensors):
            version = file_stamp(one.path)
            before = at_hand.get((one.path, version))
            layers = before.layers if before is not None else {component: _layers(denoiser, one.path)}
            found.append(replace(before, lora=lora) if before is not None else Adapter(lora, layers, version, ()))
    return tuple(found)


def _layers(denoiser: Any, path: str) -> dict[str, Change]:
    """Module of the denoiser -> what is added to its weight. Raises ValueError where it is not there, or of another size."""
    attention = [name for name in denoiser.attn_processors if not name.startswith(_PROJECTION)]
    halves: dict[str, dict[str, torch.Tensor]] = {}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 - a handle, no mapping
            if (part := _LORA.fullmatch(name)) is not None:
                if int(part[1]) >= len(attention):
                    raise ValueError(f"{name}: the denoiser has {len(attention)} layers of attention")
                layer = part[2].replace("to_out", "to_out.0")
                module = f"{attention[int(part[1])].removesuffix('.processor')}.{layer}"
                halves.setdefault(module, {})[f"lora_{part[3]}"] = file.get_tensor(name)
    for module, factors in halves.items():
        layer, up, down = denoiser.get_submodule(module), factors.get("lora_up"), factors.get("lora_down")
        if up is None or down is None or up.dim() != 2 or down.dim() != 2 or up.shape[1] != down.shape[0]:
            raise ValueError(f"{module}: no pair of factors")
        if (up.shape[0], down.shape[1]) != (layer.out_features, layer.in_features):
            raise ValueError(f"{module}: {tuple(up.shape)} and {tuple(down.shape)} beside {layer}")
    return {module: Change(factors, 1.0) for module, factors in halves.items()}
