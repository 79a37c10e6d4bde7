"""Operations with known answers, as a table: what a diffusion model is made of, in small and in realistic sizes.

Inputs are drawn in float32 on the CPU, rounded to the format under test, and the reference is computed from the rounded inputs in
float64 on the CPU. So an error is the device's own. Of large results a sample of rows or channels is compared, and all of it is
checked to be finite.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from halftone.contract.vocabulary import AttentionBackend
from halftone.contract.wording import Words
from halftone.measure.backends import backends_of
from halftone.measure.modes import Mode

Make = Callable[[torch.Generator, Mode], tuple[Tensor, ...]]
Run = Callable[..., Tensor]
Cut = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """One operation in one size.

    make: float32 inputs; run: the operation, on any device and format; factor: tolerance in units of the format's epsilon.
    cut: inputs -> the inputs that give a sample of the result, which `pick` takes from the whole result.
    backends: of attention, that the device may choose from; empty: torch's own choice.
    """

    operation: str
    size: Words
    make: Make
    run: Run
    factor: float = 4.0
    cut: Cut | None = None
    pick: Callable[[Tensor], Tensor] | None = None
    backends: tuple[AttentionBackend, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.operation}, {self.size}"


def tolerance(case: Case, mode: Mode) -> float:
    """Allowed |error| over the largest |reference|: more for long float32 sums, most for sums kept in float16."""
    if mode.half_sums and case.operation in {"matmul", "convolution", "attention", "attention-backend"}:
        return 0.1
    return max(case.factor * mode.epsilon, 1e-4)


def cases_for(kind: str) -> tuple[Case, ...]:
    """The table for a device kind ("cpu", "cuda", "xpu", "mps"). A processor has seconds, not teraflops."""
    own = (case for backend in backends_of(kind) for case in _on_backend(backend))
    return (*own, *_SMALL, *(_GPU_SIZES if kind in {"cuda", "xpu", "mps"} else _CPU_SIZES), *_NOTES)


def _normal(*shapes: tuple[int, ...], scale: float = 1.0, offset: float = 0.0) -> Make:
    return lambda generator, _: tuple(torch.randn(shape, generator=generator) * scale + offset for shape in shapes)


def _weighted(signal: tuple[int, ...], weight: tuple[int, ...]) -> Make:
    """A signal of size one and weights that keep it there (variance 1 / number of terms)."""

    def make(generator: torch.Generator, _mode: Mode) -> tuple[Tensor, ...]:
        rows, *rest = weight
        terms = math.prod(rest) if len(rest) > 1 else rows
        return torch.randn(signal, generator=generator), torch.randn(weight, generator=generator) / math.sqrt(terms)

    return make


def _filled(shape: tuple[int, ...], share: float) -> Make:
    """Values of both signs, 0.9 to 1 times `share` of the limit (of 1e15 for the wide formats, for their squares)."""

    def make(generator: torch.Generator, mode: Mode) -> tuple[Tensor, ...]:
        top = share * min(mode.limit, 1e15)
        size = (0.9 + 0.1 * torch.rand(shape, generator=generator)) * top
        return (torch.where(torch.rand(shape, generator=generator) < 0.5, -size, size),)

    return make


def _positive(*shapes: tuple[int, ...]) -> Make:
    return lambda generator, _: tuple(0.5 + 0.5 * torch.rand(shape, generator=generator) for shape in shapes)


def _ramp(low: float, high: float, count: int = 4096) -> Make:
    return lambda _generator, _mode: (torch.linspace(low, high, count),)


def _tiny(generator: torch.Generator, mode: Mode) -> tuple[Tensor, ...]:
    """A product of numbers below float16's smallest normal one with large ones; small normal ones in the wide formats."""
    small = 2.0**-20 if mode.dtype == "float16" else 2.0**-100
    return small * (1 + torch.rand(64, 64, generator=generator)), 512 * torch.eye(64)


_attention: Final = F.scaled_dot_product_attention
_conv3: Final = partial(F.conv2d, padding=1)
_twice: Final = partial(F.interpolate, scale_factor=2.0, mode="nearest")
_twice_smooth: Final = partial(F.interpolate, scale_factor=2.0, mode="bilinear")
_softmax: Final = partial(torch.softmax, dim=-1)
_sums: Final = partial(torch.sum, dim=-1)
_mean: Final = partial(torch.mean, dim=-1)
_tanh_gelu: Final = partial(F.gelu, approximate="tanh")


