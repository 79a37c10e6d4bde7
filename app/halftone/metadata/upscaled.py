"""The texts of an enlarged picture: all that it had before, and how it was enlarged."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from halftone import __version__
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.request import model_stem
from halftone.metadata.parameters import write_parameters
from halftone.metadata.picture import Texts
from halftone.metadata.reading import Found, parse_parameters, read_picture
from halftone.metadata.source_type import source_type_in


def upscaled_texts(source: Path, facts: PictureFacts, made_with: Mapping[str, str], *, ai_label: bool = True) -> Texts:
    """The source's texts, which are untrusted and kept, and how it was enlarged. ai_label: whether to keep that of IPTC too."""
    try:
        found = read_picture(source)
    except HalftoneError:
        found = Found(None, None)
    source_type = source_type_in(found.texts) if ai_label else ""
    return Texts(_text(found.parameters or "", facts), _receipt(found.receipt, facts, made_with), source_type)


def _text(before: str, facts: PictureFacts) -> str:
    """In A1111's names of its Extras."""
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
    try:
        kept = msgspec.json.decode(before or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        kept = {}
    return msgspec.json.encode({"schema": 1, **kept, "upscaled": upscaled}).decode()
