"""200 requests in a row through a real worker: whether its memory grows, and whether a repeated request gives the same picture.

    PYTHONPATH=app:. python tests/bench/bench_endurance.py [--small]

Three models (a folder in float16, a whole model in one file, a folder of transformers) with LoRAs of several weights, words from
files, another VAE and a ControlNet that come and go, in three precisions. Twenty requests make a round; each round has its own
order, so that every request follows others than before, and among them come a job that is cancelled, one that is refused and an
unload. All rounds end with the same request: there the worker's resident memory is read. Judged is its growth from the end of the
warm-up to the largest of the later rounds, and the pixels and parameters of every
picture against those of the first round (a receipt also tells the seconds that it took).
"""

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import psutil
import torch
from diffusers import UNet2DConditionModel
from PIL import Image
from tests.bench.common import Options, Row, alone, judged
from tests.helpers import tiny
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.inversions import same_as
from tests.helpers.loras import make_lora
from tests.helpers.originals import save_original, tiny_original
from tests.helpers.vaes import other_vae, save_vae
from tests.helpers.workers import Worker

from halftone.contract.messages import Cancel, Generate, Unload
from halftone.contract.request import Control, Lora, Numerics, PictureRequest
from halftone.contract.vocabulary import Precision
from halftone.engine.basics.quiet import quiet_libraries

GROWTH: Final = 0.02
ROUNDS: Final = 10
WARM_UP: Final = 2
"""Rounds in which memory may still grow: the libraries fill their own caches, the allocator finds its sizes."""
_WIDTH: Final = 96
_SMALL_WIDTH: Final = 32
_PATIENCE_SECONDS: Final = 300.0
"""A bench waits longer than a test: the machine may be busy."""


class Found(NamedTuple):
    """memory: bytes that were resident at the end of each round, and of those the part that is no file's; changed: requests that
    once gave another picture than at first; requests: how many were made in all.
    """

    memory: tuple[int, ...]
    anonymous: tuple[int, ...]
    changed: tuple[str, ...]
    requests: int

    def growth(self, warm_up: int) -> float:
        """Of the largest later round over the last one of the warm-up, as a share of it."""
        return max(self.memory[warm_up:]) / self.memory[warm_up - 1] - 1


def rows(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="halftone-endurance-") as folder:
        requests = make_requests(Path(folder), small=options.small)
        found = endure(Path(folder), requests, rounds=WARM_UP + 1 if options.small else ROUNDS)
    growth, own = found.growth(WARM_UP), max(found.anonymous[WARM_UP:]) / found.anonymous[WARM_UP - 1] - 1
    told = f"{growth:+.2%} of {found.memory[WARM_UP - 1] / 1e6:.0f} MB (without mapped files {own:+.2%})"
    same = f"{found.requests - len(found.changed)} of {found.requests}"
    return [
        ("growth of the worker's memory after the warm-up", told, f"at most {GROWTH:.0%}",
         judged(growth <= GROWTH, options.small)),
        ("  at the end of each round in MB", " ".join(f"{size / 1e6:.0f}" for size in found.memory), "", None),
        ("pictures equal to the first ones of their request, to the bit", same, "all", not found.changed),
    ]  # fmt: skip


def make_requests(folder: Path, *, small: bool) -> dict[str, PictureRequest]:
    """Twenty, by name; the models and all that goes with them are written into the folder."""
    half, single, sd3 = _models(folder, small=small)
    lora, other = make_lora(half, folder / "one.safetensors"), make_lora(half, folder / "two.safetensors", seed=2, kohya=True)
    third = make_lora(sd3, folder / "three.safetensors", seed=3)
    word = same_as(half, folder / "redsun.safetensors", "r")
    vae = save_vae(other_vae(), folder / "vae")
    net = save_net(make_net(half), folder / "net")
    control = Control(path=str(net), image=str(picture(folder / "square.png")))

    def of(model: Path, precision: Precision = "float32", **more: Any) -> PictureRequest:
        given: dict[str, Any] = {"prompt": "a red sun", "width": 32, "height": 32, "steps": 2, "seed": 5, **more}
        return PictureRequest(model=str(model), numerics=Numerics(precision=precision), **given)

    def loras(*weighted: tuple[Path, float]) -> tuple[Lora, ...]:
        return tuple(Lora(path=str(path), weight=weight) for path, weight in weighted)

    lengths: dict[str, Any] = {"options": {"max_sequence_length": 64}}
    return {
        "half": of(half),
        "half in bfloat16": of(half, "bfloat16"),
        "half in float16": of(half, "float16"),
        "half, one LoRA": of(half, loras=loras((lora, 0.8))),
        "half, the same weaker": of(half, loras=loras((lora, 0.3))),
        "half, another LoRA": of(half, loras=loras((other, 1.0))),
        "half, both LoRAs in bfloat16": of(half, "bfloat16", loras=loras((lora, 0.5), (other, 0.5))),
        "half, a word": of(half, prompt="a redsun", inversions=(str(word),)),
        "half, a word and a LoRA": of(half, prompt="a redsun", inversions=(str(word),), loras=loras((lora, 1.0))),
        "half, another VAE": of(half, vae=str(vae)),
        "half, another VAE and a LoRA": of(half, vae=str(vae), loras=loras((other, 1.0))),
        "half, a ControlNet": of(half, controls=(control,)),
        "half, a ControlNet, a LoRA, a VAE": of(half, controls=(control,), loras=loras((lora, 1.0)), vae=str(vae)),
        "half, a long prompt with weights": of(half, prompt="a (red:1.3) sun " * 30),
        "half, two pictures": of(half, batch=2, seed=9),
        "single": of(single),
        "single in bfloat16": of(single, "bfloat16", seed=6),
        "transformers": of(sd3, **lengths),
        "transformers, a LoRA": of(sd3, loras=loras((third, 1.0)), **lengths),
        "transformers in bfloat16": of(sd3, "bfloat16", **lengths),
    }  # fmt: skip


