"""Encodes a prompt where the pipeline alone would cut it or would read its weights as letters.

The pipeline's own encode_prompt runs once for each chunk of 75 tokens, with readers in place of its CLIP tokenizers that return
the tokens of that chunk. The results are joined along the sequence; the pooled vector is the first chunk's, as in A1111. A short
prompt without such signs goes the pipeline's own way.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Final, NamedTuple, cast

import torch
from transformers import BatchEncoding, CLIPTokenizer

from halftone.engine.patches.whole_prompts import PlainReader, WholeReader, scaled, t5_tokenizer
from halftone.library.add_ons.inversions import inner, names_any, spoken, with_words
from halftone.library.families.known_families import of_pipeline, reads_in_chunks, weighs_words
from halftone.library.prompts.comfyui_words import named_embeddings
from halftone.library.prompts.composed_prompts import composed
from halftone.library.prompts.prompt_chunks import COMMA, Chunk
from halftone.library.prompts.prompt_chunks import split_text as split_by
from halftone.library.prompts.prompt_syntax import OWN, Emphasis, Rules, Syntax, at_step, changes, is_plain, is_weighted

Encoded = tuple[tuple[int, Any], ...]
"""(last step, what encode_prompt gives until then), in order; steps are counted from 1."""
Learned = Mapping[str, Mapping[str, Sequence[int]]]
NO_WORDS: Final[Learned] = {}
NO_TOKENS: Final[Mapping[str, Sequence[int]]] = {}
_PAIRS: Final = (("tokenizer", "text_encoder"), ("tokenizer_2", "text_encoder_2"))
_TEXTS: Final = ("prompt", "prompt_2", "prompt_3", "negative_prompt", "negative_prompt_2", "negative_prompt_3")
_MEANS: Final = (0.1, 10.0)
"""A larger change of the mean shows that the mean was close to zero and means nothing."""
_LEAST_MEAN: Final = 1e-3
"""Smallest mean that counts, relative to that of the magnitudes. Below it most is rounding: with Pocket's encoder the ratio in
BF16 is up to 15 % off, and at most 0.5 % above it.
"""


class Split(NamedTuple):
    """How one tokenizer reads a text: once, however many chunks it has. tokens: as diffusers asks, to look for words learned."""

    chunks: Callable[[str], tuple[Chunk, ...]]
    tokens: Callable[[str], list[str]]


class PromptCache:
    """The last encoded prompts of a model in memory. Their key is all that decides about them."""

    KEPT: Final = 8

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Encoded] = OrderedDict()

    def get(self, key: Hashable) -> Encoded | None:
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: Hashable, encoded: Encoded) -> None:
        self._held[key] = encoded
        while len(self._held) > self.KEPT:
            self._held.popitem(last=False)


def takes_weights(pipe: Any) -> bool:
    """Whether a pipeline's prompts can be read in chunks and with weights."""
    return _reads_in_chunks(type(pipe).__name__) and callable(getattr(pipe, "encode_prompt", None)) and bool(_tokenizers(pipe))


def weighs(pipe: Any, rules: Rules) -> bool:
    """Whether weights act on a pipeline's prompts: in ComfyUI's syntax on those of FLUX.1, too."""
    own = of_pipeline(type(pipe).__name__).name
    as_there = weighs_words(own, as_comfyui=rules.syntax is Syntax.COMFYUI) and bool(_tokenizers(pipe)) and t5_tokenizer(pipe)
    return takes_weights(pipe) or bool(as_there)


@cache
def _reads_in_chunks(pipeline: str) -> bool:
    return reads_in_chunks(of_pipeline(pipeline).name)


def follows_steps(pipe: Any, inputs: Mapping[str, Any], rules: Rules = OWN) -> bool:
    """Whether some text of the inputs changes with the step, and the pipeline lets it."""
    given = inspect.signature(pipe.__call__).parameters
    able = takes_weights(pipe) and "callback_on_step_end" in given and hasattr(pipe, "_callback_tensor_inputs")
    texts = prompt_texts(inputs)
    parts = [part.text for part in composed(texts.pop("prompt", ""), rules)]
    return able and any(changes(text, rules) for text in (*parts, *texts.values()))


