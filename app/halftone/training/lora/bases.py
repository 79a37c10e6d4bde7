"""The models that a LoRA can be trained on: how each reads words and pictures, and what it predicts.

One class per way of calling a denoiser. What they learn (`objectives`) is the family's own.
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words
from halftone.training.lora.objectives import Diffusion, Flow, Objective

Tensors = dict[str, torch.Tensor]
Size = tuple[int, int]
"""(width, height) in pixels."""

_ATTENTION: Final = ("to_q", "to_k", "to_v", "to_out.0")
_FEED: Final = ("net.0.proj", "net.2")
_UNET: Final = (*_ATTENTION, *(f"ff.{name}" for name in _FEED), "proj_in", "proj_out")
"""All of a UNet's transformers, as sd-scripts trains them: with attention alone it takes twice the steps to learn a new thing."""
_JOINT: Final = (
    *(f"attn.{name}" for name in (*_ATTENTION, "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out")),
    *(f"{part}.{name}" for part in ("ff", "ff_context") for name in _FEED),
)


class Base(ABC):
    """denoiser: its component; targets: name endings of the layers that get a LoRA; kohya: whether the file has kohya's names
    (else those of diffusers, which all programs read for these families); architecture: as in metadata of LoRA files.
    """

    denoiser: str = "transformer"
    targets: tuple[str, ...] = _ATTENTION
    kohya: bool = False
    architecture: str = ""

    @abstractmethod
    def read_words(self, pipe: Any, words: str, device: torch.device) -> Tensors:
        """The denoiser's words for one caption, with a first dimension of 1."""

    def read_picture(self, pipe: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Latents as the denoiser knows them. pixels: (1, 3, height, width), -1 to 1; the mean of what the VAE makes of them."""
        config = pipe.vae.config
        latents = pipe.vae.encode(pixels).latent_dist.mode()
        return (latents - (getattr(config, "shift_factor", None) or 0.0)) * config.scaling_factor

    @abstractmethod
    def predict(self, network: Any, noisy: torch.Tensor, time: torch.Tensor, told: Tensors, size: Size) -> torch.Tensor:
        """What the denoiser gives. time: of its objective; size: of the pictures."""

    def objective(self, scheduler: Mapping[str, Any], gamma: float) -> Objective:
        """scheduler: configuration of the model's own one."""
        del gamma
        return Flow.of(scheduler)


class StableDiffusion(Base):
    """SD 1.x, SD 2.x and Pocket."""

    denoiser = "unet"
    targets = _UNET
    kohya = True
    architecture = "stable-diffusion-v1"

    def read_words(self, pipe: Any, words: str, device: torch.device) -> Tensors:
        return {"words": pipe.encode_prompt(words, device, 1, False)[0]}

    def predict(self, network: Any, noisy: torch.Tensor, time: torch.Tensor, told: Tensors, size: Size) -> torch.Tensor:
        del size
        return network(noisy, time, encoder_hidden_states=told["words"], return_dict=False)[0]

    def objective(self, scheduler: Mapping[str, Any], gamma: float) -> Objective:
        return Diffusion.of(scheduler, gamma)


class StableDiffusionXL(StableDiffusion):
    """SDXL, which also reads the size of the pictures."""

    architecture = "stable-diffusion-xl-v1-base"

    def read_words(self, pipe: Any, words: str, device: torch.device) -> Tensors:
        found = pipe.encode_prompt(words, device=device, do_classifier_free_guidance=False)
        return {"words": found[0], "pooled": found[2]}

    def read_picture(self, pipe: Any, pixels: torch.Tensor) -> torch.Tensor:
        config = pipe.vae.config
        mean, spread = (getattr(config, name, None) for name in ("latents_mean", "latents_std"))
        if mean is None or spread is None:
            return super().read_picture(pipe, pixels)
        latents = pipe.vae.encode(pixels).latent_dist.mode()
        mean, spread = (torch.tensor(one, dtype=latents.dtype, device=latents.device).view(1, -1, 1, 1) for one in (mean, spread))
        return (latents - mean) * config.scaling_factor / spread

    def predict(self, network: Any, noisy: torch.Tensor, time: torch.Tensor, told: Tensors, size: Size) -> torch.Tensor:
        width, height = size
        row = torch.tensor([[height, width, 0, 0, height, width]], dtype=noisy.dtype, device=noisy.device)
        added = {"text_embeds": told["pooled"], "time_ids": row.expand(len(noisy), -1)}
        words = told["words"]
        return network(noisy, time, encoder_hidden_states=words, added_cond_kwargs=added, return_dict=False)[0]


class StableDiffusion3(Base):
    """SD 3 and 3.5."""

    targets = _JOINT
    architecture = "stable-diffusion-3"

    def read_words(self, pipe: Any, words: str, device: torch.device) -> Tensors:
        found = pipe.encode_prompt(words, None, None, device=device, do_classifier_free_guidance=False)
        return {"words": found[0], "pooled": found[2]}

    def predict(self, network: Any, noisy: torch.Tensor, time: torch.Tensor, told: Tensors, size: Size) -> torch.Tensor:
        del size
        words, pooled = told["words"], told["pooled"]
        given = {"timestep": time * 1000, "encoder_hidden_states": words, "pooled_projections": pooled}
        return network(noisy, **given, return_dict=False)[0]


class Flux(Base):
    """FLUX.1: latents in patches of 2 x 2, in a row; guidance, where the network takes it, is 1."""

    targets = (*_JOINT, "proj_mlp")
    architecture = "flux-1-dev"

    def read_words(self, pipe: Any, words: str, device: torch.device) -> Tensors:
        found = pipe.encode_prompt(words, None, device=device, max_sequence_length=_flux_length(pipe))
        return {"words": found[0], "pooled": found[1]}

    def read_picture(self, pipe: Any, pixels: torch.Tensor) -> torch.Tensor:
        latents = super().read_picture(pipe, pixels)
        return pipe._pack_latents(latents, *latents.shape)  # noqa: SLF001 - the pipeline's own way, which has no other name

    def predict(self, network: Any, noisy: torch.Tensor, time: torch.Tensor, told: Tensors, size: Size) -> torch.Tensor:
        width, height = size
        rows = round(math.sqrt(noisy.shape[1] * height / width))
        places = _places(rows, noisy.shape[1] // rows).to(noisy)
        guided = bool(network.config.guidance_embeds)
        return network(
            noisy,
            timestep=time,
            guidance=torch.ones_like(time) if guided else None,
            encoder_hidden_states=told["words"],
            pooled_projections=told["pooled"],
            txt_ids=torch.zeros(told["words"].shape[1], 3).to(noisy),
            img_ids=places,
            return_dict=False,
        )[0]


class Sana(Base):
    """Sana: reads words with the instruction that its pipeline puts before them."""

    architecture = "sana"

    def read_words(self, pipe: Any, words: str, device: torch.device) -> Tensors:
        told = inspect.signature(type(pipe).__call__).parameters["complex_human_instruction"].default
        found = pipe.encode_prompt(words, False, device=device, complex_human_instruction=told)
        return {"words": found[0], "mask": found[1]}

    def read_picture(self, pipe: Any, pixels: torch.Tensor) -> torch.Tensor:
        return pipe.vae.encode(pixels, return_dict=False)[0] * pipe.vae.config.scaling_factor

    def predict(self, network: Any, noisy: torch.Tensor, time: torch.Tensor, told: Tensors, size: Size) -> torch.Tensor:
        del size
        time = time * 1000 * network.config.timestep_scale
        words, mask = told["words"], told["mask"]
        return network(noisy, words, time, encoder_attention_mask=mask, return_dict=False)[0]


_BASES: Final[dict[str, Base]] = {
    "StableDiffusionPipeline": StableDiffusion(),
    "StableDiffusionXLPipeline": StableDiffusionXL(),
    "StableDiffusion3Pipeline": StableDiffusion3(),
    "FluxPipeline": Flux(),
    "SanaPipeline": Sana(),
}
KNOWN: Final = Words("Stable Diffusion 1.5 and 2, SDXL, SD 3, FLUX.1 and Sana")


def base_of(model: ModelFacts) -> Base:
    """Raises HalftoneError train-other-base for what no LoRA is trained on."""
    found = _BASES.get(model.pipeline)
    if found is None:
        detail = model.why or Words("it is a {0} model", (model.family or model.pipeline,))
        raise HalftoneError("train-other-base", model=model.name, detail=detail, known=KNOWN)
    return found


def _flux_length(pipe: Any) -> int:
    """Tokens that T5 reads: 512, or what its tokenizer has room for."""
    return min(512, int(pipe.tokenizer_2.model_max_length))


def _places(rows: int, columns: int) -> torch.Tensor:
    """(rows * columns, 3): 0, row and column of each patch."""
    ids = torch.zeros(rows, columns, 3)
    ids[..., 1] += torch.arange(rows)[:, None]
    ids[..., 2] += torch.arange(columns)[None, :]
    return ids.reshape(rows * columns, 3)