def _models(folder: Path, *, small: bool) -> tuple[Path, Path, Path]:
    half = tiny.save_tiny(folder / "half", "sd15", torch.float16)
    pipe = tiny.load_tiny(half)
    pipe.register_modules(unet=_wide_unet(_SMALL_WIDTH if small else _WIDTH))
    with quiet_libraries():
        pipe.to(torch.float16).save_pretrained(half)
    single = save_original(tiny_original("sdxl"), folder / "single.safetensors")
    return half, single, tiny.save_tiny(folder / "transformers", "sd3")


def _wide_unet(width: int) -> UNet2DConditionModel:
    """As deep as Stable Diffusion 1.5: what stays of it in memory is seen."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(width, 2 * width, 4 * width, 4 * width),
        cross_attention_dim=tiny.WIDTH,
        attention_head_dim=8,
    )
    return unet.eval().requires_grad_(False)


def endure(folder: Path, requests: dict[str, PictureRequest], *, rounds: int) -> Found:
    """Every request once in each round, in an order of its own that ends with the first, always through the same worker."""
    first: dict[str, tuple[tuple[bytes, str], ...]] = {}
    memory: list[tuple[int, int]] = []
    changed: list[str] = []
    made = 0
    last = next(iter(requests))
    with Worker(patience=_PATIENCE_SECONDS) as worker:
        worker.ready()
        for number in range(rounds):
            order = [name for name in requests if name != last]
            random.Random(number).shuffle(order)
            order.append(last)
            for place, name in enumerate(order):
                if place == len(order) // 2:
                    _disturb(worker, requests, f"{number}")
                pictures = _made(worker, f"{number}-{place}", requests[name], folder / f"{number}-{place}")
                made += 1
                if first.setdefault(name, pictures) != pictures:
                    changed.append(f"{name} (round {number + 1})")
            memory.append(resident(worker.pid))
            worker.told.clear()
            worker.blobs.clear()
    whole, own = zip(*memory, strict=True)
    return Found(whole, own, tuple(changed), made)


def _made(worker: Worker, job: str, request: PictureRequest, folder: Path) -> tuple[tuple[bytes, str], ...]:
    """Pixels and parameters of every picture of a job. Its folder goes again."""
    folder.mkdir()
    worker.send(Generate(job=job, request=msgspec.structs.replace(request, output=str(folder))))
    end = worker.end(job)
    assert end.outcome == "done", end.error
    found: list[tuple[bytes, str]] = []
    for file in sorted(folder.iterdir()):
        with Image.open(file) as image:
            found.append((image.tobytes(), str(image.info["parameters"])))
        file.unlink()
    folder.rmdir()
    return tuple(found)


def _disturb(worker: Worker, requests: dict[str, PictureRequest], number: str) -> None:
    """A job that is cancelled at once or after its first step, one that is refused, and an unload."""
    wrong = Lora(path=requests["transformers, a LoRA"].loras[0].path)
    ways: Sequence[PictureRequest] = (
        msgspec.structs.replace(requests["half, one LoRA"], steps=50),
        msgspec.structs.replace(requests["half"], loras=(wrong,)),
    )
    for place, request in enumerate(ways):
        job = f"disturbing-{number}-{place}"
        worker.send(Generate(job=job, request=request))
        if place == 0:
            worker.send(Cancel(job=job))
        assert worker.end(job).outcome == ("cancelled" if place == 0 else "failed")
    worker.send(Unload())


def resident(pid: int | None) -> tuple[int, int]:
    """Bytes of a process in memory now, and how many of them are of no file (Linux; elsewhere both are the whole)."""
    status = Path(f"/proc/{pid}/status")
    if not status.is_file():
        whole = psutil.Process(pid).memory_info().rss
        return whole, whole
    sizes = dict(line.split(":", 1) for line in status.read_text().splitlines())
    whole, own = (int(sizes[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon"))
    return whole, own


if __name__ == "__main__":
    alone(rows, __doc__)
