"""What a planned cure gains over the component as a whole in float32, where a 16-bit type is the faster one.

    PYTHONPATH=app:. python tests/bench/bench_cure.py [--small]

A UNet of more than 200 M parameters overflows in one block in FP16; a quick check finds its cures. One call of the UNet is
timed under the plain 16-bit types, under each cure, and in float32. Where no 16-bit type is faster than float32 (most CPUs
without AMX) there is nothing to gain by staying in it: then the figures are told and nothing is judged. One thread.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Final

import torch
from tests.bench.common import Options, Row, alone, judged, one_thread, overflowing, timed, write_large
from tests.helpers.silence import Going, silent

from halftone.contract.messages import Examine
from halftone.contract.plan import Plan
from halftone.contract.request import CheckInputs, Numerics
from halftone.contract.vocabulary import DType
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.checks.examine import Examination
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.loading.plans import apply_plan
from halftone.engine.weights.calls import run_call
from halftone.library.models import describe
from halftone.measure.devices import find_device

GOAL = 1.5
_NARROW: Final[tuple[DType, ...]] = ("float16", "bfloat16")
_NAMES: Final = {"rescale": "rescaled", "upcast-region": "smallest block in FP32"}


def rows(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="halftone-cure-") as folder, quiet_libraries(), one_thread():
        model = write_large(Path(folder) / "model", small=options.small)
        overflowing(model, "unet", "first half of mid_block")
        loaded = load_pipeline(describe(str(model)), torch.device("cpu"))
        command = Examine(
            job="bench",
            model=str(model),
            inputs=CheckInputs(steps=1, width=16, height=16),
            numerics=Numerics(precision="float16"),
        )
        examination = Examination(loaded, find_device("cpu"), None, command, silent, Going())
        report = examination.run()
        plain = {dtype: Plan(dtypes=dict.fromkeys(loaded.modules, dtype)) for dtype in ("float32", *_NARROW)}
        cures = {cure.kind: cure.plan for cure in report.cures if cure.kind in _NAMES and cure.refusal is None}
        seconds = {name: _seconds(loaded, examination, plan, options) for name, plan in {**plain, **cures}.items()}
    wide = seconds["float32"]
    speeds = ", ".join(f"{dtype} {wide / seconds[dtype]:.2f}" for dtype in _NARROW)
    faster = max(wide / seconds[dtype] for dtype in _NARROW) > 1
    known = "one is faster" if faster else "neither is faster on this CPU: cures are not judged"
    found: list[Row] = [("speed of a 16-bit type, bare, over FP32", speeds, known, None)]
    for kind, words in _NAMES.items():
        gain = wide / seconds[kind] if kind in seconds else 0.0
        pays = wide / seconds["float16"] > 1
        found.append(
            (
                f"speed of the UNet cured in FP16 ({words}) over the whole UNet in FP32",
                f"{gain:.2f}" if gain else "no such cure",
                f"at least {GOAL}" if pays else "where FP16 is faster",
                judged(gain >= GOAL, options.small) if pays else None,
            )
        )
    return found


def _seconds(loaded: Loaded, examination: Examination, plan: Plan, options: Options) -> float:
    """Of one call of the UNet under a plan."""
    assert examination.wide is not None
    call, _ = examination.wide.of("unet")[0]
    apply_plan(loaded, plan)

    def run() -> None:
        with torch.no_grad():
            run_call(call, loaded.modules["unet"], loaded.states["unet"].dtype)

    run()
    return statistics.median(timed(run) for _ in range(1 if options.small else 3))


if __name__ == "__main__":
    alone(rows, __doc__)
