"""What a preprocessor draws of a control picture, shown before a picture is made of it."""

import contextlib
import logging
import subprocess
import sys
from typing import Final

import msgspec

from halftone.client.command import worker_environment
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.request import Control, Drawing
from halftone.contract.wording import Words

log = logging.getLogger(__name__)

_MODULE: Final = "halftone.worker.draw_control"
_SECONDS: Final = 120.0
"""A depth model on the processor takes some of them."""


def drawn_control(control: Control, size: tuple[int, int]) -> bytes:
    """A PNG of it in the size of the result. Waits for a process, so it is for a background thread.

    Raises HalftoneError image-unreadable, setting-bad-value, preprocessor-model, preprocessor-failed.
    """
    command = [sys.executable, "-P", "-m", _MODULE]
    asked = msgspec.json.encode(Drawing(control=control, size=size))
    try:
        ended = subprocess.run(command, input=asked, capture_output=True, env=worker_environment(), timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        detail = Words("it took longer than {0} seconds", (str(int(_SECONDS)),))
        raise HalftoneError("preprocessor-failed", name=control.preprocessor, detail=detail) from error
    if ended.returncode == 0:
        return ended.stdout
    if (known := _error_in(ended.stderr)) is not None:
        raise HalftoneError(known.code, known.details, **known.facts)
    log.warning("The preprocessor %s failed: %s", control.preprocessor, ended.stderr.decode(errors="replace"))
    raise HalftoneError("preprocessor-failed", name=control.preprocessor, detail=Words("the log says why"))


def _error_in(said: bytes) -> ErrorFacts | None:
    """The error that the process wrote, in a line of its own: libraries may write theirs around it; None where there is none."""
    for line in reversed(said.splitlines()):
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(line, type=ErrorFacts)
    return None
