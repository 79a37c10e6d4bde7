"""A batch on its way to the denoiser: pictures, words, times and noise, all that is random in it drawn from one generator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from halftone.contract.training import TrainConfig
from halftone.engine.basics.tensors import DTYPES
from halftone.training.lora.bases import Tensors
from halftone.training.lora.order import Batch, Order
from halftone.training.lora.prepare import Prepared


@dataclass(frozen=True)
class Fed:
    """One batch, drawn and on the device."""

    names: Batch
    clean: torch.Tensor
    noise: torch.Tensor
    time: torch.Tensor
    told: Tensors
    size: tuple[int, int]


def patches_of(clean: torch.Tensor, config: Mapping[str, Any]) -> int:
    """One picture's tokens. clean: (pictures, tokens, numbers) or (pictures, channels, height, width); config: denoiser's."""
    if clean.dim() == 3:
        return clean.shape[1]
    edge = int(config.get("patch_size") or 1)
    return (clean.shape[-2] // edge) * (clean.shape[-1] // edge)


def draw(on: Prepared, order: Order, config: TrainConfig, generator: torch.Generator) -> Fed:
    """Everything random of a batch is drawn here, in this order, whatever becomes of the batch."""
    encoded = on.encoded
    names = order.next()
    share = 0.5 if config.flip else 0.0
    latents = [encoded.latents[name, order.happens(share)] for name in names]
    texts = ["" if order.happens(config.caption_dropout) else encoded.captions[name] for name in names]
    clean = torch.cat(latents)
    moment = on.objective.draw(len(names), patches_of(clean, on.network.config), generator)
    noise = torch.randn(clean.shape, generator=generator)
    words = [encoded.words[text] for text in texts]
    narrow = DTYPES[on.dtype]

    def there(value: torch.Tensor) -> torch.Tensor:
        return value.to(on.device, narrow if value.is_floating_point() else value.dtype)

    told = {key: there(torch.cat([one[key] for one in words])) for key in words[0]}
    clean, noise, moment = (value.to(on.device) for value in (clean, noise, moment))
    return Fed(names, clean, noise, moment, told, order.pictures[names[0]].shape)
