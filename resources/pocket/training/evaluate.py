"""Scores a Pocket folder: does it obey, do the precisions agree, is it healthy?"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import StableDiffusionPipeline
from diffusers.utils import logging
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from captions import Caption, caption
from checker import HEADS, load_checker, look, scene_answers
from draw import Scene, contact_sheet, test_scene

HERE = Path(__file__).resolve().parent
CHECKER = HERE / "checker.safetensors"
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
FLOAT16_MAX = 65504.0
PRODUCTS = {functional.conv2d, torch.conv2d, functional.linear, functional.scaled_dot_product_attention}


class FastHalf(TorchFunctionMode):
    """Float16 products summed in float32 and rounded to float16, as graphics processors do it.

    Processors without float16 arithmetic give the same pictures, thirty times slower.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = kwargs or {}
        if func not in PRODUCTS or args[0].dtype != torch.float16:
            return func(*args, **named)
        wide = [arg.float() if isinstance(arg, Tensor) else arg for arg in args]
        return func(*wide, **{k: v.float() if isinstance(v, Tensor) else v for k, v in named.items()}).half()


@dataclass(frozen=True)
class Trial:
    """A prompt, what it names, and the seed it is drawn with."""

    caption: Caption
    scene: Scene
    seed: int


def trials(count: int, seed: int = 5) -> list[Trial]:
    """Prompts about scenes that no training picture shows."""
    rng = np.random.default_rng(seed)
    found: list[Trial] = []
    for index in range(count):
        scene = test_scene(rng)
        found.append(Trial(caption(scene, rng), scene, 1000 + index))
    return found


