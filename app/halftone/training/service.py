"""The engine with training: what the worker and the command line use."""

from halftone.contract.engine import Emit, TrainControl
from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Train
from halftone.contract.training import TrainReport
from halftone.engine.service import DiffusersEngine


class TrainingEngine(DiffusersEngine):
    """Everything that the engine does, and training."""

    def train(self, command: Train, emit: Emit, control: TrainControl) -> TrainReport:
        """Train a LoRA."""
        del command, emit, control
        raise HalftoneError("usage", problem="Training is not here yet", hint="", command="halftone")
