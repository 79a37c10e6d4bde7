"""A picture with kept latents: its record in the file, read without torch."""

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
"""Key of the record in the metadata of the safetensors file."""

_SECOND = 2


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Everything for the receipt of the picture once it is decoded.

    request: of this picture alone (its own seed, a batch of one); picture: known when the latents were kept; plan: of its steps;
    path, fingerprint: of the model. asked: the request of a picture whose step failed, None where only the decode is left; given:
    versions of the given files, see `given_files`. in_pass: of a picture made in several passes, the unfinished one (from 1).
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
    """Path -> its version, "" where there is none: a digest of pictures, the time of other files."""
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
    """The record in a file of kept latents. Raises latents-missing, latents-unreadable."""
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
        name, allowed = Words("Number of pictures"), Words("1 with kept latents")
        raise HalftoneError("setting-bad-value", name=name, value=request.batch, allowed=allowed)
    read_kept(Path(request.resume_latents))


def going_on(request: PictureRequest) -> tuple[PictureRequest, bool]:
    """(what is to be made, True where no step of it is left). A picture whose step failed is made as it was asked for then, but
    for its device, precision and place; one that only waits for its decode uses its VAE. Raises latents-missing,
    latents-unreadable, image-gone, vae-gone, transformer-gone, input-changed.
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
    """The request with the VAE of then, and the start picture under the result; without the inputs of the steps."""
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
    """Raise image-gone for a missing picture, input-changed for a changed file."""
    for path in pictures:
        if not os.path.isfile(path):
            raise HalftoneError("image-gone", path=path)
    for path, found in given.items():
        if found and found != kept.given.get(path, found):
            raise HalftoneError("input-changed", path=path)


def check_same_model(kept: Kept, model: ModelFacts, path: str) -> None:
    """Raise latents-other-model or latents-model-changed: other weights would make another picture. path: of the latents.

    A copy of the model elsewhere is the same one. So is one in the old place, even if its files were repaired since, where only
    the decode is left: half of the steps are not another model's.
    """
    if model.fingerprint == kept.fingerprint:
        return
    if model.path != kept.path:
        raise HalftoneError("latents-other-model", path=path, model=kept.request.model, given=model.id)
    if kept.asked is not None:
        raise HalftoneError("latents-model-changed", path=path, model=kept.request.model)
