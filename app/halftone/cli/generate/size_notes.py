"""What is said of the size of a picture before it is begun: its memory, and the time of one far above the model's own size."""

import psutil

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts
from halftone.contract.wording import Words, number
from halftone.health.forecasts.picture_memory import Forecast
from halftone.health.part_names import duration, elapsed
from halftone.session.pictures.memory_estimate import lacks_memory
from halftone.session.pictures.picture_time import Computed, Shape
from halftone.session.pictures.request_cost import Cost
from halftone.settings.disk import size_text


def memory_note(cost: Cost, device: DeviceFacts, most: int | None) -> tuple[str, ...]:
    """A note on a picture that needs more than the memory that is free. Raises HalftoneError out-of-memory for one that surely
    needs more than all the memory there is.
    """
    if cost.memory is None:
        return ()
    peak, size = cost.memory.peak, (str(cost.shape.width), str(cost.shape.height))
    said = Words("{0} × {1} pixels need about {2}\u00a0GB", (*size, f"{peak / 1e9:.1f}"))
    free = psutil.virtual_memory().available if device.backend == "cpu" else None
    lacks = lacks_memory(peak, most, free)
    if lacks == "sure" and most is not None:
        detail = Words("{0}, and there are {1}\u00a0GB for {2}", (said, f"{most / 1e9:.1f}", device.name))
        raise HalftoneError("out-of-memory", detail=detail)
    if lacks is None or free is None:
        return ()
    return (f"{said}, and only {free / 1e9:.1f}\u00a0GB are free: the system may become very slow or end Halftone.",)


def size_note(cost: Cost, count: int) -> tuple[str, ...]:
    """A note on `count` pictures of a size far above the model's own, with the time as far as pictures made under the same
    conditions tell it, and the memory; none for others.
    """
    if not cost.above:
        return ()
    what = f"{cost.shape.width} × {cost.shape.height} has {_times(cost.above)} times the native pixels."
    return (f"{what} {_time(cost.time, cost.shape, count)} {_memory(cost.memory)}Ctrl+C stops it.",)


def _memory(found: Forecast | None) -> str:
    if found is None:
        return ""
    how = "measured" if found.pictures else "estimated"
    return f"It needs about {size_text(found.peak)} of memory ({how}). "


def _times(ratio: float) -> str:
    return number(round(ratio)) if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0")


def _time(near: Computed | None, shape: Shape, count: int) -> str:
    if near is None:
        return "This may take very long."
    base = near.base
    measured = f"{elapsed(near.measured)} at {base.width} × {base.height}, {base.steps} steps"
    longer = " or longer" if near.longer(shape) else ""
    return f"About {duration(near.seconds * count)}{longer}. Estimated from {measured}."
