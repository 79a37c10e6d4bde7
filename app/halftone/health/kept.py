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
    which its steps were made; path, fingerprint: of the model. asked: of a picture whose step failed, what its steps are to go on
    with; None where only the decode is left.
    """

    request: ResolvedRequest
    picture: PictureFacts
    plan: Plan
    path: str
    fingerprint: str
    asked: PictureRequest | None = None


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


def going_on(request: PictureRequest) -> tuple[PictureRequest, bool]:
    """(what is to be made, True where no step of it is left). Of a picture whose step failed all is as it was asked for then, but
    for where it runs, in what precision, and where it goes. Raises latents-missing, latents-unreadable, image-gone.
    """
    if request.resume_latents is None:
        return request, False
    asked = read_kept(Path(request.resume_latents)).asked
    if asked is None:
        return request, True
    for path in (asked.image, asked.mask):
        if path is not None and not Path(path).is_file():
            raise HalftoneError("image-gone", path=path)
    now = ("model", "device", "output", "overwrite", "resume_latents", "numerics")
    return msgspec.structs.replace(asked, **{name: getattr(request, name) for name in now}), False


def check_same_model(kept: Kept, model: ModelFacts, path: str) -> None:
    """Other weights would make another picture of the same numbers. path: of the latents. Raises latents-other-model.

    A model that lies where it lay is the same one, even if its files were mended since; so is a copy of it elsewhere.
    """
    if model.path != kept.path and model.fingerprint != kept.fingerprint:
        raise HalftoneError("latents-other-model", path=path, model=kept.request.model, given=model.id)
