"""The prompts of each picture of a request, with styles and draws, and the LoRAs in them.

A LoRA may be inside `{a|b}` or in the line of a wildcard. The draw comes first; then the LoRAs of that picture's words are read,
as in A1111.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from halftone.contract.facts import PictureFacts
from halftone.contract.request import Lora, PictureRequest
from halftone.library.add_ons.loras import check_loras, has_tags, known_loras, take_tags, without_tags
from halftone.library.prompts.styles import styled
from halftone.library.prompts.wildcards import Book, draw, drawn_from, is_drawn

_NEGATIVE = "negative"
VARIATION: Final = 0.2
"""How far the noise of a picture is turned for similar ones: the same things in the same places, with other details."""
VARIATIONS: Final = 4


def says_otherwise(request: PictureRequest) -> bool:
    """Whether the model's prompts may differ from the written ones."""
    return bool(request.styles) or (request.draws and (is_drawn(request.prompt) or is_drawn(request.negative)))


def spoken(request: PictureRequest, seed: int) -> tuple[str, str]:
    """The prompt and the negative one of a seed's picture, without LoRAs. Raises wildcard-*, words-unreadable."""
    prompt, negative = styled(request.prompt, request.negative, request.styles)
    if not request.draws:
        return prompt, negative
    book = Book(request.wildcards)
    return without_tags(draw(prompt, seed, book)), draw(negative, seed, book, _NEGATIVE)


def again(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """The request for one picture again, or a similar one: with its seeds, and without latents it was rescued from."""
    variation = request.variation_seed if facts.variation_seed is None else facts.variation_seed
    return msgspec.structs.replace(request, seed=facts.seed, variation_seed=variation, batch=1, resume_latents=None)


def as_made(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """The request with the LoRAs in the picture's words."""
    return msgspec.structs.replace(request, loras=(*request.loras, *facts.loras)) if facts.loras else request


def variations(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """Pictures like this one: its noise, turned a little towards others. Of a variation, others as near to its seed."""
    strength = request.variation_strength or VARIATION
    noises = {"seed": facts.seed, "variation_seed": None, "variation_strength": strength}
    return msgspec.structs.replace(request, **noises, batch=VARIATIONS, resume_latents=None)


def fixed(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """`again` with the drawn words, so that later changes of the wildcards do not matter."""
    one = again(request, facts)
    if not facts.prompt and not facts.negative:
        return one
    return msgspec.structs.replace(one, prompt=facts.prompt, negative=facts.negative, styles=(), draws=False)


_BEGUN: Final = re.compile(r"<(?:lora|lyco):", re.IGNORECASE)
"""Beginning of a tag that may be whole only after the draw: `<lora:{a|b}:1>`."""


def draws_words(request: PictureRequest) -> bool:
    """Whether each picture may have a prompt of its own."""
    return request.draws and is_drawn(_prompt(request))


def may_draw_loras(request: PictureRequest) -> bool:
    """Whether pictures of the request may have LoRAs of their own. Raises as `check_wildcards`."""
    return any(map(_BEGUN.search, _pieces(request)))


def names_loras(request: PictureRequest) -> bool:
    """Whether the written words name LoRAs for the request's pictures; no file is read."""
    return request.lora_folders is not None and _BEGUN.search(_prompt(request)) is not None


def check_drawn_loras(request: PictureRequest) -> None:
    """Raise, as `take_tags` and `check_loras` do, for an unusable LoRA that some picture might draw."""
    named = dict.fromkeys(piece for piece in _pieces(request) if has_tags(piece))
    if not named:
        return
    folders = request.lora_folders or ()
    known = known_loras(folders)
    check_loras(dict.fromkeys(lora for piece in named for lora in take_tags(piece, known, folders)[1]))


def drawn_loras(request: PictureRequest, seeds: Sequence[int]) -> tuple[tuple[Lora, ...], ...]:
    """The LoRAs in each picture's words, by its seed. Raises as `draw` and `take_tags`."""
    folders, book = request.lora_folders or (), Book(request.wildcards)
    prompt = _prompt(request)
    drawn = [draw(prompt, seed, book) for seed in seeds]
    known = known_loras(folders) if any(map(has_tags, drawn)) else {}
    return tuple(take_tags(words, known, folders)[1] for words in drawn)


def _prompt(request: PictureRequest) -> str:
    return styled(request.prompt, request.negative, request.styles)[0]


def _pieces(request: PictureRequest) -> Iterator[str]:
    if request.lora_folders is not None and draws_words(request):
        yield from drawn_from((_prompt(request),), request.wildcards)
