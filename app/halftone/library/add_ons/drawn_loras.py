"""LoRAs that a prompt names where it is drawn: inside of `{a|b}`, or in the line of a wildcard. What is drawn comes first; then
the LoRAs of that one picture's words are read, as in A1111.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from halftone.contract.request import Lora, PictureRequest
from halftone.library.add_ons.loras import check_loras, has_tags, known_loras, take_tags
from halftone.library.prompts.styles import styled
from halftone.library.prompts.wildcards import Book, draw, drawn_from, is_drawn

_BEGUN: Final = re.compile(r"<(?:lora|lyco):", re.IGNORECASE)
"""Of a tag that is whole only when its parts are drawn: `<lora:{a|b}:1>`."""


def draws_words(request: PictureRequest) -> bool:
    """Whether each picture may have a prompt of its own."""
    return request.draws and is_drawn(_prompt(request))


def may_draw_loras(request: PictureRequest) -> bool:
    """Whether pictures of the request may have LoRAs of their own. Raises as `check_wildcards`."""
    return any(map(_BEGUN.search, _pieces(request)))


def names_loras(request: PictureRequest) -> bool:
    """Whether the words that were written name some for pictures of the request; no file is read."""
    return request.lora_folders is not None and _BEGUN.search(_prompt(request)) is not None


def check_drawn_loras(request: PictureRequest) -> None:
    """Raise, as `take_tags` and `check_loras` do, for a LoRA that some picture might draw and that cannot be used."""
    named = dict.fromkeys(piece for piece in _pieces(request) if has_tags(piece))
    if not named:
        return
    folders = request.lora_folders or ()
    known = known_loras(folders)
    check_loras(dict.fromkeys(lora for piece in named for lora in take_tags(piece, known, folders)[1]))


def drawn_loras(request: PictureRequest, seeds: Sequence[int]) -> tuple[tuple[Lora, ...], ...]:
    """For each picture, by its seed, the LoRAs that its words name. Raises as `draw` and `take_tags`."""
    folders, book = request.lora_folders or (), Book(request.wildcards)
    prompt = _prompt(request)
    known = lru_cache(maxsize=1)(lambda: known_loras(folders))

    def named(seed: int) -> tuple[Lora, ...]:
        words = draw(prompt, seed, book)
        return take_tags(words, known(), folders)[1] if has_tags(words) else ()

    return tuple(map(named, seeds))


def _prompt(request: PictureRequest) -> str:
    return styled(request.prompt, request.negative, request.styles)[0]


def _pieces(request: PictureRequest) -> Iterator[str]:
    if request.lora_folders is not None and draws_words(request):
        yield from drawn_from((_prompt(request),), request.wildcards)
