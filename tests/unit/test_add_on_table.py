"""The promises about cures with add-ons are counted from the cases, and a miss is seen."""

from typing import Any

import pytest
from tests.bench.faults.add_ons import goals, table

GOOD = {"shows": 20.0, "psnr": 55.0, "psnr again": 55.0, "made": "clean", "made again": "clean", "cures": []}


def rows() -> list[dict[str, Any]]:
    return [
        {"family": "sd15", "place": place, "add-on": "control", "way": "checked alone", **GOOD}
        for place in ("stream", "sound")
        for _ in range(60)
    ]


def missed(cases: list[dict[str, Any]]) -> list[str]:
    return [what for what, _, _, met in goals(cases) if not met]


def test_all_is_met() -> None:
    assert missed(rows()) == []
    assert "MISSED" not in table(rows())


@pytest.mark.parametrize(
    ("case", "changes", "what"),
    [
        (0, {"shows": 60.0}, {"cures with add-ons"}),
        (0, {"psnr": 24.0}, {"wrong pictures called clean", "within 30 dB of FP32, the next picture too"}),
        (0, {"psnr": 24.0, "made": "not-recovered"}, {"within 30 dB of FP32, the next picture too"}),
        (0, {"psnr again": 24.0}, {"wrong pictures called clean", "within 30 dB of FP32, the next picture too"}),
        (-1, {"made": "recovered"}, {"false alarms among sound models with add-ons"}),
        (-1, {"cures": ["unet rescale"]}, {"false alarms among sound models with add-ons"}),
    ],
)
def test_a_miss_is_seen(case: int, changes: dict[str, Any], what: set[str]) -> None:
    cases = rows()
    cases[case].update(changes)
    assert set(missed(cases)) == what
    assert "MISSED" in table(cases)
