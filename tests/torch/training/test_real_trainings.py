"""Trainings that went NaN elsewhere, small: Sana in FP16 at a low rate, TRELLIS' autoencoder with AdamW, Hallo's validation."""

from statistics import mean
from typing import Any

import pytest
import torch
from diffusers import SanaTransformer2DModel, UNet2DConditionModel
from tests.helpers.device import DEVICE
from tests.helpers.training_faults import Coder
from torch import Tensor, nn
from torch.nn import functional

from halftone.contract.training import Remedy
from halftone.training.guard import StepReport, TrainingGuard, TrainingStopped

STEPS, BAD = 40, 20
"""Of the Sana run; the step in which a caption holds large numbers."""


# --- Sana: made in BF16, fine-tuned in FP16 at a rate of 8e-6 ------------------------------------------------------------------


def sana() -> SanaTransformer2DModel:
    """Its text layer makes the large numbers that BF16 lets grow; the norm behind it brings them back."""
    torch.manual_seed(0)
    network = SanaTransformer2DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=2,
        num_cross_attention_heads=2,
        cross_attention_head_dim=8,
        cross_attention_dim=16,
        caption_channels=8,
        mlp_ratio=2.0,
        sample_size=8,
        patch_size=1,
    )
    with torch.no_grad():
        network.get_submodule("caption_projection.linear_2").weight.mul_(500)  # pyright: ignore[reportCallIssue]
    return network.to(DEVICE)  # pyright: ignore[reportArgumentType]


def flow_loss(network: nn.Module, step: int, dtype: torch.dtype) -> Tensor:
    drawn = torch.Generator().manual_seed(step)
    clean, noise = torch.randn(4, 4, 8, 8, generator=drawn), torch.randn(4, 4, 8, 8, generator=drawn)
    captions, times = torch.randn(4, 6, 8, generator=drawn), torch.rand(4, generator=drawn)
    if step == BAD:
        captions[0] *= 2000
    mixed = clean + times.view(-1, 1, 1, 1) * (noise - clean)
    made = network(mixed.to(dtype), encoder_hidden_states=captions.to(dtype), timestep=(times * 1000).to(dtype)).sample
    return functional.mse_loss(made.float(), noise - clean)


def undisturbed() -> list[float]:
    network = sana()
    optimizer = torch.optim.AdamW(network.parameters(), lr=8e-6, weight_decay=0.0)
    losses: list[float] = []
    for step in range(1, STEPS + 1):
        loss = flow_loss(network, step, torch.float32)
        losses.append(float(loss.detach()))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return losses


@pytest.mark.filterwarnings("ignore:.*float32.*")
def test_sana_in_half_precision_goes_on_and_ends_where_float32_does() -> None:
    network = sana().half()
    optimizer = torch.optim.AdamW(network.parameters(), lr=8e-6, weight_decay=0.0)
    guard = TrainingGuard(network, optimizer, clip=1.0, forecast="apply")
    reports = [guard.step(lambda step=step: flow_loss(network, step, torch.float16)) for step in range(1, STEPS + 1)]
    (caught,) = guard.caught
    assert (caught.step, caught.cause, caught.name) == (BAD, "activation-overflow", "caption_projection.linear_2")
    assert caught.did == "repeated"
    assert caught.peak is not None
    assert caught.peak > 65504.0
    assert all(report.applied for report in reports)
    wanted, got = mean(undisturbed()[-10:]), mean(report.loss for report in reports[-10:])
    assert got == pytest.approx(wanted, rel=0.02)


def test_the_rate_of_sana_is_known_to_be_lost_in_half_precision() -> None:
    network = sana().half()
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters(), lr=6e-6))
    assert {omen.code for omen in guard.omens if omen.certain} == {"epsilon-zero", "rate-below-resolution"}


# --- TRELLIS: an autoencoder with its trunk in FP16 and its last layer in FP32, AdamW at its defaults --------------------------


def coder() -> tuple[Coder, torch.optim.Optimizer]:
    torch.manual_seed(0)
    network = Coder().half()
    network.out.float()
    return network, torch.optim.AdamW(network.parameters())


def reconstruct(network: Coder, step: int) -> Tensor:
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
    x[:, 0] = 0.0  # a place that is empty in every structure: its weights get no gradient
    return functional.mse_loss(network(x), x)


def test_without_a_guard_one_step_spoils_the_trunk_and_not_the_last_layer() -> None:
    network, optimizer = coder()
    reconstruct(network, 1).backward()
    optimizer.step()
    assert not all(torch.isfinite(p).all() for p in network.encode.parameters())
    assert all(torch.isfinite(p).all() for p in network.out.parameters())


def test_it_is_known_before_the_first_step() -> None:
    network, optimizer = coder()
    omen = TrainingGuard(network, optimizer).omens[0]
    assert (omen.code, omen.certain, omen.dtype, omen.value) == ("epsilon-zero", True, "float16", 1e-8)
    assert omen.remedies[:3] == ("epsilon-1e-4", "float32-states", "float32-master")


