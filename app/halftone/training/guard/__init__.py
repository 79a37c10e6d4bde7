"""Guards any training in PyTorch: bad numbers are stopped before they reach the weights, named, and cured."""

from halftone.training.guard.core import StepReport, TrainingGuard, TrainingStopped

__all__ = ["StepReport", "TrainingGuard", "TrainingStopped"]
