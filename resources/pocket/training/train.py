"""Trains Pocket from nothing: drawings, autoencoder, latents, denoiser, export.

Each stage keeps its state in a work folder and goes on from there when it is
started again.  Times are given in minutes, and the learning rate falls to zero
over exactly that time, so the same script suits a fast and a slow machine.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from numpy.typing import NDArray
from torch import Tensor
from transformers import CLIPTokenizer

from captions import training_text
from draw import Scene, draw, training_scene
from muon import optimisers
from nets import LATENT, STEPS, Denoiser, new_pipeline, new_scheduler, new_vae, save_pipeline, whiten
from tokens import LENGTH, build_tokenizer, write_plain_files

Pixels = NDArray[np.uint8]
SAVE_EVERY = 150.0


def draw_one(seed: int) -> tuple[Scene, Pixels]:
    scene = training_scene(np.random.default_rng((1, seed)))
    return scene, np.asarray(draw(scene, seed))


def stage_draw(work: Path, count: int) -> None:
    """Draw the training pictures, every one a different scene and layout."""
    with ProcessPoolExecutor() as pool:
        pairs = list(pool.map(draw_one, range(count), chunksize=64))
    np.save(work / "images.npy", np.stack([pixels for _, pixels in pairs]))
    (work / "scenes.json").write_text(json.dumps([astuple(scene) for scene, _ in pairs]))


def to_tensor(pixels: Pixels) -> Tensor:
    """Bytes, channels last, to floats from -1 to 1, channels first."""
    scaled = torch.from_numpy(np.ascontiguousarray(pixels)).float() / 127.5 - 1
    return scaled.permute(0, 3, 1, 2)


class Clock:
    """Working time spent on a stage, kept across restarts."""

    def __init__(self, minutes: float, spent: float) -> None:
        self.limit = minutes * 60
        self.spent = spent
        self.mark = time.monotonic()
        self.saved = self.mark

    def tick(self) -> float:
        """The share of the time that is used up."""
        now = time.monotonic()
        self.spent += now - self.mark
        self.mark = now
        return min(1.0, self.spent / self.limit)

    def save_due(self) -> bool:
        if self.mark - self.saved < SAVE_EVERY:
            return False
        self.saved = self.mark
        return True


def rate(share: float, peak: float) -> float:
    """A short warm-up, then half a cosine down to almost nothing."""
    if share < 0.02:
        return peak * max(share, 0.0005) / 0.02
    return peak * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * (share - 0.02) / 0.98)))


def save_state(path: Path, state: dict[str, object]) -> None:
    """Written beside and moved over, so that a stop never leaves half a file."""
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def edges(images: Tensor) -> tuple[Tensor, Tensor]:
    return images[..., 1:, :] - images[..., :-1, :], images[..., 1:] - images[..., :-1]


def vae_loss(vae: AutoencoderKL, images: Tensor) -> Tensor:
    """Pixels, crisp cut edges, and a faint pull towards a unit Gaussian."""
    posterior = vae.encode(images).latent_dist
    shown = vae.decode(posterior.sample()).sample.float()
    error = shown - images
    rims = sum((ours - theirs).abs().mean() for ours, theirs in zip(edges(shown), edges(images), strict=True))
    divergence = posterior.kl().float().mean() / posterior.mean[0].numel()
    return error.square().mean() + 0.03 * error.abs().mean() + 0.03 * rims + 2e-5 * divergence


def stage_vae(work: Path, minutes: float, batch: int, peak: float) -> None:
    """Train the autoencoder on whole pictures."""
    images = np.load(work / "images.npy", mmap_mode="r")
    path = work / "vae.pt"
    vae = new_vae().to(memory_format=torch.channels_last)
    solvers, clock, step = optimisers(vae, peak, 0.01), Clock(minutes, 0), 0
    if path.exists():
        state = torch.load(path)
        vae.load_state_dict(state["model"])
        clock, step = Clock(minutes, state["spent"]), state["step"]
        for solver, saved in zip(solvers, state["solvers"], strict=True):
            solver.load_state_dict(saved)
    rng = np.random.default_rng(step)
    losses: list[float] = []
    while (share := clock.tick()) < 1:
        picked = to_tensor(images[np.sort(rng.choice(len(images), batch, replace=False))])
        with torch.autocast("cpu", torch.bfloat16):
            loss = vae_loss(vae, picked.contiguous(memory_format=torch.channels_last))
        loss.backward()
        advance(solvers, rate(share, peak))
        step += 1
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"vae {step} {share:.3f} {np.mean(losses[-50:]):.5f}", flush=True)
        if clock.save_due():
            save_state(path, vae_state(vae, solvers, clock, step))
    save_state(path, vae_state(vae, solvers, clock, step))


def advance(solvers: list[torch.optim.Optimizer], step_size: float) -> None:
    for solver in solvers:
        for group in solver.param_groups:
            group["lr"] = step_size
        solver.step()
        solver.zero_grad(set_to_none=True)


def vae_state(vae: AutoencoderKL, solvers: list[torch.optim.Optimizer], clock: Clock, step: int) -> dict[str, object]:
    return {
        "model": vae.state_dict(),
        "solvers": [solver.state_dict() for solver in solvers],
        "spent": clock.spent,
        "step": step,
    }


def stage_latents(work: Path) -> None:
    """Give the latents unit spread, once, then encode every picture."""
    images = np.load(work / "images.npy", mmap_mode="r")
    white = work / "vae_white.pt"
    vae = new_vae().to(memory_format=torch.channels_last)
    if white.exists():
        vae.load_state_dict(torch.load(white))
    else:
        vae.load_state_dict(torch.load(work / "vae.pt")["model"])
        sample = encode(vae, images[:1024]).float()
        whiten(vae, sample.mean((0, 2, 3)), sample.std((0, 2, 3)))
        torch.save(vae.state_dict(), white)
    torch.save(encode(vae, images), work / "latents.pt")


@torch.no_grad()
def encode(vae: AutoencoderKL, images: Pixels) -> Tensor:
    parts: list[Tensor] = []
    for start in range(0, len(images), 32):
        with torch.autocast("cpu", torch.bfloat16):
            posterior = vae.encode(to_tensor(images[start : start + 32])).latent_dist
        parts.append(posterior.mean.half())
    return torch.cat(parts)


@dataclass
class Run:
    """Everything about the denoiser's training that outlives a restart."""

    model: Denoiser
    average: Denoiser
    solvers: list[torch.optim.Optimizer]
    clock: Clock
    step: int

    def save(self, path: Path) -> None:
        state: dict[str, object] = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "solvers": [solver.state_dict() for solver in self.solvers],
            "spent": self.clock.spent,
            "step": self.step,
        }
        save_state(path, state)


