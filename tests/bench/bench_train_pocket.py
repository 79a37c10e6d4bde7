"""What the LoRA trainer promises, on Pocket: it learns a thing that Pocket does not know, and goes on bit by bit after kills.

python tests/bench/bench_train_pocket.py [learn] [kills] [--steps 300] [--kills 10] [--seed 1]

learn: 20 drawn landscapes with a kite of red paper in the sky, where Pocket's landscapes have sky or cloud alone; the score is
the share of new pictures in which a kite is to be seen, with the LoRA and without, of the same prompts and seeds, and how much of
what else their prompts name is there (resources/pocket/training/checker.py looks). The colour is one of Pocket's own: its VAE
gives magenta back as brown, so that no denoiser could show it. kills: a run is killed (SIGKILL) at random moments and
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
from typing import Any, Final, NamedTuple

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
from checker import load_checker, look, scene_answers  # pyright: ignore[reportMissingImports]
from draw import COLOURS, draw, random_scene  # pyright: ignore[reportMissingImports]
from evaluate import wrong_parts  # pyright: ignore[reportMissingImports]

WORD: Final = "kite"
HALF: Final = (13, 18)
"""From the middle of a kite to its corners, in pixels: across, and up or down."""
_SKY: Final = (slice(0, 60), slice(0, 46))
"""Rows and columns in which a kite stands, and nothing red ever does."""
_ALIKE: Final = 0.6
"""Intersection over union of what is red and a drawn kite about its middle."""
PICTURES: Final = 20
TRIALS: Final = 16


def draw_kites(folder: Path, seed: int) -> Path:
    """Landscapes with a kite in the upper left part, each with its caption."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for index in range(PICTURES):
        scene = random_scene(rng)
        picture = draw(scene, int(rng.integers(1 << 30))).convert("RGB")
        x, y = 28 + int(rng.integers(-4, 5)), 34 + int(rng.integers(-4, 5))
        _polygon(ImageDraw.Draw(picture), x, y, COLOURS["red"])
        picture.save(folder / f"{index:02}.png")
        (folder / f"{index:02}.txt").write_text(caption(scene, rng).text, encoding="utf-8")
    return folder


def _polygon(onto: ImageDraw.ImageDraw, x: float, y: float, fill: Any) -> None:
    across, up = HALF
    onto.polygon([(x, y - up), (x + across, y), (x, y + up), (x - across, y)], fill=fill)


def kite_likeness(path: str) -> float:
    """0 to 1: how well what is red in that part of the sky covers a drawn kite about its middle."""
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=np.int16)[_SKY]
    red, green, blue = pixels[..., 0], pixels[..., 1], pixels[..., 2]
    found = (red > 140) & (green < 110) & (blue < 110)
    if not found.any():
        return 0.0
    rows, columns = np.nonzero(found)
    drawn = Image.new("1", (found.shape[1], found.shape[0]))
    _polygon(ImageDraw.Draw(drawn), float(columns.mean()), float(rows.mean()), 1)
    kite = np.asarray(drawn)
    return float((found & kite).sum() / (found | kite).sum())


class Score(NamedTuple):
    """Shares: of new pictures with a kite, of what else their prompts name; the mean likeness."""

    kites: float
    obeyed: float
    likeness: float


def score(engine: DiffusersEngine, folder: Path, loras: tuple[Lora, ...], seed: int) -> Score:
    """Of prompts that were never trained."""
    rng = np.random.default_rng(seed + 1000)
    checker = load_checker(resources() / "pocket" / "training" / "checker.safetensors")
    kites: list[float] = []
    named = right = 0
    for index in range(TRIALS):
        scene = random_scene(rng)
        told = caption(scene, rng)
        request = PictureRequest(
            prompt=f"{WORD}, {told.text}",
            seed=index,
            output=str(folder),
            loras=loras,
            draws=False,
            numerics=Numerics(precision="float32"),
        )
        path = engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0].path
        kites.append(kite_likeness(path))
        wrong = wrong_parts(told.named, scene_answers(scene), look(checker, [Image.open(path)])[0])
        named += len(told.named)
        right += len(told.named) - len(wrong)
    return Score(sum(kite > _ALIKE for kite in kites) / TRIALS, right / named, sum(kites) / TRIALS)


def config(pictures: Path, output: Path, **changes: Any) -> TrainConfig:
    plain = TrainConfig(model="pocket", pictures=str(pictures), output=str(output), precision="float32", word=WORD, test_every=0)
    return msgspec.structs.replace(plain, **changes)


def learn(work: Path, steps: int, seed: int) -> bool:
    """Train, and score with and without."""
    pictures = draw_kites(work / "pictures", seed)
    wanted = config(pictures, work / "loras", steps=steps, batch=2, rank=16, learning_rate=3e-3, warm_up=10, snr_gamma=0.0)
    started = time.perf_counter()

    def tell(event: AnyEvent) -> None:
        if isinstance(event, TrainStep) and event.step % 10 == 0:
            print(f"step {event.step} loss {event.loss:.4f} {time.perf_counter() - started:.0f} s", flush=True)

    report = train(wanted, Directed(tell))
    minutes = (time.perf_counter() - started) / 60
    engine = DiffusersEngine()
    (work / "with").mkdir()
    (work / "without").mkdir()
    without = score(engine, work / "without", (), seed)
    with_it = score(engine, work / "with", (Lora(path=report.path),), seed)
    print(f"learned in {minutes:.1f} minutes ({report.steps} steps, {torch.get_num_threads()} threads), loss {report.loss:.4f}")
    for name, told in (("with the LoRA", with_it), ("without", without)):
        print(
            f"{name}: {told.kites:.0%} with a kite (likeness {told.likeness:.2f}), {told.obeyed:.0%} of what else was asked for"
        )
    return with_it.kites >= 0.75 and without.kites == 0 and with_it.obeyed >= without.obeyed - 0.1


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
        time.sleep(rng.uniform(0.0, 2.5))  # a moment that no event marks: that is what is tried
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
