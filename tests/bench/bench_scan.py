"""How near the scan of a file's weights comes to just reading it, and how much memory it takes.

    PYTHONPATH=app:. python tests/bench/bench_scan.py [--small]

A made-up model file of more than 1 GB in half precision, in a temporary folder and in the page cache; `cat FILE >/dev/null` and
the scan in turns. On one thread the time is the processor's, so that a busy machine matters less; on two it is the clock's, in
which the other processes of the machine count. Memory: by how much the largest resident size of a fresh process grows.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from tests.bench.common import Options, Row, alone, in_turns, judged, processor_seconds, ratio
from tests.helpers.model_files import with_header

from halftone.library.files.scan import scan_weights
from halftone.library.models import describe

NEAR = 0.85
GROWTH = 0.1
"""Largest growth of memory as a share of the file that counts as constant; the windows of two threads alone are 64 MiB."""
_TENSOR = 2**22
"""Numbers in one tensor: 8 MiB."""

_GROWTH = """
import sys
from pathlib import Path
from halftone.library.models import describe
from halftone.library.files.scan import scan_weights
def largest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
scan_weights(describe(sys.argv[1]))
facts = describe(sys.argv[2])
before = largest()
scan_weights(facts)
print(largest() - before)
"""
"""The system's own count of this process (Linux); what getrusage tells begins with the parent's."""


def rows(options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="halftone-scan-") as folder:
        path, less = Path(folder) / "model.safetensors", Path(folder) / "less.safetensors"
        _write(path, 8 if options.small else 128)
        _write(less, 1)
        size = path.stat().st_size
        facts = describe(str(path))
        read = partial(_read, path)
        ways = {"cat": read, "scan": lambda: scan_weights(facts, threads=1)}
        pair = {"cat": read, "scan": lambda: scan_weights(facts, threads=2)}
        rounds = 2 if options.small else 15
        one = in_turns(ways, rounds, processor_seconds)
        two = in_turns(pair, rounds, time.perf_counter)
        grown = subprocess.run(
            [sys.executable, "-c", _GROWTH, str(less), str(path)], capture_output=True, text=True, check=True, env=os.environ
        )
    first, second = ratio(one["cat"], one["scan"]), ratio(two["cat"], two["scan"])
    share = int(grown.stdout) * 1024 / size
    what = f"scan of {size / 1e9:.2f} GB from the page cache"
    return [
        (f"{what}, speed over cat, one thread", str(first), f"at least {NEAR}", judged(first.median >= NEAR, options.small)),
        (f"{what}, speed over cat, two threads", str(second), "above 1", judged(second.median > 1, options.small)),
        (f"{what}, growth of the memory over the file's size", f"{share:.3f}", f"at most {GROWTH}",
         judged(share <= GROWTH, options.small)),
    ]  # fmt: skip


def _read(path: Path) -> None:
    subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)


def _write(path: Path, tensors: int) -> None:
    """Weights as a network has them; the header filled up to eight bytes, as the library writes it."""
    weights = (np.random.default_rng(0).standard_normal(_TENSOR, np.float32) * 0.02).astype(np.float16).tobytes()
    entries = {
        f"model.diffusion_model.input_blocks.{index}.weight": {
            "dtype": "F16",
            "shape": [_TENSOR],
            "data_offsets": [index * len(weights), (index + 1) * len(weights)],
        }
        for index in range(tensors)
    }
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(with_header(header + b" " * (-len(header) % 8)))
        for _ in range(tensors):
            file.write(weights)


if __name__ == "__main__":
    alone(rows, __doc__)
