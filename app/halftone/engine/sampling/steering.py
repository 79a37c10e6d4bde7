"""What changes the UNet while a picture is made, beside its weights: FreeU. Each call of the network has its share, so that a
call that is repeated to find a fault is the same.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from diffusers import UNet2DConditionModel

from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import FREEU, OPTION_PARAMETERS
from halftone.contract.request import OptionValue
from halftone.contract.wording import Words
from halftone.engine.sampling.freeu import check_freeu, freeu_of, put_freeu
from halftone.engine.weights.calls import Within, plainly

_UNET: Final = "unet"


class Steering:
    """What the options of a request ask for. Raises setting-bad-value for a pipeline that cannot be steered so."""

    def __init__(self, pipe: Any, options: Mapping[str, OptionValue]) -> None:
        self._freeu = freeu_of(options)
        network = getattr(pipe, _UNET, None)
        if self._freeu is None:
            return
        if not isinstance(network, UNet2DConditionModel):
            raise _takes_none(FREEU)
        check_freeu(network, self._freeu)

    def within(self, name: str, share: Callable[[], float]) -> Within:
        """What a call of a network runs in. share: of the steps that are done before it, from 0 to 1."""
        if name != _UNET or self._freeu is None or not _is_in(share(), self._freeu.span):
            return plainly
        return partial(put_freeu, asked=self._freeu)


def _is_in(share: float, span: tuple[float, float]) -> bool:
    return span[0] <= share <= span[1]


def _takes_none(option: str) -> HalftoneError:
    one = OPTION_PARAMETERS[option]
    value, allowed = Words("set with this model, which has no UNet of Stable Diffusion"), Words("no {0}", (one.flags[0],))
    return HalftoneError("setting-bad-value", name=one.label, value=value, allowed=allowed)
