"""What the device can really do: every operation of `cases` in every mode against a float64 reference, times, bits and settings.

How a format is judged (`judge_dtype`):

* `missing`: the device or this torch cannot run it at all.
* `wrong`: a core operation gave NaN, infinity, zeros or values beyond its tolerance. The first such test is named.
* `slow`: right, but the steps of a denoiser take no less time than in float32, or less by no more than the runs differ by; or
  those of one kind of network take 1.5 times as long, though the others save more.
* `works`: right and faster than float32. float32 itself works when it is right.

Tests near the limit and with tiny values are notes: a function that fails at 60 000, or a unit that flushes subnormal numbers,
does not make pictures of sound models wrong, and the check of a model sees its effect there. So are faults that Halftone goes
around: a backend of attention that is wrong is not used, so attention itself is tested with the others; copies that are wrong
unless they are waited for are waited for; noise is drawn on the processor; weights that a kernel overwrote are read again. Notes
are listed in the reason.
Modes that share a type (TF32, float16 sums) are settings that are off unless the user turns them on: they never judge the type.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median
from typing import Final

import numpy as np
import torch

from halftone.contract.facts import (
    BitsResult,
    DeviceFacts,
    DTypeReport,
    OperationResult,
    SelfTestReport,
    SpeedResult,
)
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.health.device_faults import faulty_backends, sound_backends
from halftone.health.faults import is_out_of_memory, raise_if_lost
from halftone.health.forecasts.timing import is_measurable, judged_ratio
from halftone.health.precision import choose_auto
from halftone.measure.backends import attention_on
from halftone.measure.cases import Case, cases_for, tolerance
from halftone.measure.denoiser import STEPS, Sizes, operations, sizes_for, step_of
from halftone.measure.effects import measure_effects
from halftone.measure.habits import SHARED, Guarded, check_copies, check_memory, check_random_numbers
from halftone.measure.modes import Mode, in_mode, in_turns, modes_for

log = logging.getLogger(__name__)

OnTest = Callable[[OperationResult, int, int], None]
Check = Callable[[], None]

BITS_TERMS: Final = 4096
_MISSING_WORDS: Final = (
    *("not implemented", "not support", "unsupported", "no kernel", "not available", "not compiled"),
    *("no available kernel", "no viable backend"),
)
_NOTES: Final = {
    "near-limit": "near the limit",
    "tiny-values": "tiny values",
    "attention-backend": "attention",
    "random-numbers": "random numbers",
    "copies": "copies",
    "memory": "memory",
}
_OPERATION_WORDS: Final = {"matmul": "matrix product", "long-sums": "long sum", **_NOTES}


def run_self_test(device: DeviceFacts, on_test: OnTest, check: Check) -> SelfTestReport:
    """Everything that is measured of one device; seconds, not minutes.

    on_test(result, done, total) is called after each test; check() before each one, and may raise to end the run (JobCancelled).
    Raises RuntimeError, naming the test, when the device was lost: nothing measured after it would be true.
    """
    started = time.perf_counter()
    modes = modes_for(device)
    cases = cases_for(device.id.partition(":")[0])
    total = len(modes) * (len(cases) + len(habits_of(device.id)))
    tests: list[OperationResult] = []
    for result in run_tests(modes, cases, device.id, check):
        tests.append(result)
        on_test(result, len(tests), total)
    with attention_on(sound_backends(tests)):
        speeds = _speeds(modes, tests, device.id, check)
        dtypes = tuple(judge_dtype(dtype, tests, speeds) for dtype in ("float16", "bfloat16", "float32"))
        auto, reason = choose_auto(dtypes)
        effects = measure_effects(device, auto, [d.dtype for d in dtypes if d.state != "missing"], check, faulty_backends(tests))
    return SelfTestReport(
        device=device,
        dtypes=dtypes,
        tests=tuple(tests),
        speeds=tuple(speeds),
        bits=_bits(modes, tests, device.id, check),
        effects=effects,
        auto=auto,
        auto_reason=reason,
        measured_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        seconds=time.perf_counter() - started,
    )


def run_case(case: Case, mode: Mode, device: str) -> OperationResult:
    """Run a test. "missing": not on this device, or does not fit; "wrong": other errors. Raises RuntimeError if lost."""
    inputs = _inputs(case, mode)
    expected = _reference(case, inputs)
    started = time.perf_counter()
    try:
        with in_mode(mode), attention_on(case.backends):
            result = case.run(*(tensor.to(device) for tensor in inputs)).cpu().to(torch.float64)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return _failed(case, mode, error, time.perf_counter() - started)
    seconds = time.perf_counter() - started
    finite = bool(torch.isfinite(result).all())
    sample = case.pick(result) if case.pick else result
    outcome, worst, error = compare(expected, sample, tolerance(case, mode), whole_finite=finite)
    return OperationResult(
        mode=mode.name,
        operation=case.operation,
        size=case.size,
        backend=case.backends[0] if case.backends else None,
        outcome=outcome,
        expected=_json(float(expected.flatten()[worst])),
        got=_json(float(sample.flatten()[worst])),
        error=_json(error),
        tolerance=tolerance(case, mode),
        seconds=seconds,
    )


def compare(expected: torch.Tensor, got: torch.Tensor, allowed: float, *, whole_finite: bool = True) -> tuple[str, int, float]:
    """(outcome, flat index of the worst value, largest |error| over largest |expected|) of two float64 tensors of one shape.

    "zeros": at least half of the values that should not be zero are. whole_finite: the full result, of which `got` is a
    sample, is.
    """
    scale = max(float(expected.abs().max()), 1e-300)
    off = (got - expected).abs() / scale
    bad = ~torch.isfinite(got)
    if bool(bad.any()) or not whole_finite:
        return "nonfinite", int(bad.to(torch.uint8).argmax()), math.inf
    worst = int(off.argmax())
    error = float(off.flatten()[worst])
    if error <= allowed:
        return "right", worst, error
    telling = expected.abs() > allowed * scale
    lost = (got == 0) & telling
    outcome = "zeros" if bool(telling.any()) and float(lost.sum()) >= 0.5 * float(telling.sum()) else "wrong"
    return outcome, worst, error


_CASTING: Final = Case("casting", Words("bit by bit"), lambda _generator, _mode: (), torch.clone, factor=0.0)


def check_casting(mode: Mode, device: str) -> OperationResult:
    """float32 to the format and back, bit by bit: rounding to nearest even, the limit, infinity, NaN, subnormal numbers."""
    random = np.random.default_rng(5)
    edges = [0.0, -0.0, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 65504, 65519, 65520, 70000, -65520, 2**-14, 2**-24]
    edges += [2**-25, 1.5 * 2**-25, 3e-8, math.inf, -math.inf, math.nan, 3.3e38, 1e-37]
    drawn = np.ldexp(random.uniform(-1, 1, 4096), random.integers(-30, 18, 4096))
    values = np.concatenate([np.array(edges), drawn]).astype(np.float32)
    started = time.perf_counter()
    try:
        got = torch.from_numpy(values).to(device).to(mode.torch_dtype).to(torch.float32).cpu().numpy()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return _failed(_CASTING, mode, error, time.perf_counter() - started)
    expected = rounded(values, mode.dtype)
    wrong = np.flatnonzero(~((got == expected) | (np.isnan(got) & np.isnan(expected))))
    index = int(wrong[0]) if wrong.size else 0
    return OperationResult(
        mode=mode.name,
        operation="casting",
        size=Words("{0} values, bit by bit", (int(values.size),)),
        outcome="wrong" if wrong.size else "right",
        expected=_json(float(expected[index])),
        got=_json(float(got[index])),
        error=wrong.size / values.size,
        seconds=time.perf_counter() - started,
    )


def rounded(values: np.ndarray[tuple[int], np.dtype[np.float32]], dtype: DType) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """float32 values rounded to `dtype` (to nearest, ties to even) and back, by numpy and by bits: no torch in between."""
    if dtype == "float32":
        return values
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    bits = values.view(np.uint32).astype(np.uint64)
    cut = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(values), values, cut).astype(np.float32)


_STEPS: Final = {"unet-step": "A UNet step", "transformer-step": "A transformer step"}
"""Networks that may judge a type alone."""


def _slow_words(alone: str, speed: float, spread: float | None) -> Words:
    if not is_measurable(speed, spread):
        return Words("A denoiser step takes about as long as in FP32.")
    return Words("{0} takes about {1} × the time of FP32.", (Words(_STEPS.get(alone, "A denoiser step")), f"{1 / speed:.1f}"))


def judge_dtype(dtype: DType, tests: Sequence[OperationResult], speeds: Sequence[SpeedResult]) -> DTypeReport:
    """The verdict on one format; the rule stands at the top of this module."""
    own = [t for t in tests if t.mode == dtype]
    core = [t for t in own if t.operation not in _NOTES]
    notes = [t for t in own if t.operation in _NOTES and t.outcome not in {"right", "missing"}]
    found = judged_ratio(speeds, dtype, "float32")
    (speed, spread), alone = ((None, None), "") if found is None else found
    failing = next((t for t in core if t.outcome in {"wrong", "nonfinite", "zeros"}), None)
    if failing is not None:
        what = {
            "nonfinite": "{0} ({1}) gives NaN or infinity.",
            "zeros": "{0} ({1}) gives zeros.",
            "wrong": "{0} ({1}) gives wrong values.",
        }
        name = _OPERATION_WORDS.get(failing.operation, failing.operation.replace("-", " "))
        return DTypeReport(
            dtype=dtype,
            state="wrong",
            reason=Words(what[failing.outcome], (Words(name.capitalize()), failing.size)),
            speed=speed,
            failing=failing,
            spread=spread,
        )
    ran = [t for t in core if t.outcome == "right"]
    if len(ran) <= len(core) / 2:
        return DTypeReport(dtype=dtype, state="missing", reason=Words("This device cannot compute in it."), speed=None)
    said = _passed([t for t in own if t.outcome != "missing"], notes)
    if dtype != "float32" and speed is not None and not (speed > 1.0 and is_measurable(speed, spread)):
        slow = Words("{0} {1}", (_slow_words(alone, speed, spread), said))
        return DTypeReport(dtype=dtype, state="slow", reason=slow, speed=speed, spread=spread)
    return DTypeReport(dtype=dtype, state="works", reason=said, speed=speed, spread=spread)


def run_tests(modes: Sequence[Mode], cases: Sequence[Case], device: str, check: Check) -> Iterable[OperationResult]:
    """Every test with a known answer, one by one; attention on the backends that were right before it."""
    guarded = Guarded(device)
    done: list[OperationResult] = []
    for mode in modes:
        for case in cases:
            check()
            own = replace(case, backends=sound_backends(done)) if case.operation == "attention" else case
            done.append(run_case(own, mode, device))
            yield done[-1]
        for habit in habits_of(device):
            check()
            yield habit(mode, device, guarded)


Habit = Callable[[Mode, str, Guarded], OperationResult]


def habits_of(device: str) -> tuple[Habit, ...]:
    """What is tested of a device beside its operations. A processor has no copies, and its random numbers are the reference."""
    casting: Habit = lambda mode, where, _: check_casting(mode, where)  # noqa: E731 - one of three
    if device.partition(":")[0] in SHARED:
        return (casting,)
    return (casting, check_random_numbers, check_copies, check_memory)


def _inputs(case: Case, mode: Mode) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(20)
    return tuple(tensor.to(mode.torch_dtype) for tensor in case.make(generator, mode))


def _reference(case: Case, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    with torch.no_grad():
        return case.run(*(tensor.to(torch.float64) for tensor in (case.cut(inputs) if case.cut else inputs)))


def _failed(case: Case, mode: Mode, error: Exception, seconds: float) -> OperationResult:
    raise_if_lost(error, f"{case.name} in {mode.name}")
    text = str(error).lower()
    missing = isinstance(error, NotImplementedError) or is_out_of_memory(error) or any(word in text for word in _MISSING_WORDS)
    log.log(logging.INFO if missing else logging.WARNING, "self-test %s in %s: %s", case.name, mode.name, _first_line(error))
    return OperationResult(
        mode=mode.name,
        operation=case.operation,
        size=case.size,
        backend=case.backends[0] if case.backends else None,
        outcome="missing" if missing else "wrong",
        tolerance=tolerance(case, mode),
        seconds=seconds,
    )


def _speeds(modes: Sequence[Mode], tests: Sequence[OperationResult], device: str, check: Check) -> list[SpeedResult]:
    """Times of the steps of a denoiser in each mode that can run them, all modes in turns."""
    sizes = sizes_for(device.partition(":")[0])
    able = [mode for mode in modes if any(one.mode == mode.name and one.outcome != "missing" for one in tests)]
    speeds: list[SpeedResult] = []
    for name in STEPS:
        check()
        speeds += _timed_steps(name, able, device, sizes)
    return speeds


def _timed_steps(name: str, modes: Sequence[Mode], device: str, sizes: Sizes) -> list[SpeedResult]:
    runs: dict[str, Callable[[], object]] = {}
    for mode in modes:
        try:
            runs[mode.name] = in_mode(mode)(step_of(name, mode, device, sizes))
            runs[mode.name]()
        except RuntimeError as error:
            raise_if_lost(error, f"{name} in {mode.name}")
            log.warning("%s in %s: %s", name, mode.name, _first_line(error))
            runs.pop(mode.name, None)
    try:
        timed = in_turns(list(runs.values()), device)
    except RuntimeError as error:
        raise_if_lost(error, f"speed of {name}")
        log.warning("speed of %s: %s", name, _first_line(error))
        return []
    return [
        SpeedResult(
            mode=mode, operation=name, tflops=operations(name, sizes) / median(taken) / 1e12, seconds=median(taken), runs=taken
        )
        for mode, taken in zip(runs, timed, strict=True)
    ]


def _bits(modes: Sequence[Mode], tests: Sequence[OperationResult], device: str, check: Check) -> tuple[BitsResult, ...]:
    """Bits that are right in sums of BITS_TERMS positive products, from the largest relative error of 64 of them."""
    results: list[BitsResult] = []
    for mode in modes:
        if all(t.outcome == "missing" for t in tests if t.mode == mode.name):
            continue
        check()
        generator = torch.Generator().manual_seed(7)
        drawn = [0.5 + 0.5 * torch.rand(shape, generator=generator) for shape in ((8, BITS_TERMS), (BITS_TERMS, 8))]
        left, right = (tensor.to(mode.torch_dtype) for tensor in drawn)
        try:
            with in_mode(mode):
                got = (left.to(device) @ right.to(device)).cpu().to(torch.float64)
        except (RuntimeError, NotImplementedError) as error:
            raise_if_lost(error, f"bits of {mode.name}")
            log.warning("bits of %s: %s", mode.name, _first_line(error))
            continue
        expected = left.to(torch.float64) @ right.to(torch.float64)
        worst = float(((got - expected) / expected).abs().max())
        kept = min(float(mode.bits), -math.log2(worst)) if 0 < worst < math.inf else (mode.bits if worst == 0 else 0.0)
        results.append(BitsResult(mode=mode.name, bits_kept=max(0.0, kept), bits=mode.bits, terms=BITS_TERMS))
    return tuple(results)


def _first_line(error: Exception) -> str:
    """torch adds pages of dispatcher tables to some errors."""
    return str(error).partition("\n")[0]


def _passed(ran: Sequence[OperationResult], notes: Sequence[OperationResult]) -> Words:
    """How many tests were right, and the notes of the others."""
    right = sum(1 for test in ran if test.outcome == "right")
    if not notes:
        if right == len(ran):
            return Words("{0} tests passed.", (right,), one="1 test passed.")
        return Words("{0} of {1} tests passed.", (right, len(ran)))
    by_kind: dict[str, list[Words]] = {}
    for note in notes:
        by_kind.setdefault(_OPERATION_WORDS[note.operation], []).append(note.size)
    wrong = tuple(Words("{0}: {1}", (Words(kind), tuple(sizes))) for kind, sizes in by_kind.items())
    return Words("{0} of {1} tests passed; failed: {2}.", (right, len(ran), wrong))


def _json(value: float) -> float | None:
    return value if math.isfinite(value) else None
