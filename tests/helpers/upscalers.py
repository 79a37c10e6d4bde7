"""A tiny upscale model, as such files are."""

import math
from pathlib import Path

import torch
from safetensors.torch import save_file

from halftone.engine.making import upscale


def make_upscaler(path: Path, *, scale: int = 2, nan: bool = False) -> Path:
    """An ESRGAN with random weights."""
    with upscale._without_torchvision():
        from spandrel.architectures.ESRGAN.__arch.RRDB import RRDBNet

    torch.manual_seed(3)
    net = RRDBNet(num_filters=8, num_blocks=1, scale=scale)
    state = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}
    last = next(reversed([name for name in state if name.endswith("bias")]))
    state[last] = torch.full_like(state[last], math.nan if nan else 0.4)
    save_file(state, path)
    return path
