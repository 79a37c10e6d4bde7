"""The sentence on the Device page that counts: what the device can do, and what Halftone uses on it."""

from collections.abc import Sequence

from halftone.contract.facts import DeviceFacts, SelfTestReport
from halftone.contract.vocabulary import Precision
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.device.device_view import Verdict, on_processor, operation_name, passed
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit import figures
from halftone.health.forecasts.timing import is_measurable
from halftone.health.precision import auto_follows_model
from halftone.session.state import Job


def verdict(
    report: SelfTestReport | None, device: DeviceFacts | None, job: Job | None, now: float, chosen: Precision = "auto"
) -> Verdict:
    """The sentence at the top left. chosen: the precision in the settings."""
    if job is not None:
        return _measuring(job, now)
    if device is None:
        return Verdict("unknown", "circle-dashed", tr("Looking for a GPU…"), tr("Starting the engine…"))
    if report is None:
        text = tr("Until then, Halftone uses FP32.")
        return Verdict("unknown", "circle-dashed", tr("Not measured yet"), text)
    if on_processor(device):
        return _processor(report, chosen)
    return _gpu(report, chosen)


def _measuring(job: Job, now: float) -> Verdict:
    what = tr("Measuring your device")
    if job.stopping:
        return Verdict("info", "gauge", tr("Stopping the measurement"), tr("Results so far are kept."), measuring=True)
    if not job.running:
        return Verdict("info", "gauge", what, tr("Waiting for the running job."), measuring=True)
    words: list[str] = []
    if job.total:
        words.append(tr("Test {0} of {1}", min(job.done + 1, job.total), job.total))
        left = time_left(job, now)
        words.append(tr("estimating") if left is None else tr("about {0} left", figures.duration(left)))
    return Verdict("info", "gauge", what, tr("{0}.", listed(*words)) if words else tr("Starting."), measuring=True)


def time_left(job: Job, now: float) -> float | None:
    """Seconds left of a self-test, None before three tests are done."""
    if job.started is None or not job.total or job.done < 3:
        return None
    return (now - job.started) * (job.total - job.done) / job.done


def _set_words(report: SelfTestReport, chosen: Precision) -> str:
    """What is used where a precision is set, "" where Auto chooses."""
    if chosen == "auto":
        return ""
    if chosen == report.auto and not auto_follows_model(report):
        return tr("{0} is set, the same as Auto.", type_name(chosen))
    return tr("{1} is set. Auto would use {0}.", _auto_words(report), type_name(chosen))


def _auto_words(report: SelfTestReport) -> str:
    """The type that Auto uses, or both where it depends on the model."""
    if auto_follows_model(report):
        return tr("FP16, or BF16 for models that need its range")
    return type_name(report.auto)


def _speed_words(report: SelfTestReport, chosen: Precision) -> str:
    if said := _set_words(report, chosen):
        return said
    auto = next((one for one in report.dtypes if one.dtype == report.auto), None)
    uses = tr("Halftone uses {0}.", _auto_words(report))
    if report.auto == "float32" or auto is None or auto.speed is None:
        return uses
    speed = tr("{0} is about {1} as fast as FP32.", type_name(report.auto), figures.times(auto.speed))
    return sentences(uses, speed)


def _tests_words(report: SelfTestReport) -> str:
    """Which types were right, and in how many tests."""
    good = [type_name(one.dtype) for one in report.dtypes if one.state in ("works", "slow") and one.dtype != "float32"]
    right, ran = passed([one for one in report.tests if one.mode in ("float16", "bfloat16")])
    if not good:
        return tr("{0} of {1} half-precision tests passed.", right, ran)
    if right == ran:
        return tr("{0} passed every test.", _and(good))
    accurate = tr("{0} is accurate.", _and(good))
    return sentences(accurate, tr("{0} of {1} half-precision tests passed.", right, ran))


def _and(names: Sequence[str]) -> str:
    return tr("{0} and {1}", names[0], names[1]) if len(names) == 2 else listed(*names)


def _states(report: SelfTestReport) -> dict[str, str]:
    return {one.dtype: one.state for one in report.dtypes}


def _gpu(report: SelfTestReport, chosen: Precision) -> Verdict:
    states = _states(report)
    half, brain = states.get("float16", "missing"), states.get("bfloat16", "missing")
    text = sentences(_tests_words(report), _speed_words(report, chosen))
    set_words, auto = _set_words(report, chosen), type_name(report.auto)
    if half == "wrong":
        speed, spread = next(((one.speed, one.spread) for one in report.dtypes if one.dtype == "float16"), (None, None))
        if set_words:
            end = set_words
        elif report.auto == "float32" and speed is not None and speed > 1.0 and is_measurable(speed, spread):
            end = sentences(tr("Halftone uses {0}.", auto), tr("Pictures take about {0} as long.", figures.times(speed)))
        else:
            end = tr("Halftone uses {0}.", auto)
        return Verdict("warn", "triangle-alert", tr("{0} is faulty on this device", "FP16"), sentences(end, _failing(report)))
    if half == "works" and brain == "slow":
        return Verdict(
            "ok",
            "circle-check",
            tr("Half precision works on this GPU"),
            text if set_words else sentences(text, tr("BF16 is slow here.")),
        )
    if "works" in (half, brain):
        return Verdict("ok", "circle-check", tr("Half precision works on this GPU"), text)
    if half == "slow" or brain == "slow":
        return Verdict("ok", "circle-check", tr("Half precision works, but is not faster"), text)
    end = set_words or tr("Halftone uses {0}.", auto)
    return Verdict("warn", "triangle-alert", tr("This GPU has no half precision"), end)


def _failing(report: SelfTestReport) -> str:
    """Which test went wrong."""
    bad = next((one.failing for one in report.dtypes if one.dtype == "float16" and one.failing is not None), None)
    if bad is None:
        return ""
    return tr("Failed test: {0}, {1}.", operation_name(bad.operation), bad.size)


def _processor(report: SelfTestReport, chosen: Precision) -> Verdict:
    instead = tr("Pictures run on the processor, more slowly.")
    text = sentences(instead, _tests_words(report), _speed_words(report, chosen))
    return Verdict("warn", "cpu", tr("No supported GPU found"), text, no_gpu=True)
