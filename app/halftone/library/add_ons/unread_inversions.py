"""Embeddings that a prompt names and that the model does not read: each is refused or noted with its reason."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Lora
from halftone.contract.wording import Words
from halftone.library.add_ons.inversions import (
    bundled_inversions,
    encoder_widths,
    inversion_name,
    matched,
    names_any,
    read_or_none,
    small_files,
    spoken,
    unknown_names,
    why_not,
    without_names,
)
from halftone.library.families.known_families import reads_in_chunks
from halftone.library.files.header import refuse_misnamed
from halftone.library.index.tidying import folder_shelf
from halftone.library.prompts.comfyui_words import embedding_in
from halftone.library.prompts.prompt_syntax import Rules, Syntax

_PICKLES: Final = (".pt", ".bin")
"""Endings that embeddings of other programs have; A1111 and ComfyUI read both."""
_MAY_HOLD: Final = (None, "Embeddings")
"""Folders in which a pickle file may be an embedding: a word of the prompt that is called like a VAE names no embedding."""
_MARK: Final = "embedding:"
_MARKED: Final = re.compile(r"(?<![\w-])embedding:[^\s,|<>()\[\]]+", re.IGNORECASE)


def check_named(
    texts: Iterable[str],
    files: Iterable[str],
    loras: Iterable[Lora],
    model: ModelFacts,
    rules: Rules,
    folders: Iterable[str] = (),
) -> None:
    """Raise HalftoneError for the first of `missing_named`."""
    if (error := next(missing_named(texts, files, loras, model, rules, folders), None)) is not None:
        raise error


def missing_named(
    texts: Iterable[str],
    files: Iterable[str],
    loras: Iterable[Lora],
    model: ModelFacts,
    rules: Rules,
    folders: Iterable[str] = (),
) -> Iterator[HalftoneError]:
    """An error for each embedding that texts in ComfyUI's syntax name and that neither is among the files nor stands in a LoRA:
    inversion-unknown; inversion-other-base for a model that does not support it; model-pickle. folders: where one that cannot be
    used is looked for, to say so.
    """
    unknown, places = unknown_names(texts, map(inversion_name, files), rules), tuple(folders)
    bundled = _bundled(loras) if unknown else frozenset[str]()
    return (_why_missing(name, model, places) for name in unknown if name.casefold() not in bundled)


def _why_missing(name: str, model: ModelFacts, folders: tuple[str, ...]) -> HalftoneError:
    facts = {"name": name, "model": model.name, "family": model.family}
    if not reads_in_chunks(model.family):
        return HalftoneError("inversion-other-base", detail=why_not(None, ()), **facts)
    for path in small_files(folders):
        one = read_or_none(path) if inversion_name(path).casefold() == name.casefold() else None
        if one is not None:
            return HalftoneError("inversion-other-base", detail=why_not(one, encoder_widths(model)), **facts)
    for path in small_files(folders, _PICKLES):
        if inversion_name(path).casefold() == name.casefold():
            return _misnamed(path) or HalftoneError("model-pickle", path=path)
    return HalftoneError("inversion-unknown", name=name, model=model.name)


def _misnamed(path: str) -> HalftoneError | None:
    """The error of a file that is called a pickle and is none."""
    try:
        refuse_misnamed(Path(path))
    except HalftoneError as error:
        return error
    except OSError:
        return None
    return None


def _bundled(loras: Iterable[Lora]) -> frozenset[str]:
    return frozenset(name.casefold() for lora in loras for name in bundled_inversions(lora.path))


def unread_notes(
    texts: Iterable[str],
    files: Iterable[str],
    loras: Iterable[Lora],
    folders: Iterable[str],
    model: ModelFacts,
    rules: Rules,
) -> tuple[Words, ...]:
    """A sentence for each embedding that the texts name and that is read as words; none in ComfyUI's syntax, where `check_named`
    refuses it. files: those that the model reads.
    """
    if rules.syntax is Syntax.COMFYUI:
        return ()
    written = spoken(texts, rules)
    read = {inversion_name(path).casefold() for path in files} | _bundled(loras)
    places = tuple(folders) if reads_in_chunks(model.family) else ()
    found = {name.casefold(): words for name, words in _in_folders(written, read, places, model, rules)}
    return (*found.values(), *_unread_marks(written, {*read, *found}, rules))


def unread_marks(texts: Iterable[str], known: Iterable[str], rules: Rules) -> tuple[Words, ...]:
    """A sentence for each `embedding:` that is read as words in a syntax other than ComfyUI's. known: names of embeddings."""
    return () if rules.syntax is Syntax.COMFYUI else tuple(_unread_marks(spoken(texts, rules), known, rules))


def _unread_marks(written: str, known: Iterable[str], rules: Rules) -> Iterator[Words]:
    left = without_names(written, known) if rules.syntax is Syntax.HALFTONE else written
    for mark in dict.fromkeys(_MARKED.findall(left)):
        name = embedding_in(_MARK + mark[len(_MARK) :])
        if name is None:
            continue
        if rules.syntax is Syntax.A1111:
            yield Words("“{0}” is read as words, as in A1111. Write {1} alone, or choose ComfyUI's prompt syntax.", (mark, name))
        else:
            yield Words(
                "“{0}” is read as words: no embedding {1} for this model was found. Remove it, or add the embedding's folder in "
                "Settings, Folders.",
                (mark, name),
            )


def _in_folders(
    written: str, read: set[str], folders: tuple[str, ...], model: ModelFacts, rules: Rules
) -> Iterator[tuple[str, Words]]:
    """The names of files that the texts hold and the model does not read, each with the reason; the last of a name counts."""

    def named(endings: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for path in small_files(folders, endings):
            name = inversion_name(path)
            if name.casefold() not in read and names_any(written, (name,), rules):
                yield path, name

    for path, name in named(_PICKLES):
        if folder_shelf(path) not in _MAY_HOLD or _misnamed(path) is not None:
            continue
        yield (
            name,
            Words(
                "“{0}” is read as words: Halftone does not open {1}, a pickle file. If it is an embedding, convert it with "
                "“halftone convert” or on the Models page.",
                (name, path),
            ),
        )
    widths = encoder_widths(model) if folders else ()
    for path, name in named((".safetensors",)):
        one = read_or_none(path)
        if one is not None and not matched(one, widths):
            why = (name, model.name, why_not(one, widths))
            yield (
                name,
                Words("“{0}” is read as words: this embedding does not fit {1}: {2}. Use a model that it was trained for.", why),
            )
