"""A step and a warm picture of Halftone over those of bare diffusers, at the size of Stable Diffusion 1.5, and what Auto takes.

    PYTHONPATH=app:. python tests/bench/bench_step.py [--small]

One file with the published shapes and made-up numbers. Both ways have the same weights, precision and layout, and one thread.
They draw the same picture in turns, which is compared. Seconds are the processor's, as the machine may be busy. A step lasts
from one call of the UNet to the next, so that all that happens between the calls counts: guidance, the scheduler, and in
Halftone the watch, the previews and the events. A picture ends with its file. For each type that the self-test found,
Halftone's steps are also timed against float32: Auto must have taken the fastest that is right. For a processor without
AVX-512, set ATEN_CPU_CAPABILITY=avx2 and ONEDNN_MAX_CPU_ISA=AVX2.
"""

import statistics
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from halftone.worker.environment import prepare

prepare()  # before torch is imported: both ways have the worker's threads

import msgspec  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from tests.bench.common import Options, Row, alone, judged, one_thread, processor_seconds, ratio  # noqa: E402
from tests.bench.published import write_published  # noqa: E402
from tests.helpers.engine_runs import Recorder, Steady, pixels  # noqa: E402
from tests.helpers.originals import save_original, tiny_original  # noqa: E402

from halftone.contract.messages import Generate, SelfTest  # noqa: E402
from halftone.contract.request import Numerics, PictureRequest  # noqa: E402
from halftone.contract.vocabulary import DTYPE_NAMES, DType  # noqa: E402
from halftone.engine.basics.quiet import quiet_libraries  # noqa: E402
from halftone.engine.loading.load import narrowest  # noqa: E402
from halftone.engine.loading.single_file import load_single  # noqa: E402
from halftone.engine.sampling.frames import to_pixels  # noqa: E402
from halftone.engine.service import DiffusersEngine  # noqa: E402
from halftone.library.families.single_files import kinds_by_component  # noqa: E402
from halftone.library.files.header import read_header  # noqa: E402
from halftone.library.models import describe  # noqa: E402

NEAR: Final = 1.02
FASTER: Final = 3.0
_PROMPT: Final = "a red sun over green hills"
_UNITS: Final = {"amx_bf16", "avx512_bf16", "amx_tile"}
_STEPS: Final = 4


class _Drawn(NamedTuple):
    pixels: Any
    step: float
    """Seconds from one call of the UNet to the next."""
    whole: float
    """Seconds from the request to the file."""


def rows(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="halftone-step-") as folder, quiet_libraries(), one_thread():
        given = Path(folder)
        path = save_original(tiny_original("sd1"), given / "sd1.safetensors") if options.small else write_published(given, "sd1")
        engine = DiffusersEngine()
        return [*_against_bare(engine, path, options, given), *_auto(engine, path, options, given)]


def _against_bare(engine: DiffusersEngine, path: Path, options: Options, folder: Path) -> list[Row]:
    edge, rounds = (64, 2) if options.small else (256, 4)
    bare = _bare(path)
    _drawn(bare, edge, folder, steps=1)
    _ours(engine, path, folder, edge, "float32")
    ours: list[_Drawn] = []
    theirs: list[_Drawn] = []
    for _ in range(rounds):
        ours.append(_ours(engine, path, folder, edge, "float32"))
        theirs.append(_drawn(bare, edge, folder))
        assert (ours[-1].pixels == theirs[-1].pixels).all(), "the same picture by both ways"
    steps = ratio([one.step for one in ours], [one.step for one in theirs])
    whole = ratio([one.whole for one in ours], [one.whole for one in theirs])
    what = f"of {edge} x {edge} over bare diffusers, both in FP32"
    return [
        (f"seconds per step {what}", str(steps), f"at most {NEAR}", judged(steps.median <= NEAR, options.small)),
        (f"a whole warm picture of {_STEPS} steps {what}", str(whole), "", None),
    ]


