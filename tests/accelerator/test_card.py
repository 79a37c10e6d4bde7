"""The card in software, and Halftone on it: each in a process of its own, as a device of torch stays for the life of one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.accelerator import card

REPOSITORY = Path(__file__).parents[2]
CHOSEN = (
    "tests/torch/training/test_guard.py::test_a_sound_training_is_the_same_to_the_bit",
    "tests/torch/training/test_guard.py::test_the_running_means_of_a_norm_are_put_back_with_the_step",
    "tests/torch/training/test_guard_waits.py::test_a_sound_step_waits_once",
    "tests/torch/training/test_guard_scaled.py",
    "tests/torch/engine/test_lora.py::test_the_weights_are_those_that_diffusers_fuses[sd15-names2]",
    "tests/torch/engine/test_out_of_memory.py::test_a_step_that_does_not_fit_keeps_the_steps_before_it",
    "tests/torch/engine/test_unfinished.py::test_going_on_gives_the_picture_that_was_never_interrupted[DDPM]",
    "tests/torch/engine/test_offload_chosen.py::test_a_picture_of_a_model_that_does_not_fit_is_made_offloaded",
    "tests/torch/engine/test_twin.py::test_an_architecture_is_learned_once_and_never_trusted",
)
"""Tests of the engine and of training that the test command runs on the card too; `everything.py` runs all of them."""


@pytest.mark.skipif(bool(card.missing()), reason=card.missing())
@pytest.mark.timeout(900)  # it may have to be compiled
@pytest.mark.parametrize(
    "files",
    [("promises.py", "lies.py"), ("waits.py", "memory.py"), ("borders.py", "offloaded.py", *CHOSEN)],
    ids=lambda files: files[0],
)
def test_on_the_card(files: tuple[str, ...]) -> None:
    here = [file if "/" in file else f"tests/accelerator/{file}" for file in files]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *here]
    done = subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, "HALFTONE_TEST_DEVICE": "card"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout.splitlines()[-1]
    told = re.search(r"^(\d+) of the (\d+) tests that passed ran something on the card$", done.stdout, re.MULTILINE)
    assert told
    assert "promises.py" in files or told[1] == told[2]  # some promises are about the host
