"""Pictures in more than one pass: sizes, steps and refusals, from the request and the model's headers alone."""

import math
from typing import Final, Literal

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GuardEvent, ModelFacts, PictureFacts
from halftone.contract.limits import SIZE_RANGE
from halftone.contract.parameters import check_range
from halftone.contract.request import LATENT, Hires, PictureRequest
from halftone.contract.wording import Words
from halftone.library.add_ons.upscalers import check_upscaler
from halftone.library.videos import makes_videos

_STRENGTHS: Final = {LATENT: 0.7}
"""Interpolated latents are blurred and need many steps; A1111 has the same default for them."""
_STRENGTH: Final = 0.4
"""Enlarged pixels keep their picture at this."""
Counting = Literal["diffusers", "A1111", "timesteps"]
"""How a sampler counts steps: as diffusers does, as A1111's samplers over sigmas do, or as those over timesteps."""
_MOST: Final = 0.999
"""The largest strength that A1111 counts steps with."""
_COARSE: Final = 16
"""Pixels; the sizes of most transformers are multiples of it."""
_FINE: Final = 8


def in_passes(request: PictureRequest) -> bool:
    """Whether the picture needs more than one run of a pipeline."""
    return request.hires is not None


def strength_of(hires: Hires) -> float:
    """The second pass' share of the noise."""
    return _STRENGTHS.get(hires.upscaler, _STRENGTH) if hires.strength is None else hires.strength


def steps_from_picture(steps: int, strength: float, counting: Counting = "A1111") -> int:
    """How many steps of a schedule a sampler computes from a start picture."""
    if counting == "diffusers":
        return min(steps, int(steps * strength))
    most = int(min(strength, _MOST) * steps)
    return min(steps, most + 1) if counting == "A1111" else max(1, most)


def part_of_schedule(wanted: int, strength: float, counting: Counting) -> tuple[int, float]:
    """(steps of a whole schedule, the strength at which those wanted are computed): the schedule that A1111 and ComfyUI take for
    a pass of this strength, int(wanted / strength) steps. A1111's samplers over timesteps compute one less.
    """
    steps = max(wanted, int(wanted / strength))
    computed = max(1, wanted - 1) if counting == "timesteps" else wanted
    least = computed / steps
    for share in (strength, (computed - 0.5) / steps if counting == "A1111" else least, math.nextafter(least, 1.0)):
        if steps_from_picture(steps, share, counting) == computed:
            return steps, share
    raise AssertionError(f"no strength computes {computed} of {steps} steps")


def larger(width: int, height: int, scale: float, multiple: int = _FINE) -> tuple[int, int]:
    """Pixels of a pass over a picture of width x height, a multiple of the pipeline's."""
    multiple = math.lcm(multiple, _FINE if width % _COARSE or height % _COARSE else _COARSE)
    return _rounded(width * scale, multiple), _rounded(height * scale, multiple)


def last_size(hires: Hires | None, width: int, height: int) -> tuple[int, int]:
    """Pixels of the last pass of a picture whose first one is width x height."""
    return (width, height) if hires is None else larger(width, height, hires.scale)


def _rounded(pixels: float, multiple: int) -> int:
    return max(multiple, round(pixels / multiple) * multiple)


def step_words(event: GuardEvent) -> Words:
    """The event's step, with its pass where there are several."""
    return _of_pass(event.step or 1, event.in_pass)


def kept_words(picture: PictureFacts) -> Words:
    """The step after which a picture was kept."""
    done = picture.passes if picture.kept_step else [one for one in picture.passes if one.steps]
    return _of_pass(picture.kept_step or (done[-1].steps if done else 0), len(done))


def _of_pass(step: int, number: int) -> Words:
    return Words("{0} of pass {1}", (step, number)) if number else Words("{0}", (step,))


def check_passes(request: PictureRequest, facts: ModelFacts | None) -> None:
    """Raise HalftoneError for passes that cannot work: value-out-of-range, setting-bad-value."""
    hires = request.hires
    if hires is None:
        return
    check_upscaler(hires.upscaler)
    if request.masked:
        raise HalftoneError("setting-bad-value", name="--hires", value=Words("used with a mask"), allowed=Words("one of the two"))
    if request.num_frames is not None or (facts is not None and makes_videos(facts)):
        value, allowed = Words("used with a video"), Words("it for pictures")
        raise HalftoneError("setting-bad-value", name="--hires", value=value, allowed=allowed)
    width = request.width or (facts.native_width if facts is not None else 0)
    height = request.height or (facts.native_height if facts is not None else 0)
    if width and height and request.image is None:
        for pixels in larger(width, height, hires.scale):
            check_range(Words("The size of the second pass"), pixels, SIZE_RANGE)
