"""The folder of pictures for a LoRA, read before the start: captions, problems and shapes."""

import math
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig, TrainPicture
from halftone.library.families import known_families as of
from halftone.library.families.known_families import reads_in_chunks
from halftone.library.prompts.tokens import make_plain_counter, reading_length
from halftone.settings.picture_files import opened_picture, turned
from halftone.settings.regular_files import read_regular

if TYPE_CHECKING:
    from PIL import Image

ENDINGS: Final = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".heic", ".heif")
"""Also of unreadable kinds: an unused picture is reported."""
_CAPTIONS: Final = (".txt", ".caption")
"""Endings of captions; the first that is there counts."""
_LONGEST_CAPTION: Final = 1_000_000
"""Bytes of a caption that are read."""
_RATIOS: Final = (1.0, 4 / 3, 3 / 4, 16 / 9, 9 / 16, 3 / 2, 2 / 3, 2.0, 1 / 2, 5 / 4, 4 / 5)
"""Width over height of the shapes, in the order of their use."""
_LEAST: Final = 8
"""Pixels; every edge is a multiple of it."""
_SMALLEST: Final = 4
"""The largest factor by which a picture may be enlarged."""
_STEPS: Final = {of.SD3.name: 16, of.FLUX.name: 16, of.SANA.name: 32}
"""Pixels of one patch of the denoiser. Of the others, whose networks halve what they get several times: 64."""
_UNIFORM: Final = 8
"""Levels of 255 by which an all white or all black picture may differ."""

Size = tuple[int, int]
"""(width, height)."""


@dataclass(frozen=True)
class Shapes:
    """Shapes of the training. edge: of a square; step: pixels that every edge is a multiple of."""

    edge: int
    step: int
    count: int

    def all(self) -> tuple[Size, ...]:
        """Of about the same area, the square first."""

        def stepped(edge: float) -> int:
            return max(self.step, round(edge / self.step) * self.step)

        roots = (math.sqrt(ratio) for ratio in _RATIOS[: max(1, self.count)])
        return tuple(dict.fromkeys((stepped(self.edge * root), stepped(self.edge / root)) for root in roots))

    def nearest(self, own: Size) -> Size:
        """The one that cuts off least of a picture."""
        ratio = math.log(own[0] / own[1])
        return min(self.all(), key=lambda size: abs(math.log(size[0] / size[1]) - ratio))