def prompt_texts(inputs: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of a pipeline that a text encoder reads."""
    return {name: inputs[name] for name in _TEXTS if isinstance(inputs.get(name), str)}


def encode(
    pipe: Any,
    original: Callable[..., Any],
    steps: int,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    learned: Learned = NO_WORDS,
    rules: Rules = OWN,
    least: int = 1,
) -> Encoded:
    """encode_prompt's result for each part of the steps. original: its own; learned: tokenizer -> words and their tokens; least:
    chunks at least.
    """
    if not weighs(pipe, rules):
        return ((steps, original(*args, **kwargs)),)
    bound = inspect.signature(original).bind(*args, **kwargs)
    given = prompt_texts(bound.arguments)
    if not takes_weights(pipe):
        return ((steps, _at_once(pipe, _splits(pipe, learned, rules), original, bound, rules)),)
    readers = _splits(pipe, learned, rules)
    written = spoken(given.values(), rules)
    named = any(names_any(written, words, rules) for words in learned.values())
    as_comfyui = rules.syntax is Syntax.COMFYUI and (
        hasattr(pipe, "tokenizer_3") or any(map(named_embeddings, written.split("\0")))
    )
    plain_words = not named and not as_comfyui and all(is_plain(text, rules) for text in given.values())
    if plain_words and max(least, _chunks(readers, given.values())) == 1:
        return ((steps, original(*args, **kwargs)),)
    versions = list(_versions(given, steps, rules))
    count = max(least, *(_chunks(readers, version.values()) for _, version in versions))
    made: dict[tuple[str, ...], Any] = {}
    for _, version in versions:
        if (texts := tuple(version.values())) not in made:
            bound.arguments.update(version)
            made[texts] = _in_chunks(pipe, readers, original, bound, count, rules)
    return tuple((last, made[tuple(version.values())]) for last, version in versions)


def most_chunks(pipe: Any, texts: Iterable[str], steps: int, learned: Learned = NO_WORDS, rules: Rules = OWN) -> int:
    """Chunks of the longest text at any step."""
    readers = _splits(pipe, learned, rules)
    forms = [form for text in texts for _, version in _versions({"": text}, steps, rules) for form in version.values()]
    return _chunks(readers, forms)


def _splits(pipe: Any, learned: Learned, rules: Rules) -> dict[str, Split]:
    return {
        name: Split(cache(partial(split_text, own, learned=learned.get(name, {}), rules=rules)), cache(own.tokenize))
        for name, own in _tokenizers(pipe).items()
    }


def _versions(texts: dict[str, str], steps: int, rules: Rules) -> Iterator[tuple[int, dict[str, str]]]:
    """(last step, texts) wherever the texts change."""
    if not any(changes(text, rules) for text in texts.values()):
        yield steps, texts
        return
    present = {name: at_step(text, 1, steps, rules) for name, text in texts.items()}
    for step in range(2, steps + 1):
        following = {name: at_step(text, step, steps, rules) for name, text in texts.items()}
        if following != present:
            yield step - 1, present
            present = following
    yield steps, present


# --- one prompt ------------------------------------------------------------------------------------------


def _in_chunks(
    pipe: Any,
    splits: Mapping[str, Split],
    original: Callable[..., Any],
    bound: inspect.BoundArguments,
    count: int,
    rules: Rules,
) -> Any:
    """encode_prompt's result over `count` chunks, in float32 where weights were applied."""
    rows = cast("int", pipe.tokenizer_2.model_max_length if pipe.tokenizer is None else pipe.tokenizer.model_max_length)

    def encoded(index: int) -> tuple[tuple[Any, ...], _Readers]:
        with _reading(pipe, splits, texts, index, rules) as readers:
            return cast("tuple[Any, ...]", original(*bound.args, **bound.kwargs)), readers

    texts = tuple(prompt_texts(bound.arguments).values())
    empty: tuple[Any, ...] = (None, None)
    if rules.syntax is Syntax.COMFYUI and any(is_weighted(text, rules) for text in texts):
        with _reading(pipe, splits, texts, None, rules):
            empty = cast("tuple[Any, ...]", original(*bound.args, **bound.kwargs))
    parts: list[tuple[Any, ...]] = []
    for index in range(count):
        result, readers = encoded(index)
        norm = rules.emphasis is not Emphasis.NO_NORM
        sides = [_weighted(result[side], _weights(readers.chunks, side), rows, empty[side], norm=norm) for side in (0, 1)]
        parts.append((*(_with_whole(sides[side], readers.whole, side, rows, empty[side]) for side in (0, 1)), *result[2:]))
    joined = [_joined([part[side] for part in parts], rows) for side in (0, 1)]
    if rules.syntax is Syntax.COMFYUI and getattr(pipe, "text_encoder_3", pipe) is None:
        joined = [None if states is None else states[:, : count * rows] for states in joined]  # zeros stand there for T5
    return (*joined, *parts[0][2:])


def _with_whole(
    states: torch.Tensor | None, reader: WholeReader | None, side: int, rows: int, empty: torch.Tensor | None
) -> torch.Tensor | None:
    """Weigh what T5 gave, which follows what CLIP gave."""
    if states is None or reader is None or empty is None or len(reader.seen) <= side:
        return states
    return torch.cat([states[:, :rows].float(), scaled(states[:, rows:], reader.seen[side], empty[:, rows:])], dim=1)


def _at_once(
    pipe: Any, splits: Mapping[str, Split], original: Callable[..., Any], bound: inspect.BoundArguments, rules: Rules
) -> Any:
    """encode_prompt's result for FLUX.1 in ComfyUI's syntax: T5's states, weighed, and CLIP's pooled vector."""
    texts = tuple(prompt_texts(bound.arguments).values())
    with _reading(pipe, splits, texts, 0, rules) as readers:
        result = cast("tuple[Any, ...]", original(*bound.args, **bound.kwargs))
    if readers.whole is None or not any(is_weighted(text, rules) for text in texts):
        return result
    with _reading(pipe, splits, texts, None, rules):
        empty = cast("tuple[Any, ...]", original(*bound.args, **bound.kwargs))
    return (scaled(result[0], readers.whole.seen[0], empty[0]), *result[1:])


def _joined(parts: list[torch.Tensor | None], rows: int) -> torch.Tensor | None:
    """The chunks one after the other, then what another encoder read of the whole prompt. parts: (pictures, tokens, width)."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    return torch.cat([*(part[:, :rows] for part in present), present[0][:, rows:]], dim=1)


class _Slice(NamedTuple):
    """What one encoder gave. width: of its hidden states; weights: of each token, start and end marks among them."""

    width: int
    weights: tuple[float, ...]


def _weights(readers: list["_Reader"], side: int) -> list[_Slice]:
    """side: 0 for the prompt, 1 for the negative one, which a pipeline may leave out."""
    return [_Slice(reader.width, reader.seen[side]) for reader in readers if len(reader.seen) > side]


def _weighted(
    states: torch.Tensor | None, slices: list[_Slice], rows: int, empty: torch.Tensor | None = None, *, norm: bool = True
) -> torch.Tensor | None:
    """The states times the weights, each encoder's with its mean as before; untouched where all weigh 1.

    empty: the states of an empty prompt; with it the weights scale the distance from those, as in ComfyUI. norm: keep the mean.
    """
    if states is None or all(weight == 1 for each in slices for weight in each.weights):
        return states
    result, start = states.float().clone(), 0
    for each in slices:
        part = result[:, :rows, start : start + each.width]
        weights = torch.tensor(each.weights, device=part.device)[:, None]
        if empty is None:
            part.copy_(_with_mean(part, weights) if norm else part * weights)
        else:
            base = empty[:, :rows, start : start + each.width].float()
            part.copy_(torch.where(weights == 1, part, (part - base) * weights + base))
        start += each.width
    return result


def _with_mean(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Scale (pictures, tokens, width) by (tokens, 1), mean kept as in A1111 unless it is all but zero."""
    scaled = states * weights
    before, after = float(states.mean()), float(scaled.mean())
    if not min(abs(before), abs(after)) > _LEAST_MEAN * float(states.abs().mean()):  # so that zero and NaN count as too little
        return scaled
    ratio = before / after
    return scaled * ratio if _MEANS[0] < ratio < _MEANS[1] else scaled


# --- tokenizers ------------------------------------------------------------------------------------------


class _Reader:
    """Replaces a CLIP tokenizer and returns one chunk of its tokens. index: None for an empty one."""

    def __init__(self, tokenizer: Any, split: Split, index: int | None, width: int) -> None:
        self._tokenizer = tokenizer
        self._split = split
        self._index = index
        self.width = width
        self.seen: list[tuple[float, ...]] = []
        """Weights of each text that was asked for, in order."""

    def __call__(self, text: str | list[str], *, padding: str = "", **_options: Any) -> BatchEncoding:
        rows = [self._row(one) for one in ([text] if isinstance(text, str) else text)]
        if padding == "max_length":  # else the pipeline looks how long the text is without the cut, which here is as long
            self.seen.append(rows[0][2])
        names = ("input_ids", "attention_mask")
        return BatchEncoding({name: torch.tensor([row[place] for row in rows]) for place, name in enumerate(names)})

    def tokenize(self, text: str) -> list[str]:
        return list(self._split.tokens(text))

    def _row(self, text: str) -> tuple[list[int], list[int], tuple[float, ...]]:
        """(tokens, 1 where they are read, weights), all of the full length."""
        own = self._tokenizer
        chunks = self._split.chunks(text)
        chunk = chunks[self._index] if self._index is not None and self._index < len(chunks) else Chunk((), ())
        ids = [own.bos_token_id, *chunk.ids, own.eos_token_id]
        rest = own.model_max_length - len(ids)
        return [*ids, *[own.pad_token_id] * rest], [1] * len(ids) + [0] * rest, (1.0, *chunk.weights, *[1.0] * (rest + 1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def split_text(
    tokenizer: Any, text: str, learned: Mapping[str, Sequence[int]] = NO_TOKENS, rules: Rules = OWN
) -> tuple[Chunk, ...]:
    """The chunks of a prompt as a CLIP tokenizer reads it. learned: words that stand for other tokens than its own."""

    def tokens(part: str) -> list[int]:
        return tokenizer(part, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]

    comma, room = tokenizer.convert_tokens_to_ids(COMMA), tokenizer.model_max_length - 2
    return split_by(text, rules, with_words(tokens, learned, rules), comma, room, inner(learned))


def _tokenizers(pipe: Any) -> dict[str, Any]:
    """CLIP's tokenizers by name."""
    found = {name: getattr(pipe, name, None) for name, _ in _PAIRS}
    return {name: tokenizer for name, tokenizer in found.items() if isinstance(tokenizer, CLIPTokenizer)}


def clip_encoders(pipe: Any) -> dict[str, Any]:
    """Text encoders of CLIP whose prompts are read in chunks, by name."""
    found = _tokenizers(pipe) if takes_weights(pipe) else {}
    return {encoder: getattr(pipe, encoder) for name, encoder in _PAIRS if name in found}


def by_tokenizer(learned: Callable[[str], Mapping[str, Sequence[int]]]) -> Learned:
    """What `encode` takes. learned: gives the words of a text encoder."""
    return {name: learned(encoder) for name, encoder in _PAIRS}


def _chunks(readers: Mapping[str, Split], texts: Iterable[str]) -> int:
    """The most that one of the texts takes."""
    return max((len(split.chunks(text)) for text in texts for split in readers.values()), default=1)


class _Readers(NamedTuple):
    """What stands in the place of a pipeline's tokenizers. whole: of T5 in ComfyUI's syntax."""

    chunks: list[_Reader]
    whole: WholeReader | None


@contextmanager
def _reading(
    pipe: Any, splits: Mapping[str, Split], texts: Sequence[str], index: int | None, rules: Rules
) -> Generator[_Readers]:
    """Have the pipeline's tokenizers read one chunk inside the block. texts: all of them; index: None for an empty prompt."""
    own, t5 = _tokenizers(pipe), t5_tokenizer(pipe)
    widths = {name: getattr(pipe, encoder).config.hidden_size for name, encoder in _PAIRS if name in own}
    readers: dict[str, Any] = {name: _Reader(tokenizer, splits[name], index, widths[name]) for name, tokenizer in own.items()}
    before, chunks, whole = dict(own), [*readers.values()], None
    if t5 is not None:
        before[t5] = getattr(pipe, t5)
        if rules.syntax is Syntax.COMFYUI:
            readers[t5] = whole = WholeReader(t5, before[t5], texts, rules, empty=index is None)
        else:
            readers[t5] = PlainReader(before[t5], rules)
    vars(pipe).update(readers)
    try:
        yield _Readers(chunks, whole)
    finally:
        vars(pipe).update(before)
