"""Pictures of other programs, written as their own code writes them, with the settings that these were given.

`python -m tests.unit.metadata.samples`, or `pytest -rP tests/unit/metadata/test_samples.py`, prints how many settings are read
right, are missing and are false, for each program.
"""

import gzip
import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from halftone.contract.errors import HalftoneError
from halftone.library.samplers import sampler_called
from halftone.metadata.picture import EXIF_FOLDER, MAKER_NOTE, UNICODE, USER_COMMENT, exif_of
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import Parameters

SAMPLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "references" / "metadata_samples.json").read_text(encoding="utf-8")
)
FIELDS = (
    "Steps", "CFG scale", "Distilled CFG Scale", "CFG rescale", "Shift", "Seed", "Size", "Model", "VAE", "Clip skip",
    "Denoising strength", "Hires upscale", "Hires steps", "Hires upscaler", "Variation seed", "Variation seed strength",
    "Refiner", "Refiner switch at",
)  # fmt: skip
"""A1111's fields that a sample is asked for, besides the prompts, the sampler and the LoRAs."""
_NAMES = ("Model", "VAE", "Refiner")
_TAG = re.compile(r"\s*<lora:([^:<>]+):([^:<>]+)>")
_FILE = re.compile(r"\.(safetensors|ckpt|pt)$| \[\w+\]$")
_CAMERA = 0x0110
_EDGES = "8x8"
"""The size of the pictures that are written here, which no sample names."""


class Score(NamedTuple):
    """given: fields of the sample; right: those read as they were given; missing: those that are not said; false: those that
    were not given, or were given in another way.
    """

    given: tuple[str, ...]
    right: tuple[str, ...]
    missing: tuple[str, ...]
    false: tuple[str, ...]


def write(sample: dict[str, Any], folder: Path) -> Path:
    """Save the sample's picture, in the way of its program."""
    form, texts = sample["form"], sample["texts"]
    text = next((texts[key] for key in ("parameters", "text") if key in texts), "")
    image = Image.new("RGB", (8, 8))
    path = folder / f"picture.{form.rpartition('.')[2] if not form.startswith('beside') else 'png'}"
    exif = Image.Exif()
    match form:
        case "jpg" | "webp":
            image.save(path, exif=exif_of(text, ""))
        case "swarm.jpg":
            exif.get_ifd(EXIF_FOLDER)[USER_COMMENT] = UNICODE + text.encode("utf-16-le")
            image.save(path, exif=exif)
        case "fooocus.jpg":
            exif[USER_COMMENT], exif[MAKER_NOTE] = text, texts["fooocus_scheme"]
            image.save(path, exif=exif)
        case "comfy.webp":
            exif[_CAMERA] = f"prompt:{texts['prompt']}"
            image.save(path, exif=exif)
        case "alpha":
            path = folder / "picture.png"
            _hidden(json.dumps(texts)).save(path)
        case "png" | "novel.png":
            _png(path, texts)
        case _:
            image.save(path)
            path.with_suffix(form.removeprefix("beside")).write_text(text, encoding="utf-8")
    return path


def _png(path: Path, texts: dict[str, str]) -> None:
    chunks = PngInfo()
    for key, one in texts.items():
        chunks.add_itxt(key, one)
    Image.new("RGB", (8, 8)).save(path, pnginfo=chunks)


def _hidden(text: str) -> Image.Image:
    """The lowest bits of the alpha channel, column by column."""
    data = gzip.compress(text.encode())
    whole = b"stealth_pngcomp" + (len(data) * 8).to_bytes(4) + data
    bits = "".join(f"{byte:08b}" for byte in whole).ljust(128 * 128, "0")
    alpha = Image.frombytes("L", (128, 128), bytes(254 | int(bit) for bit in bits)).transpose(Image.Transpose.TRANSPOSE)
    image = Image.new("RGBA", (128, 128))
    image.putalpha(alpha)
    return image


def settings_of(said: Parameters) -> dict[str, Any]:
    """What Halftone makes of it: numbers as numbers, files without their endings, samplers by its own names."""
    fields = said.fields
    found: dict[str, Any] = {name: fields[name] for name in FIELDS if name in fields}
    found |= {name: _FILE.sub("", PurePath(found[name].replace("\\", "/")).name) for name in _NAMES if name in found}
    loras = {name: _number(weight) for name, weight in _TAG.findall(said.prompt)}
    method, schedule = fields.get("Sampler", ""), fields.get("Schedule type", "")
    sampler = sampler_called(f"{method} {schedule}") or f"{method} {schedule}".strip()
    named = {"prompt": _TAG.sub("", said.prompt).strip(), "negative": said.negative, "Sampler": sampler, "LoRAs": loras}
    return {name: _number(value) for name, value in {**found, **named}.items() if value or name in ("prompt", "negative")}


def score(sample: dict[str, Any], folder: Path) -> Score:
    try:
        found = settings_of(said_by(write(sample, folder)))
    except HalftoneError:
        found = {}
    if found.get("Size") == _EDGES and "Size" not in sample["expected"]:
        del found["Size"]  # of the picture itself, where its texts name none
    wanted = {name: _number(value) for name, value in sample["expected"].items()}
    right = tuple(name for name, value in wanted.items() if found.get(name) == value)
    return Score(
        tuple(wanted),
        right,
        tuple(name for name in wanted if name not in found),
        tuple(name for name in found if name not in right),
    )


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str | int | float) else value
    except ValueError:
        return value


def table(samples: Iterable[dict[str, Any]]) -> str:
    rows: dict[str, list[Score]] = {}
    lines: list[str] = []
    for sample in samples:
        with tempfile.TemporaryDirectory() as folder:
            one = score(sample, Path(folder))
        rows.setdefault(sample["program"], []).append(one)
        if one.missing or one.false:
            lines.append(f"  {sample['program']}, {sample['title']}: missing {one.missing}, false {one.false}")
    head = f"{'program':18}{'samples':>9}{'fields':>8}{'right':>7}{'missing':>9}{'false':>7}"
    all_of = [one for scores in rows.values() for one in scores]
    body = [_row(name, scores) for name, scores in (*rows.items(), ("all", all_of))]
    return "\n".join((head, *body, *lines))


def _row(name: str, scores: list[Score]) -> str:
    given, right, missing, false = (sum(len(one[place]) for one in scores) for place in range(4))
    return f"{name:18}{len(scores):9}{given:8}{right:7}{missing:9}{false:7}"


if __name__ == "__main__":
    print(table(SAMPLES))
