"""What each value of each Numerics setting does on this device: time and error against the default value, or why it does nothing.

Measured on a piece of a denoiser (residual block and attention), of a picture decoder, or on the operation that the setting acts
on. Times are medians of the ratios of several alternating runs; errors are root-mean-square against float32 on this device. The
pieces run with the kernels that models run with.
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from msgspec.structs import replace
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from halftone.contract.facts import DeviceFacts, SettingEffect
from halftone.contract.vocabulary import AttentionBackend, DType
from halftone.contract.wording import Words
from halftone.health.device_faults import is_absent
from halftone.health.faults import raise_if_lost
from halftone.health.forecasts.timing import Ratio, paired_ratio
from halftone.measure.backends import BACKENDS
from halftone.measure.compiler import missing_compiler
from halftone.measure.denoiser import SMALL, Sizes, sizes_for, step_of
from halftone.measure.modes import MODES, WITHOUT_SWITCHES, in_mode, in_turns, seconds_of, switched
from halftone.measure.sentinel import Sentinel
from halftone.measure.wide_kernels import put_wide_kernels

log = logging.getLogger(__name__)

_NVIDIA_ONLY: Final = Words("Only on NVIDIA cards.")
_NOTHING: Final = Words("Changes nothing on this device.")
_SUM_SWITCHES: Final[tuple[tuple[str, str, object, DType], ...]] = (
    ("fp16_reduction", "allow_fp16_reduced_precision_reduction", True, "float16"),
    ("bf16_reduction", "allow_bf16_reduced_precision_reduction", True, "bfloat16"),
    ("fp16_accumulation", "allow_fp16_accumulation", True, "float16"),
    ("tf32", "allow_tf32", True, "float32"),
)
_USE: Final = ("always", "never")
_ALL_FULL: Final = Words("Everything runs in FP32 here.")
_NO_TYPE: Final = Words("This device cannot compute in it.")
_FAULTY: Final = 0.1
"""Relative error above which an attention backend is called wrong."""
_SAME_DB: Final = 150.0
_STEPS: Final = 28
_LOOKS: Final = {"every-step": _STEPS, "at-end": 1}
"""Steps after which the sentinel looks, by the setting of the NaN check."""
_MODE: Final = {m.dtype: m for m in MODES if not m.tf32 and not m.half_sums}

_BUDGET: Final = 0.06
"""Seconds that the runs of one piece may take, but for the first ones."""

Run = Callable[[], Tensor]
Within = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A computation and the format it runs in."""

    run: Run
    dtype: DType
    within: Within = nullcontext


@dataclass(frozen=True, slots=True)
class Bench:
    """The precision in force, the size of the pieces (channels, edge, tokens), and the backends of attention that are wrong."""

    device: DeviceFacts
    dtype: DType
    channels: int
    edge: int
    faulty: frozenset[AttentionBackend] = frozenset()

    @property
    def id(self) -> str:
        return self.device.id


def measure_effects(
    device: DeviceFacts,
    auto: DType,
    dtypes: Sequence[DType],
    check: Callable[[], None],
    faulty: frozenset[AttentionBackend] = frozenset(),
) -> tuple[SettingEffect, ...]:
    """Effects of all settings of the Numerics page. auto: what Auto takes here; dtypes: those that this device can compute in;
    faulty: backends of attention that were wrong in the tests.

    check() is called before each setting and may raise to end the run.
    """
    small = sizes_for(device.id.partition(":")[0]) is SMALL
    bench = Bench(device, auto, channels=64 if small else 320, edge=16 if small else 64, faulty=faulty)
    measures: tuple[tuple[Callable[[], list[SettingEffect]], tuple[tuple[str, str], ...]], ...] = (
        (lambda: _precision(bench, dtypes), _values("precision", "auto", "float16", "bfloat16", "float32")),
        (lambda: _in_each(bench, dtypes, _upcasts), (*_values("vae_float32", *_USE), *_values("upcast_cross_attention", *_USE))),
        (lambda: _in_each(bench, dtypes, _sampling), _values("upcast_sampling", "false")),
        (lambda: _sums(bench, dtypes), tuple((name, "true") for name, *_ in _SUM_SWITCHES)),
        (lambda: _in_each(bench, dtypes, _math_sums), _values("math_attention_reduction", "true")),
        (lambda: _in_each(bench, dtypes, _backends), _values("attention_backend", *BACKENDS)),
        (lambda: _in_each(bench, dtypes, _nan_check), _values("nan_check", "at-end", "off")),
    )
    effects: list[SettingEffect] = []
    for measure, values in measures:
        check()
        try:
            effects += measure()
        except RuntimeError as error:
            raise_if_lost(error, f"effect of {values[0][0]}")
            log.warning("effects of %s could not be measured: %s", values[0][0], str(error).partition("\n")[0])
            effects += [_note(setting, value, Words("Could not be measured on this device.")) for setting, value in values]
    return (*effects, *_without_price(bench))


