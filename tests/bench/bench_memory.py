"""How near the memory that is told before a picture comes to what making it takes.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python tests/bench/bench_memory.py [--small] [--only WORDS ...]

Two measures. "tensors": of small models of many families, all tensors that torch holds at once while a picture is made, as a GPU
would count them. The models are tiny: of a few megabytes what no formula counts (prompts, tables, what a step keeps) is a good
part, so that these rows are shown, not judged. "process": of networks of the published
shapes of Stable Diffusion 1.5 and SDXL with made-up numbers, the largest resident size of a fresh process on this processor.
Then a second picture of another size, told with what the first one measured.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tests.bench.common import Row, judged, machine, table
from tests.bench.families.run import save
from tests.bench.families.table import CASES, Case
from tests.helpers.engine_runs import Recorder, Steady
from tests.helpers.originals import original_names, published, save_original, tiny_original
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from halftone.contract.messages import Generate, Load
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import DType
from halftone.engine.inputs.memory import weight_bytes
from halftone.engine.service import DiffusersEngine
from halftone.health.forecasts.activations import Size
from halftone.health.forecasts.memory_forecast import Job, Measured, need, predict
from halftone.library.families.networks import networks_of
from halftone.library.models import describe

NEAR: Final = 0.15
FULL: Final[tuple[tuple[str, DType, tuple[int, int]], ...]] = (
    ("sd1", "float32", (256, 384)),
    ("sd1", "bfloat16", (256, 384)),
    ("sdxl", "bfloat16", (256, 384)),
)


class Tensors(TorchDispatchMode):
    """Bytes of all tensors that were made inside and live; peak: the most at once."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and (key := (storage := tensor.untyped_storage())._cdata) not in self._seen:
                self._count(key, storage)
        return made

    def _count(self, key: int, storage: Any) -> None:
        size = storage.nbytes()
        self._seen.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._gone, key, size)

    def _gone(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.live -= size


def request_of(model: str, edge: int, dtype: DType, case: Case | None, folder: str) -> PictureRequest:
    return PictureRequest(
        prompt="a",
        model=model,
        device="cpu",
        width=edge,
        height=edge,
        steps=2 if case is not None else 1,
        seed=1,
        num_frames=None if case is None else case.frames,
        options={} if case is None else case.options,
        output=f"{folder}/{edge}-{dtype}.png",
        overwrite=True,
        numerics=Numerics(precision=dtype, vae_tiling="never"),
    )


def tiny(case: Case, folder: Path, edge: int) -> Row:
    """Tensors of one picture of a tiny model, beside the weights."""
    model = str(save(case, folder / (case.folder or case.name)))
    engine = DiffusersEngine()
    request = request_of(model, edge, "float32", case, str(folder))
    engine.generate(Generate(job="w", request=request_of(model, case.size, "float32", case, str(folder))), Recorder(), Steady())
    gc.collect()
    with Tensors() as tensors:
        engine.generate(Generate(job="g", request=request), Recorder(), Steady())
    assert engine.loaded is not None
    weights = weight_bytes(engine.loaded)
    job = Job(Size(edge, edge, case.frames or 1))
    told = need(networks_of(describe(model)), job, lambda _: "float32", "cuda")
    return row(f"{case.name} at {edge} × {edge}, tensors", told.peak, weights + tensors.peak, None)


def row(what: str, told: int, measured: int, met: bool | None) -> Row:
    ratio = told / measured
    words = f"{ratio:.2f} ({told / 1e6:.0f} MB told, {measured / 1e6:.0f} MB measured)"
    return what, words, "–" if met is None else f"{1 - NEAR} to {1 + NEAR}", met


def full(kind: str, dtype: DType, edges: Sequence[int], *, small: bool) -> list[Row]:
    """The process that makes pictures of one model, a fresh one."""
    with tempfile.TemporaryDirectory(prefix="halftone-memory-") as folder:
        path = Path(folder) / f"{kind}.safetensors"
        if small:
            save_original(tiny_original(kind), path)
        else:
            write(path, kind)
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(path), dtype, *map(str, edges)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"HALFTONE_DATA": folder},
        )
    found: list[Row] = []
    for edge, told, corrected, measured in json.loads(done.stdout.splitlines()[-1]):
        what = f"{kind} in {dtype} at {edge} × {edge}, process"
        found.append(row(what, told, measured, judged(abs(told / measured - 1) <= NEAR, small)))
        if corrected:
            near = judged(abs(corrected / measured - 1) <= NEAR, small)
            found.append(row(f"{what}, told with the one before", corrected, measured, near))
    return found


def child(path: str, dtype: DType, edges: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """(edge, bytes computed, bytes told with those before, bytes measured) of each picture."""
    engine, networks = DiffusersEngine(), networks_of(describe(path))
    engine.load(Load(model=path, device="cpu", numerics=Numerics(precision=dtype)), Recorder())
    before: list[Measured] = []
    for edge in edges:
        told = need(networks, Job(Size(edge, edge)), lambda _: dtype, "cpu")
        request = request_of(path, edge, dtype, None, str(Path(path).parent))
        picture = engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0]
        assert picture.peak_memory is not None, "not measured on this system"
        assert not picture.events, "what the guard did took memory of its own"
        yield edge, told.peak, predict(told, before).peak if before else 0, picture.peak_memory
        before.append(Measured(told, picture.peak_memory))


def write(path: Path, kind: str) -> None:
    """A whole model in one file, in float16 with made-up numbers of which each layer keeps the variance: of a flat picture the
    decode would be looked at once more in float32.
    """
    from safetensors.torch import save_file

    def made(name: str, value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point():
            return torch.arange(value.numel()).reshape(value.shape)
        if value.dim() < 2:
            return torch.full(value.shape, float(name.endswith("weight")), dtype=torch.float16)
        most = (3 / (value.numel() // value.shape[0])) ** 0.5
        return torch.empty(value.shape, dtype=torch.float16).uniform_(-most, most)

    save_file({name: made(name, value) for name, value in original_names(published(kind)).items()}, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny models only, in seconds")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="rows whose names hold one of these")
    parser.add_argument("--child", nargs="+", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        path, dtype, *edges = options.child
        sys.stdout.write(json.dumps(list(child(path, dtype, [int(edge) for edge in edges]))) + "\n")
        return 0
    words = [word.lower() for word in options.only]

    def wanted(name: str) -> bool:
        return not words or any(word in name.lower() for word in words)

    rows: list[tuple[str, Row]] = []
    with tempfile.TemporaryDirectory(prefix="halftone-memory-") as folder:
        os.environ.setdefault("HALFTONE_DATA", folder)
        for number, case in enumerate(CASES):
            if wanted(case.name) and not case.refused and "text" in case.tasks:
                sys.stderr.write(f"{case.name} …\n")
                (own := Path(folder) / str(number)).mkdir()
                twice = options.small or case.name == "AuraFlow"  # whose table of places holds no more in the tiny one
                rows.append(("tensors", tiny(case, own, 2 * case.size if twice else min(256, 4 * case.size))))
    for kind, dtype, edges in FULL:
        if wanted(f"{kind} {dtype}") and (not options.small or kind == "sd1"):
            sys.stderr.write(f"{kind} in {dtype} …\n")
            rows += [("process", one) for one in full(kind, dtype, (64, 128) if options.small else edges, small=options.small)]
    sys.stdout.write(f"{table(rows)}\n{machine()}\n")
    return int(any(met is False for _, (_, _, _, met) in rows))


if __name__ == "__main__":
    sys.exit(main())
