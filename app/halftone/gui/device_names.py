"""Names of devices as they are shown in little space."""

import re
from collections import Counter
from collections.abc import Sequence

from halftone.contract.facts import DeviceFacts

_NOISE = re.compile(
    r"\((R|TM|C)\)|\b(NVIDIA|GeForce|AMD|Radeon|Intel|Advanced Micro Devices|Corporation|CPU|Processor|Graphics)\b|@.*$",
    re.IGNORECASE,
)


def short_name(device: DeviceFacts) -> str:
    """NVIDIA GeForce RTX 3060 -> RTX 3060; a processor keeps what tells it apart."""
    bare = " ".join(_NOISE.sub(" ", device.name).split())
    return bare or device.name


def names_apart(devices: Sequence[DeviceFacts]) -> dict[str, str]:
    """Short names by id. Devices of the same name get the number that the system gives them: RTX 3060 #1."""
    names = {one.id: short_name(one) for one in devices}
    times = Counter(names.values())
    return {key: name if times[name] == 1 else f"{name} #{key.rpartition(':')[2]}" for key, name in names.items()}
