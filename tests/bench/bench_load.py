"""How near loading a whole model in one file comes to just reading that file, and how much memory it takes.

    PYTHONPATH=app:. python tests/bench/bench_load.py [--small]

Files of the published shapes of Stable Diffusion 1.x and SDXL with made-up numbers, in a temporary folder and in the page cache;
in a fresh process each: the file read once, then loaded, then every page of every weight looked at (loading itself only maps the
file). The libraries are imported before. Memory: by how much the largest resident size grows, the mapped file included.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tests.bench.common import Options, Row, alone, judged
from tests.helpers.originals import original_names, published, save_original, tiny_original

NEAR = 1.3
MEMORY = 1.2

_LOAD = """
import sys, time
from pathlib import Path
import torch
import diffusers, transformers
from halftone.library.models import describe
from halftone.engine.load import load_pipeline
path, small = sys.argv[1], sys.argv[2]
load_pipeline(describe(small), torch.device("cpu"))
def largest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
def read():
    room = bytearray(2 ** 24)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(room):
            pass
def timed(work):
    started = time.perf_counter()
    held = work()
    return time.perf_counter() - started, held
read()
once = min(timed(read)[0] for _ in range(3))
before = largest()
seconds, loaded = timed(lambda: load_pipeline(describe(path), torch.device("cpu")))
def touch():
    for module in loaded.modules.values():
        for tensor in module.parameters():
            tensor.view(torch.uint8).flatten()[::4096].sum()
touched, _ = timed(touch)
print(once, seconds, touched, largest() - before)
"""


def rows(options: Options) -> list[Row]:
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="halftone-load-") as folder:
        small = save_original(tiny_original("sdxl"), Path(folder) / "small.safetensors")
        for kind in ("sd1", "sdxl"):
            path = (
                save_original(tiny_original(kind), Path(folder) / "x.safetensors")
                if options.small
                else _write(Path(folder), kind)
            )
            done = subprocess.run(
                [sys.executable, "-c", _LOAD, str(path), str(small)], capture_output=True, text=True, check=True, env=os.environ
            )
            once, seconds, touched, grown = map(float, done.stdout.split()[-4:])
            size = path.stat().st_size
            what = f"loading {kind} of {size / 1e9:.2f} GB from one file"
            ratio, memory = (seconds + touched) / once, grown * 1024 / size
            told = f"{ratio:.2f} ({seconds:.2f} s and {touched:.2f} s over {once:.2f} s)"
            found.append((f"{what}, over reading it once", told, f"at most {NEAR}", judged(ratio <= NEAR, options.small)))
            found.append(
                (f"{what}, memory over its size", f"{memory:.2f}", f"at most {MEMORY}", judged(memory <= MEMORY, options.small))
            )
            path.unlink()
    return found


def _write(folder: Path, kind: str) -> Path:
    made = torch.Generator().manual_seed(0)
    tensors: dict[str, torch.Tensor] = {}
    for name, value in original_names(published(kind)).items():
        numbers = torch.randn(value.shape, generator=made, dtype=torch.float32) if value.is_floating_point() else None
        tensors[name] = torch.arange(value.numel()).reshape(value.shape) if numbers is None else (0.02 * numbers).half()
    path = folder / f"{kind}.safetensors"
    save_file(tensors, path)
    return path


if __name__ == "__main__":
    alone(rows, __doc__)
