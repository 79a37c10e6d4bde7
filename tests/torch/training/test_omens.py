"""What is known before the first step, from plain facts."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.training import Foreseen
from halftone.contract.vocabulary import DType
from halftone.training.guard.omens import GroupFacts, RunFacts, omens, rounded, spacing

SOUND = GroupFacts(
    name="layer.weight",
    count=3,
    dtype="float32",
    states="float32",
    rate=1e-4,
    epsilon=1e-8,
    beta2=0.999,
    adaptive=True,
    medians=(0.02, 0.03, 0.05),
    gradient=1e-4,
)
RUN = RunFacts(groups=(SOUND,), computes="float32", clip=1.0, scale=None, data=(("x", 4.0, 0.8),))
HALF = replace(SOUND, dtype="float16", states="float16", epsilon=1e-4, gradient=0.1, rate=1e-2, medians=(0.1, 0.2))
HALF_RUN = replace(RUN, groups=(SOUND,), computes="float16", scale=65536.0)


def test_a_sound_run_has_none() -> None:
    assert omens(RUN) == ()
    assert omens(HALF_RUN) == ()


@pytest.mark.parametrize(
    ("run", "code", "certain"),
    [
        (replace(RUN, broken=("a", "b")), "weights-nonfinite", True),
        (replace(RUN, data=(("x", math.nan, 1.0),)), "data-nonfinite", True),
        (replace(RUN, data=(("x", 255.0, 120.0),)), "data-not-normalised", False),
        (replace(RUN, norms=("norm",)), "norm-epsilon-zero", False),
        (replace(HALF_RUN, scale=None), "no-loss-scale", False),
        (replace(HALF_RUN, scale=2.0**30), "loss-scale-range", False),
        (replace(HALF_RUN, scale=0.25), "loss-scale-range", False),
        (replace(RUN, scale=1024.0), "loss-scale-useless", False),
        (replace(HALF_RUN, clip=None), "no-clipping", False),
        (replace(HALF_RUN, clip=1000.0), "clip-too-large", False),
        (replace(RUN, groups=(replace(SOUND, rate=0.5),)), "rate-too-high", False),
        (replace(RUN, groups=(replace(SOUND, rate=math.inf),)), "rate-too-high", True),
        (replace(HALF_RUN, groups=(replace(HALF, epsilon=1e-8),)), "epsilon-zero", True),
        (replace(HALF_RUN, groups=(replace(HALF, epsilon=1e-6),)), "epsilon-subnormal", False),
        (replace(HALF_RUN, groups=(replace(HALF, gradient=1e-3),)), "second-moment-underflow", False),
        (replace(HALF_RUN, groups=(HALF,)), "no-master-weights", False),
        (replace(HALF_RUN, groups=(replace(HALF, rate=6e-6),)), "rate-below-resolution", True),
    ],
)
def test_each_trouble_is_foreseen(run: RunFacts, code: Foreseen, certain: bool) -> None:
    found = {omen.code: omen for omen in omens(run)}
    assert found[code].certain is certain
    assert found[code].remedies or code == "loss-scale-useless"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@given(exponent=st.floats(-30, 3))
def test_rounding_and_spacing_are_those_of_torch(dtype: DType, exponent: float) -> None:
    value = 10.0**exponent
    kind: torch.dtype = getattr(torch, dtype)
    held = float(torch.tensor(value, dtype=torch.float64).to(kind))
    assert rounded(value, dtype) == pytest.approx(held, rel=1e-12, abs=0.0)
    if held > 0:
        one = torch.tensor(held, dtype=kind)
        following = one.view(torch.int16 if kind.itemsize == 2 else torch.int32).add(1).view(kind)
        assert spacing(held, dtype) == float(following.double() - one.double())
