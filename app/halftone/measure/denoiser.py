"""One step of a denoiser, in plain torch, to measure a type's speed.

Two networks, with the shapes of image models and the kernels that Halftone runs models with: a block of a UNet (residual block,
then self-attention, cross-attention and a gated feed-forward, as in Stable Diffusion) and a block of a diffusion transformer
(modulated norms, attention over picture and text, feed-forward with tanh GELU, as in SD 3). A single matrix product or
convolution says little about a picture: norms, functions and casts take their time in each type too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from halftone.measure.modes import Mode
from halftone.measure.randomness import undisturbed
from halftone.measure.wide_kernels import gains_by_channels_last, put_wide_kernels

BATCH: Final = 2
"""A step with guidance computes two pictures."""
TEXT: Final = 77


@dataclass(frozen=True, slots=True)
class Sizes:
    """channels and edge: of the UNet's block; width and tokens: of the transformer's, without those of the text."""

    channels: int
    edge: int
    width: int
    tokens: int


SMALL: Final = Sizes(channels=128, edge=32, width=256, tokens=256)
LARGE: Final = Sizes(channels=320, edge=64, width=1536, tokens=1024)


class _Attention(nn.Module):
    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.heads = width // 32 if width < 512 else width // 64
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(context, width, bias=False)
        self.to_v = nn.Linear(context, width, bias=False)
        self.to_out = nn.Linear(width, width)

    def forward(self, rows: Tensor, context: Tensor) -> Tensor:
        q, k, v = (
            made.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for made in (self.to_q(rows), self.to_k(context), self.to_v(context))
        )
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class UNetStep(nn.Module):
    """x: batch × channels × edge × edge; time: batch × 4 channels; text: batch × 77 × 768."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        c = sizes.channels
        self.norm1, self.conv1 = nn.GroupNorm(32, c), nn.Conv2d(c, c, 3, padding=1)
        self.time = nn.Linear(4 * c, c)
        self.norm2, self.conv2 = nn.GroupNorm(32, c), nn.Conv2d(c, c, 3, padding=1)
        self.norm, self.proj_in, self.proj_out = nn.GroupNorm(32, c), nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)
        self.norm_self, self.norm_cross, self.norm_ff = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
        self.self_attention, self.cross_attention = _Attention(c, c), _Attention(c, 768)
        self.gate, self.out = nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        h = x + self.conv2(F.silu(self.norm2(h)))
        rows = self.proj_in(self.norm(h)).flatten(2).transpose(1, 2)
        normed = self.norm_self(rows)
        rows = rows + self.self_attention(normed, normed)
        rows = rows + self.cross_attention(self.norm_cross(rows), text)
        value, gate = self.gate(self.norm_ff(rows)).chunk(2, dim=-1)
        rows = rows + self.out(value * F.gelu(gate))
        return h + self.proj_out(rows.transpose(1, 2).reshape(h.shape))


class TransformerStep(nn.Module):
    """rows: batch × tokens of picture and text × width; time: batch × width."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        w = sizes.width
        self.norm1, self.norm2 = (nn.LayerNorm(w, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.modulation = nn.Linear(w, 6 * w)
        self.attention = _Attention(w, w)
        self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)

    def forward(self, rows: Tensor, time: Tensor) -> Tensor:
        shift, scale, gate, shift_ff, scale_ff, gate_ff = self.modulation(F.silu(time))[:, None].chunk(6, dim=-1)
        normed = self.norm1(rows) * (1 + scale) + shift
        rows = rows + gate * self.attention(normed, normed)
        normed = self.norm2(rows) * (1 + scale_ff) + shift_ff
        return rows + gate_ff * self.down(F.gelu(self.up(normed), approximate="tanh"))


STEPS: Final = ("unet-step", "transformer-step")


def sizes_for(kind: str) -> Sizes:
    """A processor has seconds, not teraflops. kind: of the device, as torch spells it."""
    return LARGE if kind in {"cuda", "xpu", "mps"} else SMALL


def step_of(name: str, mode: Mode, device: str, sizes: Sizes) -> Callable[[], Tensor]:
    """One of STEPS with the same numbers in the mode's type. The caller sets the mode's switches (`in_mode`)."""
    with undisturbed(seed=11):
        network = UNetStep(sizes) if name == "unet-step" else TransformerStep(sizes)
        inputs = _inputs(name, sizes)
    network.eval().requires_grad_(False).to(device, mode.torch_dtype)
    put_wide_kernels(network, torch.device(device), mode.torch_dtype)
    if gains_by_channels_last(device, mode.torch_dtype):
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d):
                layer.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    placed = [tensor.to(device, mode.torch_dtype) for tensor in inputs]
    return lambda: network(*placed)


def _inputs(name: str, sizes: Sizes) -> tuple[Tensor, ...]:
    if name == "unet-step":
        c, edge = sizes.channels, sizes.edge
        return torch.randn(BATCH, c, edge, edge), torch.randn(BATCH, 4 * c), torch.randn(BATCH, TEXT, 768)
    return torch.randn(BATCH, sizes.tokens + TEXT, sizes.width), torch.randn(BATCH, sizes.width)


def operations(name: str, sizes: Sizes) -> float:
    """Floating-point operations of a step: its products and convolutions, two for each term."""
    if name == "unet-step":
        c, pixels = sizes.channels, sizes.edge**2
        convolutions = (2 * 9 + 2) * c * c * pixels
        linear = (4 + 2 + 12) * c * c * pixels + 2 * 768 * c * TEXT + 4 * c * c
        return 2.0 * BATCH * (convolutions + linear + 2 * c * pixels * (pixels + TEXT))
    w, tokens = sizes.width, sizes.tokens + TEXT
    return 2.0 * BATCH * ((4 + 8) * w * w * tokens + 6 * w * w + 2 * w * tokens * tokens)
