"""Textual inversions, which most programs call embeddings: recognised from headers, named in a prompt by their files' names."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words, both
from halftone.library.add_ons.named_files import reading
from halftone.library.add_ons.unusable_files import instead
from halftone.library.families.known_families import REFINER, SD1, SD2, SDXL, reads_in_chunks
from halftone.library.families.recognise import recognise
from halftone.library.files.folder import read_json
from halftone.library.files.header import TensorInfo, read_header
from halftone.library.models import ENDINGS, model_files
from halftone.library.prompts.comfyui_words import comfy_pieces, embedding_in, named_embeddings
from halftone.library.prompts.prompt_syntax import OWN, Rules, Syntax, at_step, changes, parse
from halftone.settings.store import Settings

MOST: Final = 75
"""Vectors: as many as a text encoder of CLIP reads of a prompt at once."""
_LARGEST: Final = 2**23
"""Bytes: 75 vectors for the two widest encoders are a quarter of it."""
_STEPS: Final = 20
_WIDTHS: Final = {SD1.name: (768,), SD2.name: (1024,), SDXL.name: (768, 1280), REFINER.name: (1280,)}
BUNDLED: Final = "bundle_emb."
"""Begins the names of an embedding's tensors in the file of a LoRA."""
_BOTH: Final = ("clip_l", "clip_g")
"""Tensors of a file for two encoders, by the encoder."""

Tokens = Callable[[str], Sequence[int]]


class Inversion(msgspec.Struct, frozen=True, kw_only=True):
    """tensors: encoder ("clip_l", "clip_g", or "" where there is one) -> name in the file; widths: encoder -> numbers of a
    vector; vectors: places that it takes in a prompt; bundled: its name where it stands in the file of a LoRA, else "".
    """

    path: str
    tensors: dict[str, str]
    widths: dict[str, int]
    vectors: int
    bundled: str = ""

    @property
    def name(self) -> str:
        return self.bundled or inversion_name(self.path)


def inversion_name(path: str) -> str:
    """Return the name that a prompt calls it by: its file's, without the ending."""
    return Path(path.replace("\\", "/")).stem


def read_inversion(path: str) -> Inversion:
    """Read what its header tells. Raises HalftoneError inversion-missing or inversion-not-one."""
    with reading(path, "inversion-missing", "inversion-not-one") as file:
        header = read_header(file)
    found = recognise(header, file.stem)
    if found.kind != "embedding":
        raise HalftoneError("inversion-not-one", path=path, detail=instead(found, Words("embedding")))
    one = _of_tensors(path, header.tensors)
    if one is None:
        detail = Words("it holds no vectors, or more than {0}", (str(MOST),))
        raise HalftoneError("inversion-not-one", path=path, detail=detail)
    return one


def _of_tensors(path: str, held: Iterable[TensorInfo], bundled: str = "") -> Inversion | None:
    """bundled: its name in a LoRA. None where there are no vectors, too many, or in a LoRA others beside them."""
    start = f"{BUNDLED}{bundled}." if bundled else ""
    shapes = {tensor.name.removeprefix(start): tensor.shape for tensor in held if 0 < len(tensor.shape) <= 2}
    tensors = {encoder: encoder for encoder in _BOTH if encoder in shapes} or ({"": next(iter(shapes))} if shapes else {})
    if bundled and len(tensors) < len(shapes):
        return None
    counts = {shapes[name][0] if len(shapes[name]) == 2 else 1 for name in tensors.values()}
    if not counts or max(counts) > MOST or min(counts) < 1:
        return None
    widths = {encoder: shapes[name][-1] for encoder, name in tensors.items()}
    names = {encoder: start + name for encoder, name in tensors.items()}
    return Inversion(path=path, tensors=names, widths=widths, vectors=max(counts), bundled=bundled)


def bundled_inversions(path: str) -> dict[str, Inversion | None]:
    """Name -> the embedding that stands in the file of a LoRA, as A1111 and OneTrainer put it there; None: it is none."""
    held: dict[str, list[TensorInfo]] = {}
    for tensor in read_header(Path(path)).tensors:
        if tensor.name.startswith(BUNDLED):
            held.setdefault(tensor.name.removeprefix(BUNDLED).partition(".")[0], []).append(tensor)
    return {name: _of_tensors(path, own, name) for name, own in held.items()}


def check_inversion_fit(paths: Iterable[str], model: ModelFacts) -> None:
    """Raise HalftoneError inversion-other-base where headers show other widths than the model's, and as `read_inversion`."""
    inversions = [read_inversion(path) for path in paths]
    widths = encoder_widths(model) if inversions else ()
    for one in inversions:
        if widths or not reads_in_chunks(model.family):
            matching(one, widths, model)


