"""Faults of real cards as switches of the card in software: each writes into the results of a kernel what such a card gives.

Where a setting of torch mends the real card it mends this one: the fault reads the same flag. The facts come from reports of such
cards: FP16 convolutions and norms of GTX 16 cards (pytorch#58123, AUTOMATIC1111#4407), sums in FP16 (PyTorch's notes on numerical
accuracy, SageAttention#221), scores of attention in FP16 (ComfyUI#5191), TF32 (PyTorch's notes on CUDA semantics), copies that
are wrong unless somebody waits (pytorch#139550).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from tests.accelerator import card
from torch import Tensor

Arguments = list[Any]
"""Tensors, and None where one was left out."""
Fault = Callable[[str, Arguments, list[Tensor], list[float]], None]
"""What a kernel is called, its arguments, its results (to be written into), and its plain numbers."""
PRODUCTS: Final = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
FLASH: Final = "aten::_scaled_dot_product_flash_attention_for_cpu"
"""What torch calls flash attention on a private backend."""
EFFICIENT: Final = "efficient"
SIMPLE: Final = ("aten::add", "aten::sub", "aten::mul", "aten::div", "copy")
_SMALLEST: Final = 2.0**-14
_LANES: Final = 4
"""Terms that a matrix unit adds before it rounds."""


@dataclass(frozen=True)
class Lie:
    """A fault by name. kernels: kernel -> what it does; slow: type -> how many times as long as in FP32 a step takes in it, where
    it is known what it takes on the sound card.
    """

    name: str
    kernels: dict[str, Fault]
    slow: dict[torch.dtype, float]


def _lie(name: str, kernels: Sequence[str], fault: Fault, **slow: float) -> Lie:
    return Lie(name, dict.fromkeys(kernels, fault), {getattr(torch, dtype): times for dtype, times in slow.items()})


@contextmanager
def lying(lie: Lie, pace: Mapping[torch.dtype, float] | None = None) -> Generator[Any]:
    """Switch a fault on in both cards. pace: type -> by how much their kernels take longer than they do."""
    extension = card.install()
    extension.reset()
    for dtype, factor in (pace or {}).items():
        extension.set_pace(dtype, factor)
    for kernel, fault in lie.kernels.items():
        if isinstance(fault, Corrupting):
            fault.arm()
        extension.set_fault(kernel, fault)
    try:
        yield extension
    finally:
        extension.reset()


def _only(dtype: torch.dtype, change: Callable[[str, Arguments, list[float]], Tensor | None]) -> Fault:
    """A fault in results of one type. change: name, arguments and numbers -> other values, None for the right ones."""

    def fault(name: str, arguments: Arguments, results: list[Tensor], numbers: list[float]) -> None:
        if results[0].dtype == dtype and results[0].numel():
            other = change(name, arguments, numbers)
            if other is not None:
                results[0].copy_(other)

    return fault


def _in_place(dtype: torch.dtype, change: Callable[[Tensor], object]) -> Fault:
    """A fault that changes the results of one type as they are."""

    def fault(_name: str, _arguments: Arguments, results: list[Tensor], _numbers: list[float]) -> None:
        if results[0].dtype == dtype and results[0].numel():
            change(results[0])

    return fault


# --- products ------------------------------------------------------------------------------------------------------------------


def _factors(name: str, arguments: Arguments) -> tuple[Tensor, Tensor, Tensor | None]:
    """(left, right, what is added) of a product."""
    if name in ("aten::addmm", "aten::baddbmm"):
        return arguments[1], arguments[2], arguments[0]
    return arguments[0], arguments[1], None


def _product(name: str, arguments: Arguments, numbers: list[float], multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    left, right, added = _factors(name, arguments)
    made = multiply(left, right)
    if added is None:
        return made
    beta, alpha = numbers or (1.0, 1.0)
    return made.float() * alpha + (added.float() * beta if beta else 0.0)


def _half_sums(left: Tensor, right: Tensor) -> Tensor:
    """A product whose sum is rounded to FP16 after each few terms."""
    total = torch.zeros((*left.shape[:-1], right.shape[-1]), dtype=torch.float16)
    for start in range(0, left.shape[-1], _LANES):
        part = slice(start, start + _LANES)
        total = (total.float() + left[..., part].float() @ right[..., part, :].float()).half()
    return total


def _products_in_half(name: str, arguments: Arguments, numbers: list[float]) -> Tensor:
    return _product(name, arguments, numbers, _half_sums)


def _reduced(name: str, arguments: Arguments, numbers: list[float]) -> Tensor | None:
    if not torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction:
        return None
    return _products_in_half(name, arguments, numbers)


def _tf32(tensor: Tensor) -> Tensor:
    """Rounded to the 11 bits that TF32 keeps."""
    return ((tensor.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def _tf32_products(name: str, arguments: Arguments, numbers: list[float]) -> Tensor | None:
    if not torch.backends.cuda.matmul.allow_tf32:
        return None
    return _always_tf32(name, arguments, numbers)


def _always_tf32(name: str, arguments: Arguments, numbers: list[float]) -> Tensor:
    return _product(name, arguments, numbers, lambda left, right: _tf32(left) @ _tf32(right))


def _tf32_convolutions(_name: str, arguments: Arguments, numbers: list[float]) -> Tensor | None:
    if not torch.backends.cudnn.allow_tf32:
        return None
    return _convolved(_tf32(arguments[0]), _tf32(arguments[1]), arguments[2], numbers)


def _convolved(signal: Tensor, weight: Tensor, bias: Tensor | None, numbers: list[float]) -> Tensor:
    plain = [int(number) for number in numbers]
    n = signal.dim() - 2
    stride, padding, dilation, more = (plain[k * n : (k + 1) * n] for k in range(4))
    transposed, groups = bool(plain[-2]), plain[-1]
    return torch.ops.aten.convolution(signal, weight, bias, stride, padding, dilation, transposed, more, groups)


def _unfinished(result: Tensor) -> None:
    """Of a large product what comes after the first 200 000 numbers is left out."""
    if result.numel() > 200_000:
        result.view(-1)[200_000:] = 0.0


# --- attention -----------------------------------------------------------------------------------------------------------------


def _scale(query: Tensor, numbers: list[float]) -> float:
    """The scale that attention was given, or its own."""
    return next((number for number in numbers if number not in (0.0, 1.0)), query.shape[-1] ** -0.5)


def _masked(scores: Tensor, arguments: Arguments, numbers: list[float]) -> Tensor:
    mask = arguments[3] if len(arguments) > 3 else None
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.float()
    if 1.0 in numbers:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores


def _attention_in_half(_name: str, arguments: Arguments, numbers: list[float]) -> Tensor:
    """Weights and their sums in FP16, block by block as the fused kernels do, divided at the end."""
    query, key, value = arguments[:3]
    scores = _masked((query.float() @ key.float().mT) * _scale(query, numbers), arguments, numbers)
    weights = (scores - scores.amax(-1, keepdim=True)).exp().half()
    ones = torch.ones((*value.shape[:-1], 1), dtype=torch.float16)
    made = _half_sums(weights, torch.cat([value, ones], -1)).float()
    return made[..., :-1] / made[..., -1:]


def _scores_in_half(_name: str, arguments: Arguments, numbers: list[float]) -> Tensor:
    """Products of query and key are stored in FP16 before they are scaled."""
    query, key, value = arguments[:3]
    scores = (query.float() @ key.float().mT).half().float() * _scale(query, numbers)
    return _masked(scores, arguments, numbers).softmax(-1) @ value.float()


def _bad_under_mask(_name: str, arguments: Arguments, _numbers: list[float]) -> Tensor | None:
    return None if arguments[3] is None else torch.full_like(arguments[0], torch.nan)


# --- norms, softmax, functions -----------------------------------------------------------------------------------------------


def _bad(result: Tensor) -> None:
    result.fill_(torch.nan)


def _norm_in_half(_name: str, arguments: Arguments, numbers: list[float]) -> Tensor:
    """Sum and sum of squares of a group are FP16 numbers."""
    signal, weight, bias = arguments[:3]
    batch, channels, _, groups, eps = numbers
    rows = signal.float().reshape(int(batch), int(groups), -1)
    mean = (rows.sum(-1, keepdim=True).half() / rows.shape[-1]).float()
    square = (rows.square().sum(-1, keepdim=True).half() / rows.shape[-1]).float()
    normed = ((rows - mean) * (square - mean.square() + eps).rsqrt()).view(int(batch), int(channels), -1)
    if weight is not None:
        normed = normed * weight.float()[:, None] + bias.float()[:, None]
    return normed.view(signal.shape)


def _softmax_in_half(_name: str, arguments: Arguments, numbers: list[float]) -> Tensor:
    """The sum of the weights grows term by term in FP16."""
    rows = arguments[0].float().movedim(int(numbers[0]), -1)
    weights = (rows - rows.amax(-1, keepdim=True)).exp().half()
    total = torch.zeros_like(weights[..., 0])
    for one in weights.unbind(-1):
        total = total + one
    return (weights.float() / total.float()[..., None]).movedim(-1, int(numbers[0]))


def _shifted(result: Tensor) -> None:
    """Every second row of an enlarged picture is that of the pixel beside it."""
    result[..., 1::2, :] = result[..., 1::2, :].roll(1, -1)


# --- rounding ------------------------------------------------------------------------------------------------------------------


def _plain(name: str, wide: Arguments, numbers: list[float]) -> Tensor:
    """What a kernel computes, in FP32."""
    if name == "convolution":
        return _convolved(wide[0], wide[1], wide[2], numbers)
    if name in PRODUCTS:
        return _product(name, wide, numbers, torch.matmul)
    simple = {"aten::add": torch.add, "aten::sub": torch.sub, "aten::mul": torch.mul, "aten::div": torch.div}[name]
    alpha = numbers[0] if name in ("aten::add", "aten::sub") and numbers else 1.0
    return simple(wide[0], wide[1] * alpha)


def _flushed(result: Tensor) -> None:
    result[result.abs() < _SMALLEST] = 0.0


def _clipped(name: str, arguments: Arguments, numbers: list[float]) -> Tensor | None:
    """The largest number in the place of what passes it. Infinity that comes in stays, as masks need it."""
    if name == "copy":
        source = arguments[0].float()
        return torch.where(source.isfinite(), source.clamp(-65504.0, 65504.0), source)
    if not all(bool(one.isfinite().all()) for one in arguments[:2] if one is not None):
        return None
    wide = [one.float() if one is not None and one.is_floating_point() else one for one in arguments]
    return _plain(name, wide, numbers).clamp(-65504.0, 65504.0)


def _truncated(wide: Tensor) -> Tensor:
    return (wide.contiguous().view(torch.int32) & ~0xFFFF).view(torch.float32)


def _without_rounding(name: str, arguments: Arguments, numbers: list[float]) -> Tensor | None:
    """The bits that BF16 has no place for are cut off."""
    if name == "copy":
        return _truncated(arguments[0]) if arguments[0].dtype == torch.float32 else None
    wide = [one.float() if one is not None and one.is_floating_point() else one for one in arguments]
    return _truncated(_plain(name, wide, numbers))


# --- memory, copies, random numbers --------------------------------------------------------------------------------------------


def _half_arrived(_name: str, _arguments: Arguments, results: list[Tensor], _numbers: list[float]) -> None:
    """The second half of a copy that nobody waits for has not arrived."""
    flat = results[0].view(-1)
    flat[(flat.numel() + 1) // 2 :] = 0


_OTHER: Final = torch.Generator()


def _unseeded(_name: str, _arguments: Arguments, results: list[Tensor], _numbers: list[float]) -> None:
    """Noise that follows no seed."""
    if results[0].is_floating_point():
        results[0].copy_(torch.randn(results[0].shape, generator=_OTHER))


class Corrupting:
    """A product that once fills the largest block of the card's memory with bad numbers. after: products before it."""

    def __init__(self, after: int) -> None:
        self._after = self._left = after

    def arm(self) -> None:
        """Begin to count again."""
        self._left = self._after

    def __call__(self, _name: str, _arguments: Arguments, _results: list[Tensor], _numbers: list[float]) -> None:
        if self._left == 0:
            card.install().largest(0).fill_(0xFF)
        self._left -= 1


