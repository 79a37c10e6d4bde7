"""Attention scores, which no module shows: the largest |q·k| * scale of an attention module, estimated from its projections.

The full score matrix costs as much as attention itself. So only the queries of 96 tokens and the keys of 96 tokens are
multiplied, in float32: of those whose vectors, all heads taken together, are longest. For up to 96 tokens that is exact; beyond,
it is a lower bound that is reached whenever the largest product belongs to long vectors. (To choose by head would take three
times as long.) Rotary embeddings turn vectors after the projections: there the figure is an estimate.
Modules are found by structure, not by class: query and key projections, a number of heads, a scale. Where a second stream is
joined to the first (the text of FLUX and SD 3), its queries and keys stand beside those of the first, as they do in the product.
Not found: attention whose weights are handed to a function (HunyuanDiT's pooling of the text).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import nn

LONGEST: Final = 96
_PROJECTIONS: Final = (("to_q", "to_k"), ("q_proj", "k_proj"), ("q", "k"), ("query", "key"))
_NORMS: Final = (("norm_q", "norm_k"), ("q_norm", "k_norm"))
_ADDED: Final = (("add_q_proj", "add_k_proj"), ("norm_added_q", "norm_added_k"))
_FUSED: Final = "to_qkv"
_UNSCALED: Final = ("q", "k")
"""T5 names its projections so, and multiplies them unscaled; every other attention without a scale of its own divides by the root
of a head's width, torch's default.
"""
_LINEAR: Final = "LinearAttn"
"""Part of a processor's name: it multiplies keys with values first, so that no scores can overflow (Sana)."""
Role = Literal["query", "key", "added_query", "added_key", "fused"]


@dataclass(slots=True)
class ScoreWatch:
    """Collects query and key of one attention module during its forward. scale: None for the root of a head's width."""

    module: str
    heads: int
    scale: float | None
    query: torch.Tensor | None = None
    key: torch.Tensor | None = None
    added_query: torch.Tensor | None = None
    added_key: torch.Tensor | None = None

    def take(self, role: Role, value: object) -> None:
        """Keep the output of a projection (or of the norm after it). Held only until the attention module ends."""
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.device.type == "meta":
            return
        if role == "fused":
            self.query, self.key, _ = (value.flatten(2).transpose(1, 2) if value.ndim == 4 else value).chunk(3, dim=-1)
        else:
            setattr(self, role, value)

    def finish(self) -> tuple[torch.Tensor, bool] | None:
        """(largest |score| as a 0-dim float32 tensor, exact?), None when query and key were not both seen; forgets both."""
        query, key, more, others = self.query, self.key, self.added_query, self.added_key
        self.query = self.key = self.added_query = self.added_key = None
        if query is None or key is None:
            return None
        return score_peak(query, key, self.heads, self.scale, more, others)


def find_score_watches(root: nn.Module) -> tuple[dict[str, ScoreWatch], dict[str, tuple[ScoreWatch, Role]]]:
    """(attention module name -> watch, projection or norm name -> (its watch, what it gives))."""
    watches: dict[str, ScoreWatch] = {}
    roles: dict[str, tuple[ScoreWatch, Role]] = {}
    for name, module in root.named_modules():
        found = _watch(name, module) if any(True for _ in module.children()) else None
        if found is None:
            continue
        watches[name] = found
        for child, role in _roles(module):
            roles[f"{name}.{child}" if name else child] = (found, role)
    return watches, roles


def score_peak(
    query: torch.Tensor,
    key: torch.Tensor,
    heads: int,
    scale: float | None,
    more: torch.Tensor | None = None,
    others: torch.Tensor | None = None,
) -> tuple[torch.Tensor, bool] | None:
    """Largest |q·k| * scale over batch and heads, in float32. scale None: one over the root of a head's width.

    query, key: (batch, tokens, heads * width), (batch, heads, tokens, width) or (batch, tokens, heads, width); key may have
    fewer heads, each serving several query heads. more, others: further queries and keys, in any of these forms; what does not
    fit is left out. None when the shapes of query and key do not fit.
    """
    q = _by_head(query, heads)
    k = None if q is None else _keys(key, query, heads, q.shape[-1])
    if q is None or k is None or q.shape[-1] != k.shape[-1] or q.shape[0] != k.shape[0] or q.shape[1] % k.shape[1]:
        return None
    q = _joined(q, None if more is None else _by_head(more, heads))
    k = _joined(k, None if others is None else _keys(others, query if more is None else more, heads, q.shape[-1]))
    exact = q.shape[2] <= LONGEST and k.shape[2] <= LONGEST
    q, k = _longest(q), _longest(k)
    q = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])
    with torch.autocast(q.device.type, enabled=False):
        low, high = torch.aminmax(q @ k.transpose(-1, -2))
    return torch.maximum(-low, high) * (q.shape[-1] ** -0.5 if scale is None else scale), exact


