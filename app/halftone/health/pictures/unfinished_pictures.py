"""A picture whose latents were kept: what its file says of it, read without torch."""

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest, ResolvedRequest, Start
from halftone.contract.wording import Words, of_earlier_versions
from halftone.library.add_ons.upscalers import is_upscale_model
from halftone.library.files.header import file_stamp, path_version, read_header
from halftone.library.models import describe
from halftone.settings.regular_files import open_regular

RECORD = "halftone"
"""Under this name the record stands in the metadata of the safetensors file."""

_SECOND = 2


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the receipt of the picture needs once it is decoded.

    request: of this picture alone (its own seed, a batch of one); picture: what was known when the latents were kept; plan: under
    which its steps were made; path, fingerprint: of the model. asked: of a picture whose step failed, what its steps are to go on
    with; None where only the decode is left; given: what the files that were given were, as `given_files` tells it. in_pass: of a
    picture made in several passes, the one (from 1) that goes on.
    """

    request: ResolvedRequest
    picture: PictureFacts
    plan: Plan
    path: str
    fingerprint: str
    asked: PictureRequest | None = None
    given: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    in_pass: int = 0


def given_files(request: PictureRequest) -> dict[str, str]:
    """Path -> what changes with the file, "" where there is none: a digest of pictures, of what is used with a model when it was
    written.
    """
    pictures = {path: _digest(Path(path)) for path in request.pictures}
    replaced = tuple(path for path in (request.vae, request.transformer) if path is not None)
    if request.hires is not None and is_upscale_model(request.hires.upscaler):
        pictures[request.hires.upscaler] = file_stamp(request.hires.upscaler)
    if request.refiner is not None:
        pictures[request.refiner.path] = _model_version(request.refiner.path)
    nets = (*request.controls, *request.ip_adapters)
    whole = (*(net.path for net in nets), *replaced)
    added = {path: file_stamp(path) for path in (*(lora.path for lora in request.loras), *request.inversions)}
    return pictures | {path: path_version(path) for path in whole} | added


def _model_version(path: str) -> str:
    try:
        return describe(path).fingerprint
    except HalftoneError:
        return ""


def _digest(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _decoded(text: str) -> Kept:
    try:
        return msgspec.json.decode(text, type=Kept)
    except msgspec.ValidationError:
        return msgspec.convert(of_earlier_versions(msgspec.json.decode(text)), Kept, str_keys=True)


def read_kept(path: Path) -> Kept:
    """What a file of kept latents says. Raises latents-missing, latents-unreadable."""
    try:
        return _decoded(read_header(path).metadata.get(RECORD, ""))
    except FileNotFoundError as error:
        raise HalftoneError("latents-missing", path=str(path)) from error
    except (OSError, HalftoneError, msgspec.MsgspecError) as error:
        raise HalftoneError("latents-unreadable", str(error), path=str(path)) from error


def check_kept(request: PictureRequest) -> None:
    """Refuse a request whose latents cannot be decoded. Raises latents-missing, latents-unreadable, setting-bad-value."""
    if request.resume_latents is None:
        return
    if request.batch != 1:
        raise HalftoneError(
            "setting-bad-value", name=Words("Number of pictures"), value=request.batch, allowed=Words("1 with kept latents")
        )
    read_kept(Path(request.resume_latents))


def going_on(request: PictureRequest) -> tuple[PictureRequest, bool]:
    """(what is to be made, True where no step of it is left). Of a picture whose step failed all is as it was asked for then, but
    for where it runs, in what precision, and where it goes; of one that only waits for its decode, its VAE. Raises
    latents-missing, latents-unreadable, image-gone, vae-gone, transformer-gone, input-changed.
    """
    if request.resume_latents is None:
        return request, False
    kept = read_kept(Path(request.resume_latents))
    asked = kept.asked
    vae = kept.request.vae if asked is None else asked.vae
    if vae is not None and not os.path.exists(vae):
        raise HalftoneError("vae-gone", path=vae)
    if asked is not None and asked.transformer is not None and not os.path.exists(asked.transformer):
        raise HalftoneError("transformer-gone", path=asked.transformer)
    if asked is None:
        return _left_to_decode(request, kept), True
    given = given_files(asked)
    if asked.refiner is not None and (kept.in_pass < _SECOND or not kept.picture.kept_step):
        del given[asked.refiner.path]  # none of the steps is its own
    _check_same(asked.pictures, given, kept)
    now = ("model", "device", "output", "overwrite", "resume_latents", "numerics")
    video = request.video or (asked.video if request.output is None else None)
    here = {name: getattr(request, name) for name in now} | {"video": video, "fps": request.fps or asked.fps}
    return msgspec.structs.replace(asked, **here), False


def _left_to_decode(request: PictureRequest, kept: Kept) -> PictureRequest:
    """With the VAE of then, and with the start picture where the result is laid over it; of what the steps were given nothing."""
    then = kept.request
    nothing_else: dict[str, Any] = {"controls": (), "ip_adapters": (), "options": {}}
    if not then.masked:
        none = dict.fromkeys(("image", "mask", "width", "height"))  # the latents tell their size
        return msgspec.structs.replace(request, **nothing_else, **none, vae=then.vae, start=Start())
    pictures = tuple(path for path in (then.image, then.mask) if path is not None)
    _check_same(pictures, {path: _digest(Path(path)) for path in pictures}, kept)
    whole = then.start.extends and then.start.only_masked is None
    width, height = (None, None) if whole else (then.width, then.height)
    laid = {"image": then.image, "mask": then.mask, "start": then.start, "width": width, "height": height}
    return msgspec.structs.replace(request, **nothing_else, vae=then.vae, **laid)


def _check_same(pictures: tuple[str, ...], given: dict[str, str], kept: Kept) -> None:
    """Raise image-gone for a picture that is not there, input-changed for a file that is another one now."""
    for path in pictures:
        if not os.path.isfile(path):
            raise HalftoneError("image-gone", path=path)
    for path, found in given.items():
        if found and found != kept.given.get(path, found):
            raise HalftoneError("input-changed", path=path)


def check_same_model(kept: Kept, model: ModelFacts, path: str) -> None:
    """Other weights would make another picture of the same numbers. path: of the latents. Raises latents-other-model, or
    latents-model-changed.

    A copy of the model elsewhere is the same one. So is one that lies where it lay, even if its files were mended since, but
    where only the decode is left: half of the steps are not another model's.
    """
    if model.fingerprint == kept.fingerprint:
        return
    if model.path != kept.path:
        raise HalftoneError("latents-other-model", path=path, model=kept.request.model, given=model.id)
    if kept.asked is not None:
        raise HalftoneError("latents-model-changed", path=path, model=kept.request.model)
