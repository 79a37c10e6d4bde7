"""Optimizers and the course of their rate."""

import contextlib
import io
import math
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.training import Schedule, TrainConfig
from halftone.health.faults import is_out_of_memory

PACKAGES: Final = {"adamw8bit": "bitsandbytes", "prodigy": "prodigyopt"}


def new_optimizer(config: TrainConfig, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """Raises HalftoneError train-no-optimizer where a package is not there, or does not run here."""
    given: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    try:
        match config.optimizer:
            case "adamw":
                return torch.optim.AdamW(parameters, **given)
            case "adamw8bit":
                import bitsandbytes  # pyright: ignore[reportMissingImports]

                return bitsandbytes.optim.AdamW8bit(list(parameters), **given)
            case "prodigy":
                import prodigyopt

                with contextlib.redirect_stdout(io.StringIO()):  # it greets on the terminal
                    return prodigyopt.Prodigy(list(parameters), safeguard_warmup=True, use_bias_correction=True, **given)
    except (ImportError, RuntimeError, OSError) as error:
        if is_out_of_memory(error):
            raise
        package = PACKAGES[config.optimizer]
        raise HalftoneError("train-no-optimizer", str(error), name=config.optimizer, package=package) from error


def new_schedule(config: TrainConfig, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    """Stepped once after each step of the optimizer."""
    factor = partial(rate_factor, config.schedule, steps=config.steps, warm_up=config.warm_up)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def rate_factor(schedule: Schedule, done: int, *, steps: int, warm_up: int) -> float:
    """What the rate is multiplied by after so many steps: up in a line over the warm-up, then down to 0 at the end."""
    if done < warm_up:
        return (done + 1) / (warm_up + 1)
    share = min(1.0, (done - warm_up) / max(1, steps - warm_up))
    match schedule:
        case "constant":
            return 1.0
        case "linear":
            return 1.0 - share
        case "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * share))
