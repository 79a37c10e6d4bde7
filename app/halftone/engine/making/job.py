"""What a job of pictures needs to know."""

from collections.abc import Callable
from dataclasses import dataclass

from halftone.contract.engine import Control, Emit
from halftone.contract.facts import DeviceFacts, SelfTestReport
from halftone.contract.request import Lora, PictureRequest


@dataclass(frozen=True)
class Job:
    """A generate job, or a part of one. tested: the device's self-test, if any; drawn: LoRAs that the drawn prompt named;
    others_leave: unloads other models in memory, and returns whether there were any.
    """

    request: PictureRequest
    device: DeviceFacts
    tested: SelfTestReport | None
    emit: Emit
    control: Control
    drawn: tuple[Lora, ...] = ()
    others_leave: Callable[[], bool] = lambda: False
