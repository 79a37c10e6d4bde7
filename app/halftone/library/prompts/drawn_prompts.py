"""The prompts that each picture of a request is made with: with styles and draws."""

from typing import Final

import msgspec

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest
from halftone.library.add_ons.loras import without_tags
from halftone.library.prompts.styles import styled
from halftone.library.prompts.wildcards import Book, draw, is_drawn

_NEGATIVE = "negative"
VARIATION: Final = 0.2
"""How far the noise of a picture is turned for others like it: the same things in the same places, and details that differ."""
VARIATIONS: Final = 4


def says_otherwise(request: PictureRequest) -> bool:
    """Whether the prompts that the model reads may not be those that were written."""
    return bool(request.styles) or (request.draws and (is_drawn(request.prompt) or is_drawn(request.negative)))


def spoken(request: PictureRequest, seed: int) -> tuple[str, str]:
    """The prompt and the negative one of the picture with a seed. LoRAs that they name are no words: they go.

    Raises wildcard-*, words-unreadable.
    """
    prompt, negative = styled(request.prompt, request.negative, request.styles)
    if not request.draws:
        return prompt, negative
    book = Book(request.wildcards)
    return without_tags(draw(prompt, seed, book)), draw(negative, seed, book, _NEGATIVE)


def again(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """What makes one picture of a request again, or another like it: its seeds, and nothing of latents it was rescued from."""
    variation = request.variation_seed if facts.variation_seed is None else facts.variation_seed
    return msgspec.structs.replace(request, seed=facts.seed, variation_seed=variation, batch=1, resume_latents=None)


def as_made(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """With the LoRAs that the picture's words named."""
    return msgspec.structs.replace(request, loras=(*request.loras, *facts.loras)) if facts.loras else request


def variations(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """Pictures like one of a request: its noise, turned a little towards others. Of a variation, others as near to its seed."""
    strength = request.variation_strength or VARIATION
    noises = {"seed": facts.seed, "variation_seed": None, "variation_strength": strength}
    return msgspec.structs.replace(request, **noises, batch=VARIATIONS, resume_latents=None)


def fixed(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """The same, whatever becomes of the files of the wildcards: with the words that were drawn."""
    one = again(request, facts)
    if not facts.prompt and not facts.negative:
        return one
    return msgspec.structs.replace(one, prompt=facts.prompt, negative=facts.negative, styles=(), draws=False)
