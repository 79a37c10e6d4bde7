"""What a Numerics setting does on this device, in words, from the self-test; nothing is ever guessed."""

import math

from msgspec import structs

from halftone.contract.facts import SelfTestReport, SettingEffect
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType
from halftone.gui.charts.effect_cell import DOTS, Effect, dots_for_db, dots_for_error
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.i18n import catalogue, tr
from halftone.gui.kit import figures
from halftone.health.forecasts.timing import is_measurable, mode_ratio
from halftone.settings.declared import Setting

EXACT_DB = 100.0
"""Two runs that agree to FP32's own last bit."""
_MODES = {"tf32": ("tf32", "float32"), "fp16_accumulation": ("float16-sums", "float16")}
POOR_DB = 40.0
"""Below this, differences to FP32 begin to be seen."""


def in_force(report: SelfTestReport, numerics: Numerics) -> DType:
    """The precision of the next picture, by the settings."""
    return report.auto if numerics.precision == "auto" else numerics.precision


def effect_of(report: SelfTestReport | None, field: str, value: object, numerics: Numerics | None = None) -> SettingEffect | None:
    """The measurement of one value of one setting, against the default of that setting.

    numerics: of what was measured in each precision, the one in force; what was measured in another alone counts too.
    """
    wanted = str(value).lower()
    effects = [one for one in report.effects if one.setting == field and one.value == wanted] if report is not None else []
    used = in_force(report, numerics or Numerics()) if report is not None else None
    return next((one for one in effects if one.dtype in (None, used)), effects[0] if effects else None)


def refusal_of(report: SelfTestReport | None, field: str, value: str, numerics: Numerics | None = None) -> str | None:
    """Why a choice cannot be taken here: the device cannot compute it, or computes it wrongly."""
    if field not in ("attention_backend", "precision"):
        return None
    found = effect_of(report, field, value, numerics)
    return found.note.text(catalogue()) if found is not None and found.note and found.time_ratio is None else None


def effect(setting: Setting, numerics: Numerics, report: SelfTestReport | None) -> Effect:
    """The cells of a row: what the value in force does; for a default, what the other choice would do."""
    field = setting.field
    now = getattr(numerics, field)
    if field == "on_black":
        return _quiet(
            tr("Only when it happens"), tr("Repaired with a cure") if now in ("recover", "quiet") else tr("Nothing is hidden")
        )
    if report is None:
        return unmeasured()
    match field:
        case "offload":
            gains_nothing = Effect("", "", note=tr("Changes nothing on this device."))
            return gains_nothing if report.device.backend == "cpu" else _quiet(tr("Not measured"), tr("The same picture"))
        case "fp8_storage":
            return _quiet(tr("Not measured"), tr("Weights keep 4 bits"))
        case "vae_tiling":
            return unmeasured()
        case "precision":
            return _precision(report, now)
        case "attention_backend":
            return _attention(report, numerics)
        case "nan_check":
            return _watching(report, numerics)
        case "upcast_sampling":
            return _effect_shown(effect_of(report, field, False, numerics), tr("Off: {0}", "{0}") if now else "{0}")
        case "vae_float32" | "upcast_cross_attention":
            other = now if now != "when-needed" else "always"
            return _effect_shown(
                effect_of(report, field, other, numerics), tr("Always: {0}", "{0}") if now == "when-needed" else "{0}"
            )
        case _:
            return _switch(report, field, numerics)


def unmeasured() -> Effect:
    return _quiet(tr("Not measured"), tr("Not measured"))


def _quiet(time: str, close: str) -> Effect:
    return Effect(time, close, quiet_time=True, quiet_close=True)


def _effect_shown(found: SettingEffect | None, frame: str = "{0}") -> Effect:
    if found is None:
        return unmeasured()
    if found.time_ratio is None and found.note:
        return Effect("", "", note=found.note.text(catalogue()))
    time = tr("Not measured") if found.time_ratio is None else frame.format(time_words(found.time_ratio, found.time_spread))
    words, dots = closeness(found)
    warn = found.closeness_db is not None and found.closeness_db < POOR_DB
    return Effect(
        time,
        words,
        None if found.time_ratio is None else shown_ratio(found.time_ratio, found.time_spread),
        dots,
        quiet_time=found.time_ratio is None,
        quiet_close=dots is None,
        warn=warn,
    )


def _switch(report: SelfTestReport, field: str, numerics: Numerics) -> Effect:
    """A switch that is a mode of its own takes its time from there, as the Device page does.

    One that acts in another precision than the one in force names it.
    """
    found = effect_of(report, field, True, numerics)
    only = found.dtype if found is not None and found.dtype != in_force(report, numerics) else None
    frame = tr("{0}: {1}", type_name(only), "{0}") if only is not None else "{0}"
    ratio = mode_ratio(report.speeds, *_MODES[field]) if field in _MODES else None
    if found is None or found.time_ratio is None or ratio is None:
        return _effect_shown(found, frame)
    return _effect_shown(structs.replace(found, time_ratio=ratio.value, time_spread=ratio.spread), frame)


