"""What a denoiser learns: noise put on the latents, and the error of what it says about it, as each family was trained."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch.nn import functional

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words

_PREDICTED: Final = ("epsilon", "v_prediction")
_SEQUENCE: Final = (256, 4096)
"""Patches between which diffusers' flow schedulers shift more and more, where their configuration does not say it."""
_SHIFTS: Final = (0.5, 1.15)


class Objective(Protocol):
    """time: of each picture, as `draw` gives it; noise: of the shape of the latents."""

    def draw(self, count: int, patches: int, generator: torch.Generator) -> torch.Tensor:
        """Times for so many pictures of so many patches, on the CPU."""
        ...

    def noisy(self, clean: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """What the denoiser is given."""
        ...

    def loss(self, said: torch.Tensor, clean: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """A scalar in float32, the mean over the pictures."""
        ...


@dataclass(frozen=True)
class Diffusion:
    """DDPM (Ho et al., arXiv 2006.11239): whole steps of a schedule; predicts the noise or the velocity (arXiv 2202.00512).

    alphas: running products of the schedule, (steps,); gamma: of Min-SNR (arXiv 2303.09556), 0: every step counts alike.
    """

    alphas: torch.Tensor
    velocity: bool
    gamma: float

    @classmethod
    def of(cls, scheduler: Mapping[str, Any], gamma: float) -> "Diffusion":
        """Raises HalftoneError train-other-base for a model that predicts something else."""
        from diffusers import DDPMScheduler

        kind = str(scheduler.get("prediction_type", "epsilon"))
        if kind not in _PREDICTED:
            detail = Words("it predicts {0}", (kind,))
            raise HalftoneError(
                "train-other-base", model=Words("This model"), detail=detail, known=Words("models of epsilon or v-prediction")
            )
        names = ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "rescale_betas_zero_snr")
        made: Any = DDPMScheduler(**{name: scheduler[name] for name in names if name in scheduler})
        return cls(made.alphas_cumprod, kind == "v_prediction", gamma)

    def draw(self, count: int, patches: int, generator: torch.Generator) -> torch.Tensor:
        del patches
        return torch.randint(len(self.alphas), (count,), generator=generator)

    def noisy(self, clean: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        signal, spread = self._shares(time, clean)
        return signal * clean + spread * noise

    def loss(self, said: torch.Tensor, clean: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        signal, spread = self._shares(time, clean)
        target = signal * noise - spread * clean if self.velocity else noise
        errors = _errors(said, target)
        return (errors * self._weights(time).to(errors)).mean() if self.gamma else errors.mean()

    def _shares(self, time: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        alphas = self.alphas[time.cpu()]
        shape = (-1, *[1] * (like.dim() - 1))
        return alphas.sqrt().view(shape).to(like), (1 - alphas).sqrt().view(shape).to(like)

    def _weights(self, time: torch.Tensor) -> torch.Tensor:
        alphas = self.alphas[time.cpu()]
        ratio = alphas / (1 - alphas)
        capped = ratio.clamp(max=self.gamma)
        return capped / (ratio + 1) if self.velocity else capped / ratio


@dataclass(frozen=True)
class Flow:
    """Rectified flow as SD 3 was trained (Esser et al., arXiv 2403.03206): times logit-normal, shifted towards the noise;
    predicts noise less picture.

    shift: None: it grows with the patches from shifts[0] (logarithmic, at sequence[0] patches) to shifts[1].
    """

    shift: float | None
    sequence: tuple[int, int] = _SEQUENCE
    shifts: tuple[float, float] = _SHIFTS

    @classmethod
    def of(cls, scheduler: Mapping[str, Any]) -> "Flow":
        """Shift times as the model's own scheduler does."""
        if scheduler.get("use_dynamic_shifting"):
            sequence = tuple(int(scheduler.get(f"{name}_image_seq_len", _SEQUENCE[i])) for i, name in enumerate(("base", "max")))
            shifts = tuple(float(scheduler.get(f"{name}_shift", _SHIFTS[i])) for i, name in enumerate(("base", "max")))
            return cls(None, (sequence[0], sequence[1]), (shifts[0], shifts[1]))
        return cls(float(scheduler.get("flow_shift", scheduler.get("shift", 1.0))))

    def draw(self, count: int, patches: int, generator: torch.Generator) -> torch.Tensor:
        plain = torch.randn((count,), generator=generator).sigmoid()
        shift = self.shift_for(patches)
        return shift * plain / (1 + (shift - 1) * plain)

    def shift_for(self, patches: int) -> float:
        """The shift for pictures of so many patches."""
        if self.shift is not None:
            return self.shift
        (least, most), (low, high) = self.sequence, self.shifts
        return math.exp(low + (high - low) * (patches - least) / (most - least))

    def noisy(self, clean: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        share = time.view(-1, *[1] * (clean.dim() - 1))
        return (1 - share) * clean + share * noise

    def loss(self, said: torch.Tensor, clean: torch.Tensor, noise: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        del time
        return _errors(said, noise - clean).mean()


def _errors(said: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean square of each picture, in float32: (pictures,)."""
    squares = functional.mse_loss(said.float(), target.float(), reduction="none")
    return squares.flatten(1).mean(1)
