"""Finite and yet wrong: what is said of it was measured on whole outputs."""

import pytest
import torch
from torch import nn

from halftone.engine.finding.departure import SAMPLE, code_of, samples_of


def test_the_peak_is_that_of_the_whole_output_not_of_the_sample() -> None:
    module, values = nn.Identity(), torch.zeros(4 * SAMPLE)
    values[1] = 70000.0
    with samples_of(module) as found:
        module(values)
    assert float(found.kept[""].max()) == 0.0
    assert found.peaks == {"": 70000.0}


@pytest.mark.parametrize(("peak", "code"), [(0.93, "inexact-output"), (65504.0, "inexact-output"), (7e4, "saturated-output")])
def test_only_what_passes_the_limit_is_said_to_stop_there(peak: float, code: str) -> None:
    assert code_of(peak, 65504.0, flat=False, shrunk=False) == code
    assert code_of(peak, 65504.0, flat=False, shrunk=True) == "underflow"
