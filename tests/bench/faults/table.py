"""One table of all cases."""

from collections.abc import Callable, Sequence
from typing import Any, Final

Row = dict[str, Any]
Goal = tuple[str, str, str, bool]
"""What was measured, how much, what it is to be, and whether it is."""
NOT_OVERFLOWS: Final = ("underflow", "flat", "nan-read")
"""Kinds of faults in which no number passes a limit."""
HEADS: Final = (
    *("faults", "cases", "found", "verdict", "code", "exact", "block", "step", "all"),
    *("cured", "no upcast", "upcast", "crash", "s"),
)


def table(rows: Sequence[Row], controls: Sequence[str]) -> str:
    """By family, by kind, and over all; then what could not be run."""
    ran = [row for row in rows if row["state"] in ("run", "crash")]
    faults = [row for row in ran if row["kind"] not in controls]
    sound = [row for row in ran if row["kind"] in controls]
    lines = [*_faults(faults), "", *_controls(sound), "", *_left(rows), ""]
    lines += [
        f"{what}: {measured} (goal {goal}){'' if met else ', MISSED'}" for what, measured, goal, met in goals(rows, controls)
    ]
    return "\n".join(lines)


def goals(rows: Sequence[Row], controls: Sequence[str]) -> list[Goal]:
    """Every figure that Halftone promises of faults."""
    ran = [row for row in rows if row["state"] in ("run", "crash")]
    faults = [row for row in ran if row["kind"] not in controls]
    sound = [row for row in ran if row["kind"] in controls]
    curable = _curable(faults)
    cured = [row for row in curable if row.get("cured") and row["kind"] not in NOT_OVERFLOWS]
    moved = [row for row in cured if _is_upcast(row)]
    share = sum(row["share"] for row in moved) / max(1, len(moved))
    false = sum(bool(row.get("false")) or row["state"] == "crash" for row in sound)
    families = len({row["family"] for row in ran})
    return [
        ("faulty cases, of architectures", f"{len(faults)}, {families}", "300, 15", len(faults) >= 300 and families >= 15),
        ("sound cases", str(len(sound)), "150", len(sound) >= 150),
        _at_least("found", faults, "found", 1.0),
        ("false alarms", str(false), "0", not false),
        _at_least("verdict right", ran, "right", 1.0),
        _at_least("origin named exactly", faults, "exact", 0.95),
        _at_least("its block", faults, "block", 1.0),
        _at_least("cured, the picture within 30 dB of FP32", curable, "cured", 0.98),
        (
            "overflows cured without any upcast",
            f"{len(cured) - len(moved)}/{len(cured)} ({1 - len(moved) / max(1, len(cured)):.1%})",
            "70%",
            len(moved) <= 0.3 * len(cured),
        ),
        ("parameters upcast in the others, on average", f"{share:.1%}", "5%", share <= 0.05),
    ]


def _at_least(what: str, rows: Sequence[Row], key: str, goal: float) -> Goal:
    good = sum(bool(row.get(key)) for row in rows)
    share = good / max(1, len(rows))
    return what, f"{good}/{len(rows)} ({share:.1%})", f"{goal:.0%}", share >= goal


def _is_upcast(row: Row) -> bool:
    """Some part of the model works in a wider type, with or without parameters of its own."""
    return row["share"] > 0 or bool(row["upcast"])


def _share(rows: Sequence[Row], test: Callable[[Row], object]) -> str:
    return f"{sum(bool(test(row)) for row in rows)}/{len(rows)}"


def _faults(rows: Sequence[Row]) -> list[str]:
    lines = [_line(HEADS)]
    groups = [*_grouped(rows, "kind"), *_grouped(rows, "family"), ("all", list(rows))]
    for name, group in groups:
        cured = [row for row in group if row.get("cured")]
        moved = [row for row in cured if _is_upcast(row)]
        mean = sum(row["share"] for row in moved) / len(moved) if moved else 0.0
        lines.append(
            _line(
                (
                    name,
                    str(len(group)),
                    _share(group, lambda row: row.get("found")),
                    _share(group, lambda row: row.get("right")),
                    _share(group, lambda row: row.get("coded")),
                    _share(group, lambda row: row.get("exact")),
                    _share(group, lambda row: row.get("block")),
                    _share(group, lambda row: row.get("stepped")),
                    _share(group, lambda row: row.get("all")),
                    _share(_curable(group), lambda row: row.get("cured")),
                    _share(cured, lambda row: not _is_upcast(row)),
                    f"{mean:.1%}",
                    str(sum(row["state"] == "crash" for row in group)),
                    _seconds(group),
                )
            )
        )
    return lines


def _curable(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] != "nan-read"]


def _controls(rows: Sequence[Row]) -> list[str]:
    lines = [_line(("controls", "cases", "false", "verdict", "unread", "crash", "s"))]
    for name, group in [*_grouped(rows, "kind"), *_grouped(rows, "family"), ("all", list(rows))]:
        cells = (
            name,
            str(len(group)),
            _share(group, lambda row: row.get("false")),
            _share(group, lambda row: row.get("right")),
            _share(group, lambda row: row.get("unread")),
            str(sum(row["state"] == "crash" for row in group)),
            _seconds(group),
        )
        lines.append(_line(cells))
    return lines


def _seconds(rows: Sequence[Row]) -> str:
    return f"{sum(row.get('seconds', 0.0) + row.get('made', 0.0) for row in rows) / max(1, len(rows)):.1f}"


def _grouped(rows: Sequence[Row], key: str) -> list[tuple[str, list[Row]]]:
    names = list(dict.fromkeys(row[key] for row in rows))
    return [(name, [row for row in rows if row[key] == name]) for name in names]


def _left(rows: Sequence[Row]) -> list[str]:
    """Crashes with their sentences, and how many places were not found."""
    told: dict[str, list[str]] = {}
    for row in rows:
        if row["state"] in ("crash", "not made", "no sound model"):
            told.setdefault(f"{row['state']}: {row.get('detail', '')}", []).append(f"{row['family']} {row['kind']} {row['seed']}")
    lines = [f"{len(cases)} × {sentence} [{', '.join(cases[:3])}]" for sentence, cases in told.items()]
    missing = sum(row["state"] == "no place" for row in rows)
    return [*lines, f"{missing} times a family had no place for a kind."]


def _line(cells: Sequence[str]) -> str:
    return "".join([f"{cells[0]:<14}", *(f"{cell:>10}" for cell in cells[1:])])
