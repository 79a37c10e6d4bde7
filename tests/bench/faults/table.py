"""One table of all cases."""

from collections.abc import Callable, Sequence
from typing import Any, Final

Row = dict[str, Any]
HEADS: Final = (
    *("faults", "cases", "found", "verdict", "code", "exact", "block", "step", "all"),
    *("cured", "no upcast", "upcast", "crash", "s"),
)


def table(rows: Sequence[Row], controls: Sequence[str]) -> str:
    """By family, by kind, and over all; then what could not be run."""
    ran = [row for row in rows if row["state"] in ("run", "crash")]
    faults = [row for row in ran if row["kind"] not in controls]
    sound = [row for row in ran if row["kind"] in controls]
    lines = [*_faults(faults), "", *_controls(sound), "", *_left(rows)]
    return "\n".join(lines)


def _share(rows: Sequence[Row], test: Callable[[Row], object]) -> str:
    return f"{sum(bool(test(row)) for row in rows)}/{len(rows)}"


def _faults(rows: Sequence[Row]) -> list[str]:
    lines = [_line(HEADS)]
    groups = [*_grouped(rows, "kind"), *_grouped(rows, "family"), ("all", list(rows))]
    for name, group in groups:
        cured = [row for row in group if row.get("cured")]
        mean = sum(row["share"] for row in cured) / len(cured) if cured else 0.0
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
                    _share(cured, lambda row: row["share"] == 0),
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
