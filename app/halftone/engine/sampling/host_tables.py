"""Tables that networks of diffusers make on the host at each step, and lengths that they fetch from the device.

Here the transfers of tables are queued, and what is the same at each step is sent or fetched once. The numbers are the networks'
own.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from weakref import ReferenceType, ref

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from halftone.engine.basics.tensors import map_tensors
from halftone.measure.late import may_copy_ahead

_MASKS: Final = 4
"""Prompts whose lengths are remembered: a guided pair of two denoisers."""


@contextmanager
def tables_sent(networks: Iterable[nn.Module], device: torch.device) -> Generator[None]:
    """Let these networks wait for no table inside the block."""
    with ExitStack() as hooks:
        for network in networks:
            if (known := _KNOWN.get(type(network).__name__)) is not None:
                name, put = known
                hooks.enter_context(put(network.get_submodule(name), device))
        yield


def sent_ahead(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of the host on the device, behind what is queued there; any other as it is."""
    if tensor.device.type != "cpu":
        return tensor
    ahead = may_copy_ahead(device)
    return (tensor.pin_memory() if ahead else tensor).to(device, non_blocking=ahead)


def _results(part: nn.Module, device: torch.device) -> RemovableHandle:
    """What a part makes on the host is sent at once."""
    return part.register_forward_hook(lambda _part, _args, output: map_tensors(output, lambda tensor: sent_ahead(tensor, device)))


def _places(part: Any, device: torch.device) -> RemovableHandle:
    """A table that stays the same is sent once; the lengths of prompts are counted on a copy of their mask, fetched once."""
    fetched: list[tuple[ReferenceType[torch.Tensor], torch.Tensor]] = []

    def enter(_part: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, mask = args
        if part.freqs_cis[0].device.type == "cpu":
            part.freqs_cis = [sent_ahead(table, device) for table in part.freqs_cis]
        found = next((host for known, host in fetched if known() is mask), None)
        if found is None:
            found = mask.cpu()
            fetched.append((ref(mask), found))
            del fetched[:-_MASKS]
        return hidden, found

    return part.register_forward_pre_hook(enter)


_KNOWN: Final[dict[str, tuple[str, Callable[[Any, torch.device], RemovableHandle]]]] = {
    "ChromaTransformer2DModel": ("time_text_embed.guidance_proj", _results),
    "CogView4Transformer2DModel": ("rope", _results),
    "Lumina2Transformer2DModel": ("rope_embedder", _places),
}
"""Kinds of networks, by the part that makes the tables."""
