"""What steers the UNet while a picture is made, beside its weights: FreeU changes its calls, perturbed-attention guidance makes a
further one. Each call carries its share, so that one which is repeated to find a fault is the same.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from diffusers import UNet2DConditionModel
from torch import Tensor

from halftone.contract.errors import HalftoneError
from halftone.contract.parameters import FREEU, OPTION_PARAMETERS, PAG
from halftone.contract.request import OptionValue
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import map_tensors, tensors_in
from halftone.engine.sampling.composition import Composition
from halftone.engine.sampling.freeu import check_freeu, freeu_of, put_freeu
from halftone.engine.sampling.perturbed import middle_attentions, perturbed, perturbed_of
from halftone.engine.weights.calls import Call, Within, both, plainly

_UNET: Final = "unet"
_THREE_PARTS: Final = "InstructPix2Pix"
"""In its pipelines the prompt's own part is not the last half."""


class Place(NamedTuple):
    """A step of a loop. done: steps before it; steps: all of them."""

    done: int
    steps: int

    @property
    def share(self) -> float:
        """From 0 at the first step to 1 at the last, as Forge counts."""
        return min(1.0, self.done / max(1, self.steps - 1))


class Beside(NamedTuple):
    """A further call of a network, and by how much its difference counts."""

    within: Within
    strength: float


class Steering:
    """What the options of a request ask for. Raises setting-bad-value for a pipeline that cannot be steered so."""

    def __init__(self, pipe: Any, options: Mapping[str, OptionValue]) -> None:
        self._pipe = pipe
        self._freeu, self._perturbed = freeu_of(options), perturbed_of(options)
        network: Any = getattr(pipe, _UNET, None)
        if self._freeu is not None:
            _check_unet(network, FREEU)
            check_freeu(network, self._freeu)
        if self._perturbed is not None:
            _check_unet(network, PAG)
            if not middle_attentions(network) or _THREE_PARTS in type(pipe).__name__:
                raise _takes_none(PAG, Words("set with this model, whose UNet has no attention in its middle"))

    def within(self, name: str, place: Callable[[], Place]) -> Within:
        """What a call of a network runs in."""
        asked = self._freeu if name == _UNET else None
        if asked is None or not asked.span[0] <= place().share <= asked.span[1]:
            return plainly
        return partial(put_freeu, asked=asked)

    def beside(self, call: Call, place: Callable[[], Place]) -> Beside | None:
        """The further call that a call of a network needs, None for none."""
        asked = self._perturbed if call.component == _UNET else None
        strength = 0.0 if asked is None else asked.strength(*place())
        return Beside(both(call.within, perturbed), strength) if strength else None

    def own_part(self, call: Call, result: Any, now: Composition | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call for the prompt alone, without the negative one, which stands first; of prompts composed with
        AND only the first one's call has that.
        """
        count = len(next(tensors_in(result)))
        if not getattr(self._pipe, "do_classifier_free_guidance", False) or (now is not None and not now.is_pair(count)):
            return call.args, call.kwargs

        def half(tensor: Tensor) -> Tensor:
            return tensor[count // 2 :] if tensor.dim() and len(tensor) == count else tensor

        return map_tensors((call.args, call.kwargs), half)


def difference(result: Any, other: Any, strength: float) -> Tensor:
    """What is added to the guided result: the prompt's own part less that of the further call. In float32."""
    own, beside = next(tensors_in(result)), next(tensors_in(other))
    return (own[-len(beside) :].float() - beside.float()) * strength


def _check_unet(network: Any, option: str) -> None:
    if not isinstance(network, UNet2DConditionModel):
        raise _takes_none(option, Words("set with this model, which has no UNet of Stable Diffusion"))


def _takes_none(option: str, value: Words) -> HalftoneError:
    one = OPTION_PARAMETERS[option]
    return HalftoneError("setting-bad-value", name=one.label, value=value, allowed=Words("no {0}", (one.flags[0],)))
