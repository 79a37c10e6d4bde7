"""Measures what Halftone exists for: is a fault found, named and cured, and is a sound model left alone?

Run: `PYTHONPATH=app:. OMP_NUM_THREADS=1 python tests/bench/faults/run.py [--families …] [--kinds …] [--seeds N] [--out FILE]
[--resume]`. Every case is planted in a tiny random model and proven by plain torch before Halftone sees it; a family that has
no place for a kind gives no case. One line of JSON per case, one table at the end.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tests.bench.faults.families import FAMILIES, Sound, make_sound
from tests.bench.faults.inject import make_case
from tests.bench.faults.kinds import CONTROLS, KINDS
from tests.bench.faults.score import measure
from tests.bench.faults.table import goals, table

from halftone.contract.errors import HalftoneError
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.service import DiffusersEngine
from halftone.worker.environment import prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--seeds", type=int, default=2, help="how many cases of each kind and family")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, choices=(1,), help="cases run one after the other in one process")
    parser.add_argument("--out", type=Path, help="lines of JSON, one per case")
    parser.add_argument("--resume", action="store_true", help="leave out what stands in --out already")
    parser.add_argument("--table", action="store_true", help="only the table of what stands in --out")
    chosen = parser.parse_args()
    prepare()
    torch.set_num_threads(1)  # tiny models on two busy cores run many times slower with two threads
    rows = _read(chosen.out) if chosen.out is not None and (chosen.resume or chosen.table) else []
    if chosen.out is not None and not rows:
        chosen.out.write_text("", encoding="utf-8")
    if not chosen.table:
        with tempfile.TemporaryDirectory(prefix="halftone-faults-") as folder:
            os.environ["HALFTONE_DATA"] = str(Path(folder) / "data")
            done = {(row["family"], row["kind"], row["seed"]) for row in rows}
            seeds = range(chosen.first, chosen.first + chosen.seeds)
            for row in cases(chosen.families, chosen.kinds, seeds, Path(folder) / "models", done):
                rows.append(row)
                if chosen.out is not None:
                    with chosen.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
    print(table(rows, CONTROLS))
    sys.exit(not all(met for _, _, _, met in goals(rows, CONTROLS)))


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def cases(
    families: Iterable[str],
    kinds: Iterable[str],
    seeds: Iterable[int],
    folder: Path,
    done: Collection[tuple[str, str, int]] = (),
) -> Iterator[dict[str, Any]]:
    """A line for every case, said as it comes. folder: for the models; done: (family, kind, seed) that are left out."""
    engine = DiffusersEngine()
    for name, seed in product(families, seeds):
        left = [kind for kind in kinds if (name, kind, seed) not in done]
        if not left:
            continue
        sound = _sound(name, folder, seed)
        for kind in left:
            row = {"family": name, "kind": kind, "seed": seed} | (
                {"state": "no sound model", "detail": sound} if isinstance(sound, str) else _case(engine, sound, kind, seed)
            )
            _say(row)
            yield row


def _sound(name: str, folder: Path, seed: int) -> Sound | str:
    try:
        with quiet_libraries(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_sound(FAMILIES[name], folder, seed)
    except Exception as error:  # noqa: BLE001 - a family that cannot be made is a line of the table
        traceback.print_exc(limit=-3)
        return f"{type(error).__name__}: {error}"


def _case(engine: DiffusersEngine, sound: Sound, kind: str, seed: int) -> dict[str, Any]:
    started = time.perf_counter()
    with quiet_libraries(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case = make_case(sound, kind, seed, sound.folder.parent / f"{sound.family.name}-{kind}-{seed}")
        except Exception as error:  # noqa: BLE001
            traceback.print_exc(limit=-3)
            return {"state": "not made", "detail": f"{type(error).__name__}: {error}"}
        if case is None:
            return {"state": "no place", "made": time.perf_counter() - started}
        made = time.perf_counter() - started
        try:
            return {"state": "run", "made": made} | measure(engine, sound, case)
        except HalftoneError as error:
            return {"state": "crash", "made": made, "detail": f"{error.code}: {error}"}
        except Exception as error:  # noqa: BLE001 - a crash is a result
            return {"state": "crash", "made": made, "detail": f"{type(error).__name__}: {error} ({_place(error)})"}


def _place(error: Exception) -> str:
    """Where Halftone's own code stood."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/halftone/" in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames[-4:]))


def _say(row: dict[str, Any]) -> None:
    keys = ("state", "detail", "truth", "first", "code", "verdict", "cure", "psnr", "seconds")
    print(
        row["family"], row["kind"], row["seed"], *(f"{key}={row[key]}" for key in keys if key in row), file=sys.stderr, flush=True
    )


if __name__ == "__main__":
    main()