HALF: Final = torch.float16
BRAIN: Final = torch.bfloat16
FULL: Final = torch.float32
SOUND: Final = _lie("none", (), _in_place(HALF, _bad))
LIES: Final = (
    _lie("FP16 sums in matrix products", PRODUCTS, _only(HALF, _products_in_half)),
    _lie("FP16 partial sums, unless the setting is off", PRODUCTS, _only(HALF, _reduced)),
    _lie("FP16 sums in fused attention", (FLASH, EFFICIENT), _only(HALF, _attention_in_half)),
    _lie("LayerNorm gives NaN in FP16", ("aten::native_layer_norm",), _in_place(HALF, _bad)),
    _lie("convolution gives NaN in FP16", ("convolution",), _in_place(HALF, _bad)),
    _lie("GroupNorm with FP16 statistics", ("aten::native_group_norm",), _only(HALF, _norm_in_half)),
    _lie("softmax with FP16 sums", ("aten::_softmax",), _only(HALF, _softmax_in_half)),
    _lie("BF16 emulated and slow", (), _in_place(BRAIN, lambda _: None), bfloat16=1.5),
    _lie("scores in FP16 in flash attention", (FLASH,), _only(HALF, _scores_in_half)),
    _lie("flash attention gives NaN in FP16", (FLASH,), _in_place(HALF, _bad)),
    _lie("efficient attention gives NaN with a mask", (EFFICIENT,), _only(HALF, _bad_under_mask)),
    _lie("FP16 subnormal numbers flushed", (*PRODUCTS, *SIMPLE, "convolution"), _in_place(HALF, _flushed)),
    _lie("FP16 clips at 65 504", (*PRODUCTS, *SIMPLE, "convolution"), _only(HALF, _clipped)),
    _lie("BF16 cut off instead of rounded", (*PRODUCTS, *SIMPLE, "convolution"), _only(BRAIN, _without_rounding)),
    _lie("FP16 products above one size", PRODUCTS, _in_place(HALF, _unfinished)),
    _lie("TF32 in matrix products, unless the setting is off", PRODUCTS, _only(FULL, _tf32_products)),
    _lie("TF32 in convolutions, unless the setting is off", ("convolution",), _only(FULL, _tf32_convolutions)),
    _lie("TF32 in matrix products whatever is set", PRODUCTS, _only(FULL, _always_tf32)),
    _lie("noise that follows no seed", ("aten::normal_",), _unseeded),
    _lie("a kernel that corrupts memory once", PRODUCTS, Corrupting(after=4)),
    _lie("BF16 upsampling", ("aten::upsample_nearest2d",), _in_place(BRAIN, _shifted)),
    _lie("copies that nobody waits for", ("copy from pinned memory", "copy to pinned memory"), _half_arrived),
)
BY_NAME: Final = {lie.name: lie for lie in LIES}