def shapes_for(config: TrainConfig, model: ModelFacts) -> Shapes:
    """Of a training on this model."""
    native = min(model.native_width, model.native_height)
    step = max(_LEAST, min(_STEPS.get(model.family, 64), native // 8))
    return Shapes(config.size or native, step, config.shapes)


@dataclass(frozen=True)
class Reading:
    """How much of a caption a model reads. count: tokens of a text; room: tokens that it reads."""

    count: Callable[[str], int]
    room: int


def reading_of(model: ModelFacts) -> Reading | None:
    """None where all of a caption is read, or where that is not known."""
    count = make_plain_counter(model) if reads_in_chunks(model.family) else None
    return None if count is None else Reading(count, reading_length(model))


def read_pictures(config: TrainConfig, shapes: Shapes, reading: Reading | None = None) -> tuple[TrainPicture, ...]:
    """All pictures of the folder by name, but the left-out ones, with their problems and notes. Raises HalftoneError
    train-no-folder, train-no-pictures or train-pictures-inside.
    """
    folder = check_folder(config.pictures)
    found = tuple(_read(folder / name, shapes) for name in sorted(_names_in(folder)) if name not in config.left_out)
    if not found:
        raise HalftoneError("train-no-pictures", folder=str(folder))
    return found if reading is None else tuple(_with_length(picture, config.word, reading) for picture in found)


def check_folder(pictures: str) -> Path:
    """The folder, if it holds any. Raises HalftoneError train-no-folder, train-no-pictures or train-pictures-inside."""
    folder = Path(pictures).expanduser()
    if not os.path.isdir(folder):
        raise HalftoneError("train-no-folder", folder=str(folder))
    if any(_names_in(folder)):
        return folder
    inside = next((path.name for path in sorted(folder.iterdir()) if os.path.isdir(path) and any(_names_in(path))), None)
    if inside is not None:
        raise HalftoneError("train-pictures-inside", folder=str(folder), inside=inside)
    raise HalftoneError("train-no-pictures", folder=str(folder))


def _names_in(folder: Path) -> Iterator[str]:
    """Names of its pictures, without hidden files (a Mac puts one beside each picture)."""
    for path in folder.iterdir():
        if path.suffix.lower() in ENDINGS and not path.name.startswith(".") and os.path.isfile(path):
            yield path.name


def usable(folder: str, pictures: Iterable[TrainPicture]) -> tuple[TrainPicture, ...]:
    """Those without a problem. Raises HalftoneError train-none-readable."""
    read = tuple(pictures)
    found = tuple(picture for picture in read if not picture.problem)
    if not found:
        raise HalftoneError("train-none-readable", folder=folder, name=next((picture.name for picture in read), ""))
    return found


def caption_of(picture: TrainPicture, word: str) -> str:
    """The model's caption: the word, then the picture's."""
    return ", ".join(part for part in (word.strip(), picture.caption.strip()) if part)


def brought_to(path: Path, shape: Size, *, flip: bool = False) -> "Image.Image":
    """The picture in RGB, turned as its camera noted, on white, filling the shape, cut at both sides. Raises image-unreadable."""
    from PIL import Image, ImageOps

    picture = _on_white(str(path))
    fitted = ImageOps.fit(picture, shape, Image.Resampling.LANCZOS)
    return ImageOps.mirror(fitted) if flip else fitted


def _read(path: Path, shapes: Shapes) -> TrainPicture:
    beside = (path.with_suffix(ending) for ending in _CAPTIONS)
    caption, note = _caption(next((one for one in beside if os.path.exists(one)), path.with_suffix(_CAPTIONS[0])))
    made = partial(TrainPicture, name=path.name, caption=caption)
    try:
        picture = _on_white(str(path))
    except HalftoneError:
        return made(problem="unreadable")
    width, height = picture.size
    shape = shapes.nearest(picture.size)
    enlarged = max(shape[0] / width, shape[1] / height)
    problem = "too-small" if enlarged > _SMALLEST else ""
    note = _uniform(picture) or note or ("small" if enlarged > 1 else "")  # what matters most
    return made(width=width, height=height, shape=shape, problem=problem, note=note)


def _with_length(picture: TrainPicture, word: str, reading: Reading) -> TrainPicture:
    """Note that only the beginning of its caption is read, where no other note is more important."""
    if picture.note not in ("", "small") or reading.count(caption_of(picture, word)) <= reading.room:
        return picture
    return msgspec.structs.replace(picture, note="caption-long")


def _caption(path: Path) -> tuple[str, str]:
    """(caption in one line, note)."""
    try:
        raw = read_regular(path, _LONGEST_CAPTION)
        text = " ".join(raw.decode("utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig").split())
    except FileNotFoundError:
        return "", "no-caption"
    except (OSError, UnicodeDecodeError):
        return "", "caption-unreadable"
    return text, "" if text else "no-caption"


def _on_white(path: str) -> "Image.Image":
    """Raises image-unreadable, picture-too-large."""
    from PIL import Image

    with opened_picture(path) as opened:
        clear, shown = opened.has_transparency_data, turned(opened)
        if not clear:
            return shown.convert("RGB")
        whole = Image.new("RGBA", shown.size, "white")
        return Image.alpha_composite(whole, shown.convert("RGBA")).convert("RGB")


def _uniform(picture: "Image.Image") -> str:
    bands: Sequence[tuple[int, int]] = [band.getextrema() for band in picture.split()]  # pyright: ignore[reportAssignmentType]
    if min(low for low, _ in bands) >= 255 - _UNIFORM:
        return "white"
    return "black" if max(high for _, high in bands) <= _UNIFORM else ""


def left_out(picture: TrainPicture, problem: str) -> TrainPicture:
    """The picture with the reason why it is not used."""
    return msgspec.structs.replace(picture, problem=problem)
