"""What is told of how a job ran."""

import pytest

from halftone.contract.wording import Words
from halftone.health.pictures.run_reasons import first_times, how_it_ran

CURED = Words("{0} layers of {1} are scaled by powers of two.", (3, "unet"))
SLOW = Words("Compile: the first step took {0} s, the others {1} s each.", ("31.0", "0.20"), about="first-step")
QUICK = Words("Compile: the first step took {0} s, the others {1} s each.", ("0.2", "0.20"), about="first-step")
PACKED = Words("{0}: {1} layers are stored in FP8.", ("unet", 26), about="run")
PACKED_IN_PART = Words("{0}: {1} of {2} layers are stored in FP8; the others would lose accuracy.", ("unet", 1, 2), about="run")
OFFLOADED = Words("Offload ({0}): all at once would need about {1}, more than is free.", (Words("Model"), "9.1 GB"), about="run")
LEFT_OUT = Words("Compile is left out: a cure computes some layers of {0} in FP32.", ("unet",), about="run")


def test_cures_are_told_elsewhere() -> None:
    told = (OFFLOADED, PACKED, PACKED_IN_PART, SLOW, LEFT_OUT)
    assert how_it_ran((CURED, *told, Words("Seed {0}: drawn at random.", ("7",)))) == told


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ((SLOW,), (CURED, QUICK), (CURED, SLOW)),
        ((), (QUICK,), (QUICK,)),
        ((SLOW,), (LEFT_OUT,), (LEFT_OUT, SLOW)),
        ((OFFLOADED,), (PACKED,), (PACKED,)),
    ],
)
def test_the_time_of_the_step_that_compiled_is_kept(
    before: tuple[Words, ...], now: tuple[Words, ...], told: tuple[Words, ...]
) -> None:
    assert first_times(before, now) == told
