"""A small network that says what a landscape shows, to judge Pocket's pictures.

It learns from drawings only, never from Pocket's own pictures, and is scored on
drawings of scenes that it has not seen.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from draw import BOAT_COLOURS, COLOURS, HOUSE_COLOURS, TIMES, Scene, draw, test_scene

HEADS: dict[str, tuple[str, ...]] = {
    "light": ("sun", "moon"),
    "light_colour": ("red", "orange", "yellow", "white", "pink"),
    "ground": ("hills", "sea"),
    "ground_colour": tuple(colour for colour in COLOURS if colour != "white"),
    "time": TIMES,
    "trees": ("0", "1", "2", "3"),
    "house": ("", *HOUSE_COLOURS),
    "boat": ("", *BOAT_COLOURS),
}


LAYERS = ((3, 24, 2), (24, 48, 2), (48, 64, 2), (64, 96, 1), (96, 96, 2), (96, 128, 1))


class Checker(nn.Module):
    """Six convolutions, then one answer for each part of a scene."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for first, second, stride in LAYERS:
            layers += [nn.Conv2d(first, second, 3, stride, 1), nn.BatchNorm2d(second), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.heads = nn.ModuleDict({name: nn.Linear(256, len(answers)) for name, answers in HEADS.items()})

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = self.body(images)
        pooled = torch.cat([maps.mean((2, 3)), maps.amax((2, 3))], 1)
        return {name: head(pooled) for name, head in self.heads.items()}


def scene_answers(scene: Scene) -> dict[str, str]:
    return {name: str(getattr(scene, name)) for name in HEADS}


def labels(scenes: list[Scene]) -> dict[str, Tensor]:
    answers = [scene_answers(scene) for scene in scenes]
    return {name: torch.tensor([choices.index(answer[name]) for answer in answers]) for name, choices in HEADS.items()}


def as_input(pixels: NDArray[np.uint8]) -> Tensor:
    return (torch.from_numpy(np.ascontiguousarray(pixels)).float() / 127.5 - 1).permute(0, 3, 1, 2)


def roughen(images: Tensor) -> Tensor:
    """Blur, grain and a little brightness, so that generated pictures are fair game."""
    soft = functional.avg_pool2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), 3, 1)
    size = (len(images), 1, 1, 1)
    mixed = torch.lerp(images, soft, torch.rand(size))
    return mixed + 0.04 * torch.rand(size) * torch.randn_like(images) + 0.06 * torch.randn(size)


def load_checker(path: Path) -> Checker:
    checker = Checker()
    checker.load_state_dict({name: tensor.float() for name, tensor in load_file(path).items()}, strict=False)
    return checker.eval()


@torch.no_grad()
def look(checker: Checker, images: list[Image.Image]) -> list[dict[str, str]]:
    """What each picture shows, one answer per part of a scene."""
    results: list[dict[str, str]] = [{} for _ in images]
    for start in range(0, len(images), 64):
        pixels = np.stack([np.asarray(image.convert("RGB")) for image in images[start : start + 64]])
        for name, scores in checker(as_input(pixels)).items():
            for index, best in enumerate(scores.argmax(1).tolist()):
                results[start + index][name] = HEADS[name][best]
    return results


def train_checker(work: Path, minutes: float, out: Path) -> None:
    """Learn from the drawings; weights that are there already are improved."""
    images = np.load(work / "images.npy", mmap_mode="r")
    truth = labels([Scene(*parts) for parts in json.loads((work / "scenes.json").read_text())])
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    checker = (load_checker(out).train() if out.exists() else Checker()).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(checker.parameters(), lr=3e-3, weight_decay=0.01)
    begin, share = time.monotonic(), 0.0
    while share < 1:
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * (1 - share) + 1e-5
        picked = rng.choice(len(images), 64, replace=False)
        batch = roughen(as_input(images[picked])).contiguous(memory_format=torch.channels_last)
        answers = checker(batch)
        loss = sum(functional.cross_entropy(answers[name], truth[name][picked]) for name in HEADS)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        share = (time.monotonic() - begin) / (60 * minutes)
    save_file({name: tensor.half().contiguous() for name, tensor in checker.state_dict().items()}, out)
    out.chmod(0o644)


def score_checker(checker: Checker, count: int) -> dict[str, float]:
    """How often the checker is right on drawings it has never seen."""
    rng = np.random.default_rng(4)
    scenes = [test_scene(rng) for _ in range(count)]
    seen = look(checker, [draw(scene, 10_000_000 + index) for index, scene in enumerate(scenes)])
    truth = [scene_answers(scene) for scene in scenes]
    scores = {name: float(np.mean([a[name] == b[name] for a, b in zip(seen, truth, strict=True)])) for name in HEADS}
    scores["all"] = float(np.mean([a == b for a, b in zip(seen, truth, strict=True)]))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="the work folder of train.py, with its drawings")
    parser.add_argument("out", type=Path, help="where the weights go (.safetensors)")
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--score", action="store_true", help="only score weights that are there")
    args = parser.parse_args()
    if not args.score:
        train_checker(args.work, args.minutes, args.out)
    print(json.dumps(score_checker(load_checker(args.out), 1000), indent=2))


if __name__ == "__main__":
    main()
