"""What is told of PyTorch's build without loading it, against PyTorch itself."""

import torch

from halftone.cli.jobs.hardware import possible_kinds


def test_the_kinds_are_those_of_the_build() -> None:
    assert ("cuda" in possible_kinds()) == (torch.version.cuda is not None or torch.version.hip is not None)
    assert ("xpu" in possible_kinds()) == (torch.version.xpu is not None)
    assert ("mps" in possible_kinds()) == torch.backends.mps.is_built()
