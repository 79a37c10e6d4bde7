"""A picture whose latents were kept: what its file says of it, read without torch."""

from pathlib import Path

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest, ResolvedRequest
from halftone.library.header import read_header

RECORD = "halftone"
"""Under this name the record stands in the metadata of the safetensors file."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the receipt of the picture needs once it is decoded.

    request: of this picture alone (its own seed, a batch of one); picture: what was known when the latents were kept; plan: under
    which its steps were made; path, fingerprint: of the model.
    """

    request: ResolvedRequest
    picture: PictureFacts
    plan: Plan
    path: str
    fingerprint: str


def read_kept(path: Path) -> Kept:
    """What a file of kept latents says. Raises latents-missing, latents-unreadable."""
    try:
        return msgspec.json.decode(read_header(path).metadata.get(RECORD, ""), type=Kept)
    except FileNotFoundError as error:
        raise HalftoneError("latents-missing", path=str(path)) from error
    except (OSError, HalftoneError, msgspec.MsgspecError) as error:
        raise HalftoneError("latents-unreadable", str(error), path=str(path)) from error


def check_kept(request: PictureRequest) -> None:
    """Refuse a request whose latents cannot be decoded. Raises latents-missing, latents-unreadable, setting-bad-value."""
    if request.resume_latents is None:
        return
    if request.batch != 1:
        raise HalftoneError("setting-bad-value", name="Number of pictures", value=request.batch, allowed="1 with kept latents")
    read_kept(Path(request.resume_latents))


def check_same_model(kept: Kept, model: ModelFacts, path: str) -> None:
    """Other weights would make another picture of the same numbers. path: of the latents. Raises latents-other-model.

    A model that lies where it lay is the same one, even if its files were mended since; so is a copy of it elsewhere.
    """
    if model.path != kept.path and model.fingerprint != kept.fingerprint:
        raise HalftoneError("latents-other-model", path=path, model=kept.request.model, given=model.id)
