"""What a picture that was made larger says about itself: all that it said before, and how it was made larger."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from halftone import __version__
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.request import model_stem
from halftone.metadata.parameters import write_parameters
from halftone.metadata.reading import Found, parse_parameters, read_picture


def upscaled_texts(source: Path, facts: PictureFacts, made_with: Mapping[str, str]) -> tuple[str, str]:
    """(A1111's text, the receipt's JSON). What the source says is untrusted, and kept as it stands."""
    found = _said_by(source)
    return _text(found.parameters or "", facts), _receipt(found.receipt, facts, made_with)


def _said_by(source: Path) -> Found:
    try:
        return read_picture(source)
    except HalftoneError:
        return Found(None, None)


def _text(before: str, facts: PictureFacts) -> str:
    """In the names that A1111 has for its Extras."""
    assert facts.upscaled is not None
    fields = {"Postprocess upscale by": str(facts.upscaled.scale), "Postprocess upscaler": model_stem(facts.upscaled.upscaler)}
    if parse_parameters(before).fields:
        return f"{before.rstrip()}, {write_parameters('', '', fields)}"
    made = write_parameters("", "", fields | {"Version": f"Halftone {__version__}"})  # fewer than three are read as a prompt
    return f"{before.rstrip()}\n{made}".lstrip()


def _receipt(before: str | None, facts: PictureFacts, made_with: Mapping[str, str]) -> str:
    assert facts.upscaled is not None
    how = facts.upscaled
    upscaled = {
        "source": Path(how.source).name,
        "upscaler": model_stem(how.upscaler),
        "scale": how.scale,
        "width": facts.width,
        "height": facts.height,
        "dtypes": facts.dtypes,
        "state": facts.state,
        "version": __version__,
        "made_with": made_with,
    }
    return msgspec.json.encode({"schema": 1, **_object(before), "upscaled": upscaled}).decode()


def _object(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return {}
