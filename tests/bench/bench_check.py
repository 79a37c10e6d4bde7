"""What a quick check costs, against one bare pass of every component over the same inputs in the asked precision.

Run: `PYTHONPATH=app:. HALFTONE_DATA=<folder> python tests/bench/bench_check.py [MODEL] [--precision P] [--rounds N]`. Prints
the ratio
of the medians; loading the model is in neither.
"""

import argparse
import statistics
import time

import torch

from halftone.contract.messages import AnyEvent, Examine
from halftone.contract.request import Numerics
from halftone.engine.calls import run_call
from halftone.engine.examine import Examination
from halftone.engine.plans import apply_plan, base_plan
from halftone.engine.quiet import quiet_libraries
from halftone.engine.service import DiffusersEngine
from halftone.measure.devices import find_device


class Going:
    """A control that never stops the job."""

    def cancelled(self) -> bool:
        return False

    def keep(self) -> bool:
        return False

    def check(self) -> None:
        return


def silent(event: AnyEvent, blob: bytes = b"") -> None:
    del event, blob


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="pocket")
    parser.add_argument("--precision", default="float16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    engine = DiffusersEngine()
    command = Examine(job="bench", model=arguments.model, numerics=Numerics(precision=arguments.precision))
    engine.examine(command, silent, Going())
    loaded = engine.loaded
    assert loaded is not None
    checks: list[float] = []
    bare: list[float] = []
    for _ in range(arguments.rounds):
        with quiet_libraries():
            examination = Examination(loaded, find_device("auto"), None, command, silent, Going())
            started = clock()
            examination.run()
            checks.append(clock() - started)
            assert examination.wide is not None
            apply_plan(loaded, base_plan(loaded, arguments.precision, Numerics()))
            with torch.no_grad():
                started = clock()
                for call, _ in examination.wide.calls:
                    run_call(call, loaded.modules[call.component], loaded.states[call.component].dtype)
                bare.append(clock() - started)
    check, one = statistics.median(checks), statistics.median(bare)
    print(f"check {check:.2f} s, one bare pass {one:.2f} s, ratio {check / one:.2f}")


if __name__ == "__main__":
    main()
