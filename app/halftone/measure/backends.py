"""The backends of attention that can be chosen, as torch calls them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from torch.nn.attention import SDPBackend, sdpa_kernel

from halftone.contract.vocabulary import AttentionBackend
from halftone.health.device_faults import ON_CPU

BACKENDS: Final[dict[AttentionBackend, SDPBackend]] = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


def backends_of(kind: str) -> tuple[AttentionBackend, ...]:
    """The backends that a kind of device may have. kind: as torch spells it."""
    return ON_CPU if kind == "cpu" else tuple(BACKENDS)


def attention_on(names: Sequence[AttentionBackend]) -> AbstractContextManager[object]:
    """Attention on these backends alone, the first that can; without any on torch's own choice."""
    return sdpa_kernel([BACKENDS[name] for name in names], set_priority=True) if names else nullcontext()
