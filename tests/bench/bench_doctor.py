"""How long the log doctor takes to read 100 MB, against reading the file alone, and how much memory.

    PYTHONPATH=app:. python tests/bench/bench_doctor.py [--small]

Made-up logs in a temporary folder and in the page cache: redraws of a bar, lines of Sana's trainer, lines of JSON, text without
numbers, Lightning's table, scalars of TensorBoard. Reading the file alone and the doctor's reading in turns; the time is the
processor's, so that a busy machine matters less. Memory: by how much the largest resident size of a fresh process grows.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.common import Options, Row, alone, in_turns, judged, processor_seconds, ratio
from tests.helpers.run_logs import record, scalar_event

from halftone.library.run_logs.folder import read_run

NEAR: Final = 200
"""Times the reading of the file alone: from a page cache that gives 4 GB in a second, 100 MB in 5 s."""
_WORDS: Final = ("the", "picture", "of", "a", "cat", "on", "road", "with", "steel", "tower", "river", "boats", "cold", "winter")

_GROWTH: Final = """
import sys
from pathlib import Path
from halftone.library.run_logs.folder import read_run
def largest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
before = largest()
read = read_run(Path(sys.argv[1]))
print(largest() - before, sum(map(len, read.tracks)))
"""


def bar(chance: random.Random) -> Iterator[bytes]:
    for step in range(1, 10**9):
        share = step * 100 // 10**6
        fill = "█" * (share // 10)
        clock = f"{step // 3600:02d}:{step // 60 % 60:02d}:{step % 60:02d}<22:12:33, {chance.uniform(4, 6):.2f}it/s"
        numbers = f"lr=0.0001, step_loss={chance.uniform(0.05, 0.2):.3f}"
        yield f"\rSteps: {share:3d}%|{fill:<10}| {step}/1000000 [{clock}, {numbers}]".encode()


def sana(chance: random.Random) -> Iterator[bytes]:
    for step in range(1, 10**9):
        yield (
            f"2024-12-01 10:00:00,123 - Sana - INFO - Epoch: 1 | Global Step: {step} | Local Step: {step} // 1234500, total_eta: "
            f"12:00:00, time: all:{chance.uniform(1, 2):.3f}, model:0.900, lr:6.000e-06s:(32, 32), "
            f"loss:{chance.uniform(0.05, 0.2):.4f}, grad_norm:{chance.uniform(0.05, 0.2):.4f}\n"
        ).encode()


def objects(chance: random.Random) -> Iterator[bytes]:
    for step in range(1, 10**9):
        row = {"step": step, "_timestamp": 1.7e9 + step, "train/loss": chance.uniform(0.05, 0.2), "grad_norm": chance.random()}
        yield f"{json.dumps(row)}\n".encode()


def words(chance: random.Random) -> Iterator[bytes]:
    for number in range(10**9):
        yield f"2026-03-01 10:00:00 INFO     {' '.join(chance.choices(_WORDS, k=12))} {number}    train_util.py:715\n".encode()


def lightning(chance: random.Random) -> Iterator[bytes]:
    yield b"epoch,lr-AdamW,step,train_loss,val_loss\n"
    for step in range(10**9):
        yield f"0,,{step},{chance.uniform(0.05, 0.2)},\n".encode()


def tensorboard(chance: random.Random) -> Iterator[bytes]:
    for step in range(10**9):
        yield record(scalar_event("loss/current", chance.uniform(0.05, 0.2), step, 1.7e9 + step))
        yield record(scalar_event("lr/unet", 1e-4, step, 1.7e9 + step))


FORMS: Final[dict[str, tuple[str, Callable[[random.Random], Iterator[bytes]]]]] = {
    "redraws of a bar": ("bar.log", bar),
    "lines of Sana's trainer": ("train_log.log", sana),
    "lines of JSON": ("a.jsonl", objects),
    "text without numbers": ("words.log", words),
    "Lightning's table": ("metrics.csv", lightning),
    "scalars of TensorBoard": ("events.out.tfevents.1", tensorboard),
}


def rows(options: Options) -> list[Row]:
    size = 10**6 if options.small else 10**8
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, make) in FORMS.items():
            path = _made(Path(folder, file), make, size)
            found += _measured(name, path, options)
            path.unlink()
    return found


def _made(path: Path, make: Callable[[random.Random], Iterator[bytes]], size: int) -> Path:
    with path.open("wb") as file:
        for line in make(random.Random(1)):
            file.write(line)
            if file.tell() >= size:
                break
    return path


def _measured(name: str, path: Path, options: Options) -> list[Row]:
    ways = {"alone": partial(_alone, path), "doctor": partial(read_run, path)}
    times = in_turns(ways, 2 if options.small else 5, processor_seconds)
    size = path.stat().st_size / 1e6
    over = ratio(times["doctor"], times["alone"])
    speed = size / sorted(times["doctor"])[len(times["doctor"]) // 2]
    process = [sys.executable, "-c", _GROWTH, str(path)]
    grown, points = map(int, subprocess.run(process, capture_output=True, check=True, env=dict(os.environ)).stdout.split())
    told = f"{speed:.0f} MB/s; {over}"
    return [
        (
            f"{name}, {size:.0f} MB: reading, over the file alone",
            told,
            f"at most {NEAR}",
            judged(over.median <= NEAR, options.small),
        ),
        (f"{name}: memory", f"{grown / 1024:.0f} MB for {points} numbers", "–", None),
    ]


def _alone(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(2**18):
            pass


if __name__ == "__main__":
    alone(rows, __doc__)
