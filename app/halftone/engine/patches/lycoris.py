"""What the layers of LoRAs and LyCORIS files (LoHa, LoKr, OFT, BOFT, GLoRA, IA3, DoRA, whole differences) do to their weights.

Read as by their trainers: a weight of w adds w times what the whole file would change. The products are peft's.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import torch
from peft.tuners.loha.layer import make_weight, make_weight_cp
from peft.tuners.lokr.layer import make_kron
from peft.tuners.lokr.layer import make_weight_cp as make_core
from safetensors.torch import load_file
from torch import nn

from halftone.contract.wording import Words
from halftone.engine.weights.recipe import Delta, Product, Whole
from halftone.library.add_ons.inversions import BUNDLED
from halftone.library.add_ons.loras import layers_of
from halftone.library.families.layer_names import NAMINGS, layer_places
from halftone.library.families.original_names import original_unet_names
from halftone.library.files.header import read_header
from halftone.library.kinds.loras import is_first_form, place_of

Tensors = Mapping[str, torch.Tensor]

_PEFT_FILE: Final = "adapter_model"
_PEFT_CONFIG: Final = "adapter_config.json"
_DIFFUSERS_CONFIG: Final = "lora_adapter_metadata"
"""Entry of a file's own metadata in which diffusers keeps what peft writes into a file beside it."""
T5: Final = "T5EncoderModel"
_T5_NUMBER: Final = 3
"""kohya's scripts and ComfyUI count it third, also where a model has only one encoder beside it."""
_RANKS: Final = {"lora_down": 0, "hada_w1_b": 0, "lokr_w1_b": 0, "lokr_w2_b": 0, "a2": 0}
"""Factors that tell the rank, and in which of their dimensions."""
_WRAPPER: Final = "text_model_"
_KINDS: Final = (
    ("lora_down", ("lora_up", "lora_mid")),
    ("hada_w1_a", ("hada_w1_b", "hada_w2_a", "hada_w2_b", "hada_t1", "hada_t2")),
    ("lokr_w1", ("lokr_w2", "lokr_w2_a", "lokr_w2_b", "lokr_t2")),
    ("lokr_w1_a", ("lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b", "lokr_t2")),
    ("oft_blocks", ("rescale",)),
    ("oft_diag", ("rescale",)),
    ("a1", ("a2", "b1", "b2")),
    ("oft_R", ("scaled_oft",)),
    ("on_input", ("weight",)),
    ("ia3_l", ()),
    ("diff", ()),
    ("set_weight", ()),
    ("w_norm", ()),
)
"""The factor that each kind has, and its others; the first that fits holds."""
_TERMS: Final = range(4, 65)
"""Of Neumann's series; with fewer peft's is another one."""
_BIASES: Final = frozenset({"diff_b", "b_norm", "up_bias"})
_ON_WEIGHTS: Final = frozenset({"dora_scale", "on_input", "ia3_l", "oft_blocks", "oft_diag", "turns", "a1", "set_weight"})
"""Factors of changes that depend on the weight."""
_BY_ROWS: Final = frozenset(
    {"lora_up", "hada_w1_a", "hada_w2_a", "b1", "rescale", "diff", "set_weight", "w_norm", *_BIASES}
)  # fmt: skip
"""Factors whose first edge is the layer's rows."""


class Unusable(Exception):  # noqa: N818 - why a LoRA cannot be used, as the end of a sentence
    """Something would be lost. words: what, as the end of a sentence."""

    def __init__(self, words: Words) -> None:
        super().__init__(words.text())
        self.words = words


_UNREADABLE: Final = Words("its configuration cannot be read")


