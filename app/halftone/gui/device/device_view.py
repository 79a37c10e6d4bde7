"""What the Device page says, decided from the self-test alone: verdict, speeds, bits, the matrix of tests. No widget in here."""

from collections.abc import Sequence
from dataclasses import dataclass

from halftone.contract.facts import BitsResult, DeviceFacts, OperationResult, SelfTestReport, SpeedResult
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DETAIL_NAMES
from halftone.contract.wording import Words
from halftone.gui.charts.device_charts import Mark, MatrixRow
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.i18n import catalogue, listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.settings.setting_effects import effect_of, shown_ratio, time_words
from halftone.gui.text import job_activity
from halftone.health.device_faults import avoided_backends, copies_are_faulty, sound_of
from halftone.health.forecasts.timing import is_measurable, mode_ratio
from halftone.health.precision import auto_follows_model
from halftone.session.state import AppState, Card, Job
from halftone.settings.declared import declared

MODES = ("float32", "tf32", "float16", "float16-sums", "bfloat16")
OPERATIONS = (
    "matmul",
    "convolution",
    "attention",
    "attention-backend",
    "softmax",
    "group-norm",
    "layer-norm",
    "upsampling",
    "functions",
    "long-sums",
    "near-limit",
    "tiny-values",
    "casting",
    "random-numbers",
    "copies",
    "memory",
)
BITS_LOST = 2.0
BITS_PLENTY = 16.0
"""A sum may lose less than two bits and still count as right; one that keeps 16 keeps more than any 16-bit type has."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """state: 'ok', 'warn', 'danger' or 'unknown' (the card's look); measuring: a self-test runs or waits."""

    state: str
    icon: str
    title: str
    text: str
    measuring: bool = False
    no_gpu: bool = False


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of What Halftone will do, and why."""

    text: str
    reason: str
    tip: str = ""


def on_processor(device: DeviceFacts | None) -> bool:
    return device is not None and device.backend == "cpu"


def mode_name(mode: str) -> str:
    names = {"tf32": "TF32", "float16-sums": tr("FP16, FP16 sums")}
    return names.get(mode) or type_name(mode)


def operation_name(operation: str) -> str:
    """The plain name of a test; an unknown one is shown as it is."""
    names = {
        "matmul": tr("Matrix product"),
        "convolution": tr("Convolution"),
        "attention": tr("Attention"),
        "attention-backend": tr("Attention backends"),
        "softmax": tr("Softmax"),
        "group-norm": tr("Group norm"),
        "layer-norm": tr("Layer norm"),
        "long-sums": tr("Long sums"),
        "upsampling": tr("Upsampling"),
        "random-numbers": tr("Random numbers"),
        "copies": tr("Copies"),
        "memory": tr("Memory integrity"),
        "functions": tr("exp, erf, sin"),
        "near-limit": tr("Near the limit"),
        "tiny-values": tr("Tiny values"),
        "casting": tr("Casting"),
        "unet-step": tr("UNet step"),
        "transformer-step": tr("Transformer step"),
    }
    return names.get(operation, operation.replace("-", " ").capitalize())


def short_name(operation: str) -> str:
    """The name of a test for little space."""
    names = {
        "matmul": tr("Product"),
        "convolution": tr("Conv."),
        "attention": tr("Attn."),
        "attention-backend": tr("Attn. backends"),
        "functions": tr("Functions"),
        "random-numbers": tr("Random"),
        "memory": tr("Memory"),
    }
    return names.get(operation) or operation_name(operation)


def passed(tests: Sequence[OperationResult]) -> tuple[int, int]:
    """Right answers, and tests that could run."""
    finished = [one for one in tests if one.outcome != "missing"]
    return sum(1 for one in finished if one.outcome == "right"), len(finished)


def wait_words(state: AppState) -> str:
    """Why the first picture has to wait, "" when it need not. It never waits for a worker that does not come."""
    if state.worker == "starting" or (state.worker == "ready" and state.device is None):
        return tr("Starting…")
    if state.measuring and state.self_test is None:
        return tr("Waiting for the measurement. Skip it to start in FP32.")
    return ""


def card_words(card: Card, job: Job | None) -> str:
    """What another GPU does for the queue. job: the one that runs there."""
    if job is not None:
        return job_activity(job)
    match card.worker:
        case "off":
            return tr("Starts when pictures wait")
        case "ready" if not card.measured:
            return tr("Not measured, so it takes no pictures")
        case "ready":
            return tr("In memory: {0}", card.loaded.name) if card.loaded is not None else tr("Ready")
        case "starting":
            return tr("Starting…")
        case _:
            return tr("The engine stopped")


def promises(report: SelfTestReport | None, numerics: Numerics, precision: tuple[str, Words]) -> tuple[Promise, ...]:
    """What Halftone will do with these settings on this device."""
    lines = [_precision_promise(report, numerics, precision)]
    if precision[0] != "float32":
        lines.append(_sums_promise(report, numerics))
    lines.append(_attention_promise(report, numerics))
    if copies_are_faulty(report):
        lines.append(Promise(tr("Use synchronous copies"), tr("others failed here")))
    lines.append(_check_promise(report, numerics))
    return tuple(lines)


def _precision_promise(report: SelfTestReport | None, numerics: Numerics, precision: tuple[str, Words]) -> Promise:
    """Promise a precision, with a short reason; the tooltip has the whole sentence."""
    tip = precision[1].text(catalogue())
    if report is not None and numerics.precision == "auto" and auto_follows_model(report):
        return Promise(tr("Compute in {0}", tr("{0} or {1}", "FP16", "BF16")), tr("depends on the model"), tip)
    return Promise(tr("Compute in {0}", type_name(precision[0])), _precision_reason(report, numerics), tip)


def _precision_reason(report: SelfTestReport | None, numerics: Numerics) -> str:
    if numerics.precision != "auto":
        return tr("your setting")
    if report is None:
        return tr("not measured yet")
    return tr("the fastest accurate precision")


def _sums_promise(report: SelfTestReport | None, numerics: Numerics) -> Promise:
    tests = [one for one in report.tests if one.mode == "float16-sums"] if report is not None else []
    right, ran = passed(tests)
    reason = ""
    if ran and right < ran:
        reason = tr("{0}: {1}", tr("FP16 sums"), tr("{0} of {1} tests failed", ran - right, ran))
    elif ran:
        passing = tr("{0}: {1}", tr("FP16 sums"), tr("{0} of {1} tests passed", right, ran))
        reason = passing if numerics.fp16_accumulation else tr("your setting")
    return Promise(tr("Accumulate in FP16") if numerics.fp16_accumulation else tr("Accumulate in FP32"), reason)


def _attention_promise(report: SelfTestReport | None, numerics: Numerics) -> Promise:
    backend, faulty = numerics.attention_backend, avoided_backends(report)
    names = {one.value: one.label for one in declared("attention_backend").choices}
    wrong = listed(*(name for value, name in names.items() if value in faulty and backend in ("auto", value)))
    avoids = backend == "auto" and sound_of(faulty)
    text = tr("Use attention without {0}", wrong) if avoids else tr("Use {0} attention", names[backend])
    if wrong:
        return Promise(text, tr("{0} failed here", wrong))
    math_effect = effect_of(report, "attention_backend", "math", numerics)
    reason = ""
    ratio, spread = (None, None) if math_effect is None else (math_effect.time_ratio, math_effect.time_spread)
    if backend != "math" and ratio is not None and ratio > 1.05 and is_measurable(ratio, spread):
        reason = tr("about {0} as fast as Math", figures.times(ratio))
    return Promise(text, reason)


def _check_promise(report: SelfTestReport | None, numerics: Numerics) -> Promise:
    words = {
        "every-step": tr("Check every step"),
        "at-end": tr("Check finished pictures"),
        "off": tr("Skip the NaN check"),
    }
    own, off = (effect_of(report, "nan_check", value, numerics) for value in (numerics.nan_check, "off"))
    reason = ""
    if off is not None and off.time_ratio and numerics.nan_check != "off":
        ratio = (own.time_ratio if own is not None and own.time_ratio else 1.0) / off.time_ratio
        reason = tr("costs {0}", figures.change(ratio).lstrip("+"))
    return Promise(words[numerics.nan_check], reason)


def _as_shown(operation: str) -> int:
    return OPERATIONS.index(operation) if operation in OPERATIONS else len(OPERATIONS)


def _by_mode(mode: str) -> int:
    return MODES.index(mode) if mode in MODES else len(MODES)


@dataclass(frozen=True, slots=True)
class ModeSpeed:
    """One mode over all timed operations: tflops together; caption: against FP32; parts: (operation, TFLOPS) of each."""

    mode: str
    caption: str
    tflops: float
    parts: tuple[tuple[str, float], ...]


def speeds(report: SelfTestReport) -> list[ModeSpeed]:
    """One speed for each mode, the one that Auto decides by: all operations that were timed, together."""
    return [_mode_speed(report, mode) for mode in sorted({one.mode for one in report.speeds}, key=_by_mode)]


def _mode_speed(report: SelfTestReport, mode: str) -> ModeSpeed:
    own = [one for one in report.speeds if one.mode == mode]
    ratio = mode_ratio(report.speeds, mode, "float32")
    caption = tr("The reference") if mode == "float32" else time_words(*ratio) if ratio is not None else ""
    tflops = _together(own)
    if mode != "float32" and ratio is not None:  # of paired runs, which the words are about
        timed = {one.operation for one in own}
        tflops = _together([one for one in report.speeds if one.mode == "float32" and one.operation in timed])
        tflops /= shown_ratio(*ratio)
    return ModeSpeed(mode, caption, tflops, tuple((operation_name(one.operation), one.tflops) for one in own))


def _together(timed: Sequence[SpeedResult]) -> float:
    """The speed over several operations."""
    return sum(one.tflops * one.seconds for one in timed) / sum(one.seconds for one in timed)


def speed_title(report: SelfTestReport) -> str:
    """The steps that the bars stand for; one of them where the other could not be timed."""
    step, *others = dict.fromkeys(one.operation for one in report.speeds)
    if others:
        return f"{tr('UNet step')} + {tr('Transformer step')}"
    return operation_name(step)


def bits(report: SelfTestReport) -> list[BitsResult]:
    return sorted(report.bits, key=lambda one: _by_mode(one.mode))


def bits_fine(result: BitsResult) -> bool:
    return result.bits_kept > min(result.bits - BITS_LOST, BITS_PLENTY)


def bits_caption(result: BitsResult) -> str:
    if not bits_fine(result):
        return tr("{0} bits lost", figures.decimal(result.bits - result.bits_kept))
    return tr("{0} + 1 bits", result.bits - 1)


@dataclass(frozen=True, slots=True)
class Matrix:
    """columns: operations; cells: results behind each mark."""

    columns: tuple[str, ...]
    short: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    cells: dict[tuple[int, int], tuple[OperationResult, ...]]


def matrix(tests: Sequence[OperationResult]) -> Matrix:
    """Modes down, operations across, one mark for all sizes of an operation."""
    operations = sorted(dict.fromkeys(one.operation for one in tests), key=_as_shown)
    modes = sorted(dict.fromkeys(one.mode for one in tests), key=_by_mode)
    rows: list[MatrixRow] = []
    cells: dict[tuple[int, int], tuple[OperationResult, ...]] = {}
    for line, mode in enumerate(modes):
        marks: list[Mark | None] = []
        for column, operation in enumerate(operations):
            results = tuple(one for one in tests if one.mode == mode and one.operation == operation)
            marks.append(_mark(results))
            if results:
                cells[line, column] = results
        right, ran = passed([one for one in tests if one.mode == mode])
        rows.append(MatrixRow(mode, mode_name(mode), tuple(marks), tr("{0} of {1}", right, ran)))
    names = tuple(operation_name(one) for one in operations)
    return Matrix(names, tuple(short_name(one) for one in operations), tuple(rows), cells)


def _mark(results: Sequence[OperationResult]) -> Mark | None:
    if not results:
        return None
    right, ran = passed(results)
    if ran == 0:
        return Mark("missing", tr("not available"))
    if right == ran:
        return Mark("right", tr("{0} of {1} tests passed", right, ran))
    return Mark("wrong", tr("{0} of {1} tests failed", ran - right, ran))


def matrix_summary(tests: Sequence[OperationResult], numerics: Numerics) -> str:
    """262 of 268 passed. The rest use settings that are off."""
    right, ran = passed(tests)
    words = [tr("{0} of {1} passed.", right, ran)]
    failed = [one for one in tests if one.outcome not in ("right", "missing")]
    off = {"float16-sums": not numerics.fp16_accumulation, "tf32": not numerics.tf32}
    if failed and all(off.get(one.mode, False) for one in failed):
        words.append(tr("The rest use settings that are off."))
    return sentences(*words)


def outcome_words(outcome: str) -> str:
    return {
        "right": tr("Correct"),
        "wrong": tr("Wrong"),
        "nonfinite": tr("NaN"),
        "zeros": tr("Zeros"),
        "missing": tr("Not available"),
    }.get(outcome, outcome)


def device_rows(device: DeviceFacts) -> list[tuple[str, str]]:
    """Facts that were really read from the system."""
    rows: list[tuple[str, str]] = []
    if device.driver:
        rows.append((tr("Driver"), device.driver))
    if device.torch_version:
        rows.append(("PyTorch", device.torch_version))
    details = dict(device.details)
    if device.threads:
        whole = details.pop("threads", "")
        rows.append((tr("Threads"), tr("{0} of {1}", device.threads, whole) if whole else str(device.threads)))
    rows += [(tr(DETAIL_NAMES[name]), value) for name, value in details.items()]
    return rows


def device_caption(device: DeviceFacts) -> str:
    names = {"cuda": "CUDA", "rocm": "ROCm", "mps": "Metal", "xpu": "XPU", "cpu": tr("Processor")}
    base = names.get(device.backend, device.backend)
    return tr("{0}, compute capability {1}", base, device.capability) if device.capability else base
