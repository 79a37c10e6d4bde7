"""LoRA files: recognised from their headers, found in the folders of the settings, named in a prompt as A1111 names them.

The factors of layers that are more than a product of two matrices are recognised by their names in LyCORIS, which peft uses too:
https://github.com/KohakuBlueleaf/LyCORIS.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import LORA_RANGE
from halftone.contract.parameters import check_range
from halftone.contract.request import Lora, add_on_name
from halftone.contract.wording import Words, both
from halftone.library.add_ons.named_files import reading, refuse_folder
from halftone.library.add_ons.unusable_files import instead
from halftone.library.families.recognise import recognise
from halftone.library.files.header import file_stamp, read_header
from halftone.library.index.known import listed_models
from halftone.library.prompts.wildcards import Span, drawn_spans
from halftone.settings.disk import no_right
from halftone.settings.store import Settings

LORA: Final = "LoRA"
"""The family that such a file is listed under."""
_TAG: Final = re.compile(r"(?<!\s)\s*<(?:lora|lyco):([^:<>]+)(?::([^:<>]*))?(?::([^<>]*))?>", re.IGNORECASE)
"""With the spaces before it, from the first of them: a long run of them is walked through once."""
_MOST_WEIGHTS: Final = 2
"""The third one of A1111 cuts the rank."""
_SHOWN: Final = 8
"""Names and folders that an error lists."""


def lora_key(loras: Iterable[Lora]) -> str:
    """Changes with the LoRAs, their weights, and when one of the files is rewritten; "" without any."""
    return "\0".join(f"{lora.path}\n{':'.join(map(repr, lora.weights))}\n{file_stamp(lora.path)}" for lora in loras)


def check_loras(loras: Iterable[Lora]) -> None:
    """Raise HalftoneError for a LoRA that no model can use, from headers alone: value-out-of-range, lora-missing,
    lora-not-a-lora, lora-kind, model-truncated, model-bad-header or model-pickle.
    """
    for lora in loras:
        for weight in lora.weights:
            check_range(Words("The weight of the LoRA {0}", (lora.name,)), weight, LORA_RANGE)
        _check_file(Path(lora.path))


def _check_file(path: Path) -> None:
    with reading(str(path), "lora-missing", "lora-not-a-lora"):
        refuse_folder(str(path), "lora-not-a-lora")
        try:
            header = read_header(path)
        except PermissionError as error:
            raise no_right(error, path) from error
    found = recognise(header, path.stem)
    if found.kind != LORA:
        raise HalftoneError("lora-not-a-lora", path=str(path), detail=instead(found, LORA))
    if found.lora is not None and found.lora.kind in FOREIGN:
        raise HalftoneError("lora-kind", name=path.stem, kind=found.lora.kind, known=UNDERSTOOD)


def known_loras(folders: Iterable[str]) -> dict[str, str]:
    """Name -> path of every LoRA below the folders, and alias -> path where only one has it."""
    return loras_among(listed_models(folders))


def loras_among(found: Sequence[ModelFacts]) -> dict[str, str]:
    """The same, of models that were found."""
    loras = [facts for facts in reversed(found) if facts.family == LORA]
    names = {facts.name: facts.path for facts in loras}
    count = Counter(facts.alias for facts in loras)
    aliases = {facts.alias: facts.path for facts in loras if facts.alias and count[facts.alias] == 1}
    return names | {alias: path for alias, path in aliases.items() if alias not in names}


def own_names(known: Mapping[str, str]) -> dict[str, str]:
    """Those of `known_loras` that are names of files, so that each is listed once."""
    return {name: path for name, path in known.items() if name == add_on_name(path)}


def has_tags(prompt: str) -> bool:
    """Whether a prompt names LoRAs as A1111 does: `<lora:name:weight>`, or `<lyco:…>`, which means the same."""
    return _TAG.search(prompt) is not None


def lora_folders(settings: Settings) -> tuple[str, ...]:
    """Where LoRAs are looked for: their own folders, then those of the models."""
    return tuple(dict.fromkeys((*settings.lora_folders, *settings.model_folders)))


def without_tags(prompt: str) -> str:
    """The prompt without the LoRAs that it names."""
    return _TAG.sub(_spaces_left, prompt).strip() if has_tags(prompt) else prompt


def _spaces_left(tag: re.Match[str]) -> str:
    """Return the spaces before a tag where A1111's prompt without it would be read as other tokens: ", ," is two, ",," is one."""
    spaces = tag[0][: tag[0].index("<")]
    before, after = tag.string[: tag.start()][-1:], tag.string[tag.end() :][:1]
    return spaces if after.strip() and before.isalnum() == after.isalnum() else ""


