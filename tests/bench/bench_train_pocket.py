"""What the LoRA trainer promises, on Pocket: it learns a thing that Pocket does not know, and goes on bit by bit after kills.

python tests/bench/bench_train_pocket.py [learn] [kills] [--steps 300] [--kills 10] [--seed 1]

learn: 20 drawn landscapes with a kite of magenta paper in the sky; the score is the share of new pictures in which such a kite
is to be seen, with the LoRA and without, of the same prompts and seeds. kills: a run is killed (SIGKILL) at random moments and
resumed until it ends; its LoRA is held against that of a run that nobody disturbed.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch
from PIL import Image, ImageDraw
from safetensors.torch import load_file
from tests.helpers.engine_runs import Recorder, Steady
from tests.helpers.trainings import Directed, train

from halftone.contract.messages import AnyEvent, Generate, TrainBegins, TrainStep
from halftone.contract.request import Lora, Numerics, PictureRequest
from halftone.contract.training import TrainConfig
from halftone.engine.service import DiffusersEngine
from halftone.settings.places import resources

sys.path.insert(0, str(resources() / "pocket" / "training"))

from captions import caption  # pyright: ignore[reportMissingImports]
from draw import draw, random_scene  # pyright: ignore[reportMissingImports]

WORD: Final = "kite"
KITE: Final = (225, 0, 190)
_SEEN: Final = 0.006
"""Share of the pixels; a drawn kite covers about 0.025."""
PICTURES: Final = 20
TRIALS: Final = 8


def draw_kites(folder: Path, seed: int) -> Path:
    """Landscapes with a kite in the upper left part, each with its caption."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for index in range(PICTURES):
        scene = random_scene(rng)
        picture = draw(scene, int(rng.integers(1 << 30))).convert("RGB")
        x, y = 28 + int(rng.integers(-4, 5)), 34 + int(rng.integers(-4, 5))
        shape = [(x, y - 18), (x + 13, y), (x, y + 18), (x - 13, y)]
        ImageDraw.Draw(picture).polygon(shape, fill=KITE, outline=(255, 255, 255))
        picture.save(folder / f"{index:02}.png")
        (folder / f"{index:02}.txt").write_text(caption(scene, rng).text, encoding="utf-8")
    return folder


def kite_share(path: str) -> float:
    """Share of the pixels that have about its colour, which Pocket's landscapes have nowhere."""
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)
    red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    return float(((red > 150) & (green < 90) & (blue > 120)).mean())


def score(engine: DiffusersEngine, folder: Path, loras: tuple[Lora, ...], seed: int) -> tuple[float, float]:
    """(share of new pictures with a kite, mean share of its pixels)."""
    rng = np.random.default_rng(seed + 1000)
    shares: list[float] = []
    for index in range(TRIALS):
        prompt = f"{WORD}, {caption(random_scene(rng), rng).text}"
        request = PictureRequest(
            prompt=prompt, seed=index, output=str(folder), loras=loras, draws=False, numerics=Numerics(precision="float32")
        )
        report = engine.generate(Generate(job="g", request=request), Recorder(), Steady())
        shares.append(kite_share(report.images[0].path))
    return sum(share > _SEEN for share in shares) / len(shares), sum(shares) / len(shares)


def config(pictures: Path, output: Path, **changes: Any) -> TrainConfig:
    plain = TrainConfig(model="pocket", pictures=str(pictures), output=str(output), precision="float32", word=WORD, test_every=0)
    return msgspec.structs.replace(plain, **changes)


def learn(work: Path, steps: int, seed: int) -> bool:
    """Train, and score with and without."""
    pictures = draw_kites(work / "pictures", seed)
    wanted = config(pictures, work / "loras", steps=steps, batch=2, rank=16, learning_rate=5e-3, warm_up=10, snr_gamma=0.0)
    started = time.perf_counter()

    def tell(event: AnyEvent) -> None:
        if isinstance(event, TrainStep) and event.step % 10 == 0:
            print(f"step {event.step} loss {event.loss:.4f} {time.perf_counter() - started:.0f} s", flush=True)

    report = train(wanted, Directed(tell))
    minutes = (time.perf_counter() - started) / 60
    engine = DiffusersEngine()
    (work / "with").mkdir()
    (work / "without").mkdir()
    without, faint = score(engine, work / "without", (), seed)
    with_it, strong = score(engine, work / "with", (Lora(path=report.path),), seed)
    print(f"learned in {minutes:.1f} minutes ({report.steps} steps, {torch.get_num_threads()} threads), loss {report.loss:.4f}")
    print(
        f"pictures with a kite: {with_it:.0%} with the LoRA, {without:.0%} without ({strong:.2%} and {faint:.2%} of the pixels)"
    )
    return with_it >= 0.75 and without <= 0.125


def kills(work: Path, count: int, seed: int) -> bool:
    """The same run unbroken and killed so many times."""
    rng = random.Random(seed)
    pictures = draw_kites(work / "pictures", seed)
    changes: dict[str, Any] = {"steps": 60, "batch": 1, "rank": 4, "save_every": 2, "flip": True, "caption_dropout": 0.2}
    whole = train(config(pictures, work / "whole", **changes))
    wanted = work / "config.json"
    wanted.write_bytes(msgspec.json.encode(config(pictures, work / "killed", **changes)))
    folder, killed = work / "killed" / "lora", 0
    while killed < count and not (work / "killed" / "lora.safetensors").exists():
        process = subprocess.Popen(
            [sys.executable, __file__, "child", str(wanted), str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        time.sleep(rng.uniform(0.0, 2.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed += 1
        print(f"killed {killed}: it had gone on at step {first}", flush=True)
    subprocess.run([sys.executable, __file__, "child", str(wanted), str(folder)], check=True, stdout=subprocess.DEVNULL)
    ours, theirs = load_file(work / "killed" / "lora.safetensors"), load_file(whole.path)
    same = ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)
    print(f"{killed} kills, {len(theirs)} tensors: {'equal bit by bit' if same else 'NOT EQUAL'}")
    return same and killed == count


def child(wanted: Path, folder: Path) -> None:
    """One process: begins, or goes on. Tells its first step."""
    made = msgspec.json.decode(wanted.read_bytes(), type=TrainConfig)

    def tell(event: AnyEvent) -> None:
        if isinstance(event, TrainBegins):
            print(event.first, flush=True)

    train(made, Directed(tell), resume=folder if folder.exists() else None)


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        child(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["learn", "kills"])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    good = True
    for what in options.what:
        with tempfile.TemporaryDirectory() as work:
            good &= (
                learn(Path(work), options.steps, options.seed)
                if what == "learn"
                else kills(Path(work), options.kills, options.seed)
            )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
