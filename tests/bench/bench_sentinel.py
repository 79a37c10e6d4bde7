"""What the sentinel costs: pictures of Pocket with the NaN check at every step against the bare diffusers pipeline, interleaved.

Run: `PYTHONPATH=app:. python tests/bench/bench_sentinel.py [--threads N] [--rounds N] [--steps N]`. Prints the ratio of the
medians.
On one thread the time is what the process really had, so that a busy machine matters less.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from halftone.engine.flight import Flight, Hooks
from halftone.engine.load import Loaded, load_pipeline
from halftone.engine.plans import apply_plan, base_plan
from halftone.engine.quiet import quiet_libraries
from halftone.library.models import describe


def pictures(loaded: Loaded, steps: int) -> dict[str, Callable[[], Any]]:
    """The same picture three ways: diffusers alone, Halftone without the check, Halftone with it."""
    from halftone.contract.words import NanCheck

    inputs: dict[str, Any] = {"prompt": "a red sun over green hills", "num_inference_steps": steps, "output_type": "pt"}
    ways: tuple[NanCheck, ...] = ("off", "every-step")

    def bare() -> Any:
        return loaded.pipe(**inputs, generator=torch.Generator().manual_seed(1))

    def flown(check: NanCheck) -> Callable[[], Any]:
        def run() -> Any:
            flight = Flight(loaded, nan_check=check, upcast_sampling=True, hooks=Hooks())
            return flight.run(inputs, torch.Generator().manual_seed(1))

        return run

    return {"bare": bare, **{f"nan check {way}": flown(way) for way in ways}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--model", default="pocket")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    with quiet_libraries(), torch.no_grad():
        from halftone.contract.request import Numerics

        loaded = load_pipeline(describe(arguments.model), torch.device("cpu"))
        apply_plan(loaded, base_plan(loaded, "float32", Numerics()))
        ways = pictures(loaded, arguments.steps)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for run in ways.values():
            run()
        for _ in range(arguments.rounds):
            for name, run in ways.items():
                started = clock()
                run()
                times[name].append(clock() - started)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, median in medians.items():
        print(f"{name:24} {median * 1000:8.1f} ms  {median / medians['bare']:.4f}")


if __name__ == "__main__":
    main()
