"""Parts of a model that cannot work together, told where they meet."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.health.faults import first_line

_SIGNS: Final = ("shapes cannot be multiplied", "channels, but got")
"""What torch says where one part gives another width than the next one takes; no size of a picture leads to these."""


@contextmanager
def parts_fit(model: str) -> Generator[None]:
    """Raise model-parts-misfit where what runs inside finds that they do not. model: its name."""
    try:
        yield
    except RuntimeError as error:
        if any(sign in str(error) for sign in _SIGNS):
            raise HalftoneError("model-parts-misfit", model=model, detail=first_line(error)) from error
        raise
