"""Compares what the self-test says of a type's speed with what whole pictures of Pocket show: both as seconds over those of FP32.

    PYTHONPATH=app:. python -m tests.bench.bench_precision [--rounds N]

Pictures are drawn in turns, one of each type, by the engine that the window uses. Pocket is far smaller than the models that the
self-test's step is shaped after, so the two figures differ; they must name the same order, and differ by less than a factor of 2.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Final

from halftone.worker.environment import prepare

prepare()  # before torch is imported: the pictures have the worker's threads

from tests.helpers.engine_runs import Recorder, Steady  # noqa: E402

from halftone.contract.messages import Generate, SelfTest  # noqa: E402
from halftone.contract.request import Numerics, PictureRequest  # noqa: E402
from halftone.contract.vocabulary import DTYPE_NAMES, DType  # noqa: E402
from halftone.engine.basics.quiet import quiet_libraries  # noqa: E402
from halftone.engine.service import DiffusersEngine  # noqa: E402
from halftone.health.forecasts.timing import mode_ratio, paired_ratio  # noqa: E402

TYPES: Final[tuple[DType, ...]] = ("float32", "float16", "bfloat16")


def seconds_of_picture(engine: DiffusersEngine, dtype: DType, folder: Path, steps: int) -> float:
    """One picture, without the time to change the type."""
    request = PictureRequest(
        prompt="a red sun over green hills",
        model="pocket",
        steps=steps,
        seed=7,
        numerics=Numerics(precision=dtype),
        output=str(folder / f"{dtype}.png"),
        overwrite=True,
    )
    engine.generate(Generate(job="warm", request=request), Recorder(), Steady())
    return engine.generate(Generate(job="timed", request=request), Recorder(), Steady()).images[0].seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="halftone-precision-") as folder, quiet_libraries():
        os.environ["HALFTONE_DATA"] = str(Path(folder) / "data")
        engine = DiffusersEngine()
        tested = engine.self_test(SelfTest(job="s"), Recorder(), Steady())
        taken: dict[DType, list[float]] = {dtype: [] for dtype in TYPES}
        for _ in range(chosen.rounds):
            for dtype in TYPES:
                taken[dtype].append(seconds_of_picture(engine, dtype, Path(folder), chosen.steps))
    for dtype in TYPES[1:]:
        told, drawn = mode_ratio(tested.speeds, dtype, "float32"), paired_ratio(taken["float32"], taken[dtype])
        for what, found in (("self-test", told), ("whole pictures", drawn)):
            words = "not measured" if found is None else f"{found.value:.2f} × the time of FP32, spread {found.spread:.2f}"
            print(f"{DTYPE_NAMES[dtype]}, {what}: {words}")


if __name__ == "__main__":
    main()