def open_run(path: Path, tokenizer: CLIPTokenizer, minutes: float, peak: float) -> Run:
    torch.manual_seed(0)
    model = Denoiser(tokenizer)
    average = copy.deepcopy(model).requires_grad_(False)
    solvers = optimisers(model, peak, 0.05)
    if not path.exists():
        return Run(model, average, solvers, Clock(minutes, 0), 0)
    state = torch.load(path)
    model.load_state_dict(state["model"])
    average.load_state_dict(state["average"])
    for solver, saved in zip(solvers, state["solvers"], strict=True):
        solver.load_state_dict(saved)
    return Run(model, average, solvers, Clock(minutes, state["spent"]), state["step"])


@cache
def stage_weights() -> Tensor:
    """More weight where the light, the house and the boat stand: small things with much to say."""
    weights = torch.ones(LATENT, LATENT)
    weights[4:13, 11:21] = 4
    weights[14:25, 21:31] = 2.5
    weights[18:28, 1:8] = 2
    return weights / weights.mean()


def velocity_loss(model: Denoiser, clean: Tensor, tokens: Tensor, alphas: Tensor) -> Tensor:
    """Velocity error, weighted so that no noise level outshouts the others."""
    size = len(clean)
    spread = (torch.arange(size) + torch.rand(size)) / size
    # What a picture shows is settled while there is much noise: practise that more.
    steps = (spread**0.6 * STEPS).long().clamp(max=STEPS - 1)
    signal = alphas[steps].sqrt()[:, None, None, None]
    noise_level = (1 - alphas[steps]).sqrt()[:, None, None, None]
    noise = torch.randn_like(clean)
    noisy = signal * clean + noise_level * noise
    target = signal * noise - noise_level * clean
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        shown = model(noisy, steps, tokens)
    error = ((shown.float() - target).square() * stage_weights()).mean((1, 2, 3))
    ratio = alphas[steps] / (1 - alphas[steps])
    return (error * (ratio + 1).clamp(max=6) / (ratio + 1)).mean()


def twin(model: Denoiser) -> Denoiser:
    """The same weights with gradients of their own."""
    other = copy.deepcopy(model)
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        theirs.data = ours.data
    return other


