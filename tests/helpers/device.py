"""The device that the tests run on: the one that Halftone prefers here (`HALFTONE_TEST_DEVICE=card`: the card in software)."""

from typing import Final

import torch

from halftone.measure.devices import find_device

FACTS: Final = find_device("auto")
DEVICE: Final = torch.device(FACTS.id)
