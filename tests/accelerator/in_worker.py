"""The real engine in a worker process that has the card in software: `--engine tests.accelerator.in_worker:engine`."""

from tests.accelerator import card

from halftone.contract.engine import Engine
from halftone.training.service import TrainingEngine


def engine() -> Engine:
    card.install()
    return TrainingEngine()