def _in_each(bench: Bench, dtypes: Sequence[DType], measure: Callable[[Bench], list[SettingEffect]]) -> list[SettingEffect]:
    """What depends on the precision in force, in each that can be chosen here."""
    return [
        replace(effect, dtype=dtype)
        for dtype in dict.fromkeys((bench.dtype, *dtypes))
        for effect in measure(dataclasses.replace(bench, dtype=dtype))
    ]


def _values(setting: str, *values: str) -> tuple[tuple[str, str], ...]:
    return tuple((setting, value) for value in values)


def _precision(bench: Bench, dtypes: Sequence[DType]) -> list[SettingEffect]:
    pieces: dict[DType, Piece] = {dtype: _denoiser(bench, dtype) for dtype in (*dtypes, bench.dtype)}
    exact = _result(_denoiser(bench, "float32"))
    errors = {dtype: _error(_result(piece), exact) for dtype, piece in pieces.items()}
    times = dict(zip(pieces, _seconds(bench, *pieces.values()), strict=True))
    effects = [_effect("precision", "auto", Ratio(1.0, 0.0), errors[bench.dtype], errors[bench.dtype])]
    for dtype in ("float16", "bfloat16", "float32"):
        if dtype in pieces:
            ratio = _paired(times[bench.dtype], times[dtype])
            effects.append(_effect("precision", dtype, ratio, errors[dtype], errors[bench.dtype]))
        else:
            effects.append(_note("precision", dtype, _NO_TYPE))
    return effects


def _upcasts(bench: Bench) -> list[SettingEffect]:
    """Picture decoder and attention scores in float32."""
    effects: list[SettingEffect] = []
    for setting, build, until in (
        ("vae_float32", _decoder, Words("a picture decoder overflows")),
        ("upcast_cross_attention", _attention, Words("attention scores overflow")),
    ):
        if bench.dtype == "float32":
            effects += [_note(setting, value, _ALL_FULL) for value in ("always", "never")]
            continue
        usual, full = build(bench, bench.dtype), build(bench, "float32")
        exact = _result(full)
        ratio = _ratio(bench, full, usual)
        effects.append(_effect(setting, "always", ratio, _error(_result(full), exact), _error(_result(usual), exact)))
        effects.append(_note(setting, "never", Words("Costs and saves nothing until {0}.", (until,))))
    return effects


def _sampling(bench: Bench) -> list[SettingEffect]:
    """The arithmetic of 28 steps in the 16-bit type, as a share of 28 calls of a piece of the denoiser."""
    if bench.dtype == "float32":
        return [_note("upcast_sampling", "false", _ALL_FULL)]
    whole, low = _steps(bench, "float32"), _steps(bench, bench.dtype)
    calls, lows, wholes = _seconds(bench, _denoiser(bench, bench.dtype), low, whole)
    call = median(calls) * _STEPS
    ratio = _paired([call + one for one in wholes], [call + one for one in lows])
    exact = _result(whole)
    return [_effect("upcast_sampling", "false", ratio, _error(_result(low), exact), _error(_result(whole), exact))]


def _sums(bench: Bench, dtypes: Sequence[DType]) -> list[SettingEffect]:
    """How partial sums of matrix products are kept."""
    effects: list[SettingEffect] = []
    matmul = torch.backends.cuda.matmul
    for setting, attribute, value, dtype in _SUM_SWITCHES:
        if setting == "tf32" and bench.device.backend == "cpu":
            effects.append(_tf32_on_processor(bench))
        elif bench.device.backend in WITHOUT_SWITCHES:
            effects.append(_note(setting, "true", _NVIDIA_ONLY))
        elif not hasattr(matmul, attribute):
            effects.append(_note(setting, "true", Words("This version of PyTorch has no such switch.")))
        elif dtype not in dtypes:
            effects.append(_note(setting, "true", _NO_TYPE))
        else:
            usual, exact = _product(bench, dtype), _result(_product(bench, "float32"))
            changed = dataclasses.replace(usual, within=lambda a=attribute, v=value: switched([(matmul, a, v)]))
            effects.append(replace(_compared(bench, setting, usual, changed, exact), dtype=dtype))
    return effects


