"""Finished pictures that predict the time of the next one."""

from collections.abc import Sequence

import msgspec

from halftone.contract.facts import DeviceFacts, PictureFacts
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType, Precision

_DENOISERS = ("unet", "transformer", "prior", "denoiser")


class Conditions(msgspec.Struct, frozen=True):
    """Conditions of the time, but for the size. devices: names of the device in requests; dtype: meaning of `precision`.
    compiled: whether blocks are to be compiled; plan: of an applied check, None where the next picture begins without.
    """

    model: str
    devices: frozenset[str]
    precision: Precision
    dtype: DType
    compiled: bool = False
    plan: Plan | None = None


def names_of(device: DeviceFacts, listed: Sequence[DeviceFacts]) -> frozenset[str]:
    """Names of a device in requests: its id, "auto" for the first, "cuda" for the first of CUDA."""
    kind = device.id.partition(":")[0]
    ids = [other.id for other in listed] or [device.id]
    alike = [one for one in ids if one.partition(":")[0] == kind] or [device.id]
    return frozenset({device.id, *(name for name, among in (("auto", ids), (kind, alike)) if among[0] == device.id)})


def tells_time(picture: PictureFacts, request: PictureRequest, now: Conditions) -> bool:
    """Whether a picture was made as the next one will be, and timed from its first step."""
    whole = request.resume_latents is None and picture.seconds > 0 and picture.upscaled is None
    same = request.model == now.model and request.device in now.devices and request.numerics.compile == now.compiled
    if not whole or not same:
        return False
    return _begun_in(picture, request, now) == now.dtype and (now.plan is None or _ran_under(picture, now.plan, now.dtype))


def _begun_in(picture: PictureFacts, request: PictureRequest, now: Conditions) -> DType | None:
    """The precision of a picture, whatever a cure moved to a wider type. With Auto it is this one where any part ran in it."""
    if request.numerics.precision != "auto":
        return request.numerics.precision
    if now.dtype in picture.dtypes.values():
        return now.dtype
    return next((dtype for name, dtype in picture.dtypes.items() if name.startswith(_DENOISERS)), None)


def _ran_under(picture: PictureFacts, plan: Plan, dtype: DType) -> bool:
    """Whether the denoisers ran under this plan: in the same types, with or without layers in FP32."""
    return all(
        ran == plan.dtypes.get(name, dtype) and (picture.cures.get(name) == "upcast-region") == bool(plan.upcast.get(name))
        for name, ran in picture.dtypes.items()
        if name.startswith(_DENOISERS)
    )
