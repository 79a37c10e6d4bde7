"""Which file an error is blamed on."""

from pathlib import Path

import pytest
import torch
from torch import nn

from halftone.engine.basics.wrapping import is_ours, raised_in
from halftone.measure import wide_kernels


def test_what_fails_in_a_stand_in_for_a_function_of_torch_is_the_librarys() -> None:
    """A processor without kernels for float16 runs Halftone's own; the same mistake is blamed on torch there, too."""
    layer = nn.Linear(4, 4).half()
    layer.__dict__["forward"] = wide_kernels._linear(layer)
    with pytest.raises(RuntimeError) as caught:
        layer(torch.ones(2, 3).half())
    file = raised_in(caught.value)
    assert file is not None
    assert Path(torch.__file__).parent in file.parents


def test_what_fails_in_halftones_own_code_is_halftones() -> None:
    with pytest.raises(AttributeError) as caught:
        is_ours(None)  # pyright: ignore[reportArgumentType]
    file = raised_in(caught.value)
    assert file is not None
    assert is_ours(file)
