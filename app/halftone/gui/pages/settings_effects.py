"""What a Numerics setting does on this device, in words, from the self-test; nothing is ever guessed."""

from halftone.contract.facts import SelfTestReport, SettingEffect
from halftone.contract.request import Numerics
from halftone.gui.i18n import tr
from halftone.gui.widgets import figures
from halftone.gui.widgets.effect_cell import DOTS, Effect, dots_for_db, dots_for_error
from halftone.settings.declared import Setting

SAME_DB = 40.0
EXACT_DB = 100.0
"""Two runs that agree to FP32's own last bit."""
NOTHING = "–"


def effect_of(report: SelfTestReport | None, field: str, value: object) -> SettingEffect | None:
    """The measurement of one value of one setting."""
    wanted = {str(value).lower(), "on" if value is True else str(value).lower()}
    for one in report.effects if report is not None else ():
        if one.setting in (field, f"numerics.{field}") and one.value.lower() in wanted:
            return one
    return None


def refusal_of(report: SelfTestReport | None, field: str, value: str) -> str | None:
    """Why a choice cannot be taken here: it has a note and no measurement."""
    found = effect_of(report, field, value)
    return found.note if found is not None and found.note and found.time_ratio is None else None


def effect(setting: Setting, numerics: Numerics, report: SelfTestReport | None) -> Effect:
    """The three cells of a row."""
    field = setting.field
    if field == "on_black":
        return Effect(
            tr("Only when it happens"), NOTHING, tr("Decoded in FP32"), quiet_time=True, quiet_memory=True, quiet_close=True
        )
    if report is None:
        return unmeasured()
    now = getattr(numerics, field)
    if field == "precision":
        dtype = report.auto if now == "auto" else now
        return _reference() if dtype == "float32" else _told(effect_of(report, field, dtype))
    if field == "attention_backend":
        return _attention(report, now)
    if setting.kind == "switch":
        return _told(effect_of(report, field, True))
    if field == "nan_check":
        found = effect_of(report, field, now)
        return _watching(found, now)
    return _told(effect_of(report, field, "always"), tr("Always: {0}", "{0}"))


def unmeasured() -> Effect:
    words = tr("Not measured")
    return Effect(words, NOTHING, words, quiet_time=True, quiet_memory=True, quiet_close=True)


def _reference() -> Effect:
    words = tr("The reference")
    return Effect(words, NOTHING, words, quiet_time=True, quiet_memory=True, quiet_close=True)


def _told(found: SettingEffect | None, frame: str = "{0}") -> Effect:
    if found is None:
        return unmeasured()
    if found.time_ratio is None and found.note:
        return Effect(tr(found.note), NOTHING, tr("Not in use"), quiet_time=True, quiet_memory=True, quiet_close=True)
    time = tr("Not measured") if found.time_ratio is None else frame.format(time_words(found.time_ratio))
    memory = NOTHING if found.memory_bytes is None else figures.size_change(found.memory_bytes)
    words, dots = closeness(found)
    warn = found.error_ratio is not None and found.error_ratio >= 8
    return Effect(
        time,
        memory,
        words,
        found.time_ratio,
        dots,
        quiet_time=found.time_ratio is None,
        quiet_memory=not found.memory_bytes,
        quiet_close=dots is None,
        warn=warn,
    )


def _attention(report: SelfTestReport, now: str) -> Effect:
    """Compared with Math, which every device has."""
    base = effect_of(report, "attention_backend", "math")
    if now == "math":
        return _reference()
    own = effect_of(report, "attention_backend", now)
    if own is not None and own.note and own.time_ratio is None:
        return _told(own)
    if base is None or base.time_ratio is None:
        return unmeasured()
    ratio = 1.0 if own is None or own.time_ratio is None else own.time_ratio
    told = own if own is not None and (own.closeness_db is not None or own.error_ratio is not None) else base
    memory = None if base.memory_bytes is None else -base.memory_bytes
    words, dots = closeness(told)
    return Effect(
        time_words(ratio / base.time_ratio),
        NOTHING if memory is None else figures.size_change(memory),
        words,
        ratio / base.time_ratio,
        dots,
        quiet_memory=not memory,
        quiet_close=dots is None,
    )


def _watching(found: SettingEffect | None, now: str) -> Effect:
    catches = {
        "every-step": tr("Catches it at the first bad step"),
        "at-end": tr("Catches it in the finished picture"),
        "off": tr("Catches nothing"),
    }
    told = _told(found)
    return Effect(
        told.time_words,
        told.memory_words,
        catches[now],
        told.time_ratio,
        None,
        told.quiet_time,
        told.quiet_memory,
        quiet_close=True,
    )


def time_words(ratio: float) -> str:
    """A ratio of times as people say it: 2.4 × faster, 21 % faster, +6.1 %."""
    if abs(ratio - 1) < 0.0005:
        return tr("No gain here")
    if ratio <= 1 / 1.5:
        return tr("{0} faster", figures.times(1 / ratio))
    if ratio < 1:
        return tr("{0} faster", figures.change(2 - ratio).lstrip("+"))
    if ratio >= 2:
        return tr("{0} slower", figures.times(ratio))
    return figures.change(ratio)


def closeness(found: SettingEffect) -> tuple[str, float | None]:
    """Words and dots of the closeness to FP32."""
    if found.closeness_db is not None:
        dots = dots_for_db(found.closeness_db)
        if found.closeness_db >= EXACT_DB:
            return tr("Exact"), float(DOTS)
        db = f"{figures.decimal(found.closeness_db, 0)}{figures.HARD}dB"
        return (tr("Same picture, {0}", db), dots) if found.closeness_db >= SAME_DB else (db, dots)
    if found.error_ratio is not None:
        ratio = found.error_ratio
        if abs(ratio - 1) < 0.02:
            return tr("No change"), dots_for_error(1.0)
        sign, size = ("×", ratio) if ratio > 1 else ("÷", 1 / max(ratio, 1e-9))
        return tr("Error {0}", f"{sign}{figures.HARD}{figures.decimal(size)}"), dots_for_error(ratio)
    return tr("Not measured"), None
