"""What the watch over the latents costs: pictures with the NaN check at every step against the bare diffusers pipeline.

    PYTHONPATH=app:. python tests/bench/bench_sentinel.py [--small]

The bare pipeline is one that diffusers itself loaded: nothing of Halftone is on it. The model has a UNet of more than 200 M
parameters. The difference of two whole pictures is smaller than what a busy machine adds to either, so it is told in two
ways: by the whole pictures in turns; and, judged, by what happens outside of the networks alone. There each picture is timed
twice: as a whole, and inside the networks; the sentinel's cost is what remains of its picture less what remains of the bare
one, against the whole bare picture. One thread, processor time.
"""

import inspect
import statistics
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from tests.bench.common import Options, Row, alone, judged, one_thread, processor_seconds, ratio, timed, write_large
from tests.helpers.tiny import load_tiny
from torch import nn

from halftone.contract.request import Numerics
from halftone.contract.vocabulary import NanCheck
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import load_pipeline
from halftone.engine.loading.plans import apply_plan, base_plan
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.hooks import Hooks
from halftone.library.models import describe

GOAL = 1.01
_STEPS = 4


def rows(options: Options) -> list[Row]:
    rounds = 2 if options.small else 9
    with tempfile.TemporaryDirectory(prefix="halftone-sentinel-") as folder, quiet_libraries(), one_thread(), torch.no_grad():
        ways = _pictures(write_large(Path(folder) / "model", small=options.small), 8 if options.small else 16)
        for run, _ in ways.values():
            run()
        whole: dict[str, list[float]] = {name: [] for name in ways}
        outside: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, (run, pipe) in ways.items():
                with _inside(pipe) as spent:
                    whole[name].append(timed(run))
                outside[name].append(whole[name][-1] - sum(spent))
    bare = statistics.median(whole["bare"])
    rest = {name: statistics.median(own) for name, own in outside.items()}
    found = 1 + (rest["every-step"] - rest["bare"]) / bare
    pairs = ratio(whole["every-step"], whole["bare"])
    return [
        ("sentinel at every step over the bare pipeline, outside of the networks", f"{found:.4f}", f"at most {GOAL}",
         judged(found <= GOAL, options.small)),
        ("  the same, whole pictures in turns", str(pairs), "", None),
        ("  Halftone without the check over the bare pipeline, outside of the networks",
         f"{1 + (rest['off'] - rest['bare']) / bare:.4f}", "", None),
    ]  # fmt: skip


def _pictures(model: Path, latent: int) -> dict[str, tuple[Callable[[], Any], Any]]:
    """Name -> (draws the picture, its pipeline): diffusers alone, Halftone without the check, Halftone with it."""
    edge = 2 * latent
    inputs: dict[str, Any] = {"prompt": "a red sun", "num_inference_steps": _STEPS, "width": edge, "height": edge}
    inputs["output_type"] = "pt"
    pipe = load_tiny(model)
    loaded = load_pipeline(describe(str(model)), torch.device("cpu"))
    apply_plan(loaded, base_plan(loaded, "float32", Numerics()))

    def bare() -> Any:
        return pipe(**inputs, generator=torch.Generator().manual_seed(1))

    def flown(check: NanCheck) -> Callable[[], Any]:
        def run() -> Any:
            flight = Flight(loaded, nan_check=check, upcast_sampling=True, hooks=Hooks())
            return flight.run(inputs, torch.Generator().manual_seed(1))

        return run

    return {"bare": (bare, pipe), "off": (flown("off"), loaded.pipe), "every-step": (flown("every-step"), loaded.pipe)}


@contextmanager
def _inside(pipe: Any) -> Generator[list[float]]:
    """Fills a list with the seconds of every call of a network: what the classes' own methods take."""
    spent: list[float] = []
    with ExitStack() as stack:
        for part in pipe.components.values():
            if isinstance(part, nn.Module):
                kind = type(part)
                for name in ("forward", "encode", "decode"):
                    if name in vars(kind) or (name == "forward" and hasattr(kind, name)):
                        stack.enter_context(_clocked(kind, name, spent))
        yield spent


@contextmanager
def _clocked(kind: type, name: str, spent: list[float]) -> Generator[None]:
    """One method of a class; a flight replaces it on the object and calls it by what it found there, which is this."""
    original = getattr(kind, name)
    own = name in vars(kind)

    def clocked(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = processor_seconds()
        try:
            return original(self, *args, **kwargs)
        finally:
            spent.append(processor_seconds() - start)

    clocked.__signature__ = inspect.signature(original)  # pipelines ask for it
    setattr(kind, name, clocked)
    try:
        yield
    finally:
        if own:
            setattr(kind, name, original)
        else:
            delattr(kind, name)


if __name__ == "__main__":
    alone(rows, __doc__)
