"""What is told of how a job ran."""

import pytest

from halftone.health.run_reasons import first_times, how_it_ran

CURED = "unet: 3 layers are scaled by powers of two, up to 2^4; the result is the same in exact arithmetic."
SLOW = "Compile: the first step took 31.0 s, the others 0.20 s each."
QUICK = "Compile: the first step took 0.2 s, the others 0.20 s each."
PACKED = "unet: 26 layers are stored in FP8."
OFFLOADED = "Offload (Model): all at once would need about 9.1 GB, more than is free."
LEFT_OUT = "Compile is left out: a cure computes some layers of unet in FP32."


def test_cures_are_told_elsewhere() -> None:
    told = (OFFLOADED, PACKED, "unet: 1 of 2 layers are stored in FP8; the others would lose by it.", SLOW, LEFT_OUT)
    assert how_it_ran((CURED, *told, "Seed 7: drawn at random.")) == told


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ((SLOW,), (CURED, QUICK), (CURED, SLOW)),
        ((), (QUICK,), (QUICK,)),
        ((SLOW,), (LEFT_OUT,), (LEFT_OUT, SLOW)),
        ((OFFLOADED,), (PACKED,), (PACKED,)),
    ],
)
def test_the_time_of_the_step_that_compiled_is_kept(before: tuple[str, ...], now: tuple[str, ...], told: tuple[str, ...]) -> None:
    assert first_times(before, now) == told
