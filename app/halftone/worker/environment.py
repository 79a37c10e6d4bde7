"""What has to be set before torch, diffusers or transformers are imported."""

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

NOTHING_LEAVES: Final[dict[str, str]] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "DIFFUSERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
"""No library reaches out to a hub and none reports home. Forced, not defaults: nothing leaves the machine."""

_QUIET: Final[dict[str, str]] = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"}
_PATIENT: Final[dict[str, str]] = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads sleep while they wait for one another. Spinning threads take the processor from the one they wait for as soon as
anything else runs: a step of Pocket, 2 threads on 2 busy cores, took 1.1 to 3.4 s spinning, 0.1 to 0.3 s asleep.
"""
_NICE: Final = 5
_LEAST: Final = 19
_CPUS: Final = Path("/sys/devices/system/cpu")


def prepare(environ: MutableMapping[str, str] = os.environ) -> None:
    """Close the hubs; choose how many threads compute and how they wait, unless the user chose it."""
    environ.update(NOTHING_LEAVES)
    for name, value in (_QUIET | _PATIENT).items():
        environ.setdefault(name, value)
    if "OMP_NUM_THREADS" not in environ and (cores := physical_cores()) is not None:
        environ["OMP_NUM_THREADS"] = str(cores)
        environ.setdefault("MKL_NUM_THREADS", str(cores))


def give_way() -> None:
    """Let the window go first where both want the processor, for this process and threads started from now on.

    Two computing threads on two busy cores kept the window waiting for up to 106 ms, with this for up to 46 ms. Moderate:
    background work of the machine must not halve the speed of a picture.
    """
    import psutil

    own = psutil.Process()
    own.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS if psutil.WINDOWS else min(_LEAST, own.nice() + _NICE))


def physical_cores(cpus: Path = _CPUS) -> int | None:
    """Physical cores that this process may use, None where unknown.

    Two threads of one core share its arithmetic units, so a matrix product gains nothing from the second. Linux lists the threads
    of each core in `topology/core_cpus_list` (Documentation/ABI/stable/sysfs-devices-system-cpu), which respects the process's
    affinity; elsewhere the machine's own number is taken.
    """
    if hasattr(os, "sched_getaffinity"):
        files = [cpus / f"cpu{cpu}" / "topology" / "core_cpus_list" for cpu in os.sched_getaffinity(0)]
        if all(file.is_file() for file in files):
            return len({file.read_text().strip() for file in files})
    import psutil

    return psutil.cpu_count(logical=False)