def matching(one: Inversion, widths: Sequence[int], model: ModelFacts) -> tuple[str, ...]:
    """`matched`, or HalftoneError inversion-other-base. widths: () where the text encoder takes no such words."""
    tensors = matched(one, widths) if widths else None
    if tensors is None:
        facts = {"name": one.name, "model": model.name, "family": model.family}
        raise HalftoneError("inversion-other-base", detail=why_not(one, widths), **facts)
    return tensors


def why_not(one: Inversion | None, widths: Sequence[int]) -> Words:
    """Return the reason why a model of these widths cannot read an embedding."""
    if one is None or not widths:
        return Words("its text encoder does not support embeddings")
    if len(one.widths) < len(widths):
        return Words("it is for one text encoder, the model has {0}", (str(len(widths)),))
    own, needed = (both(*map(str, some)) for some in (one.widths.values(), widths))
    return Words("its vectors have {0} values, the model's {1}", (own, needed))


# --- in a prompt -----------------------------------------------------------------------------------------


def inversion_folders(settings: Settings) -> tuple[str, ...]:
    """Where they are looked for: their own folders, then those of LoRAs and models."""
    return tuple(dict.fromkeys((*settings.embedding_folders, *settings.lora_folders, *settings.model_folders)))


def encoder_widths(model: ModelFacts) -> tuple[int, ...]:
    """Widths of the text encoders that read in chunks, in the order of the pipeline; () for a model without such."""
    if not reads_in_chunks(model.family):
        return ()
    if model.format != "diffusers":
        return _WIDTHS.get(model.family, ())
    files = (Path(model.path) / name / "config.json" for name in ("text_encoder", "text_encoder_2"))
    try:
        widths = [read_json(file).get("hidden_size") for file in files if os.path.isfile(file)]
    except (OSError, HalftoneError):
        return ()
    return tuple(width for width in widths if isinstance(width, int))


def matched(one: Inversion, widths: Sequence[int]) -> tuple[str, ...] | None:
    """The tensor for each of a model's text encoders, None where one has none: the first of two is CLIP-L, the second CLIP-G."""
    if len(widths) == 1:  # of two the second serves the refiner of SDXL, whose only encoder it is
        encoder, width = list(one.widths.items())[-1]
        return (one.tensors[encoder],) if width == widths[0] else None
    fits = len(widths) == len(_BOTH) and all(one.widths.get(name) == width for name, width in zip(_BOTH, widths, strict=True))
    return tuple(one.tensors[name] for name in _BOTH) if fits else None


def named_in(
    texts: Iterable[str], folders: Iterable[str], model: ModelFacts, given: Iterable[str] = (), rules: Rules = OWN
) -> tuple[str, ...]:
    """Files below the folders with names in the texts that fit the model, after `given`. Only headers of these are read."""
    written, widths = spoken(texts, rules), encoder_widths(model)
    found = {inversion_name(path).casefold(): path for path in given}
    for path in small_files(folders) if widths else ():
        name = inversion_name(path)
        if name.casefold() in found or not names_any(written, (name,), rules):
            continue
        one = read_or_none(path)
        if one is not None and matched(one, widths):
            found[name.casefold()] = path
    return tuple(found.values())


def list_inversions(folders: Iterable[str], given: Iterable[str] = ()) -> tuple[Inversion, ...]:
    """All below the folders, after the given ones; several may have one name."""
    paths = dict.fromkeys((*given, *small_files(folders)))
    return tuple(one for path in paths if (one := read_or_none(path)) is not None)


def small_files(folders: Iterable[str], endings: tuple[str, ...] = ENDINGS) -> Iterator[str]:
    """Files small enough to be one, each once: headers of models take long to read."""
    seen: set[str] = set()
    for path in model_files(folders, endings):
        try:
            small = os.path.getsize(path) <= _LARGEST and not os.path.isdir(path)
        except OSError:
            continue
        if small and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield path


def read_or_none(path: str) -> Inversion | None:
    try:
        return read_inversion(path)
    except HalftoneError:
        return None


def spoken(texts: Iterable[str], rules: Rules = OWN) -> str:
    """Return what a text encoder reads of the texts at any step, without brackets and weights: pieces with NUL between them."""
    forms = {at_step(text, step, _STEPS, rules) for text in texts for step in range(1, _STEPS + 1 if changes(text, rules) else 2)}
    return "\0".join(part.text for form in forms for section in parse(form, rules) for part in section)


_PIECES: Final = re.compile(r"[^\W\d_]+|\d|(?:[^\w\s]|_)+")
"""What CLIP's tokenizer joins no tokens across."""
_ENDS: Final = ((re.compile(r"[^\W\d_]"), r"(?![^\W\d_])"), (re.compile(r"\d"), ""), (re.compile(""), r"(?!(?:[^\w\s]|_))"))
"""A character -> what may not follow at the end of a piece that it ends."""


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...], syntax: Syntax = Syntax.HALFTONE) -> re.Pattern[str]:
    """Finds the names, the longest first: as whole words, in A1111's syntax also as the ends of words."""
    if syntax is Syntax.A1111:
        return re.compile("|".join(map(_ending, names)), re.IGNORECASE)
    longest = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:embedding:)?({longest})(?![\w-])", re.IGNORECASE)