def take_tags(
    prompt: str, known: Mapping[str, str], folders: Sequence[str], *, draws: bool = False
) -> tuple[str, tuple[Lora, ...]]:
    """(the prompt without the LoRAs that it names, these). known: name -> path, of those in `folders`; draws: LoRAs in `{a|b}` or
    with a wildcard in them stay, as only the draw tells which of them a picture has.

    Raises HalftoneError lora-unknown, lora-none-found, lora-no-folder, and setting-bad-value for a weight that is no number.
    """
    spans = drawn_spans(prompt) if draws else ()
    taken = [match for match in _TAG.finditer(prompt) if not _is_drawn(match, spans, known)]
    loras = tuple(_named(match[1].strip(), match[2], match[3], known, folders) for match in taken)
    rest = prompt
    for match in reversed(taken):
        rest = rest[: match.start()] + _spaces_left(match) + rest[match.end() :]
    return (rest.strip() if taken else prompt), loras


def sort_tags(prompt: str, known: Mapping[str, str]) -> tuple[str, tuple[Lora, ...], tuple[str, ...]]:
    """(the prompt without the LoRAs that it names, those that are known, the tags of the others)."""
    loras: list[Lora] = []
    left: list[str] = []
    for match in _TAG.finditer(prompt):
        try:
            loras.append(_named(match[1].strip(), match[2], match[3], known, ()))
        except HalftoneError:
            left.append(match[0].strip())
    return without_tags(prompt), tuple(loras), tuple(left)


def _is_drawn(tag: re.Match[str], spans: Iterable[Span], known: Mapping[str, str]) -> bool:
    """Names with two underscores at both ends of a word are written like wildcards."""
    start, end = tag.start(1), tag.end()
    over = [span for span in spans if span.start < end and start < span.end]
    return any(span.is_choice for span in over) or (bool(over) and tag[1].strip() not in known)


def _named(name: str, weight: str | None, more: str | None, known: Mapping[str, str], folders: Sequence[str]) -> Lora:
    alike = {other.casefold(): path for other, path in known.items()}
    path = known.get(name) or alike.get(name.casefold())
    if path is None:
        raise _unknown(name, known, folders)
    parts = [weight or "", *more.split(":")] if more else [weight] if weight else []
    return weighted(Lora(path=path), name, parts)


def weighted(lora: Lora, name: str, parts: Sequence[str]) -> Lora:
    """The LoRA with the weights of a tag, as A1111 reads them: `0.8`, `0.6:0.8` (text encoder, then the rest), `te=0.6:unet=0.8`.

    Raises HalftoneError setting-bad-value. Source: extensions-builtin/Lora/extra_networks_lora.py.
    """
    named = dict(part.split("=", 1) for part in parts if "=" in part)
    placed = [part for part in parts if "=" not in part]
    if len(placed) > _MOST_WEIGHTS or named.keys() - {"te", "unet"}:
        allowed = Words("one weight, or one for the text encoder and one for the rest, such as 0.6:0.8")
        setting = Words("The weight of the LoRA {0}", (name,))
        raise HalftoneError("setting-bad-value", name=setting, value=":".join(parts), allowed=allowed)
    encoder = weight_of(name, named.get("te") or (placed[0] if placed else "1"))
    rest = weight_of(name, named["unet"]) if named.get("unet") else weight_of(name, placed[1]) if placed[1:] else encoder
    return msgspec.structs.replace(lora, weight=rest, encoder_weight=None if encoder == rest else encoder)


