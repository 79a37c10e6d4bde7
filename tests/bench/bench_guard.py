"""What the training guard costs: seconds of a step with it over seconds without, in one run, on 200 million parameters.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python tests/bench/bench_guard.py [--tokens 2048] [--rounds 15] [--lora] [--half]

Beside it torch.autograd.detect_anomaly, which looks at the way back alone and stops at the first NaN. The bare step does all that
the guarded one does for the training itself: the way there and back, clipping, the optimizer, and one look at the loss.

Steps with and without the guard take turns, and each guarded one is held against the mean of the bare one before it and the bare
one after it: a machine that slowly grows faster or slower changes nothing. The ratio is the median of all of these, and behind it
stands the interval that holds the true median in 95 of 100 such runs. On one thread the time is the processor's, so that what
else the machine does counts little. Memory that is freed stays with the process: whether glibc gives it back to the system, and
gets it anew page by page, is a matter of luck, and costs a step more than any guard.

Two whole steps differ by more than the goal on a machine that others use too. So the guard's own part of its step is told too:
what remains of the step less the loss function without the guard's hooks, the way back, clipping and the optimizer, over these.
"""

import argparse
import contextlib
import ctypes
import functools
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any
from unittest import mock

import torch
from tests.bench.common import machine, timed
from tests.helpers.training_faults import Block
from torch import Tensor, nn
from torch.nn import functional

from halftone.training.guard import TrainingGuard
from halftone.training.guard.activations import ActivationWatch
from halftone.training.guard.backward import GradientWatch
from halftone.training.guard.replay import Calls

GOAL = 1.02
_CLIPPING = ("get_total_norm", "clip_grads_with_norm_")
_MMAP_MAX, _TRIM_THRESHOLD = -4, -1
"""Names of glibc's mallopt."""


class Large(nn.Module):
    """A transformer of `depth` blocks; with 28 of width 1024, and a feed-forward part twice as wide, 200 million parameters."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Bench:
    """One training, stepped in three ways."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.network = Large(wanted.width, wanted.depth)
        if wanted.half:
            self.network.bfloat16()
        if wanted.lora:
            self.network.requires_grad_(False)
            for name, parameter in self.network.named_parameters():
                parameter.requires_grad_(name.endswith("norm1.weight"))
        self.trained = [p for p in self.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, lr=1e-5, eps=1e-4 if wanted.half else 1e-8)
        shape = (max(1, wanted.tokens // 512), min(512, wanted.tokens), wanted.width)
        self._x = torch.randn(shape).to(next(self.network.parameters()).dtype)

    def loss(self) -> Tensor:
        return functional.mse_loss(self.network(self._x).float(), self._x.float())

    def bare(self) -> None:
        """A step as a script makes it."""
        value = self.loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        value.item()

    def guarded(self) -> float:
        """Seconds of the second step under a guard: the first one writes down how everything stands."""
        with self._guard() as guard:
            guard.step(self.loss)
            return seconds_of(lambda: guard.step(self.loss))

    def own(self) -> float:
        """Of one guarded step: seconds of the guard itself over those of everything else."""
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        training, hooks = Part(clock), Part(clock)
        # what the guard calls by another name than a bare step does: gradients that are dropped, the norm that clipping needs
        of_torch = [(torch.Tensor, "backward"), *((torch.nn.utils, name) for name in _CLIPPING)]
        of_training = [(GradientWatch, "clear"), (self.optimizer, "step"), (self.optimizer, "zero_grad"), *of_torch]
        with contextlib.ExitStack() as patched:
            for part, places in ((hooks, [(ActivationWatch, "_note"), (Calls, "_note")]), (training, of_training)):
                for where, name in places:
                    patched.enter_context(mock.patch.object(where, name, part.of(getattr(where, name))))
            guard = patched.enter_context(self._guard())
            guard.step(self.loss)
            training.seconds = hooks.seconds = 0.0
            gc.collect()
            began = clock()
            guard.step(training.of(self.loss))
            rest = training.seconds - hooks.seconds
            return (clock() - began - rest) / rest

    @contextlib.contextmanager
    def _guard(self) -> Generator[TrainingGuard]:
        guard = TrainingGuard(self.network, self.optimizer, clip=1.0, keep_every=0, forecast="off")
        try:
            yield guard
        finally:
            guard.remove()

    def anomaly(self) -> None:
        with torch.autograd.detect_anomaly():
            self.bare()


class Part:
    """Seconds of all calls of some functions."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds = 0.0

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed_call(*args: Any, **kwargs: Any) -> Any:
            began = self._clock()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += self._clock() - began

        return timed_call


def seconds_of(step: Callable[[], object]) -> float:
    gc.collect()
    return timed(step)


def keep_freed_memory() -> None:
    """Where glibc is: no mapping of its own for large tensors, and nothing of the heap given back."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None)
            libc.mallopt(_MMAP_MAX, 0)
            libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the true median lies in at least 95 of 100 runs: between two of the values, counted from both ends, by the binomial
    distribution; all of them where there are too few.
    """
    found, below, cut = sorted(values), 0.0, 0
    while cut < len(found) // 2:
        below += math.comb(len(found), cut) / 2 ** len(found)
        if below > 0.025:
            break
        cut += 1
    cut = max(cut - 1, 0)
    return found[cut], found[-1 - cut]


def said(ratios: Sequence[float]) -> str:
    low, high = interval(ratios)
    quarters = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else [ratios[0]] * 3
    median = statistics.median(ratios)
    return f"{median:.4f} (95 %: {low:.4f} to {high:.4f}; quarters {quarters[0]:.4f} and {quarters[2]:.4f}; {len(ratios)} pairs)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=28)
    parser.add_argument("--anomaly", type=int, default=5, help="a step under detect_anomaly after every so many rounds")
    parser.add_argument("--lora", action="store_true", help="train one vector in each block, as a small LoRA does")
    parser.add_argument("--half", action="store_true", help="weights and moments in BF16: the guard keeps a copy of all")
    wanted = parser.parse_args()
    keep_freed_memory()
    bench = Bench(wanted)
    bench.bare()
    bench.guarded()
    bare = [seconds_of(bench.bare)]
    ratios: list[float] = []
    anomaly: list[float] = []
    own: list[float] = []
    for turn in range(wanted.rounds):
        guarded = bench.guarded()
        bare.append(seconds_of(bench.bare))
        ratios.append(guarded / statistics.mean(bare[-2:]))
        print(f"{turn + 1}: bare {bare[-1]:.3f} s, guarded {guarded:.3f} s; so far {statistics.median(ratios):.4f}", flush=True)
        if turn % wanted.anomaly == wanted.anomaly - 1:
            anomaly.append(seconds_of(bench.anomaly) / bare[-1])
            own.append(bench.own())
            print(f"detect_anomaly {anomaly[-1]:.4f} of a bare step; the guard's own part {own[-1]:.4f}", flush=True)
    count, trained = (sum(p.numel() for p in of) / 1e6 for of in (bench.network.parameters(), bench.trained))
    print(f"\n{count:.0f} M parameters, {trained:.2f} M trained, {wanted.tokens} tokens; {machine()}")
    print(f"guard over a bare step: {said(ratios)}; goal {GOAL}")
    if anomaly:
        print(f"the guard's own part over the rest of its step: {statistics.median(own):.4f} ({min(own):.4f} to {max(own):.4f})")
        print(f"detect_anomaly over a bare step: {said(anomaly)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
