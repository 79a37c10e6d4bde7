"""What the benches of the numerical heart share: clocks, runs in turns, ratios, rows of the table, and a large enough model.

Figures are ratios within one run. The ways that are compared run in turns, so that a busy machine disturbs them alike; on one
thread the time is the processor's, not the clock's; a ratio is the median of the ratios of all turns, with the range of the
middle half behind it. Goals are judged by the median.
"""

import argparse
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from diffusers import UNet2DConditionModel
from tests.helpers import tiny

from halftone.contract.vocabulary import FLOAT_LIMITS
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.checks.fragile import exponents_up
from halftone.engine.checks.rewrite import rewrite
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.measure.probe import Probe

Row = tuple[str, str, str, bool | None]
"""What, measured, goal, whether it is met; None: this machine cannot tell, or there is no goal."""

LEAST: Final = 200e6
"""Parameters that a network must have to stand for a real one."""


class Options(NamedTuple):
    """small: sizes that take seconds and prove nothing but that the bench runs."""

    small: bool = False
    device: str = "cpu"


def processor_seconds() -> float:
    """Of this process and of its children that ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def timed(run: Callable[[], object], clock: Callable[[], float] | None = None) -> float:
    """Seconds: on one thread of a CPU those that the process really had."""
    on_cuda = torch.cuda.is_available()
    if clock is None:
        clock = time.perf_counter if on_cuda or torch.get_num_threads() > 1 else processor_seconds
    if on_cuda:
        torch.cuda.synchronize()
    start = clock()
    run()
    if on_cuda:
        torch.cuda.synchronize()
    return clock() - start


def in_turns(
    ways: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] | None = None
) -> dict[str, list[float]]:
    """Seconds of every way in every round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            times[name].append(timed(run, clock))
    return times


def judged(met: bool, small: bool) -> bool | None:
    """Whether a time is what it should be; of a small size it tells nothing."""
    return None if small else met


class Ratio(NamedTuple):
    """Median of the ratios of all turns, the range of the middle half, and the fastest turn of one way over that of the other:
    what a quiet machine would show.
    """

    median: float
    low: float
    high: float
    fastest: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f}; fastest {self.fastest:.3f})"


def ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Turn by turn."""
    found = sorted(a / b for a, b in zip(over, under, strict=True))
    fastest = min(over) / min(under)
    if len(found) < 2:
        return Ratio(found[0], found[0], found[0], fastest)
    low, median, high = statistics.quantiles(found, n=4, method="inclusive")
    return Ratio(median, low, high, fastest)


def table(rows: Sequence[tuple[str, Row]]) -> str:
    """rows: on what it was measured, and the row."""
    verdicts = {True: "met", False: "MISSED", None: ""}
    lines = [("what", "measured", "goal", "on", "")]
    lines += [(what, measured, goal, where, verdicts[met]) for where, (what, measured, goal, met) in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def machine() -> str:
    """What ran, and how busy it was."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        if info.exists()
        else []
    )
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    words = [
        names[0] if names else "CPU",
        f"{os.cpu_count()} cores",
        f"{torch.get_num_threads()} thread",
        f"torch {torch.__version__}",
    ]
    if torch.cuda.is_available():
        words.append(torch.cuda.get_device_name())
    return f"{', '.join(words)}; load {load}"


@contextmanager
def one_thread() -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def finish(run: Callable[[Options], list[tuple[str, Row]]], arguments: argparse.Namespace) -> int:
    """Run, print the table, and give the exit code."""
    options = Options(small=arguments.small, device=arguments.device)
    before = machine()
    rows = run(options)
    sys.stdout.write(f"{table(rows)}\nbefore: {before}\nafter: {machine()}\n")
    return int(any(met is False for _, (_, _, _, met) in rows))


def bench_parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="sizes that take seconds; no time is judged")
    parser.add_argument("--device", default="cpu")
    return parser


def alone(rows: Callable[[Options], list[Row]], description: str | None) -> None:
    """One part, run by itself."""
    parser = bench_parser(description)
    sys.exit(finish(lambda options: [(options.device, row) for row in rows(options)], parser.parse_args()))


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def large_unet(*, small: bool, context: int = 768) -> UNet2DConditionModel:
    """Stable Diffusion 1.5 in depth, half as wide: more than LEAST parameters with random weights."""
    torch.manual_seed(0)
    width = 32 if small else 160
    unet = UNet2DConditionModel(
        sample_size=8 if small else 32,
        block_out_channels=(width, 2 * width, 4 * width, 4 * width),
        cross_attention_dim=context,
        attention_head_dim=8,
        norm_num_groups=32,
    )
    assert small or parameters(unet) >= LEAST
    return unet.eval().requires_grad_(False)


def write_large(folder: Path, *, small: bool) -> Path:
    """A pipeline with that UNet; the text encoder and the VAE are tiny, so that the UNet decides."""
    pipe = tiny.sd15()
    pipe.register_modules(unet=large_unet(small=small, context=tiny.WIDTH))
    pipe.save_pretrained(folder)
    return folder


def overflowing(folder: Path, component: str, group: str, beyond: int = 3) -> dict[str, int]:
    """Scale a group of tensors of a saved model up by a power of two, in its files, so that its largest number passes the limit
    of float16 by `beyond` bits: the same picture in float32, bad numbers in float16. The exponents that were applied.
    """
    pipe: Any = tiny.load_tiny(folder)
    module = pipe.components[component]
    found = next(known for known in rescale_groups(component, module) if known.name.startswith(group))
    with torch.no_grad(), quiet_libraries(), Probe(module, component) as probe:
        pipe("a", num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="pt")
    peaks = {reading.module: reading.peak for reading in probe.readings()}
    largest = max(peaks[name] for name in found.modules if name in peaks)
    exponents = exponents_up(found, math.ceil(math.log2(FLOAT_LIMITS["float16"] / largest)) + beyond)
    written = {name for file in (folder / component).glob("*.safetensors") for name in rewrite(file, file, exponents, "a test")}
    assert written == set(exponents)
    return exponents
