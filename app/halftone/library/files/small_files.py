"""Small files that models in one file lack and Halftone does not include (T5's tokenizer): which a model needs, where they are
published, whether they are here, and taking a user's own. Nothing is fetched.
"""

from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Literal

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words
from halftone.library.families.known_families import FLUX, FLUX2, HUNYUAN_VIDEO, QWEN_IMAGE, SD3, WAN, Z_IMAGE, parts_of
from halftone.settings.atomic import write_atomically
from halftone.settings.disk import size_text, system_words
from halftone.settings.places import small_files_dir
from halftone.settings.regular_files import read_regular


class SmallFile(msgspec.Struct, frozen=True, kw_only=True):
    """A tokenizer. repository, path: on the hub; size: bytes there, as published; folder: in Halftone's data. kind: of its words;
    words: (least, most) of them; first: its first ones; marks: some that it has anywhere.
    """

    repository: str
    path: str
    size: int
    folder: str
    kind: str
    words: tuple[int, int]
    first: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        """Where the file is here."""
        return small_files_dir() / self.folder / Path(self.path).name


_PIECES: Final = partial(SmallFile, kind="Unigram", first=("<pad>", "</s>", "<unk>"))
"""Of SentencePiece, as the T5s have them."""
T5: Final = _PIECES(repository="google-t5/t5-base", path="tokenizer.json", size=1_389_353, folder="t5", words=(32_000, 32_128))
"""The same for every T5 of 32 128 words, as T5-XXL. The repositories of FLUX.1 and Stable Diffusion 3.5 have it too, but only for
those who accepted their terms.
Its extra ids may be among its words. Other tokenizers of as many words, as XLNet's, begin otherwise.
"""
UMT5: Final = _PIECES(
    repository="Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
    path="tokenizer/tokenizer.json",
    size=16_837_417,
    folder="umt5",
    words=(256_000, 256_384),
)
LLAMA3: Final = SmallFile(
    repository="hunyuanvideo-community/HunyuanVideo",
    path="tokenizer/tokenizer.json",
    size=9_085_980,
    folder="llama3",
    kind="BPE",
    words=(128_256, 128_320),
    marks=("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<pad>"),
)
_QWEN: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN25: Final = SmallFile(
    repository="Qwen/Qwen2.5-VL-7B-Instruct",
    path="tokenizer.json",
    size=7_031_645,
    folder="qwen2.5",
    kind="BPE",
    words=(151_643, 151_936),
    marks=_QWEN,
)
QWEN3: Final = SmallFile(
    repository="Qwen/Qwen3-4B",
    path="tokenizer.json",
    size=11_422_654,
    folder="qwen3",
    kind="BPE",
    words=(151_643, 151_936),
    marks=_QWEN,
)
MISTRAL: Final = SmallFile(
    repository="mistralai/Mistral-Small-3.1-24B-Instruct-2503",
    path="tokenizer.json",
    size=17_100_000,
    folder="mistral3",
    kind="BPE",
    words=(131_072, 131_072),
    first=("<unk>", "<s>", "</s>", "[INST]", "[/INST]"),
    marks=("<pad>", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
)
"""The one that FLUX.2's own folder was made with (diffusers' scripts/convert_flux2_to_diffusers.py). Its size is rounded."""
_NEEDED: Final[dict[str, dict[str, SmallFile]]] = {
    FLUX.name: {"tokenizer_2": T5},
    SD3.name: {"tokenizer_3": T5},
    FLUX2.name: {"tokenizer": MISTRAL},
    Z_IMAGE.name: {"tokenizer": QWEN3},
    QWEN_IMAGE.name: {"tokenizer": QWEN25},
    WAN.name: {"tokenizer": UMT5},
    HUNYUAN_VIDEO.name: {"tokenizer": LLAMA3},
}
"""Family -> component -> its file."""
LARGEST: Final = 64_000_000
"""Bytes of the largest file that is looked into: no tokenizer comes near."""

Unfit = Literal["damaged", "other"]
_UNFIT: Final[dict[Unfit, str]] = {
    "damaged": "it is cut off, or is not a tokenizer",
    "other": "it is the tokenizer of another model",
}


class _Model(msgspec.Struct):
    type: str = ""


class _Tokenizer(msgspec.Struct):
    model: _Model


def needed(facts: ModelFacts) -> tuple[SmallFile, ...]:
    """Small files that a run of a whole model in one file reads."""
    own = _own(facts) if facts.format == "single-file" and facts.pipeline else {}
    return tuple(dict.fromkeys(own[name] for name in facts.components if name in own))


def _own(facts: ModelFacts) -> dict[str, SmallFile]:
    """Component -> its file."""
    klein = facts.family == FLUX2.name and parts_of(facts.family, facts.base) != parts_of(facts.family, "")
    return {"tokenizer": QWEN3} if klein else _NEEDED.get(facts.family, {})


def tokenizer_file(facts: ModelFacts, component: str) -> SmallFile:
    """The file of a tokenizer of a whole model in one file."""
    return _own(facts)[component]


def lacking(facts: ModelFacts) -> tuple[SmallFile, ...]:
    """Those of them that are missing or damaged."""
    return tuple(file for file in needed(facts) if not _is_here(file))


def _is_here(file: SmallFile) -> bool:
    try:
        now = file.place.stat()
    except OSError:
        return False
    return _is_fit(file, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=8)
def _is_fit(file: SmallFile, _changed: int, size: int) -> bool:
    """Looked into once as long as the file is the same: models are listed often."""
    try:
        return size <= LARGEST and not unfit(read_regular(str(file.place)), file)
    except OSError:
        return False


def check_here(facts: ModelFacts) -> None:
    """Raise HalftoneError model-needs-files where some are missing; their folder is made."""
    if files := lacking(facts):
        with suppress(OSError):
            files[0].place.parent.mkdir(exist_ok=True)
        names = tuple(f"{file.repository}/{file.path} ({size_text(file.size)})" for file in files)
        raise HalftoneError("model-needs-files", path=facts.path, files=names, folder=str(files[0].place.parent))


def unfit(data: bytes, file: SmallFile) -> Unfit | None:
    """Why these bytes are not this tokenizer; None when they are."""
    try:
        kind = msgspec.json.decode(data, type=_Tokenizer).model.type
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return "damaged"
    if kind != file.kind:
        return "other"
    if (words := _read(data)) is None:
        return "damaged"
    least, most = file.words
    begins = all(words.get(mark) == index for index, mark in enumerate(file.first))
    return None if least <= len(words) <= most and begins and words.keys() >= {*file.marks} else "other"


def _read(data: bytes) -> dict[str, int] | None:
    """The words of a tokenizer that can read unknown letters, too; None where it fails."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(data)
        return tokenizer.get_vocab() if tokenizer.encode("a red sun ○").ids else None
    except Exception:  # noqa: BLE001 - all that the library raises
        return None


def take(file: SmallFile, source: str) -> Path:
    """Copy a user's own file to its place. Raises HalftoneError small-file-unfit; the user's file stays as it is."""
    try:
        data = read_regular(source) if Path(source).stat().st_size <= LARGEST else b""
        found = unfit(data, file)
        why = None if found is None else Words(_UNFIT[found])
        if why is None:
            file.place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file.place, data)
    except OSError as error:
        why = system_words(error)
    if why is not None:
        name = Path(file.path).name
        raise HalftoneError("small-file-unfit", path=source, file=name, detail=why, source=file.repository)
    return file.place
