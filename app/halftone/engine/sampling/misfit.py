"""Parts of a model that cannot work, or not together: named where a library fails inside them."""

import logging
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch
from torch import nn

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.wording import Words
from halftone.engine.basics.wrapping import is_ours, raised_in
from halftone.engine.loading.load import Loaded
from halftone.health.faults import first_line, is_device_lost, is_out_of_memory

log = logging.getLogger(__name__)

_SIGNS: Final = ("shapes cannot be multiplied", "channels, but got")
"""What torch says where one part gives another width than the next one takes; no size of a picture leads to these."""
_LIBRARIES: Final = Path(torch.__file__).parent.parent
"""Torch, diffusers and transformers are installed here."""


@contextmanager
def parts_fit(loaded: Loaded) -> Generator[None]:
    """Raise model-parts-misfit where what runs inside finds that they do not."""
    try:
        yield
    except RuntimeError as error:
        if any(sign in str(error) for sign in _SIGNS):
            part = failing_part(loaded.pipe, error) or "part"
            detail = Words("its {0} expects inputs of another size than it gets", (part,))
            raise HalftoneError("model-parts-misfit", first_line(error), model=loaded.facts.name, detail=detail) from error
        raise


@contextmanager
def parts_named(models: Callable[[], Iterable[Loaded]]) -> Generator[None]:
    """Raise model-part-failed for an unexplained failure of a library in a part; faults of Halftone's code stay as they are."""
    try:
        yield
    except (HalftoneError, JobCancelled):
        raise
    except Exception as error:
        if is_out_of_memory(error) or is_device_lost(error):
            raise
        found = ((one, failing_part(one.pipe, error)) for one in models())
        loaded, part = next(((one, part) for one, part in found if part is not None), (None, None))
        if loaded is None or part is None:
            raise
        log.exception("running %s failed in its %s", loaded.facts.path, part)
        trace = "".join(traceback.format_exception(error))
        raise HalftoneError("model-part-failed", trace, model=loaded.facts.name, part=part) from error


def failing_part(pipe: Any, error: BaseException) -> str | None:
    """The part of the pipeline in which a library raised the error; None where Halftone or a hook did, or no part was at work."""
    file = raised_in(error)
    if file is None or is_ours(file) or _LIBRARIES not in file.parents:
        return None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((part for frame in reversed(frames) if (part := _part(pipe, frame)) is not None), None)


def _part(pipe: Any, frame: FrameType) -> str | None:
    """Whose method runs in this frame."""
    owner = frame.f_locals.get("self")
    if owner is None:
        return None
    if isinstance(owner, nn.Module) and "ControlNet" in type(owner).__name__ and hasattr(owner, "config"):
        return "ControlNet"
    known = {**pipe.components, "pipeline": pipe}
    return next(
        (name for name, part in known.items() if part is owner or (name == "pipeline" and type(part) is type(owner))), None
    )
