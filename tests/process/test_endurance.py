"""Many requests in a row through a real worker, with all that goes with a model coming and going; the whole is a bench."""

from pathlib import Path

import pytest
from tests.bench.bench_endurance import endure, make_requests

CHOSEN = (
    "half",
    "half, one LoRA",
    "half, a word and a LoRA",
    "half, a ControlNet, a LoRA, a VAE",
    "single in bfloat16",
    "transformers, a LoRA",
)
LEAK = 0.04
"""Of the memory; the larger of the two models is 6 % of it."""


@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made
def test_pictures_stay_the_same_and_no_model_stays_in_memory(tmp_path: Path) -> None:
    requests = make_requests(tmp_path, small=True)
    found = endure(tmp_path, {name: requests[name] for name in CHOSEN}, rounds=4)
    assert found.requests == 24
    assert found.changed == ()
    assert found.growth(warm_up=2) < LEAK, found.memory