def _tf32_on_processor(bench: Bench) -> SettingEffect:
    """oneDNN takes it as leave to use narrower products, where the processor has units for them; equal bits: it did not."""
    usual = _product(bench, "float32")
    owner = getattr(getattr(torch.backends, "mkldnn", None), "matmul", None)
    changed = dataclasses.replace(usual, within=lambda: switched([(owner, "fp32_precision", "tf32")]))
    exact = _result(usual)
    if torch.equal(_result(changed), exact):
        return _note("tf32", "true", _NOTHING)
    return replace(_compared(bench, "tf32", usual, changed, exact), dtype="float32")


def _math_sums(bench: Bench) -> list[SettingEffect]:
    """Half-precision sums in the math backend of attention: acts on every device, but only with that backend."""
    if bench.dtype == "float32":
        return [_note("math_attention_reduction", "true", _ALL_FULL)]
    usual = dataclasses.replace(_attention(bench, bench.dtype), within=lambda: sdpa_kernel(SDPBackend.MATH))
    changed = dataclasses.replace(_attention(bench, bench.dtype), within=_math_in_half)
    return [_compared(bench, "math_attention_reduction", usual, changed, _result(_attention(bench, "float32")))]


def _backends(bench: Bench) -> list[SettingEffect]:
    usual = _attention(bench, bench.dtype)
    exact = _result(_attention(bench, "float32"))
    error = _error(_result(usual), exact)
    effects: list[SettingEffect] = []
    for name, backend in BACKENDS.items():
        if is_absent(name, bench.device.backend):
            effects.append(_note("attention_backend", name, Words("Not available on a processor.")))
            continue
        piece = dataclasses.replace(usual, within=lambda backend=backend: sdpa_kernel(backend))
        try:
            own = _error(_result(piece), exact)
        except RuntimeError as problem:
            raise_if_lost(problem, f"attention backend {name}")
            log.info("attention backend %s: %s", name, problem)
            effects.append(_note("attention_backend", name, Words("Not available on this device.")))
            continue
        if own <= _FAULTY and name not in bench.faulty:
            effects.append(_effect("attention_backend", name, _ratio(bench, piece, usual), own, error))
        else:  # nan too
            effects.append(_note("attention_backend", name, Words("Gives wrong results on this device.")))
    return effects


def _nan_check(bench: Bench) -> list[SettingEffect]:
    """The sentinel's time for the latents of 28 steps, as a share of 28 calls of a piece of the denoiser.

    Timed by itself: between the calls it is lost in their noise. An accelerator does part of it beside its other work, so there
    it costs at most this.
    """
    latents = torch.randn(1, 4, bench.edge, bench.edge, device=bench.id)
    (seconds,) = _seconds(bench, _denoiser(bench, bench.dtype))
    calls = _STEPS * median(seconds)
    looks = {value: seconds_of(partial(_look, latents, steps), bench.id) for value, steps in _LOOKS.items()}
    usual = calls + looks["every-step"]
    return [
        SettingEffect(setting="nan_check", value="at-end", time_ratio=(calls + looks["at-end"]) / usual),
        SettingEffect(setting="nan_check", value="off", time_ratio=calls / usual),
    ]


def _look(latents: Tensor, steps: int) -> None:
    """What the sentinel does for a picture."""
    sentinel = Sentinel(latents.device)
    for step in range(steps):
        sentinel.note(step, latents)
    sentinel.settle()


def _without_price(bench: Bench) -> list[SettingEffect]:
    of_the_model = (*_values("offload", "model", "group", "sequential"), ("fp8_storage", "true"), ("vae_tiling", "always"))
    return [
        *(_note("on_black", value, Words("Changes nothing while the numbers are sound.")) for value in ("quiet", "ask", "stop")),
        # compiling takes longer than all tests
        _note("compile", "true", missing_compiler(torch.device(bench.id)) or Words("Each picture reports its own times.")),
        *(_note(setting, value, Words("Depends on the model and the size.")) for setting, value in of_the_model),
    ]


def _denoiser(bench: Bench, dtype: DType) -> Piece:
    """The step of a UNet's block: most of what a UNet computes."""
    sizes = Sizes(channels=bench.channels, edge=bench.edge, width=0, tokens=0)
    return Piece(step_of("unet-step", _MODE[dtype], bench.id, sizes), dtype)


def _decoder(bench: Bench, dtype: DType) -> Piece:
    """Upsampling, convolution and norm of a picture decoder."""
    c = bench.channels // 2
    x, w = _tensors(bench, dtype, (1, c, bench.edge, bench.edge), (c, c, 3, 3))
    first, second = (nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))
    for layer in (first, second):
        layer.weight = nn.Parameter(w, requires_grad=False)
        put_wide_kernels(layer, torch.device(bench.id), w.dtype)

    def run() -> Tensor:
        h = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return second(F.silu(F.group_norm(first(h), 32)))

    return Piece(run, dtype)


