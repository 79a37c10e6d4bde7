"""The backends of attention that can be chosen, as torch calls them."""

from typing import Final

from torch.nn.attention import SDPBackend

from halftone.contract.words import AttentionBackend

BACKENDS: Final[dict[AttentionBackend, SDPBackend]] = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
ON_CPU: Final[tuple[AttentionBackend, ...]] = ("flash", "math")
