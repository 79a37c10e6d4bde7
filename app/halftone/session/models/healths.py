"""What the checks on this device say of every model: read from the disk in one go, and judged off the window's thread."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from halftone.contract.facts import CheckReport, DeviceFacts, ModelFacts, SelfTestReport
from halftone.contract.request import ALONE, Extras, Numerics
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.contract.wording import Words, both
from halftone.health.judge import Badge, badge
from halftone.health.precision import model_precision


class InPrecision(NamedTuple):
    """A check in one precision."""

    badge: Badge
    checked_at: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Health:
    """fingerprint: of the model that was checked; badge: in the precision in use; checks: by precision, those that were made."""

    fingerprint: str
    precision: DType
    badge: Badge
    checks: Mapping[DType, InPrecision]


@dataclass(frozen=True, kw_only=True)
class Healths:
    """by_model: of the models that were checked on this device, by the name that `--model` takes."""

    by_model: Mapping[str, Health] = field(default_factory=dict[str, Health])


class Circumstances(NamedTuple):
    """What a verdict depends on beside the check."""

    device: DeviceFacts
    numerics: Numerics
    self_test: SelfTestReport | None


def judged(reports: Iterable[CheckReport], now: Circumstances) -> dict[str, Health]:
    """Model -> its health. Checks with extras and on other devices do not count."""
    by_model: dict[str, dict[DType, CheckReport]] = {}
    for report in reports:
        here = (report.device.backend, report.device.name) == (now.device.backend, now.device.name)
        if here and report.extras == ALONE:
            by_model.setdefault(report.model.id, {})[report.precision] = report
    return {model: _health(found, now) for model, found in by_model.items()}


def _health(found: Mapping[DType, CheckReport], now: Circumstances) -> Health:
    model = max(found.values(), key=lambda report: report.checked_at).model

    def load(_model: ModelFacts, _device: DeviceFacts, dtype: DType, _extras: Extras) -> CheckReport | None:
        return found.get(dtype)

    precision = model_precision(now.numerics, now.self_test, now.device, model, ALONE, load)[0]
    badges = {dtype: badge(report, model, now.device, now.numerics) for dtype, report in found.items()}
    in_use = badges.get(precision)
    if in_use is None:
        named = both(*(DTYPE_NAMES[dtype] for dtype in found))
        reason = Words("Checked in {0}, not in {1} yet.", (named, DTYPE_NAMES[precision]))
        in_use = Badge("unchecked", None, reason, elsewhere=True)
    checks: dict[DType, InPrecision] = {
        dtype: InPrecision(badges[dtype], one.checked_at, one.seconds) for dtype, one in found.items()
    }
    return Health(fingerprint=model.fingerprint, precision=precision, badge=in_use, checks=checks)