def _watch(name: str, module: nn.Module) -> ScoreWatch | None:
    if _LINEAR in type(getattr(module, "processor", None)).__name__:
        return None
    pair = next((pair for pair in _PROJECTIONS if _has(module, pair)), None)
    heads = _heads(module, pair)
    if heads is None or heads < 1:
        return None
    default = 1.0 if pair == _UNSCALED else None
    scale = next((float(s) for a in ("scale", "scaling") if isinstance(s := getattr(module, a, None), int | float)), default)
    return ScoreWatch(module=name, heads=heads, scale=scale)


def _heads(module: nn.Module, pair: tuple[str, str] | None) -> int | None:
    """Heads of the queries, None for what is no attention. What makes queries, keys and values at once has one unless it says."""
    if pair is None and not isinstance(getattr(module, _FUSED, None), nn.Linear | nn.Conv2d):
        return None  # ask no further: of a whole model, these names would be read from its configuration
    names = ("heads", "num_heads", "n_heads", "num_attention_heads")
    told = next((h for name in names if isinstance(h := getattr(module, name, None), int)), None)
    if told is not None or pair is None:
        return told or 1
    width, made = getattr(module, "head_dim", None), getattr(getattr(module, pair[0]), "out_features", None)
    return made // width if isinstance(width, int) and isinstance(made, int) and width > 0 else None


def _roles(module: nn.Module) -> Iterator[tuple[str, Role]]:
    if not any(_has(module, pair) for pair in _PROJECTIONS):
        yield _FUSED, "fused"
        return
    for pair in (*_PROJECTIONS, *_NORMS):
        if _has(module, pair):
            yield pair[0], "query"
            yield pair[1], "key"
    for query, key in _ADDED:
        yield query, "added_query"
        yield key, "added_key"


def _has(module: nn.Module, names: tuple[str, str]) -> bool:
    children = vars(module)["_modules"]  # a miss by getattr is slow
    return all(isinstance(children.get(name), nn.Module) for name in names)


def _keys(key: torch.Tensor, query: torch.Tensor, heads: int, width: int) -> torch.Tensor | None:
    """Keys by head, of which there may be fewer than of the queries; where heads stand in them the queries tell."""
    if key.ndim == 3:
        return _by_head(key, max(1, key.shape[-1] // width))
    if key.ndim != 4:
        return None
    first = query.shape[1] == heads if query.ndim == 4 else key.shape[1] == heads
    return key if first else key.transpose(1, 2)


def _joined(one: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
    """Two streams beside each other, if they can stand so."""
    fits = other is not None and other.shape[:2] == one.shape[:2] and other.shape[-1] == one.shape[-1]
    return torch.cat([_longest(one), _longest(other)], dim=2) if fits and other is not None else one


def _by_head(value: torch.Tensor, heads: int) -> torch.Tensor | None:
    """(batch, heads, tokens, width) as a view, None when the shape does not fit."""
    if value.ndim == 3 and value.shape[-1] % heads == 0:
        return value.unflatten(-1, (heads, -1)).transpose(1, 2)
    if value.ndim == 4 and value.shape[1] == heads:
        return value
    if value.ndim == 4 and value.shape[2] == heads:
        return value.transpose(1, 2)
    return None


def _longest(value: torch.Tensor) -> torch.Tensor:
    """The vectors of the LONGEST tokens in float32: (batch, heads, at most LONGEST, width)."""
    vectors = value.detach()
    if vectors.shape[2] > LONGEST:
        by_token = vectors.transpose(1, 2)
        lengths = torch.linalg.vector_norm(by_token, dim=(2, 3), dtype=torch.float32)
        tokens = lengths.topk(LONGEST, dim=-1, sorted=False).indices
        rows = torch.arange(len(vectors), device=vectors.device)[:, None]
        vectors = by_token[rows, tokens].transpose(1, 2)  # whole tokens: a third of the time of a gather
    return vectors.to(torch.float32)