def _attention(bench: Bench, dtype: DType) -> Piece:
    shape = (2, 8, bench.edge * bench.edge, bench.channels // 8)
    q, k, v = _tensors(bench, dtype, shape, shape, shape, scaled=False)
    return Piece(lambda: F.scaled_dot_product_attention(q, k, v), dtype)


def _product(bench: Bench, dtype: DType) -> Piece:
    """A matrix product with long sums."""
    n = bench.channels * 4
    a, b = _tensors(bench, dtype, (n, 4 * n), (4 * n, n))
    return Piece(lambda: a @ b, dtype)


def _steps(bench: Bench, dtype: DType) -> Piece:
    """28 Euler steps on latents with a fixed prediction."""
    x, prediction = _tensors(bench, dtype, (1, 4, bench.edge, bench.edge), (1, 4, bench.edge, bench.edge), scaled=False)
    sigmas = [14.6 * (1 - i / _STEPS) ** 3 for i in range(_STEPS + 1)]

    def run() -> Tensor:
        latents = x * sigmas[0]
        for now, following in pairwise(sigmas):
            latents = latents + prediction * (following - now)
        return latents

    return Piece(run, dtype)


def _tensors(bench: Bench, dtype: DType, *shapes: tuple[int, ...], scaled: bool = True) -> list[Tensor]:
    """The same numbers for every format. scaled: weights keep the size of what they multiply."""
    generator = torch.Generator().manual_seed(11)
    found: list[Tensor] = []
    for index, shape in enumerate(shapes):
        terms = math.prod(shape[1:]) if len(shape) == 4 else shape[0]
        size = 1 / math.sqrt(terms) if scaled and (index > 0 or len(shapes) == 1) else 1.0
        found.append((torch.randn(shape, generator=generator) * size).to(bench.id, getattr(torch, dtype)))
    return found


@contextmanager
def _math_in_half() -> Generator[None]:
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    try:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)


def _result(piece: Piece) -> Tensor:
    with in_mode(_MODE[piece.dtype]), piece.within():
        return piece.run().to("cpu", torch.float32)


def _seconds(bench: Bench, *pieces: Piece) -> list[tuple[float, ...]]:
    """Seconds of the runs of each piece, all pieces in turns."""

    def timed(piece: Piece) -> Run:
        def run() -> Tensor:
            with in_mode(_MODE[piece.dtype]), piece.within():
                return piece.run()

        return run

    return in_turns([timed(piece) for piece in pieces], bench.id, rounds=5, budget=_BUDGET * len(pieces))


def _ratio(bench: Bench, changed: Piece, usual: Piece) -> Ratio:
    before, after = _seconds(bench, usual, changed)
    return _paired(before, after)


def _paired(before: Sequence[float], after: Sequence[float]) -> Ratio:
    found = paired_ratio(before, after)
    assert found is not None, "every piece ran at least three times"
    return found


def _compared(bench: Bench, setting: str, usual: Piece, changed: Piece, exact: Tensor) -> SettingEffect:
    """A switch turned on. Equal results in times that differ by no more than the runs: it does nothing here."""
    before, after = _result(usual), _result(changed)
    ratio = _ratio(bench, changed, usual)
    if torch.equal(before, after) and not ratio.is_measurable:
        return _note(setting, "true", _NOTHING)
    return _effect(setting, "true", ratio, _error(after, exact), _error(before, exact))


def _effect(setting: str, value: str, time: Ratio, error: float, usual_error: float) -> SettingEffect:
    return SettingEffect(
        setting=setting,
        value=value,
        time_ratio=time.value,
        time_spread=time.spread,
        error_ratio=error / usual_error if usual_error > 0 and math.isfinite(error) else None,
        closeness_db=_decibels(error),
    )


def _note(setting: str, value: str, words: Words) -> SettingEffect:
    return SettingEffect(setting=setting, value=value, note=words)


def _error(result: Tensor, exact: Tensor) -> float:
    """Root-mean-square difference over the root-mean-square of `exact`; nan when anything is not finite."""
    return float(torch.linalg.vector_norm(result - exact) / torch.linalg.vector_norm(exact))


def _decibels(error: float) -> float | None:
    """-20 log10 of a relative error, 150 for none that float32 can show; None when it is not finite."""
    if not math.isfinite(error):
        return None
    return min(_SAME_DB, -20 * math.log10(error)) if error > 0 else _SAME_DB
