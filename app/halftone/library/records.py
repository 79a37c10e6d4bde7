"""Stored check reports and self-tests, one file each, and their staleness.

The files are strict JSON. A number that is not finite (a self-test that gave infinity) is a string in them.
"""

import hashlib
import json
import logging
import math
import re
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_args

import msgspec

from halftone.contract.facts import CheckReport, DeviceFacts, ModelFacts, SelfTestReport
from halftone.contract.request import ALONE, Extras, Numerics
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words, of_earlier_versions
from halftone.library.add_ons.extras import extras_key
from halftone.settings.atomic import write_atomically
from halftone.settings.declared import declared
from halftone.settings.disk import system_words
from halftone.settings.places import checks_dir
from halftone.settings.regular_files import read_once

log = logging.getLogger(__name__)

_Record = TypeVar("_Record")
_SELF_TEST_VERSION: Final = 5
"""Meaning of the numbers in a stored self-test. 2: the speed of a type is of matrix product, convolution and attention. 3: the
effect of a setting is measured in each precision. 4: the speed of a type is of steps of a denoiser, with the kernels that models
run with.
"""
_NO_EFFECT: Final = {"on_black", "nan_check", "precision", "offload", "vae_tiling", "compile"}
"""Settings that change no number of a check: it runs in its own precision, always watched and never compiled."""


class _SelfTestRecord(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    report: SelfTestReport


class SelfTests:
    """The self-tests of a process: the stored ones, and its own that could not be stored."""

    def __init__(self) -> None:
        self._own: dict[str, SelfTestReport] = {}

    def keep(self, report: SelfTestReport) -> SelfTestReport:
        """Store a new self-test. Returns it with the reason, if that fails: it is in force here all the same."""
        try:
            save_selftest(report)
        except OSError as error:
            log.warning("The self-test could not be kept: %s", error)
            report = msgspec.structs.replace(report, not_kept=system_words(error))
        self.take(report)
        return report

    def take(self, report: SelfTestReport) -> None:
        """Use a self-test: its record, or the report itself where there is none."""
        if report.not_kept:
            self._own[report.device.id] = report
        else:
            self._own.pop(report.device.id, None)

    def of(self, device: DeviceFacts) -> SelfTestReport | None:
        """What is known of this device; None if it must be measured."""
        return self._own.get(device.id) or load_selftest(device)


def save_report(report: CheckReport) -> None:
    """Keep the report as the latest one of its model, device and precision. Raises OSError."""
    _save(_report_file(report.model, report.device, report.precision, report.extras), report)


def load_report(model: ModelFacts, device: DeviceFacts, precision: DType, extras: Extras = ALONE) -> CheckReport | None:
    """The latest report of the model with just these extras, stale or not (ask `staleness`); None if none can be read."""
    return _load(_report_file(model, device, precision, extras), CheckReport)


def all_reports() -> list[CheckReport]:
    """Every stored check that can be read. Takes milliseconds for each."""
    names = sorted(file.name for file in checks_dir().glob("check-*.json"))
    return [report for name in names if (report := _load(name, CheckReport)) is not None]


def set_applied(report: CheckReport, applied: bool) -> CheckReport:
    """Store whether the report's plan is used whenever this model runs on this device. Raises OSError."""
    changed = msgspec.structs.replace(report, applied=applied)
    save_report(changed)
    return changed


def drop_applied(model: ModelFacts, device: DeviceFacts, extras: Extras) -> bool:
    """Stop using checks' plans of this model and device, alone or with the extras; whether one was used. Raises OSError."""
    kept = (load_report(model, device, dtype, some) for dtype in get_args(DType) for some in dict.fromkeys((ALONE, extras)))
    applied = [report for report in kept if report is not None and report.applied]
    for report in applied:
        set_applied(report, False)
    return bool(applied)


def staleness(report: CheckReport, model: ModelFacts, device: DeviceFacts, numerics: Numerics) -> Words | None:
    """The fact that changed since the check, as a sentence; None if it still holds."""
    then = report.device
    if report.model.fingerprint != model.fingerprint:
        return Words("The model's files changed since the check.")
    if (then.name, then.backend) != (device.name, device.backend):
        return Words("The check ran on another device, {0}.", (then.name,))
    if not same_driver(then.driver, device.driver):
        none = Words("none")
        return Words("The driver changed since the check, from {0} to {1}.", (then.driver or none, device.driver or none))
    if then.torch_version != device.torch_version:
        return Words("PyTorch changed since the check, from {0} to {1}.", (then.torch_version, device.torch_version))
    if (field := changed_setting(report.numerics, numerics)) is not None:
        return Words("The setting “{0}” changed since the check.", (Words(declared(field).title),))
    return None


def changed_setting(then: Numerics, now: Numerics) -> str | None:
    """The first setting that matters to a model's numbers and changed, None if there is none."""
    matters = (field for field in Numerics.__struct_fields__ if field not in _NO_EFFECT)
    return next((field for field in matters if getattr(then, field) != getattr(now, field)), None)


def same_driver(then: str | None, now: str | None) -> bool:
    """Whether two versions of a driver differ at most after the first point."""
    first, second = (driver.split(".")[0] if driver else None for driver in (then, now))
    return first == second


def save_selftest(report: SelfTestReport) -> None:
    """Keep the self-test of its device. Raises OSError."""
    _save(_selftest_file(report.device), _SelfTestRecord(version=_SELF_TEST_VERSION, report=report))


def load_selftest(device: DeviceFacts) -> SelfTestReport | None:
    """The stored self-test of this device, driver, PyTorch and version; None if it must be measured (again)."""
    record = _load(_selftest_file(device), _SelfTestRecord)
    if record is None or record.version != _SELF_TEST_VERSION:
        return None
    then = record.report.device
    measured = (then.backend, then.name, then.driver, then.torch_version)
    return record.report if measured == (device.backend, device.name, device.driver, device.torch_version) else None


def _report_file(model: ModelFacts, device: DeviceFacts, precision: DType, extras: Extras) -> str:
    key = "\0".join((str(Path(model.path).resolve()), device.backend, device.name, precision))
    key += f"\0{used}" if (used := extras_key(extras)) else ""
    return _file("check", model.name, key, precision)


def _selftest_file(device: DeviceFacts) -> str:
    return _file("device", device.name, device.backend + device.name)


def _file(kind: str, name: str, key: str, *more: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:40]
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{'-'.join((kind, plain, *more, digest))}.json"


def _save(name: str, record: object) -> None:
    content = _spelled(msgspec.to_builtins(record))
    write_atomically(checks_dir() / name, json.dumps(content, indent=1, allow_nan=False).encode())


def _spelled(value: Any) -> Any:
    """The same with "inf", "-inf" and "nan" for the numbers that JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _spelled(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in cast("list[Any]", value)]
    return value


def _record(data: bytes, kind: type[_Record]) -> _Record:
    content = json.loads(data)
    try:
        return msgspec.convert(content, kind, strict=False)  # reads "inf" where a number is due
    except msgspec.ValidationError:
        return msgspec.convert(of_earlier_versions(content), kind, strict=False)


def _load(name: str, kind: type[_Record]) -> _Record | None:
    try:
        return read_once(checks_dir() / name, _record, kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        log.info("The record %s is left aside: %s", name, error)
        return None
