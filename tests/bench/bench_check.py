"""What a quick check costs, against one bare pass of every component over the same inputs in the asked precision.

    PYTHONPATH=app:. python tests/bench/bench_check.py [--small]

The model has a UNet of more than 200 M parameters; a quick check runs three noise levels of it. Twice: a sound model in FP32,
where the asked precision is no slower than the range pass and the check is dearest in comparison; and one whose decoder
overflows in FP16, with the search for a cure and its verification (in a smaller picture, since many CPUs are slow in FP16).
Loading the model is in neither time; the file scan is in the check's. One thread, processor time.
"""

import tempfile
from functools import partial
from pathlib import Path

import torch
from tests.bench.common import Options, Ratio, Row, alone, judged, one_thread, overflowing, ratio, timed, write_large
from tests.helpers.silence import Going, silent

from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Numerics
from halftone.contract.vocabulary import DType
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.checks.examine import Examination
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.loading.plans import apply_plan, base_plan
from halftone.engine.weights.calls import run_call
from halftone.library.models import describe
from halftone.measure.devices import find_device

GOAL = 3.0


def rows(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="halftone-check-") as folder, quiet_libraries(), one_thread():
        model = write_large(Path(folder) / "model", small=options.small)
        sound = _measured(model, "float32", CheckInputs(), 1 if options.small else 3)
        overflowing(model, "vae", "residual stream of decoder")
        sick = _measured(model, "float16", CheckInputs(width=16, height=16), 1)
    return [
        _row("quick check of a sound model in FP32 over one bare pass", sound, options),
        _row("quick check with a cure found and verified in FP16 over one bare pass", sick, options),
    ]


def _row(what: str, found: Ratio, options: Options) -> Row:
    return what, str(found), f"at most {GOAL:g}", judged(found.median <= GOAL, options.small)


def _measured(model: Path, precision: DType, inputs: CheckInputs, rounds: int) -> Ratio:
    loaded = load_pipeline(describe(str(model)), torch.device("cpu"))
    command = Examine(job="bench", model=str(model), inputs=inputs, numerics=Numerics(precision=precision))
    checks: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        examination = Examination(loaded, find_device("cpu"), None, command, silent, Going())
        checks.append(timed(examination.run))
        apply_plan(loaded, base_plan(loaded, precision, Numerics()))
        bare.append(timed(partial(_pass, loaded, examination)))
    return ratio(checks, bare)


def _pass(loaded: Loaded, examination: Examination) -> None:
    """Every call of the check once, bare."""
    assert examination.wide is not None
    with torch.no_grad():
        for call, _ in examination.wide.calls:
            run_call(call, loaded.modules[call.component], loaded.states[call.component].dtype)


if __name__ == "__main__":
    alone(rows, __doc__)