def _long_attention(v: Tensor) -> Tensor:
    """Every key counts the same, so that the weights of all are summed."""
    q = torch.zeros_like(v[..., :8, :])
    return F.scaled_dot_product_attention(q, torch.zeros_like(v), v)


def _large_scores(v: Tensor) -> Tensor:
    """Query-key products beyond float16's limit, equal for half of the keys, negative for the rest; in range once scaled."""
    size = 72.0
    q = torch.full_like(v, size)
    k = torch.cat([q[..., : q.shape[-2] // 2, :], -q[..., q.shape[-2] // 2 :, :]], dim=-2)
    return F.scaled_dot_product_attention(q, k, v)


def _masked_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The mask of a prompt whose last quarter is padding."""
    mask = torch.zeros(1, 1, q.shape[-2], k.shape[-2], dtype=q.dtype, device=q.device)
    mask[..., k.shape[-2] * 3 // 4 :] = -torch.inf
    return F.scaled_dot_product_attention(q, k, v, mask)


def _group_norm(x: Tensor) -> Tensor:
    return F.group_norm(x, min(32, x.shape[1] // 4))


def _layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _wave(x: Tensor) -> Tensor:
    """Timestep embedding: sines and cosines of up to 1000 radians, computed in float32 as every model does, then rounded."""
    angles = x.float() if x.dtype != torch.float64 else x
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


def _first_rows(count: int) -> tuple[Cut, Callable[[Tensor], Tensor]]:
    """A sample of a product or of attention: the first `count` rows of the left input."""
    return (lambda inputs: (inputs[0][..., :count, :], *inputs[1:])), (lambda result: result[..., :count, :])


def _first_channels(count: int) -> tuple[Cut, Callable[[Tensor], Tensor]]:
    """A sample of a convolution: the first `count` output channels."""
    return (lambda inputs: (inputs[0], inputs[1][:count])), (lambda result: result[:, :count])


def _matmul(rows: int, terms: int, columns: int, *, sample: int = 0) -> Case:
    cut, pick = _first_rows(sample) if sample else (None, None)
    make = _weighted((rows, terms), (terms, columns))
    size = Words("{0} × {1} × {2}", (rows, terms, columns))
    return Case("matmul", size, make, torch.matmul, cut=cut, pick=pick)


def _convolution(batch: int, channels: int, edge: int, kernel: int, *, sample: int = 0) -> Case:
    cut, pick = _first_channels(sample) if sample else (None, None)
    make = _weighted((batch, channels, edge, edge), (channels, channels, kernel, kernel))
    size = Words("{0} × {0}, {1} × {2} × {3} × {3}", (kernel, batch, channels, edge))
    return Case("convolution", size, make, _conv3 if kernel == 3 else F.conv2d, cut=cut, pick=pick)


def _attend(batch: int, heads: int, tokens: int, width: int, *, keys: int = 0, sample: int = 0) -> Case:
    cut, pick = _first_rows(sample) if sample else (None, None)
    keys = keys or tokens
    make = _normal((batch, heads, tokens, width), (batch, heads, keys, width), (batch, heads, keys, width))
    size = Words("{0} × {1} tokens, {2} heads of {3}", (tokens, keys, heads, width))
    return Case("attention", size, make, _attention, factor=8.0, cut=cut, pick=pick)


_BACKEND_NAMES: Final = {"flash": "Flash", "efficient": "Efficient", "cudnn": "cuDNN", "math": "Math"}


def _on_backend(backend: AttentionBackend) -> tuple[Case, ...]:
    """The same attention on one backend, to test the backends separately."""

    def case(size: Words, make: Make, run: Run) -> Case:
        named = Words("{0}", ((Words(_BACKEND_NAMES[backend]), size),))
        return Case("attention-backend", named, make, run, factor=8.0, backends=(backend,))

    shape = (1, 2, 64, 32)
    return (
        case(Words("64 tokens"), _normal(shape, shape, shape), _attention),
        case(Words("64 tokens with a mask"), _normal(shape, shape, shape), _masked_attention),
        case(Words("large scores"), _positive(shape), _large_scores),
        case(Words("8 192 keys"), _positive((1, 1, 8192, 16)), _long_attention),
    )


_SMALL: Final = (
    _matmul(16, 64, 32),
    _convolution(1, 16, 8, 3),
    _attend(1, 2, 16, 32),
    Case("group-norm", Words("1 × 32 × 8 × 8"), _normal((1, 32, 8, 8)), _group_norm),
    Case("layer-norm", Words("16 × 64"), _normal((16, 64)), _layer_norm),
    Case("softmax", Words("16 × 64"), _normal((16, 64), scale=4.0), _softmax),
    Case("softmax", Words("scores up to 30 000"), _normal((16, 64), scale=8000.0), _softmax),
    Case("group-norm", Words("values of 2 000"), _normal((1, 64, 16, 16), scale=2000.0), _group_norm),
    Case("layer-norm", Words("values of 2 000"), _normal((64, 256), scale=2000.0), _layer_norm),
    Case("functions", Words("exp"), _ramp(-10.0, 10.0), torch.exp),
    Case("functions", Words("GELU"), _ramp(-12.0, 12.0), F.gelu),
    Case("functions", Words("GELU with tanh"), _ramp(-12.0, 12.0), _tanh_gelu),
    Case("functions", Words("SiLU"), _ramp(-12.0, 12.0), F.silu),
    Case("functions", Words("sigmoid"), _ramp(-12.0, 12.0), torch.sigmoid),
    Case("functions", Words("timestep embedding"), _ramp(0.0, 999.0, 1000), _wave),
    Case("long-sums", Words("4 096 products"), _positive((8, 4096), (4096, 8)), torch.matmul),
    Case("long-sums", Words("32 768 terms"), _positive((8, 32768)), _sums),
    Case("long-sums", Words("mean of 65 536"), _positive((8, 65536)), _mean),
    Case("long-sums", Words("softmax of 8 192"), _normal((8, 8192)), _softmax),
    Case("upsampling", Words("nearest, 1 × 8 × 16 × 16"), _normal((1, 8, 16, 16)), _twice),
    Case("upsampling", Words("smooth, 1 × 8 × 16 × 16"), _normal((1, 8, 16, 16)), _twice_smooth),
)

_CPU_SIZES: Final = (
    _matmul(154, 768, 320),
    _matmul(512, 512, 512),
    _convolution(1, 64, 32, 3),
    _convolution(1, 128, 16, 1),
    _attend(1, 8, 256, 40),
    _attend(1, 8, 256, 40, keys=77),
    Case("group-norm", Words("2 × 320 × 32 × 32"), _normal((2, 320, 32, 32), offset=3.0), _group_norm),
    Case("layer-norm", Words("1 024 × 320"), _normal((1024, 320), offset=3.0), _layer_norm),
    Case("softmax", Words("8 × 256 × 256"), _normal((8, 256, 256), scale=4.0), _softmax),
)

_GPU_SIZES: Final = (
    _matmul(154, 768, 1280),
    _matmul(1024, 1024, 1024, sample=64),
    _matmul(4096, 4096, 4096, sample=16),
    _matmul(8192, 1280, 5120, sample=16),
    _convolution(2, 320, 64, 3, sample=8),
    _convolution(1, 128, 512, 3, sample=2),
    _convolution(2, 1280, 16, 3, sample=8),
    _convolution(2, 640, 32, 1, sample=16),
    _attend(2, 8, 4096, 40, sample=16),
    _attend(2, 8, 4096, 40, keys=77, sample=64),
    _attend(2, 20, 1024, 64, sample=32),
    Case("group-norm", Words("2 × 320 × 64 × 64"), _normal((2, 320, 64, 64), offset=3.0), _group_norm),
    Case("group-norm", Words("1 × 128 × 512 × 512"), _normal((1, 128, 512, 512), offset=3.0), _group_norm),
    Case("layer-norm", Words("8 192 × 1 280"), _normal((8192, 1280), offset=3.0), _layer_norm),
    Case("softmax", Words("8 × 1 024 × 1 024"), _normal((8, 1024, 1024), scale=4.0), _softmax),
)

_NOTES: Final = (
    Case("near-limit", Words("SiLU"), _filled((4096,), 0.99), F.silu),
    Case("near-limit", Words("GELU"), _filled((4096,), 0.99), F.gelu),
    Case("near-limit", Words("GELU with tanh"), _filled((4096,), 0.99), _tanh_gelu),
    Case("near-limit", Words("layer norm"), _filled((64, 64), 0.99), _layer_norm),
    Case("near-limit", Words("group norm"), _filled((1, 32, 8, 8), 0.99), _group_norm),
    Case("near-limit", Words("RMS norm"), _filled((64, 64), 0.99), lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6)),
    Case("near-limit", Words("softmax"), _filled((64, 64), 0.99), _softmax),
    Case("near-limit", Words("sum of halves"), _filled((64, 2), 0.45), _sums),
    Case("tiny-values", Words("matrix product"), _tiny, torch.matmul),
    Case("tiny-values", Words("doubling"), _tiny, lambda a, _b: a + a),
)