def _ending(name: str) -> str:
    """Where its tokens may stand: among them, spaces mean nothing."""
    pieces: list[str] = _PIECES.findall(name)
    end = next((never for last, never in _ENDS if last.match(name.rstrip()[-1:])), "")
    return r"\s*".join(map(re.escape, pieces)) + end if pieces else r"(?!)"


def names_any(text: str, names: Iterable[str], rules: Rules = OWN) -> bool:
    """Whether one of them stands in what was `spoken`; by A1111's rules only its tokens tell for certain."""
    known = tuple(names)
    if known and rules.syntax is Syntax.COMFYUI:
        folded = {name.casefold() for name in known}
        return any(name.casefold() in folded for part in text.split("\0") for name in named_embeddings(part))
    return bool(known) and any(_pattern(known, rules.syntax).search(part) for part in text.split("\0"))


def without_names(text: str, names: Iterable[str]) -> str:
    """Remove the names from what was `spoken`, by Halftone's own rules, with the mark before each."""
    known = tuple(names)
    return _pattern(known).sub("", text) if known else text


def named_of(known: Iterable[Inversion], texts: Iterable[str], rules: Rules = OWN) -> tuple[Inversion, ...]:
    """Those that the texts name; of one name the first."""
    written = spoken(texts, rules)
    found: dict[str, Inversion] = {}
    for one in known:
        if one.name.casefold() not in found and names_any(written, (one.name,), rules):
            found[one.name.casefold()] = one
    return tuple(found.values())


def unknown_names(texts: Iterable[str], known: Iterable[str], rules: Rules) -> tuple[str, ...]:
    """The embeddings that texts in ComfyUI's syntax name and that are not known. In other syntaxes they are read as words."""
    if rules.syntax is not Syntax.COMFYUI:
        return ()
    folded = {name.casefold() for name in known}
    named = (name for part in spoken(texts, rules).split("\0") for name in named_embeddings(part))
    return tuple(dict.fromkeys(name for name in named if name.casefold() not in folded))


def places(sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Name -> tokens of its vectors, which follow those of the vocabulary: negative, as places from a list's end."""
    start, found = -sum(sizes.values()), dict[str, tuple[int, ...]]()
    for name, size in sizes.items():
        found[name] = tuple(range(start, start + size))
        start += size
    return found


def inner(learned: Mapping[str, Sequence[int]]) -> frozenset[int]:
    """Tokens before which a prompt may not be cut."""
    return frozenset(token for tokens in learned.values() for token in tokens[1:])


def with_words(tokens: Tokens, learned: Mapping[str, Sequence[int]], rules: Rules = OWN) -> Tokens:
    """Encodes a text in which names stand for learned vectors; in ComfyUI's syntax unknown ones stand for nothing.
    tokens: of a text without such.
    """
    own = {name.casefold(): found for name, found in learned.items()}
    if rules.syntax is Syntax.COMFYUI:
        return _as_comfyui(tokens, own)
    if not learned:
        return tokens
    if rules.syntax is Syntax.A1111:
        return _with_sequences(tokens, learned)
    pattern = _pattern(tuple(learned), rules.syntax)

    def encode(text: str) -> list[int]:
        found: list[int] = []
        for index, piece in enumerate(pattern.split(text)):
            found += own[piece.casefold()] if index % 2 else tokens(piece) if piece.strip() else ()
        return found

    return encode


def _as_comfyui(tokens: Tokens, own: Mapping[str, Sequence[int]]) -> Tokens:
    def read(piece: str) -> Sequence[int]:
        name = embedding_in(piece)
        return tokens(piece) if name is None else own.get(name.casefold(), ())

    return lambda text: [token for piece in comfy_pieces(text) for token in read(piece)]


def _with_sequences(tokens: Tokens, learned: Mapping[str, Sequence[int]]) -> Tokens:
    """As A1111 looks for them (modules/textual_inversion/textual_inversion.py): where the tokens of a name stand, which may be
    the end of a word; of several at one place the longest.
    """
    names = [([*tokens(name)], found) for name, found in learned.items()]
    names = sorted((pair for pair in names if pair[0]), key=lambda pair: -len(pair[0]))

    def encode(text: str) -> list[int]:
        read, found, place = [*tokens(text)], list[int](), 0
        while place < len(read):
            single = read[place : place + 1]
            name, vectors = next((pair for pair in names if read[place : place + len(pair[0])] == pair[0]), (single, single))
            found += vectors
            place += len(name)
        return found

    return encode
