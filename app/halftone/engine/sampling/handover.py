"""What one pass of a picture gives to the next: pixels, or the latents for the decoder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKLOutput
from diffusers.models.autoencoders.vae import DecoderOutput, DiagonalGaussianDistribution
from PIL import Image
from torch.nn import functional

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import first_floating, tensors_in
from halftone.engine.weights.calls import Call


@dataclass(frozen=True)
class Handover:
    """A pass's place among the others of its picture.

    index: of the picture in its batch. image: to start from, in place of the request's. latents: the encoder's result for it.
    noise: the generator's state to continue with, in place of the seed's. ends_in_latents: asked when the decoder is about to
    run, whether it is left out; factor: pixels per latent. is_last: only the decode follows its steps. model: of the picture,
    where this pass has another one. steps: of the pass before and of this one, in which a prompt's changes may count on. part: of
    the steps of the schedule that this pass makes, first and end; None: all, or what the request's options say.
    """

    index: int = 0
    image: Image.Image | None = None
    latents: torch.Tensor | None = None
    noise: torch.Tensor | None = None
    ends_in_latents: Callable[[], bool] | None = None
    factor: int = 8
    is_last: bool = True
    model: ModelFacts | None = None
    steps: tuple[int, int] | None = None
    part: tuple[int, int] | None = None

    @property
    def instead(self) -> Callable[[Call], Any] | None:
        """What stands in for calls of the VAE, None where they are made."""
        return None if self.latents is None and self.ends_in_latents is None else self._instead

    def _instead(self, call: Call) -> Any:
        if call.method == "encode" and self.latents is not None:
            return _encoded(self.latents, call)
        if call.method == "decode" and self.ends_in_latents is not None and self.ends_in_latents():
            return _blank(call, self.factor)
        return None

    def tensors(self) -> dict[str, torch.Tensor]:
        """What another session needs to begin this pass again."""
        found: dict[str, torch.Tensor] = {}
        if self.image is not None:
            found[_IMAGE] = torch.frombuffer(bytearray(self.image.tobytes()), dtype=torch.uint8).view(
                self.image.height, self.image.width, 3
            )
        if self.latents is not None:
            found[_LATENTS] = self.latents.detach().cpu().contiguous()
        if self.noise is not None:
            found[_NOISE] = self.noise
        return found


ALONE: Final = Handover()
"""The only pass of its picture, or each picture of a batch of such."""
HANDED: Final = "handed."
"""Begins the names of tensors from the pass before, in a file of kept latents."""
_IMAGE: Final = f"{HANDED}image"
_LATENTS: Final = f"{HANDED}latents"
_NOISE: Final = f"{HANDED}noise"
_PLANES: Final = 4
"""Dimensions of latents at least: picture, channel, height, width."""


def from_tensors(tensors: dict[str, torch.Tensor], index: int, model: ModelFacts) -> Handover | None:
    """Read what `Handover.tensors` wrote; None without a picture, or for anything else."""
    image, latents, noise = (tensors.get(name) for name in (_IMAGE, _LATENTS, _NOISE))
    if image is None or not _is_picture(image):
        return None
    if latents is not None and not (latents.is_floating_point() and latents.dim() >= _PLANES and latents.shape[0] == 1):
        return None
    usual = torch.Generator("cpu").get_state()
    if noise is not None and (noise.dtype, noise.shape) != (usual.dtype, usual.shape):
        return None
    return Handover(index, Image.fromarray(image.numpy()), latents, noise, model=model)


def _is_picture(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.uint8 and tensor.dim() == len("hwc") and tensor.shape[-1] == len("rgb") and tensor.numel() > 0


def larger_latents(latents: torch.Tensor, width: int, height: int, to_width: int, to_height: int) -> torch.Tensor:
    """(…, height, width) latents of width x height pixels, interpolated to the size of other pixels, as A1111's "Latent" does."""
    flat = latents.float().reshape(-1, 1, *latents.shape[-2:])
    rows, columns = latents.shape[-2] * to_height // height, latents.shape[-1] * to_width // width
    made = functional.interpolate(flat, size=(rows, columns), mode="bilinear", align_corners=False)
    return made.reshape(*latents.shape[:-2], rows, columns)


def check_takes_latents(vae: Any, model: str) -> None:
    """Raise hires-unsupported where the VAE's encoder gives something that latents cannot stand in for."""
    if not type(vae).__name__.startswith("AutoencoderKL"):
        detail = Words("its latents cannot be interpolated; another upscaler can be chosen")
        raise HalftoneError("hires-unsupported", model=model, detail=detail)


class _Known(DiagonalGaussianDistribution):
    """A distribution with a single sample."""

    def sample(self, generator: torch.Generator | None = None) -> torch.Tensor:  # noqa: ARG002 - of the one it stands in for
        return self.mean


def _encoded(latents: torch.Tensor, call: Call) -> Any:
    """The encoder's answer: these, and no noise is drawn for it. Of a batch, each picture has them."""
    given = next(tensors_in((call.args, list(call.kwargs.values()))))
    made = latents.to(given.device, first_floating(call.args, call.kwargs) or torch.float32)
    made = made.expand(given.shape[0], *made.shape[1:])
    answer = _Known(torch.cat((made, torch.zeros_like(made)), dim=1), deterministic=True)
    return AutoencoderKLOutput(latent_dist=answer) if call.kwargs.get("return_dict", True) else (answer,)


def _blank(call: Call, factor: int) -> Any:
    """A picture that nobody looks at, in the place of a decode."""
    latents = next(tensors_in((call.args, list(call.kwargs.values()))))
    *_, rows, columns = latents.shape
    between = latents.shape[2:-2]
    sample = latents.new_zeros((latents.shape[0], 3, *between, rows * factor, columns * factor))
    return DecoderOutput(sample=sample) if call.kwargs.get("return_dict", True) else (sample,)