class Pair:
    """Two single-threaded halves of a batch, side by side.

    On a busy machine this is several times faster than two threads inside every
    operation, which wait for each other thousands of times in each step.
    """

    def __init__(self, model: Denoiser, alphas: Tensor) -> None:
        torch.set_num_threads(1)
        self.models = [model, twin(model)]
        self.alphas = alphas
        self.pool = ThreadPoolExecutor(2)

    def half(self, model: Denoiser, clean: Tensor, tokens: Tensor) -> float:
        loss = velocity_loss(model, clean, tokens, self.alphas)
        loss.backward()
        return loss.item()

    def backward(self, clean: Tensor, tokens: Tensor) -> float:
        """Leave the gradients of the whole batch on the first model."""
        losses = list(self.pool.map(self.half, self.models, clean.chunk(2), tokens.chunk(2)))
        for ours, theirs in zip(*(model.parameters() for model in self.models), strict=True):
            if theirs.grad is not None:
                ours.grad = theirs.grad if ours.grad is None else ours.grad.add_(theirs.grad).div_(2)
                theirs.grad = None
        return sum(losses) / 2


@torch.no_grad()
def follow(average: Denoiser, model: Denoiser, step: int) -> None:
    """Move the averaged weights a little towards the newest ones."""
    share = 1 - min(0.9985, (step + 1) / (step + 20))
    ours, theirs = list(average.parameters()), list(model.parameters())
    torch._foreach_lerp_(ours, theirs, share)


def tokenize(tokenizer: CLIPTokenizer, texts: list[str]) -> Tensor:
    batch = tokenizer(texts, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt")
    return batch.input_ids


def load_tokenizer(work: Path) -> CLIPTokenizer:
    folder = work / "tokenizer"
    if not folder.exists():
        folder.mkdir()
        build_tokenizer(folder)
    return CLIPTokenizer.from_pretrained(folder, local_files_only=True)


def stage_denoiser(work: Path, minutes: float, batch: int, peak: float) -> None:
    """Train text encoder and UNet on the latents and ever new captions."""
    path, tokenizer = work / "denoiser.pt", load_tokenizer(work)
    run = open_run(path, tokenizer, minutes, peak)
    latents = torch.load(work / "latents.pt")
    scenes = [Scene(*parts) for parts in json.loads((work / "scenes.json").read_text())]
    pair = Pair(run.model, new_scheduler().alphas_cumprod)
    torch.manual_seed(run.step)
    rng = np.random.default_rng(run.step)
    losses: list[float] = []
    while (share := run.clock.tick()) < 1:
        picked = rng.choice(len(scenes), batch, replace=False)
        tokens = tokenize(tokenizer, [training_text(scenes[i], rng) for i in picked])
        losses.append(pair.backward(latents[picked].float(), tokens))
        torch.nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
        advance(run.solvers, rate(share, peak))
        follow(run.average, run.model, run.step)
        run.step += 1
        if run.step % 50 == 0:
            print(f"denoiser {run.step} {share:.3f} {np.mean(losses[-50:]):.5f}", flush=True)
        if run.clock.save_due():
            run.save(path)
    run.save(path)


def stage_export(work: Path, folder: Path) -> None:
    """Write the averaged weights as a diffusers folder."""
    tokenizer = load_tokenizer(work)
    vae, denoiser = new_vae(), Denoiser(tokenizer)
    vae.load_state_dict(torch.load(work / "vae_white.pt"))
    denoiser.load_state_dict(torch.load(work / "denoiser.pt")["average"])
    save_pipeline(new_pipeline(vae, denoiser, tokenizer), folder)
    write_plain_files(folder / "tokenizer", tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=("draw", "vae", "latents", "denoiser", "export"))
    parser.add_argument("work", type=Path)
    parser.add_argument("--count", type=int, default=18000, help="drawings")
    parser.add_argument("--minutes", type=float, default=12, help="training time of the stage")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--out", type=Path, help="the folder to export to")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.stage == "draw":
        stage_draw(args.work, args.count)
    elif args.stage == "vae":
        stage_vae(args.work, args.minutes, args.batch, args.rate)
    elif args.stage == "latents":
        stage_latents(args.work)
    elif args.stage == "denoiser":
        stage_denoiser(args.work, args.minutes, args.batch, args.rate)
    else:
        stage_export(args.work, args.out)


if __name__ == "__main__":
    main()