def _spread_of_ratio(ratio: float | None, own: SettingEffect | None, base: SettingEffect) -> float | None:
    """How far the runs of own over base reach. The spread of base is that of base over the default: it shrinks with the ratio."""
    spreads = [base.time_spread]
    if own is not None:
        spreads.append(own.time_spread / own.time_ratio if own.time_spread is not None and own.time_ratio else None)
    known = [spread for spread in spreads if spread is not None]
    return ratio * max(known) if ratio is not None and len(known) == len(spreads) else None


def _ratio(first: float | None, second: float | None) -> float | None:
    return first / second if first and second else None


def _precision(report: SelfTestReport, now: str) -> Effect:
    """Time and error against FP32; the time is the one that Auto decides by, as everywhere it is shown."""
    dtype = report.auto if now == "auto" else now
    if dtype == "float32":
        return _quiet(tr("The reference"), tr("FP32 itself"))
    own = effect_of(report, "precision", dtype)
    if own is None or (own.note and own.time_ratio is None):
        return _effect_shown(own)
    found = mode_ratio(report.speeds, dtype, "float32")
    ratio, spread = (None, None) if found is None else found
    return _effect_shown(SettingEffect(setting="", value="", time_ratio=ratio, time_spread=spread, closeness_db=own.closeness_db))


def _attention(report: SelfTestReport, numerics: Numerics) -> Effect:
    """Compared with Math, which every device has. The error of the default follows from the one of Math and their ratio."""
    now = numerics.attention_backend
    base = effect_of(report, "attention_backend", "math", numerics)
    if now == "math":
        return _quiet(tr("The reference"), closeness(base)[0] if base is not None else tr("Not measured"))
    own = effect_of(report, "attention_backend", now, numerics)
    if base is None or base.time_ratio is None or (own is not None and own.note and own.time_ratio is None):
        return _effect_shown(own)
    ratio = _ratio(1.0 if now == "auto" else own.time_ratio if own is not None else None, base.time_ratio)
    db = own.closeness_db if own is not None else None
    if now == "auto" and base.closeness_db is not None and base.error_ratio:
        db = base.closeness_db + 20 * math.log10(base.error_ratio)
    spread = _spread_of_ratio(ratio, None if now == "auto" else own, base)
    return _effect_shown(SettingEffect(setting="", value="", time_ratio=ratio, time_spread=spread, closeness_db=db))


def _watching(report: SelfTestReport, numerics: Numerics) -> Effect:
    """What the check costs: against none at all."""
    catches = {
        "every-step": tr("Catches NaN at once"),
        "at-end": tr("Catches NaN at the end"),
        "off": tr("Catches nothing"),
    }
    now = numerics.nan_check
    off = effect_of(report, "nan_check", "off", numerics)
    if off is None or off.time_ratio is None or now == "off":
        return _quiet(tr("Not measured") if now != "off" else tr("The reference"), catches[now])
    own = effect_of(report, "nan_check", now, numerics)
    ratio = _ratio(own.time_ratio if own is not None else 1.0, off.time_ratio)
    cost = _effect_shown(SettingEffect(setting="", value="", time_ratio=ratio))
    return Effect(cost.time_words, catches[now], cost.time_ratio, quiet_close=True)


def time_words(ratio: float, spread: float | None = None) -> str:
    """Say a ratio of times: 2.4 × as fast, 27 % faster, 6.1 % slower, 2.4 × as long. spread: of the single runs; what is
    within it is no difference, and the rest is about so much. None: computed, or the runs were not kept.
    """
    if spread is None:
        return _exactly(ratio)
    return f"≈{_exactly(ratio)}" if is_measurable(ratio, spread) else f"≈{figures.change(1.0)}"


def shown_ratio(ratio: float, spread: float | None) -> float:
    """The ratio as bars and words show it: what is within the spread of the runs is no difference."""
    return ratio if spread is None or is_measurable(ratio, spread) else 1.0


def _exactly(ratio: float) -> str:
    if abs(ratio - 1) < 0.0005:
        return tr("No change")
    if ratio <= 1 / 1.5:
        return tr("{0} as fast", _times(1 / ratio))
    if ratio < 1:
        return tr("{0} faster", figures.change(1 / ratio).lstrip("+"))
    if ratio >= 2:
        return tr("{0} as long", _times(ratio))
    return tr("{0} slower", figures.change(ratio).lstrip("+"))


def _times(ratio: float) -> str:
    """3.2 ×, 12 ×: the cell is narrow, and no such figure is that exact."""
    return figures.times(ratio) if ratio < 10 else tr("{0} ×", figures.decimal(ratio, 0)).replace(" ", figures.HARD)


def closeness(found: SettingEffect) -> tuple[str, float | None]:
    """Words and dots of the closeness to FP32."""
    if found.closeness_db is not None:
        dots = dots_for_db(found.closeness_db)
        if found.closeness_db >= EXACT_DB:
            return tr("Exact"), float(DOTS)
        db = f"{figures.decimal(found.closeness_db, 0)}{figures.HARD}dB"
        return db, dots
    if found.error_ratio is not None:
        ratio = found.error_ratio
        if abs(ratio - 1) < 0.02:
            return tr("No change"), dots_for_error(1.0)
        sign, size = ("×", ratio) if ratio > 1 else ("÷", 1 / max(ratio, 1e-9))
        return tr("Error {0}", f"{sign}{figures.HARD}{figures.decimal(size)}"), dots_for_error(ratio)
    return tr("Not measured"), None
