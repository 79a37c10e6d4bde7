"""How near loading a whole model in one file comes to just reading that file, and how much memory it takes.

    PYTHONPATH=app:. python tests/bench/bench_load.py [--small]

Files of the published shapes of Stable Diffusion 1.x and SDXL with made-up numbers, in a temporary folder and in the page cache;
in a fresh process each, which reaches no hub: the file read, then loaded (the fastest of three of both), and every page of every
weight looked at (loading itself only maps the file). The libraries are imported before. Memory: by how much the largest resident
size grows, the mapped file included. Then the weights are brought into float32, which no mapped page can serve: judged is by how
much the memory that is no file's grows over the size in float32, so that a second copy would be seen.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.common import Options, Row, alone, judged
from tests.bench.published import write_published
from tests.helpers.originals import save_original, tiny_original

from halftone.worker.environment import NOTHING_LEAVES

NEAR = 1.3
MEMORY = 1.2

_LOAD = """
import sys, threading, time
from pathlib import Path
import torch
import diffusers, transformers
from halftone.contract.request import Numerics
from halftone.library.models import describe
from halftone.engine.loading.load import load_pipeline
from halftone.engine.loading.plans import apply_plan, base_plan
path, small = sys.argv[1], sys.argv[2]
load_pipeline(describe(small), torch.device("cpu"))
def resident(name):
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
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
before = resident("VmHWM")
seconds, loaded = timed(lambda: load_pipeline(describe(path), torch.device("cpu")))
def touch():
    for module in loaded.modules.values():
        for tensor in module.parameters():
            tensor.view(torch.uint8).flatten()[::4096].sum()
touched, _ = timed(touch)
grown, own = resident("VmHWM") - before, resident("RssAnon")
for _ in range(2):
    again, other = timed(lambda: load_pipeline(describe(path), torch.device("cpu")))
    seconds = min(seconds, again)
    del other
peaks, over = [own], threading.Event()
def watch():
    while not over.wait(0.002):
        peaks.append(resident("RssAnon"))
watcher = threading.Thread(target=watch)
watcher.start()
if sys.argv[3] == "wide":
    widened, _ = timed(lambda: apply_plan(loaded, base_plan(loaded, "float32", Numerics())))
    size = sum(tensor.numel() * tensor.element_size() for module in loaded.modules.values() for tensor in module.parameters())
else:
    widened, size = 0, 0
over.set()
watcher.join()
print(once, seconds, touched, grown, widened, size, max(peaks) - own)
"""


def rows(options: Options) -> list[Row]:
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="halftone-load-") as folder:
        small = save_original(tiny_original("sdxl"), Path(folder) / "small.safetensors")
        for kind in ("sd1", "sdxl"):
            path = (
                save_original(tiny_original(kind), Path(folder) / "x.safetensors")
                if options.small
                else write_published(Path(folder), kind)
            )
            wide = "wide" if kind == "sd1" else "stored"  # SDXL in float32 is 14 GB
            given = [sys.executable, "-c", _LOAD, str(path), str(small), wide]
            done = subprocess.run(given, capture_output=True, text=True, check=True, env=os.environ | NOTHING_LEAVES)
            once, seconds, touched, grown, widened, wide_size, more = map(float, done.stdout.split()[-7:])
            size = path.stat().st_size
            what = f"loading {kind} of {size / 1e9:.2f} GB from one file"
            ratio, memory = (seconds + touched) / once, grown * 1024 / size
            told = f"{ratio:.2f} ({seconds:.2f} s and {touched:.2f} s over {once:.2f} s)"
            found.append((f"{what}, over reading it once", told, f"at most {NEAR}", judged(ratio <= NEAR, options.small)))
            found.append(
                (f"{what}, memory over its size", f"{memory:.2f}", f"at most {MEMORY}", judged(memory <= MEMORY, options.small))
            )
            if wide_size:
                share = more * 1024 / wide_size
                told = f"{share:.2f} (in {widened:.2f} s, {wide_size / widened / 1e9:.2f} GB/s)"
                met = judged(share <= MEMORY, options.small)
                found.append((f"{what}, then into FP32, memory over that size", told, f"at most {MEMORY}", met))
            path.unlink()
    return found


if __name__ == "__main__":
    alone(rows, __doc__)