def load(folder: Path, dtype: torch.dtype = torch.float32) -> StableDiffusionPipeline:
    logging.disable_progress_bar()
    pipeline = StableDiffusionPipeline.from_pretrained(folder, local_files_only=True)
    for part in (pipeline.vae, pipeline.text_encoder, pipeline.unet):
        part.to(dtype)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def noise(pipeline: StableDiffusionPipeline, seeds: list[int]) -> Tensor:
    """Seeded noise, always drawn on the processor in full precision."""
    unet = pipeline.unet.config
    shape = (1, unet["in_channels"], unet["sample_size"], unet["sample_size"])
    parts = [torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.cat(parts).to(pipeline.unet.dtype)


def paint(pipeline: StableDiffusionPipeline, prompts: list[str], seeds: list[int], steps: int | None = None) -> list[Image.Image]:
    """One picture for each prompt and seed, with the defaults of halftone.json where steps is None."""
    settings = json.loads((HERE.parent / "halftone.json").read_text())
    images: list[Image.Image] = []
    for start in range(0, len(prompts), 10):
        chosen = slice(start, start + 10)
        with FastHalf():
            images += pipeline(
                prompts[chosen],
                latents=noise(pipeline, seeds[chosen]),
                num_inference_steps=steps or settings["steps"],
                guidance_scale=settings["guidance"],
            ).images
    return images


def wrong_parts(named: frozenset[str], truth: dict[str, str], seen: dict[str, str]) -> set[str]:
    """Which of the named parts the picture gets wrong."""
    wrong = {name for name in HEADS if name in named and name not in {"house", "boat"} and truth[name] != seen[name]}
    for name in {"house", "boat"} & named:
        if not seen[name]:
            wrong.add(name)
    for name in ("house", "boat"):
        if f"{name}_colour" in named and truth[name] != seen[name]:
            wrong.add(f"{name}_colour")
    return wrong


def obedience(pipeline: StableDiffusionPipeline, count: int) -> tuple[dict[str, object], list[Image.Image]]:
    """The share of prompts, and of each named part, that the pictures get right."""
    tests = trials(count)
    images = paint(pipeline, [test.caption.text for test in tests], [test.seed for test in tests])
    asked: dict[str, int] = {}
    missed: dict[str, int] = {}
    failures: list[str] = []
    for test, seen in zip(tests, look(load_checker(CHECKER), images), strict=True):
        wrong = wrong_parts(test.caption.named, scene_answers(test.scene), seen)
        for name in test.caption.named:
            asked[name] = asked.get(name, 0) + 1
            missed[name] = missed.get(name, 0) + (name in wrong)
        if wrong:
            failures.append(f"{test.caption.text} (seed {test.seed}): {', '.join(sorted(wrong))}")
    report: dict[str, object] = {
        "prompts": count,
        "right": (count - len(failures)) / count,
        "named_per_prompt": sum(asked.values()) / count,
        "parts": {name: [asked[name] - missed[name], asked[name]] for name in sorted(asked)},
        "failures": failures,
    }
    return report, images


def psnr(first: Image.Image, second: Image.Image) -> float:
    error = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    mean = float(np.mean(error**2))
    return math.inf if mean == 0 else 10 * math.log10(255**2 / mean)


def agreement(folder: Path, count: int) -> dict[str, object]:
    """PSNR between the pictures of every two precisions, worst and median."""
    tests = trials(count, seed=6)
    prompts = ["a red sun over green hills", *(test.caption.text for test in tests[1:])]
    seeds = [test.seed for test in tests]
    images = {name: paint(load(folder, dtype), prompts, seeds) for name, dtype in DTYPES.items()}
    report: dict[str, object] = {}
    for one, two in combinations(DTYPES, 2):
        values = [psnr(a, b) for a, b in zip(images[one], images[two], strict=True)]
        report[f"{one}-{two}"] = {"worst": round(min(values), 1), "median": round(float(np.median(values)), 1)}
    return report


def watch(module: nn.Module, peaks: dict[str, float], prefix: str) -> None:
    """Note the largest magnitude that leaves each layer."""

    def hook(name: str):
        def note(_module: nn.Module, _inputs: object, output: object) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                peaks[name] = max(peaks.get(name, 0.0), output.detach().abs().max().item())

        return note

    for name, child in module.named_modules():
        child.register_forward_hook(hook(f"{prefix}.{name}"))


def headroom(folder: Path, count: int) -> dict[str, object]:
    """Peaks of every layer in full precision, in bits below float16's limit."""
    pipeline = load(folder)
    report: dict[str, object] = {}
    gathered: dict[str, dict[str, float]] = {}
    for name in ("text_encoder", "unet", "vae"):
        gathered[name] = {}
        watch(getattr(pipeline, name), gathered[name], name)
        if name == "vae":
            watch(pipeline.vae.decoder, gathered[name], "vae.decoder")
    tests = trials(count, seed=7)
    paint(pipeline, [test.caption.text for test in tests], [test.seed for test in tests])
    for name, peaks in gathered.items():
        layer, peak = max(peaks.items(), key=lambda item: item[1])
        report[name] = {"layer": layer, "peak": round(peak, 2), "bits": round(math.log2(FLOAT16_MAX / peak), 1)}
    return report


def default_prompt(pipeline: StableDiffusionPipeline, count: int) -> float:
    """How often "a red sun over green hills" is right, over many seeds."""
    images = paint(pipeline, ["a red sun over green hills"] * count, list(range(count)))
    wanted = {"light": "sun", "light_colour": "red", "ground": "hills", "ground_colour": "green"}
    seen = look(load_checker(CHECKER), images)
    return float(np.mean([all(answers[name] == value for name, value in wanted.items()) for answers in seen]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the diffusers folder")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="float32", help="precision to test obedience in")
    parser.add_argument("--agree", type=int, default=8, help="prompts to compare the precisions on")
    parser.add_argument("--sheet", type=Path, help="where to save the pictures, 10 in a row")
    parser.add_argument("--quick", action="store_true", help="only whether it obeys")
    args = parser.parse_args()
    pipeline = load(args.folder, DTYPES[args.dtype])
    report, images = obedience(pipeline, args.count)
    if args.sheet:
        contact_sheet(images, 10).save(args.sheet)
    if not args.quick:
        report["default_prompt"] = default_prompt(pipeline, 20)
        report["precisions"] = agreement(args.folder, args.agree)
        report["headroom"] = headroom(args.folder, 8)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