class Rows(NamedTuple):
    """Rows of a file's layer that are a layer of the model. spans: from and up to, in order; total: of the file's layer."""

    spans: tuple[tuple[int, int], ...]
    total: int

    @property
    def is_all(self) -> bool:
        return sum(end - start for start, end in self.spans) == self.total

    def of(self, tensor: torch.Tensor, size: int = 1) -> torch.Tensor:
        """These rows. size: rows that one of the tensor's stands for. Raises Unusable where they are cut."""
        if any(edge % size for span in self.spans for edge in span):
            raise Unusable(Words("it is an OFT whose blocks span layers that this model keeps separate"))
        return torch.cat([tensor[start // size : end // size] for start, end in self.spans])


@dataclass(frozen=True, eq=False)
class Change:
    """A layer's change. factors: as stored, by LyCORIS' names; scale: alpha through rank, or the limit of an OFT, 0 for none.

    rows: which of the file's layer it is, None for all in order; only factors that cannot be cut are still whole.
    """

    factors: Tensors
    scale: float
    rows: Rows | None = None

    @property
    def finite(self) -> bool:
        return all(bool(tensor.isfinite().all()) for tensor in self.factors.values())

    @property
    def has_bias(self) -> bool:
        """Whether it changes the bias."""
        return bool(_BIASES & self.factors.keys())

    def delta(self, weight: float, like: torch.Tensor) -> Delta | None:
        """All that it does to a weight of that shape, if it only adds something that does not depend on the weight."""
        if _ON_WEIGHTS & self.factors.keys() or self.has_bias:
            return None
        if (pair := self._pair()) is not None and like.dim() == 2:
            return Product(*pair, self.scale * weight)
        given = self._change({name: tensor.float() for name, tensor in self.factors.items()}, like)
        return None if given is None else Whole(given, weight)

    def pair(self, weight: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(outputs, rank) and (rank, inputs) in float32 whose product is all that it adds; None where there are none."""
        found = self._pair()
        return None if found is None else (found[0] * (self.scale * weight), found[1])

    def _pair(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        if set(self.factors) != {"lora_up", "lora_down"} or max(self.factors["lora_down"].shape[2:], default=1) > 1:
            return None
        return self.factors["lora_up"].float().flatten(1), self.factors["lora_down"].float().flatten(1)

    def merged(self, held: Tensors, weight: float) -> dict[str, torch.Tensor]:
        """Change the exact float32 weight and bias (held). Raises Unusable, and ValueError, RuntimeError or KeyError where it
        does not fit.
        """
        own, found = {name: tensor.float() for name, tensor in self.factors.items()}, dict(held)
        given = self._change(own, held["weight"])
        if given is not None:
            if "dora_scale" in own:
                given = decomposed(held["weight"] + given, own["dora_scale"]) - held["weight"]
            found["weight"] = held["weight"] + weight * given
        for name in _BIASES & own.keys():
            if "bias" in held:
                share = weight * self.scale if name == "up_bias" else weight
                found["bias"] = found["bias"] + share * _shaped(own[name], held["bias"])
        return found

    def _change(self, own: Tensors, exact: torch.Tensor) -> torch.Tensor | None:
        """What the whole file adds to the weight `exact`, DoRA aside; None where it changes only the bias."""
        for name in ("diff", "w_norm"):
            if name in own:
                return _shaped(own[name], exact)
        if "set_weight" in own:
            return _shaped(own["set_weight"], exact) - exact
        if "on_input" in own:
            around = [1, -1] if bool(own["on_input"]) else [-1, 1]
            return exact * own["weight"].reshape([*around, *[1] * (exact.dim() - 2)])
        if "ia3_l" in own:
            return exact * (own["ia3_l"] - 1)
        if "turns" in own:
            inward = exact.flatten(1).unflatten(1, (-1, own["turns"].shape[-1]))
            return torch.einsum("ork,rkc->orc", inward, own["turns"].expand(inward.shape[1], -1, -1)).reshape(exact.shape) - exact
        if "oft_blocks" in own or "oft_diag" in own:
            return _rotated(own, self.scale, exact, self.rows) - exact
        if "a1" in own:
            return self.scale * _generalised(own, exact)
        product = _product(own, self.scale)
        if product is not None and self.rows is not None and any(name.startswith("lokr_") for name in own):
            product = self.rows.of(product)
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


def _rotated(own: Tensors, limit: float, exact: torch.Tensor, rows: Rows | None) -> torch.Tensor:
    """The weight turned by OFT's blocks (arXiv 2306.07280), or by BOFT's butterflies (arXiv 2311.06243), and rescaled."""
    turns = own["oft_diag"] if "oft_diag" in own else _turns(own["oft_blocks"], limit)
    found = exact.flatten(1)
    size = turns.shape[-1]
    if turns.dim() == 4:
        if rows is not None:
            raise Unusable(Words("it is a BOFT over layers that this model keeps separate"))
        for number, turn in enumerate(turns):
            order = torch.arange(len(found)).reshape(-1, 2, 2**number * size // 2).transpose(1, 2).flatten()
            turned = (turn @ found[order].unflatten(0, (-1, size))).flatten(0, 1)
            found = turned[order.argsort()]
    else:
        turns = turns if rows is None else rows.of(turns, size)
        found = torch.einsum("knm,knp->kmp", turns, found.unflatten(0, (len(turns), size))).flatten(0, 1)
    if "rescale" in own:
        found = found * own["rescale"].reshape(-1, 1)
    return found.reshape(exact.shape)


def _inward_turns(weight: torch.Tensor, config: Mapping[str, Any], *, scaled: bool, linear: bool) -> torch.Tensor:
    """What the inputs of a weight are multiplied with (OFT of peft and OneTrainer), from the upper halves of skew matrices.

    peft approximates them by Neumann's series if its configuration says so; OneTrainer, which writes none, always does.
    """
    size = (1 + math.isqrt(1 + 8 * weight.shape[1])) // 2
    skew = torch.zeros(len(weight), size, size)
    above = torch.triu_indices(size, size, 1)
    skew[:, above[0], above[1]] = weight.float() / (2 * math.sqrt(size - 1) if scaled else 1)
    skew = skew - skew.transpose(1, 2)
    one = torch.eye(size)
    if config and not config.get("use_cayley_neumann"):
        found = torch.linalg.solve(one + skew, one - skew, left=False)
    else:
        power, found = skew, one + 2 * skew
        terms = config.get("num_cayley_neumann_terms", 5)
        if terms not in _TERMS:
            raise Unusable(_UNREADABLE)
        for _ in range(terms - 3):
            power = power @ skew
            found = found + 2 * power
        found = found + power @ skew
    return found.transpose(1, 2) if linear or config else found


def _turns(blocks: torch.Tensor, limit: float) -> torch.Tensor:
    """Orthogonal matrices by Cayley's transform. limit: of their generators' length together, 0 for none."""
    skew = blocks - blocks.transpose(-1, -2)
    if limit > 0:
        skew = skew * (limit / torch.linalg.vector_norm(skew).clamp_min(limit))
    one = torch.eye(blocks.shape[-1], device=blocks.device)
    return (one + skew) @ (one - skew).inverse()


def _generalised(own: Tensors, exact: torch.Tensor) -> torch.Tensor:
    """GLoRA (arXiv 2306.07967): a change of the weight's inputs, and one beside it."""
    inward, outward = (own[f"a{number}"].flatten(1) for number in (1, 2))
    beside = own["b1"].flatten(1) @ own["b2"].flatten(1)
    return torch.einsum("oi...,ij->oj...", exact, inward @ outward) + _shaped(beside, exact)


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


class Found(NamedTuple):
    """What was read of a file. layers: component -> module -> change; total, placed: layers of the file, and those of them that
    have a place; unread: tensors of unknown kinds, or for a missing bias.
    """

    layers: dict[str, dict[str, Change]]
    total: int
    placed: int
    unread: int


def read_changes(path: Path, networks: Mapping[str, nn.Module]) -> Found:
    """Read a file by the names of layers that are known here. networks: component -> its network, which may be empty.

    Raises ValueError or RuntimeError where a layer has another size than the network's, Unusable where it lacks something or
    cannot be cut as the network is, OSError or SafetensorError.
    """
    tensors = {name: tensor for name, tensor in load_file(path).items() if not name.startswith(BUNDLED)}
    layers = layers_of(tensors)
    config = _config(path)
    known: dict[int, tuple[str, dict[str, dict[str, Rows | None]]]] = {}
    for name, network in networks.items():
        own = name, _modules(network)
        known.setdefault(_number(name), own)
        if type(network).__name__ == T5:
            known.setdefault(_T5_NUMBER, own)
    found: dict[str, dict[str, Change]] = {}
    unread, placed = len(tensors) - sum(map(len, layers.values())), 0
    for place, factors in layers.items():
        number, flat = place_of(place)
        component, names = known.get(number, ("", dict[str, dict[str, Rows | None]]()))
        modules = names.get(flat.removeprefix(_WRAPPER)) or names.get(flat.removeprefix("transformer_"))
        own = found.setdefault(component, {})
        if not modules or modules.keys() & own.keys():
            continue
        placed += 1
        lost = 0
        for module, rows in modules.items():
            target: Any = networks[component].get_submodule(module)
            given, left = _known({end: tensors[name] for end, name in factors.items()}, target)
            try:
                own[module] = change = _change(
                    given, config.get(component, {}), (place, module), rows, linear=target.weight.dim() == 2
                )
                _check(change, target)
            except KeyError as error:
                raise Unusable(Words("its layer {0} lacks {1}", (place, str(error.args[0])))) from error
            biased = getattr(target, "bias", None) is not None
            lost = left + (0 if biased else len(_BIASES & change.factors.keys()))
        unread += lost
    return Found({name: own for name, own in found.items() if own}, len(layers), placed, unread)


def _number(component: str) -> int:
    """0 for the denoiser, else the number of a text encoder, as the names of layers tell it."""
    if not component.startswith("text_encoder"):
        return 0
    return int(component.removeprefix("text_encoder").removeprefix("_") or 1)


def _modules(network: Any) -> dict[str, dict[str, Rows | None]]:
    """Path of a layer, as files write it, parts joined by _ -> its modules, and which rows of it each is."""
    sizes = {
        name: module.weight.shape[0]
        for name, module in network.named_modules()
        if isinstance(getattr(module, "weight", None), torch.Tensor) and module.weight.dim()
    }
    found: dict[str, dict[str, Rows | None]] = {}
    if (naming := NAMINGS.get(type(network).__name__)) is not None:
        for layer, places in layer_places(naming, sizes).items():
            total = sum(sizes[name] for name in places)
            found[layer] = {name: _rows(place.rows, total, swapped=place.swapped) for name, place in places.items()}
    levels = getattr(getattr(network, "config", None), "layers_per_block", None)
    original = original_unet_names(sizes, levels) if isinstance(levels, int) else dict[str, str]()
    found |= {theirs: {name: None} for theirs, name in original.items()}
    found |= {name.removesuffix(".0"): {name: None} for name in sizes if name.endswith(".to_out.0")}
    found |= {name: {name: None} for name in sizes}
    return {name.replace(".", "_").removeprefix(_WRAPPER): modules for name, modules in found.items()}


def _rows(given: tuple[int, int] | None, total: int, *, swapped: bool) -> Rows | None:
    if swapped:
        return Rows(((total // 2, total), (0, total // 2)), total)
    return None if given is None else Rows((given,), total)


def _known(given: dict[str, torch.Tensor], target: Any) -> tuple[dict[str, torch.Tensor], int]:
    """(the factors of the kind that it is, how many others there are). target: the layer that they change."""
    if (lengths := given.pop("lora_magnitude_vector", None)) is not None:
        given["dora_scale"] = lengths.reshape(-1, *[1] * (target.weight.dim() - 1)) if _of_rows(lengths, target) else lengths
    kind = next(((name, *more) for name, more in _KINDS if name in given), ())
    kind = (*kind, "alpha", "dora_scale") if kind else ("alpha",)
    found = {name: value for name, value in given.items() if name in (*kind, *_BIASES)}
    if "a1" in found and is_first_form(found["a1"].shape):
        found |= {f"{side}{number}": given[f"{side}{3 - number}"] for side in "ab" for number in (1, 2)}
    return found, len(given) - len(found)


def _of_rows(lengths: torch.Tensor, target: Any) -> bool:
    """Whether peft's magnitudes are over the outputs, as it writes them: a row, or (1, outputs, 1, 1)."""
    return lengths.dim() == 1 or (lengths.dim() > 2 and lengths.shape[1] == target.weight.shape[0])


def _change(
    tensors: dict[str, torch.Tensor], config: Mapping[str, Any], places: Sequence[str], rows: Rows | None, *, linear: bool
) -> Change:
    """places: of the layer, as the configuration may name it."""
    alpha = tensors.pop("alpha", None)
    scale = 1.0
    if "oft_R" in tensors:
        scaled = tensors.pop("scaled_oft", None) is not None
        tensors = {"turns": _inward_turns(tensors.pop("oft_R"), config, scaled=scaled, linear=linear), **tensors}
    if "oft_blocks" in tensors:
        *_, blocks, size, _ = tensors["oft_blocks"].shape
        scale = float(alpha) * blocks * size if alpha is not None else 0.0
    else:
        rank = next((tensors[name].shape[at] for name, at in _RANKS.items() if name in tensors), 0)
        if alpha is not None:
            scale = float(alpha) / rank if rank else 1.0
        elif config:
            scale = _scale(config, rank, places)
    change = Change(tensors, scale, rows)
    return change if rows is None else _cut(change, rows)


def _scale(config: Mapping[str, Any], rank: int, places: Sequence[str]) -> float:
    """Alpha through the rank, or through its root. rank: 0 where the factors do not tell it. Raises Unusable."""
    try:
        found = rank or _told(config, "r", places)
        return _told(config, "alpha", places) / (math.sqrt(found) if config.get("use_rslora") else found)
    except (TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
        raise Unusable(_UNREADABLE) from error


def _cut(change: Change, rows: Rows) -> Change:
    """The change of these rows alone, as far as its factors can be cut."""
    factors = dict(change.factors)
    for name, tensor in change.factors.items():
        if name in ("hada_w1_a", "hada_w2_a") and "hada_t1" in factors:
            factors[name] = rows.of(tensor.T).T
        elif name in _BY_ROWS or (name == "weight" and not bool(factors["on_input"])):
            factors[name] = rows.of(tensor.reshape(rows.total, -1) if name == "weight" else tensor)
        elif name in ("dora_scale", "ia3_l") and tensor.shape[0] == rows.total:
            factors[name] = rows.of(tensor)
        elif name == "dora_scale" and not rows.is_all:
            raise Unusable(Words("it is a DoRA whose magnitudes span layers that this model keeps separate"))
    return replace(change, factors=factors)


def _check(change: Change, module: nn.Module) -> None:
    """Raise what `merged` would, without computing a number."""
    held = {name: torch.empty(tensor.shape, device="meta") for name, tensor in module.named_parameters(recurse=False)}
    on_input = {name: tensor for name, tensor in change.factors.items() if name == "on_input"}
    factors = {name: tensor.to("meta") for name, tensor in change.factors.items()} | on_input
    replace(change, factors=factors).merged(held, 1.0)


def _config(path: Path) -> dict[str, Mapping[str, Any]]:
    """Component -> what peft says of its LoRA: it writes alpha and rank into a file beside the tensors, diffusers into the file's
    metadata; {} where nothing is said.
    """
    file = path.with_name(_PEFT_CONFIG)
    if path.stem == _PEFT_FILE and file.is_file():
        said = _entries(file.read_bytes())
        return dict.fromkeys(("unet", "transformer", "prior", "text_encoder", "text_encoder_2", "text_encoder_3"), said)
    found: dict[str, dict[str, Any]] = {}
    for key, value in _entries(read_header(path).metadata.get(_DIFFUSERS_CONFIG, "{}")).items():
        component, _, name = key.partition(".")
        found.setdefault(component, {})[name] = value
    return dict(found)


def _entries(text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Unusable(_UNREADABLE) from error
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _told(config: Mapping[str, Any], name: str, places: Sequence[str]) -> float:
    """The configuration's value for a layer whose path ends with one of its patterns, else for all."""
    patterns: Iterable[tuple[str, Any]] = (config.get("rank_pattern" if name == "r" else "alpha_pattern") or {}).items()
    ends = [(re.escape(key.removeprefix("^")), value) for key, value in patterns]
    own = next((value for end, value in ends if any(re.search(rf"(?:^|\.){end}$", place) for place in places)), None)
    return float(own or config.get(name) or config.get(f"lora_{name}") or 1)
