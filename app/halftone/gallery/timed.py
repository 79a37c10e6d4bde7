"""Which finished pictures tell how long the next one will take."""

from collections.abc import Sequence

import msgspec

from halftone.contract.facts import DeviceFacts, PictureFacts
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType, Precision

_DENOISERS = ("unet", "transformer", "prior", "denoiser")


class Conditions(msgspec.Struct, frozen=True):
    """What the time depends on, but for the size. devices: what a request may call the device; dtype: what `precision` gives.
    compiled: whether blocks are to be compiled; plan: of a check that was applied, None where the next picture begins without.
    """

    model: str
    devices: frozenset[str]
    precision: Precision
    dtype: DType
    compiled: bool = False
    plan: Plan | None = None


def names_of(device: DeviceFacts, listed: Sequence[DeviceFacts]) -> frozenset[str]:
    """What a request may call a device: its id, "auto" for the first, "cuda" for the first of CUDA."""
    kind = device.id.partition(":")[0]
    first = next((other.id for other in listed), device.id)
    first_of_kind = next((other.id for other in listed if other.id.partition(":")[0] == kind), device.id)
    names = (
        {device.id} | ({"auto"} if first == device.id else set[str]()) | ({kind} if first_of_kind == device.id else set[str]())
    )
    return frozenset(names)


def tells_time(picture: PictureFacts, request: PictureRequest, now: Conditions) -> bool:
    """Whether a picture was made as the next one will be, and timed from its first step on."""
    whole = request.resume_latents is None and picture.seconds > 0 and picture.upscaled is None
    if not whole or request.model != now.model or request.device not in now.devices:
        return False
    if request.numerics.compile != now.compiled:
        return False
    return _begun_in(picture, request, now) == now.dtype and (now.plan is None or _ran_under(picture, now.plan, now.dtype))


def _begun_in(picture: PictureFacts, request: PictureRequest, now: Conditions) -> DType | None:
    """The precision a picture was made in, whatever a cure moved to a wider type. Auto may have meant another one then: it meant
    this one where any part still ran in it.
    """
    if request.numerics.precision != "auto":
        return request.numerics.precision
    if now.dtype in picture.dtypes.values():
        return now.dtype
    return next((dtype for name, dtype in picture.dtypes.items() if name.startswith(_DENOISERS)), None)


def _ran_under(picture: PictureFacts, plan: Plan, dtype: DType) -> bool:
    """Whether the denoisers ran as this plan has them: in the same types, and with or without layers in FP32."""
    return all(
        ran == plan.dtypes.get(name, dtype) and (picture.cures.get(name) == "upcast-region") == bool(plan.upcast.get(name))
        for name, ran in picture.dtypes.items()
        if name.startswith(_DENOISERS)
    )