def test_without_the_forecast_it_is_caught_in_the_first_step_with_the_weights_as_they_were() -> None:
    network, optimizer = coder()
    before = [p.detach().clone() for p in network.parameters()]
    guard = TrainingGuard(network, optimizer, forecast="off", on_bad="stop")
    with pytest.raises(TrainingStopped) as stopped:
        guard.step(lambda: reconstruct(network, 1))
    caught = stopped.value.caught
    assert (caught.step, caught.cause, caught.watched, caught.dtype) == (1, "optimizer-epsilon", "optimizer", "float16")
    assert caught.name.startswith("encode")
    assert all(torch.equal(p, old) for p, old in zip(network.parameters(), before, strict=True))


@pytest.mark.parametrize("remedy", ["epsilon-1e-4", "float32-states", "float32-master"])
def test_each_remedy_that_can_be_applied_cures_it(remedy: Remedy) -> None:
    network, optimizer = coder()
    guard = TrainingGuard(network, optimizer)
    assert guard.apply(remedy)
    losses = [guard.step(lambda step=step: reconstruct(network, step % 4)).loss for step in range(60)]
    assert guard.caught == []
    assert mean(losses[-4:]) < 0.95 * mean(losses[:4])


def test_bfloat16_cures_it_as_well() -> None:
    network, _ = coder()
    for part in (network.encode, network.decode):
        part.bfloat16()
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()))
    assert "epsilon-zero" not in {omen.code for omen in guard.omens}
    assert all(guard.step(lambda step=step: reconstruct(network, step)).applied for step in range(1, 11))
    assert guard.caught == []


def test_without_any_remedy_the_guard_cures_it_itself() -> None:
    network, optimizer = coder()
    guard = TrainingGuard(network, optimizer, forecast="off")
    assert all(guard.step(lambda step=step: reconstruct(network, step)).applied for step in range(1, 6))
    assert [(caught.cause, caught.cure) for caught in guard.caught] == [("optimizer-epsilon", "epsilon-up")]


# --- Hallo: the validation after the first step casts what the training shares with it ----------------------------------------


class ImageProjection(nn.Module):
    """A face's embedding made into tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 4 * 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, face: Tensor) -> Tensor:
        return self.norm(self.proj(face).reshape(len(face), 4, 8))


def unet() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(8, 8),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=8,
        attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ).to(DEVICE)  # pyright: ignore[reportArgumentType]


class Hallo:
    """Image projection, reference UNet and denoising UNet, and the validation that borrows the first."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.networks: dict[str, nn.Module] = {
            "image_proj": ImageProjection(),
            "reference_unet": unet(),
            "denoising_unet": unet(),
        }
        trained = [p for network in self.networks.values() for p in network.parameters()]
        self.guard = TrainingGuard(self.networks, torch.optim.AdamW(trained, lr=1e-4), clip=1.0)

    def loss(self, step: int) -> Tensor:
        drawn = torch.Generator().manual_seed(step)
        face, clean, noise = (torch.randn(*shape, generator=drawn) for shape in ((2, 8), (2, 4, 8, 8), (2, 4, 8, 8)))
        tokens = self.networks["image_proj"](face)
        seen: Any = self.networks["reference_unet"](clean, 0, tokens)
        made: Any = self.networks["denoising_unet"](clean + noise + seen.sample, torch.tensor([500, 100]), tokens)
        return functional.mse_loss(made.sample, noise)

    def validate(self) -> None:
        """In FP16, as a pipeline is asked for; the face's numbers are large there."""
        with torch.no_grad():
            self.networks["image_proj"].half()(torch.randn(1, 8).half())

    def step(self, number: int) -> StepReport:
        return self.guard.step(lambda: self.loss(number))


def test_what_the_validation_cast_is_named_in_the_second_step_and_training_goes_on() -> None:
    hallo = Hallo()
    first = hallo.step(1)
    assert first.caught == ()
    kept = {name: p.detach().clone() for name, p in hallo.networks["image_proj"].named_parameters()}
    hallo.validate()
    second = hallo.step(2)
    (caught,) = second.caught
    assert (caught.step, caught.cause, caught.did, caught.cure) == (2, "cast-outside", "restored", "put-back")
    assert (caught.name, caught.was, caught.now) == ("image_proj.proj.weight", f"float32 on {DEVICE}", f"float16 on {DEVICE}")
    assert second.applied
    assert all(hallo.step(number).caught == () for number in range(3, 6))
    assert all(p.dtype is torch.float32 for p in hallo.networks["image_proj"].parameters())
    fresh = Hallo()
    for number in (1, 2):
        fresh.step(number)
    again = Hallo()
    again.step(1)
    again.validate()
    again.step(2)
    ours, theirs = again.networks["image_proj"].state_dict(), fresh.networks["image_proj"].state_dict()
    assert kept.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_without_a_guard_the_second_step_fails_or_spoils_the_weights() -> None:
    hallo = Hallo()
    hallo.guard.remove()
    hallo.validate()
    with pytest.raises(RuntimeError):
        hallo.loss(2)
