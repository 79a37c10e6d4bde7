"""What makes pictures is told of its job."""

from collections.abc import Callable
from dataclasses import dataclass

from halftone.contract.engine import Control, Emit
from halftone.contract.facts import DeviceFacts, SelfTestReport
from halftone.contract.request import Lora, PictureRequest


@dataclass(frozen=True)
class Job:
    """A generate job, or a part of one. tested: of the device, None before it was; drawn: those of the request's LoRAs that the
    drawn words named; others_leave: lets go of other models in memory, and tells whether there were any.
    """

    request: PictureRequest
    device: DeviceFacts
    tested: SelfTestReport | None
    emit: Emit
    control: Control
    drawn: tuple[Lora, ...] = ()
    others_leave: Callable[[], bool] = lambda: False
