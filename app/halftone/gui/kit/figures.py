"""Numbers as people read them: grouped digits, real minus signs, the locale's decimal mark, rounded remains."""

import math
from datetime import datetime

from PySide6.QtCore import QDate, QLocale

from halftone.gui.i18n import tr
from halftone.health.part_names import rounded_room

NARROW = "\u202f"
HARD = "\u00a0"
MINUS = "\u2212"
_SUPER = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def group(number: int) -> str:
    """65504 -> 65 504, with a narrow no-break space; a real minus sign."""
    return f"{number:,}".replace(",", NARROW).replace("-", MINUS)


def pixels(width: int, height: int) -> str:
    """1024 × 768, in every place without groups, as the fields have it."""
    return f"{width} × {height}"


def decimal(number: float, places: int = 1) -> str:
    """Format with one decimal by default, with the locale's mark; never a negative zero."""
    rounded = round(number, places) + 0.0
    whole, _, rest = f"{abs(rounded):.{places}f}".partition(".")
    mark = QLocale().decimalPoint()
    sign = MINUS if rounded < 0 else ""
    return sign + group(int(whole)) + (mark + rest if rest else "")


def power(exponent: int, base: int = 2) -> str:
    """2 to the power, or another base, with raised digits."""
    return str(base) + str(exponent).translate(_SUPER)


def peak(value: float) -> str:
    """A peak, four significant digits; very large ones as a power of ten."""
    if not math.isfinite(value):
        return tr("not a number")
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 9 or size < -3:
        return f"{decimal(value / 10**size, 2)}{HARD}×{HARD}10" + str(size).translate(_SUPER)
    if size >= 3:
        return group(int(round(value, 3 - size)))
    return decimal(value, max(0, 2 - size) if size >= 0 else 3)


def bits(value: float) -> str:
    """Room in bits, one decimal, rounded down."""
    if not math.isfinite(value):
        return tr("none") if value < 0 else tr("all")
    return tr("{0} bits", decimal(rounded_room(value)))


def times(ratio: float) -> str:
    """3.24 -> 3.2 ×"""
    return tr("{0} ×", peak(ratio) if ratio >= 1000 else decimal(ratio)).replace(" ", HARD)


def change(ratio: float) -> str:
    """A ratio as a change in percent: 1.011 -> +1.1 %"""
    percent = (ratio - 1) * 100
    if abs(percent) < 0.05:
        return f"0{HARD}%"
    places = 0 if abs(percent) >= 9.95 else 1
    return f"{'+' if percent > 0 else ''}{decimal(percent, places)}{HARD}%"


def size(count: int) -> str:
    """Bytes in GB, MB or kB (10^9, 10^6, 10^3)."""
    if count >= 1e9:
        return f"{decimal(count / 1e9)}{HARD}GB"
    if count >= 1e6:
        return f"{decimal(count / 1e6, 0)}{HARD}MB"
    return f"{decimal(max(1, math.ceil(count / 1e3)), 0)}{HARD}kB" if count else "0"


def size_change(count: int) -> str:
    """Bytes with a sign; zero stays 0."""
    if count == 0:
        return "0"
    return ("+" if count > 0 else MINUS) + size(abs(count))


def duration(seconds: float) -> str:
    """9 s, 1 min 51 s; rounded up, never 0 s."""
    whole = max(1, math.ceil(seconds - 1e-6))
    if whole < 60:
        return tr("{0} s", whole).replace(" ", HARD)
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        text = tr("{0} min", minutes) if rest == 0 else tr("{0} min {1} s", minutes, rest)
        return text.replace(" ", HARD)
    return tr("{0} h {1} min", whole // 3600, math.ceil(whole % 3600 / 60)).replace(" ", HARD)


def moment(iso: str) -> str:
    """ISO 8601 -> 'today 14:32' or '12 May 14:32', in local time. No line breaks inside it."""
    try:
        when = datetime.fromisoformat(iso).astimezone()
    except ValueError:
        return iso
    clock = f"{when:%H:%M}"
    today = datetime.now().astimezone().date()
    if when.date() == today:
        return tr("today {0}", clock).replace(" ", HARD)
    pattern = tr("d MMM") if when.year == today.year else tr("d MMM yyyy")
    return f"{QLocale().toString(QDate(when.year, when.month, when.day), pattern)} {clock}".replace(" ", HARD)
