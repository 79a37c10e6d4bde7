"""Attention scores, which no module shows: the largest |q·k| * scale of an attention module, estimated from its projections.

The full score matrix costs as much as attention itself. So only the queries of 96 tokens and the keys of 96 tokens are
multiplied, in float32: of those whose vectors, all heads taken together, are longest. For up to 96 tokens that is exact; beyond,
it is a lower bound that is reached whenever the largest product belongs to long vectors. (To choose by head would take three
times as long.) Rotary embeddings turn vectors after the projections: there the figure is an estimate.
Modules are found by structure, not by class: query and key projections, a number of heads, a scale.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

LONGEST: Final = 96
_PROJECTIONS: Final = (("to_q", "to_k"), ("q_proj", "k_proj"), ("q", "k"))
_NORMS: Final = (("norm_q", "norm_k"), ("q_norm", "k_norm"))


@dataclass(slots=True)
class ScoreWatch:
    """Collects query and key of one attention module during its forward."""

    module: str
    heads: int
    scale: float
    query: torch.Tensor | None = None
    key: torch.Tensor | None = None

    def take(self, role: str, value: object) -> None:
        """Keep the output of a projection (or of the norm after it). Held only until the attention module ends."""
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.device.type != "meta":
            setattr(self, role, value)

    def finish(self) -> tuple[torch.Tensor, bool] | None:
        """(largest |score| as a 0-dim float32 tensor, exact?), None when query and key were not both seen; forgets both."""
        query, key = self.query, self.key
        self.query = self.key = None
        return None if query is None or key is None else score_peak(query, key, self.heads, self.scale)


def find_score_watches(root: nn.Module) -> tuple[dict[str, ScoreWatch], dict[str, tuple[ScoreWatch, str]]]:
    """(attention module name -> watch, projection or norm name -> (its watch, "query" or "key"))."""
    watches: dict[str, ScoreWatch] = {}
    roles: dict[str, tuple[ScoreWatch, str]] = {}
    for name, module in root.named_modules():
        found = _watch(name, module)
        if found is None:
            continue
        watches[name] = found
        for child, role in _roles(module):
            roles[f"{name}.{child}" if name else child] = (found, role)
    return watches, roles


def score_peak(query: torch.Tensor, key: torch.Tensor, heads: int, scale: float) -> tuple[torch.Tensor, bool] | None:
    """Largest |q·k| * scale over batch and heads, in float32.

    query, key: (batch, tokens, heads * width), (batch, heads, tokens, width) or (batch, tokens, heads, width); key may have
    fewer heads, each serving several query heads. None when the shapes do not fit that.
    """
    q = _by_head(query, heads)
    k = None if q is None else _by_head(key, _key_heads(key, heads, q.shape[-1]))
    if q is None or k is None or q.shape[-1] != k.shape[-1] or q.shape[0] != k.shape[0] or q.shape[1] % k.shape[1]:
        return None
    exact = q.shape[2] <= LONGEST and k.shape[2] <= LONGEST
    q, k = _longest(q), _longest(k)
    q = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1])
    with torch.autocast(q.device.type, enabled=False):
        low, high = torch.aminmax(q @ k.transpose(-1, -2))
    return torch.maximum(-low, high) * scale, exact


def _watch(name: str, module: nn.Module) -> ScoreWatch | None:
    heads = next((h for a in ("heads", "num_heads", "n_heads") if isinstance(h := getattr(module, a, None), int)), None)
    if heads is None or heads < 1 or not any(_has(module, pair) for pair in _PROJECTIONS):
        return None
    scale = next((s for a in ("scale", "scaling") if isinstance(s := getattr(module, a, None), int | float)), 1.0)
    return ScoreWatch(module=name, heads=heads, scale=float(scale))


def _roles(module: nn.Module) -> Iterator[tuple[str, str]]:
    for pair in (*_PROJECTIONS, *_NORMS):
        if _has(module, pair):
            yield pair[0], "query"
            yield pair[1], "key"


def _has(module: nn.Module, names: tuple[str, str]) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in names)


def _key_heads(key: torch.Tensor, heads: int, width: int) -> int:
    return max(1, key.shape[-1] // width) if key.ndim == 3 else (key.shape[1] if key.shape[2] != heads else heads)


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
        lengths = torch.linalg.vector_norm(vectors.transpose(1, 2), dim=(2, 3), dtype=torch.float32)
        tokens = lengths.topk(LONGEST, dim=-1, sorted=False).indices
        vectors = vectors.gather(2, tokens[:, None, :, None].expand(-1, vectors.shape[1], -1, vectors.shape[3]))
    return vectors.to(torch.float32)