def _auto(engine: DiffusersEngine, path: Path, options: Options, folder: Path) -> list[Row]:
    """Steps in each type that the device can compute in, in turns, and which of them Auto takes."""
    edge, rounds = (64, 2) if options.small else (128, 2)
    tested = engine.self_test(SelfTest(job="t", device="cpu"), Recorder(), Steady())
    dtypes: list[DType] = [one.dtype for one in tested.dtypes if one.state in {"works", "slow"}]
    times: dict[DType, list[float]] = {"float32": []}
    times |= {dtype: [] for dtype in dtypes}
    for _ in range(rounds):
        for dtype, own in times.items():
            own.append(_ours(engine, path, folder, edge, dtype, steps=3).step)
    medians: dict[DType, float] = {dtype: statistics.median(own) for dtype, own in times.items()}
    speeds: dict[DType, float] = {dtype: medians["float32"] / seconds for dtype, seconds in medians.items()}
    told = ", ".join(f"{DTYPE_NAMES[dtype]} {speed:.2f}" for dtype, speed in speeds.items())
    fastest = max(speeds, key=lambda dtype: speeds[dtype])
    units = _UNITS & _flags()
    judge = judged(speeds[tested.auto] >= FASTER, options.small or not units)
    why = "" if units else " (no 16-bit units in this processor: cannot be shown here)"
    return [
        ("speed of a step over FP32, by type", told, "", None),
        ("type that Auto takes, and the fastest one", f"{DTYPE_NAMES[tested.auto]}, {DTYPE_NAMES[fastest]}", "the same",
         judged(speeds[tested.auto] >= speeds[fastest] / 1.1, options.small)),
        (f"speed of Auto over FP32{why}", f"{speeds[tested.auto]:.2f}", f"at least {FASTER:g} with such units", judge),
    ]  # fmt: skip


def _flags() -> set[str]:
    """Of the processor, as Linux tells them."""
    info = Path("/proc/cpuinfo")
    return set(info.read_text().split()) if info.is_file() else set()


def _ours(engine: DiffusersEngine, path: Path, folder: Path, edge: int, precision: DType, steps: int = _STEPS) -> _Drawn:
    """One picture through the engine, as a job draws it."""
    output = folder / "picture.png"
    request = PictureRequest(
        prompt=_PROMPT, model=str(path), width=edge, height=edge, steps=steps, seed=1, output=str(output), overwrite=True,
        numerics=Numerics(precision=precision),
    )  # fmt: skip
    if engine.loaded is None:
        first = msgspec.structs.replace(request, steps=1)
        engine.generate(Generate(job="g", request=first), Recorder(), Steady())
    assert engine.loaded is not None
    start = processor_seconds()
    with _clocked(engine.loaded.pipe.unet) as clock:
        report = engine.generate(Generate(job="g", request=request), Recorder(), Steady())
    whole = processor_seconds() - start
    assert report.images[0].state == "clean", report.images[0].events
    return _Drawn(pixels(report), _per_step(clock), whole)


def _bare(path: Path) -> Any:
    """The same file by diffusers' own readers, and nothing of Halftone on it."""
    facts = describe(str(path))
    stored = {name: narrowest(kinds) for name, kinds in kinds_by_component(facts.family, read_header(path)).items()}
    pipe = load_single(facts, stored)
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(torch.float32)


def _drawn(pipe: Any, edge: int, folder: Path, steps: int = _STEPS) -> _Drawn:
    """One picture by the bare pipeline, written as a PNG."""
    made: Callable[..., Any] = pipe
    start = processor_seconds()
    with torch.no_grad(), _clocked(pipe.unet) as clock:
        images = made(
            _PROMPT, width=edge, height=edge, num_inference_steps=steps, generator=torch.Generator().manual_seed(1),
            output_type="pt",
        ).images  # fmt: skip
    found = to_pixels(images[0])
    Image.fromarray(found).save(folder / "bare.png")
    return _Drawn(found, _per_step(clock), processor_seconds() - start)


@contextmanager
def _clocked(unet: torch.nn.Module) -> Generator[list[float]]:
    """Fills a list with the moments at which the network is called."""
    moments: list[float] = []
    handle = unet.register_forward_pre_hook(lambda *_: moments.append(processor_seconds()))
    try:
        yield moments
    finally:
        handle.remove()


def _per_step(moments: list[float]) -> float:
    return (moments[-1] - moments[0]) / max(1, len(moments) - 1)


if __name__ == "__main__":
    alone(rows, __doc__)
