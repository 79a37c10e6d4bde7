"""How near the weight scan comes to just reading the file: `python tests/bench/bench_scan.py [gigabytes]`.

Writes a made-up SDXL-sized file into a temporary folder, reads it with `cat`, scans it, and logs both speeds.
"""

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.helpers.model_files import safetensors

from halftone.library.models import describe
from halftone.library.scan import scan_weights

log = logging.getLogger("bench_scan")
_TENSOR = 2**22
"""Numbers in one tensor: 8 MB in half precision."""


def best(work: Callable[[], object], repeats: int = 5) -> tuple[float, float]:
    """(wall seconds, processor seconds) of the fastest of some runs; the second tells more on a busy machine."""
    times: list[tuple[float, float]] = []
    for _ in range(repeats):
        before = os.times()
        work()
        after = os.times()
        times.append((after.elapsed - before.elapsed, sum(after[:4]) - sum(before[:4])))
    return min(wall for wall, _ in times), max(min(processor for _, processor in times), 1e-3)


def main() -> None:
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    weights = (np.random.default_rng(0).standard_normal(_TENSOR, np.float32) * 0.02).astype(np.float16)
    names = [f"model.diffusion_model.input_blocks.{index}.weight" for index in range(int(gigabytes * 1e9 / weights.nbytes))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(safetensors(dict.fromkeys(names, weights)))
        size = path.stat().st_size / 1e9
        facts = describe(str(path))
        with Path("/dev/null").open("wb") as sink:
            cat = best(lambda: subprocess.run(["cat", path], stdout=sink, check=True))
        scan = best(lambda: scan_weights(facts, "float16"))
        header = best(lambda: describe(str(path)))
    for name, (wall, processor) in {"cat": cat, "scan": scan}.items():
        log.info("%-4s %.2f GB/s, %.2f GB per processor second", name, size / wall, size / processor)
    log.info("scan at %.0f %% of cat; description %.1f ms (%d tensors)", 100 * cat[0] / scan[0], header[0] * 1e3, len(names))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    main()
