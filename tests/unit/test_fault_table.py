"""The promises about faults are counted from the cases, and a miss is seen."""

from typing import Any

import pytest
from tests.bench.faults.table import goals, table

CONTROLS = ("sound",)


def _rows() -> list[dict[str, Any]]:
    faults = [
        {
            "state": "run", "family": f"f{index % 15}", "kind": "stream", "seed": index, "right": True, "coded": True,
            "found": True, "exact": True, "block": True, "stepped": True, "all": True, "cured": True, "share": 0.0, "upcast": {},
        }
        for index in range(300)
    ]  # fmt: skip
    sound = [
        {"state": "run", "family": "f0", "kind": "sound", "seed": n, "false": False, "right": True, "unread": True}
        for n in range(150)
    ]
    return [*faults, *sound]


def _missed(rows: list[dict[str, Any]]) -> list[str]:
    return [what for what, _, _, met in goals(rows, CONTROLS) if not met]


def test_all_is_met() -> None:
    assert _missed(_rows()) == []
    assert "MISSED" not in table(_rows(), CONTROLS)


@pytest.mark.parametrize(
    ("rows", "changes", "what"),
    [
        (1, {"found": False}, "found"),
        (1, {"right": False}, "verdict right"),
        (16, {"exact": False}, "origin named exactly"),
        (1, {"block": False}, "its block"),
        (7, {"cured": False}, "cured, the picture within 30 dB of FP32"),
        (91, {"upcast": {"unet": ["a.(result)"]}}, "overflows cured without any upcast"),
        (2, {"share": 0.06}, "parameters upcast in the others, on average"),
    ],
)
def test_a_miss_is_seen(rows: int, changes: dict[str, Any], what: str) -> None:
    cases = _rows()
    for row in cases[:rows]:
        row.update(changes)
    assert _missed(cases) == [what]
    assert "MISSED" in table(cases, CONTROLS)


def test_a_false_alarm_and_a_crash_in_a_sound_model_are_seen() -> None:
    cases = _rows()
    cases[-1]["false"] = True
    assert _missed(cases) == ["false alarms"]
    cases = _rows()
    cases[-1] = {**cases[-1], "state": "crash"}
    assert _missed(cases) == ["false alarms"]


def test_too_few_cases_are_seen() -> None:
    assert _missed(_rows()[1:-1]) == ["faulty cases, of architectures", "sound cases"]