def weight_of(name: str, text: str) -> float:
    """The weight of a LoRA as a number. Raises HalftoneError setting-bad-value."""
    try:
        return float(text)
    except ValueError as error:
        setting, allowed = Words("The weight of the LoRA {0}", (name,)), Words("a number, such as 0.8")
        raise HalftoneError("setting-bad-value", name=setting, value=text, allowed=allowed) from error


def _unknown(name: str, known: Mapping[str, str], folders: Sequence[str]) -> HalftoneError:
    if not folders:
        return HalftoneError("lora-no-folder", name=name)
    where = _some(folders)
    if not known:
        return HalftoneError("lora-none-found", name=name, folders=where)
    return HalftoneError("lora-unknown", name=name, folders=where, found=_some(_nearest(name, known)))


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    """All of them, those first that are spelled nearly alike, the rest by the alphabet."""
    folded = {other.casefold(): other for other in sorted(known, key=str.casefold)}
    near = [folded[other] for other in get_close_matches(name.casefold(), folded, n=_SHOWN)]
    return [*near, *(other for other in folded.values() if other not in near)]


def _some(names: Sequence[str]) -> Words | tuple[str, ...]:
    """The first of them, for a sentence."""
    more = len(names) - _SHOWN
    return Words("{0} and {1} more", (tuple(names[:_SHOWN]), more)) if more > 0 else tuple(names)


UNDERSTOOD: Final = both("LoRA", "LoCon", "LoHa", "LoKr", "OFT", "BOFT", "GLoRA", "IA3", "DoRA", Words("full weight differences"))
FOREIGN: Final = frozenset({"OFT (old peft)", "BOFT (peft)", "VeRA"})
"""Kinds that are recognised, but not used."""
_SPELLED: Final = {"A": "lora_down", "down": "lora_down", "B": "lora_up", "up": "lora_up", "mid": "lora_mid", "lora_B": "up_bias"}
_PLAIN: Final = frozenset({"lora_down", "lora_up", "alpha"})
"""Factors of files that diffusers reads."""
_ORIGINAL: Final = re.compile(r"lora_unet_(?:input_blocks|middle_block|output_blocks)_")
_END: Final = re.compile(
    r"(?:(?:\.lora[._]|_lora\.|(?<=_lora[12])\.|\.lora_linear_layer\.)(down|up|mid|A|B)(?:\.(?!bias|\d)[^.]+)??(?:\.weight)?|"
    r"\.(lora_B)(?:\.[^.]+)??\.bias|"
    r"\.(lora_magnitude_vector)(?:\.[^.]+)??(?:\.weight)?|"
    r"\.(oft_R)(?:\.[^.]+)??\.weight|\.oft_R\.(scaled_oft)|\.(ia3_l)(?:\.[^.]+)?|\.([ab][12])\.weight|"
    r"\.(hada_[wt][12](?:_[ab])?|lokr_(?:w[12](?:_[ab])?|t2)|oft_blocks|oft_diag|rescale|diff|diff_b|set_weight|w_norm|b_norm|"
    r"on_input|alpha|dora_scale|weight))$"
)


def layers_of(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Path of a layer -> factor -> name of its tensor; factors as kohya and LyCORIS call them."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _END.search(name):
            end = match[match.lastindex or 0]
            found.setdefault(name[: match.start()], {}).setdefault(_SPELLED.get(end, end), name)
    return {path: factors for path, factors in found.items() if factors.keys() - {"weight"}}


def is_plain(names: Iterable[str]) -> bool:
    """Whether it is a LoRA, and nothing else, that diffusers reads; of those with the original names of a UNet only some."""
    layers = layers_of(names)
    return not any(factors.keys() - _PLAIN or _ORIGINAL.match(path) for path, factors in layers.items())
