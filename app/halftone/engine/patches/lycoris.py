"""What the layers of LyCORIS files (LoHa, LoKr, IA3, DoRA, whole differences) do to their weights.

Read as by A1111 and ComfyUI: a weight of w adds w times what the whole file would change. The products are peft's.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import torch
from peft.tuners.loha.layer import make_weight, make_weight_cp
from peft.tuners.lokr.layer import make_kron
from peft.tuners.lokr.layer import make_weight_cp as make_core
from safetensors.torch import load_file
from torch import nn

from halftone.engine.weights.recipe import Delta, Whole
from halftone.library.add_ons.loras import layers_of
from halftone.library.families.original_names import original_unet_names
from halftone.library.kinds.loras import place_of

Tensors = Mapping[str, torch.Tensor]

_PEFT_FILE: Final = "adapter_model"
_PEFT_CONFIG: Final = "adapter_config.json"
_RANKS: Final = {"lora_down": 0, "hada_w1_b": 0, "lokr_w1_b": 0, "lokr_w2_b": 0}
"""Factors that tell the rank, and in which of their dimensions."""
_WRAPPER: Final = "text_model_"


@dataclass(frozen=True)
class Change:
    """A layer's change. factors: as stored, by LyCORIS' names; scale: alpha through rank."""

    factors: Tensors
    scale: float

    @property
    def finite(self) -> bool:
        return all(bool(tensor.isfinite().all()) for tensor in self.factors.values())

    @property
    def has_bias(self) -> bool:
        """Whether it changes the bias."""
        return bool({"diff_b", "b_norm"} & self.factors.keys())

    def delta(self, weight: float, like: torch.Tensor) -> Delta | None:
        """All that it does to a weight of that shape, if it only adds something that does not depend on the weight."""
        if {"dora_scale", "on_input"} & self.factors.keys() or self.has_bias:
            return None
        given = _delta({name: tensor.float() for name, tensor in self.factors.items()}, self.scale, like)
        return None if given is None else Whole(given, weight)

    def pair(self, weight: float) -> None:
        """Return None: its change has no two factors."""
        del weight

    def merged(self, held: Tensors, weight: float) -> dict[str, torch.Tensor]:
        """Change the exact float32 weight and bias (held). Raises ValueError, RuntimeError or KeyError where it does not fit."""
        own, found = {name: tensor.float() for name, tensor in self.factors.items()}, dict(held)
        given = _delta(own, self.scale, held["weight"])
        if given is not None:
            if "dora_scale" in own:
                given = decomposed(held["weight"] + given, own["dora_scale"]) - held["weight"]
            found["weight"] = held["weight"] + weight * given
        for name in ("diff_b", "b_norm"):
            if name in own and "bias" in held:
                found["bias"] = held["bias"] + weight * _shaped(own[name], held["bias"])
        return found


def _delta(own: Tensors, scale: float, exact: torch.Tensor) -> torch.Tensor | None:
    """What the whole file adds to the weight `exact`, DoRA aside; None where it changes only the bias."""
    for name in ("diff", "w_norm"):
        if name in own:
            return _shaped(own[name], exact)
    if "on_input" in own:
        around = [1, -1] if bool(own["on_input"]) else [-1, 1]
        return exact * own["weight"].reshape([*around, *[1] * (exact.dim() - 2)])
    product = _product(own, scale)
    return None if product is None else _shaped(product, exact)


def _product(own: Tensors, scale: float) -> torch.Tensor | None:
    if "lora_down" in own:
        return _low_rank(own) * scale
    if "hada_w1_a" in own:
        w1a, w1b, w2a, w2b = (own[f"hada_w{end}"] for end in ("1_a", "1_b", "2_a", "2_b"))
        if "hada_t1" in own:
            return make_weight_cp(own["hada_t1"], w1a, w1b, own["hada_t2"], w2a, w2b, torch.tensor(scale))
        return make_weight(w1a, w1b, w2a, w2b, torch.tensor(scale))
    if any(name.startswith("lokr_") for name in own):
        return make_kron(_factor(own, 1), _factor(own, 2), scale)
    return None


def _low_rank(own: Tensors) -> torch.Tensor:
    up, down = own["lora_up"].flatten(1), own["lora_down"]
    if "lora_mid" in own:
        return torch.einsum("n m k l, i n, m j -> i j k l", own["lora_mid"], up, down.flatten(1))
    return (up @ down.flatten(1)).reshape(up.shape[0], *down.shape[1:])


def _factor(own: Tensors, index: int) -> torch.Tensor:
    """One of the two factors of a Kronecker product, itself whole or of low rank."""
    if f"lokr_w{index}" in own:
        return own[f"lokr_w{index}"]
    first, second = own[f"lokr_w{index}_a"], own[f"lokr_w{index}_b"]
    return make_core(own["lokr_t2"], first, second) if index == 2 and "lokr_t2" in own else first @ second


def decomposed(weight: torch.Tensor, magnitude: torch.Tensor) -> torch.Tensor:
    """DoRA (arXiv 2402.09353, eq. 5): the direction of the changed weight, with a learned length of each column.

    With two dimensions or more the magnitude's shape shows their way: (outputs, 1, …) or (1, inputs, …).
    """
    along = 1 if magnitude.dim() > 1 and magnitude.shape[0] == 1 and weight.shape[0] != 1 else 0
    shape = [1] * weight.dim()
    shape[along] = weight.shape[along]
    others = [dimension for dimension in range(weight.dim()) if dimension != along]
    length = torch.linalg.vector_norm(weight, dim=others, keepdim=True)
    return weight * (magnitude.reshape(shape) / length.clamp_min(torch.finfo(weight.dtype).tiny))


def _shaped(given: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """A linear layer may stand in a file as a convolution of one pixel, and the other way round."""
    if given.shape[0] != wanted.shape[0] or given.numel() != wanted.numel():
        raise ValueError(f"{tuple(given.shape)} for {tuple(wanted.shape)}")
    return given.reshape(wanted.shape)


def read_changes(path: Path, networks: Mapping[str, nn.Module]) -> tuple[dict[str, dict[str, Change]], int, int]:
    """(component -> module -> change, layers of the file, tensors of unknown kinds or for a missing bias). networks: component ->
    its network, which may be empty.

    Raises ValueError, RuntimeError or KeyError where a layer has another size than the network's, OSError or SafetensorError.
    """
    tensors = load_file(path)
    layers = layers_of(tensors)
    config = _peft_config(path)
    known = {number: (name, _modules(network)) for name, network in networks.items() if (number := _number(name)) is not None}
    found: dict[str, dict[str, Change]] = {}
    unread = len(tensors) - sum(map(len, layers.values()))
    for place, factors in layers.items():
        number, flat = place_of(place)
        component, modules = known.get(number, ("", dict[str, str]()))
        module = modules.get(flat.removeprefix(_WRAPPER) if number else flat)
        if module is not None:
            change = _change({end: tensors[name] for end, name in factors.items()}, config, place)
            _check(change, networks[component].get_submodule(module))
            found.setdefault(component, {})[module] = change
            biased = getattr(networks[component].get_submodule(module), "bias", None) is not None
            unread += 0 if biased else len({"diff_b", "b_norm"} & change.factors.keys())
    return found, len(layers), unread


def _number(component: str) -> int | None:
    """0 for the denoiser, else the number of a text encoder, as the names of layers tell it."""
    if not component.startswith("text_encoder"):
        return 0
    return int(component.removeprefix("text_encoder").removeprefix("_") or 1)


def _modules(network: Any) -> dict[str, str]:
    """Path of a layer, as files write it, parts joined by _ -> module."""
    names = [name for name, module in network.named_modules() if isinstance(getattr(module, "weight", None), torch.Tensor)]
    given = {name.replace(".", "_").removeprefix(_WRAPPER): name for name in names}
    levels = getattr(getattr(network, "config", None), "layers_per_block", None)
    original = original_unet_names(names, levels) if isinstance(levels, int) else dict[str, str]()
    return {theirs.replace(".", "_"): name for theirs, name in original.items()} | given


def _change(tensors: dict[str, torch.Tensor], config: Mapping[str, Any], place: str) -> Change:
    alpha = tensors.pop("alpha", None)
    rank = next((tensors[name].shape[at] for name, at in _RANKS.items() if name in tensors), None)
    scale = 1.0
    if alpha is not None:
        scale = float(alpha) / rank if rank else 1.0
    elif config:
        scale = _told(config, "alpha", place) / _told(config, "r", place)
    return Change(tensors, scale)


def _check(change: Change, module: nn.Module) -> None:
    """Raise what `merged` would, without computing a number."""
    held = {name: torch.empty(tensor.shape, device="meta") for name, tensor in module.named_parameters(recurse=False)}
    on_input = {name: tensor for name, tensor in change.factors.items() if name == "on_input"}
    factors = {name: tensor.to("meta") for name, tensor in change.factors.items()} | on_input
    Change(factors, change.scale).merged(held, 1.0)


def _peft_config(path: Path) -> Mapping[str, Any]:
    """peft writes alpha and rank into a file beside the tensors; {} where there is none."""
    file = path.with_name(_PEFT_CONFIG)
    if path.stem != _PEFT_FILE or not file.is_file():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _told(config: Mapping[str, Any], name: str, place: str) -> float:
    """The configuration's value for a layer whose path ends with one of its patterns, else for all."""
    patterns: Iterable[tuple[str, Any]] = (config.get("rank_pattern" if name == "r" else "alpha_pattern") or {}).items()
    own = next((value for key, value in patterns if place == key or place.endswith(f".{key}")), None)
    return float(own or config.get(name) or config.get(f"lora_{name}") or 1)
