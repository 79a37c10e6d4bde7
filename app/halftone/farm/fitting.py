"""Whether a job fits the memory that a card has free, by Halftone's own forecast."""

import psutil

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, MemoryFacts
from halftone.contract.messages import Examine, Generate
from halftone.contract.wording import Words
from halftone.health.precision import model_precision
from halftone.library.families.networks import known_networks
from halftone.library.models import describe, runnable
from halftone.library.records import load_selftest
from halftone.session.pictures.memory_estimate import memory_estimate
from halftone.session.pictures.request_cost import sized


def free_bytes(device: DeviceFacts, memory: MemoryFacts | None) -> int | None:
    """Bytes that a job may have on a device: measured by its worker, of a processor by the system; before the first measurement
    all that the device has.
    """
    if device.backend == "cpu":
        return psutil.virtual_memory().available + (0 if memory is None else memory.own)
    return device.memory_total if memory is None else max(0, memory.total - memory.others)


def misfit(command: Generate | Examine, device: DeviceFacts, memory: MemoryFacts | None) -> None:
    """Raise HalftoneError farm-memory for a picture that needs more than is free, and as `describe` and `runnable`. A check
    computes layer by layer where memory is short: it always fits.
    """
    facts = describe(command.model if isinstance(command, Examine) else command.request.model)
    runnable(facts)
    if isinstance(command, Examine):
        return
    known = sized(command.request, facts)
    if known is None:
        return
    dtype, _ = model_precision(known.numerics, load_selftest(device), device, facts, known.extras)
    free = free_bytes(device, memory)
    there = None if free is None else MemoryFacts(total=free, own=0, others=0)
    found = memory_estimate((known, facts, dtype), device, known_networks(facts, known.extras), there)
    if found is not None and free is not None and found.fit == "no":
        needs, has = f"{found.peak / 1e9:.1f}", f"{free / 1e9:.1f}"
        raise HalftoneError("farm-memory", card=Words("{0} ({1})", (device.name, device.id)), needs=needs, free=has)
