"""What could be meant by what is being typed in a prompt: LoRAs, wildcards, embeddings and tags. Pure text in, pure text out."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from halftone.library.prompts.tag_files import Tags, in_prompt

Kind = Literal["lora", "wildcard", "embedding", "tag"]
MOST: Final = 10
_LEAST: Final = 2
"""Letters of a word before anything is offered."""
_LORA: Final = re.compile(r"<lora:([^<>:]*)\Z", re.IGNORECASE)
_EMBEDDING: Final = re.compile(r"(?<![\w-])embedding:(\S*)\Z", re.IGNORECASE)
_WILDCARD: Final = re.compile(r"__([\w\-./]*?)\Z")
_PHRASE: Final = re.compile(r"[^,\n|<>:()\[\]{}]*\Z")
_WORDS: Final = re.compile(r"\S+\s*")
_TAIL: Final = 3
"""Words of a tag that are looked up together at most."""


class Typed(NamedTuple):
    """The text from `start` to the cursor. text: without the signs that begin it."""

    kind: Literal["lora", "wildcard", "embedding", "word"]
    start: int
    text: str


class Offer(NamedTuple):
    """`name` is shown, and what begins at `start` gives way to `text`. alias: the other name that was typed."""

    kind: Kind
    name: str
    text: str
    start: int
    uses: int = 0
    alias: str = ""


@dataclass(frozen=True)
class Known:
    """Names that can be offered: only what the model in use can read. marked: an embedding is written `embedding:name`, without
    blanks, as in ComfyUI's syntax.
    """

    loras: Collection[str] = ()
    wildcards: Collection[str] = ()
    embeddings: Collection[str] = ()
    tags: Tags = field(default_factory=Tags)
    marked: bool = False


def typed_at(text: str, place: int) -> tuple[Typed, ...]:
    """Find what is being typed at the cursor: after `<lora:`, `embedding:` or `__`, or the last words of a phrase."""
    before = text[:place]
    if (tag := _LORA.search(before)) is not None:
        return (Typed("lora", tag.start(), tag[1]),)
    if (mark := _EMBEDDING.search(before)) is not None:
        return (Typed("embedding", mark.start(), mark[1]),)
    line = before[before.rfind("\n") + 1 :]
    if line.count("__") % 2 and (wild := _WILDCARD.search(before)) is not None:
        return (Typed("wildcard", wild.start(), wild[1]),)
    phrase = _PHRASE.search(before)
    words: list[str] = [] if phrase is None else _WORDS.findall(phrase[0])
    tails = ("".join(words[-count:]) for count in range(min(_TAIL, len(words)), 0, -1))
    return tuple(Typed("word", place - len(tail), tail) for tail in tails if len(tail) >= _LEAST)


def offers(text: str, place: int, known: Known, most: int = MOST) -> tuple[Offer, ...]:
    """Offer what could be meant at the cursor, the likeliest first. Nothing where all of it stands there already."""
    found: dict[tuple[Kind, str], Offer] = {}
    for offer in (offer for typed in typed_at(text, place) for offer in _of(typed, known, most)):
        found.setdefault((offer.kind, offer.name), offer)
    best = tuple(found.values())[:most]
    return () if len(best) == 1 and text[best[0].start : place] == best[0].text else best


def _of(typed: Typed, known: Known, most: int) -> Iterable[Offer]:
    match typed.kind:
        case "lora":
            for name in _beginning(known.loras, typed.text, most):
                yield Offer("lora", name, f"<lora:{name}:1>", typed.start)
        case "wildcard":
            for name in _beginning(known.wildcards, typed.text, most):
                yield Offer("wildcard", name, f"__{name}__", typed.start)
        case "embedding":
            yield from _embeddings(typed, known, most)
        case _:
            yield from _embeddings(typed, known, most)
            for tag in known.tags.beginning(typed.text, most):
                yield Offer("tag", tag.name, in_prompt(tag.name), typed.start, tag.uses, tag.alias)


def _embeddings(typed: Typed, known: Known, most: int) -> Iterable[Offer]:
    names = [name for name in known.embeddings if not known.marked or " " not in name]
    for name in _beginning(names, typed.text, most, within=False):
        yield Offer("embedding", name, f"embedding:{name}" if known.marked else name, typed.start)


def _beginning(names: Iterable[str], typed: str, most: int, *, within: bool = True) -> list[str]:
    """Names that begin so, then those that hold it."""
    folded = typed.casefold()
    keyed = sorted((folded_name.find(folded), folded_name, name) for name in names if folded in (folded_name := name.casefold()))
    return [name for place, _, name in keyed if within or place == 0][:most]
