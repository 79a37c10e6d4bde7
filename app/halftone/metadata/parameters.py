"""The text that A1111 writes into pictures and most image programs read, made and parsed.

Three parts: the prompt, a "Negative prompt:" line if there is one, and one last line of "Key: value" pairs. A value is quoted
as JSON if it holds a comma, a colon or a newline.
"""

import json
import re
from pathlib import PurePath
from typing import Final

import msgspec

from halftone import __version__
from halftone.contract.facts import PictureFacts
from halftone.contract.plan import Plan
from halftone.contract.request import ResolvedRequest

NEGATIVE: Final = "Negative prompt:"
_PAIR: Final = re.compile(r'\s*(\w[\w \-/]+):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)')
_ENOUGH_PAIRS: Final = 3
"""A last line with fewer pairs is prompt text; A1111's own rule."""

_KARRAS: Final = " Karras"


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """fields: the pairs of the last line, in order, as text; Size stays one value ("512x768")."""

    prompt: str = ""
    negative: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def a1111_text(request: ResolvedRequest, picture: PictureFacts) -> str:
    """The parameters of one finished picture."""
    fields: dict[str, str | None] = {
        "Steps": str(picture.steps),
        "Sampler": request.sampler.removesuffix(_KARRAS),
        "Schedule type": _KARRAS.strip() if request.sampler.endswith(_KARRAS) else None,
        "CFG scale": f"{request.guidance:g}",
        "Seed": str(picture.seed),
        "Size": f"{picture.width}x{picture.height}",
        "Model": model_name(request.model),
        "RNG": "CPU",
        "Precision": ", ".join(f"{name} {dtype}" for name, dtype in picture.dtypes.items()) or request.dtype,
        "Numerics": picture.state,
        "Cure": ", ".join(dict.fromkeys(event.cure for event in picture.events if event.cure)) or None,
        "Version": f"Halftone {__version__}",
    }
    return write_parameters(request.prompt, request.negative, {key: value for key, value in fields.items() if value is not None})


def write_parameters(prompt: str, negative: str, fields: dict[str, str]) -> str:
    """A1111's text. Lines are stripped, as its reader strips them."""
    lines = [_plain(prompt)]
    if stripped := _plain(negative):
        lines.append(f"{NEGATIVE} {stripped}")
    lines.append(", ".join(f"{key}: {_quoted(value)}" for key, value in fields.items()))
    return "\n".join(lines).strip()


def parse_parameters(text: str) -> Parameters:
    """Read A1111's text, as liberally as A1111 does; text without parameters is all prompt."""
    lines = text.strip().split("\n")
    fields = {match[1]: _unquoted(match[2]) for match in _PAIR.finditer(lines[-1]) if match[2]}
    if len(fields) < _ENOUGH_PAIRS:
        fields = {}
    else:
        lines = lines[:-1]
    prompt: list[str] = []
    negative: list[str] = []
    into = prompt
    for line in (line.strip() for line in lines):
        if into is prompt and line.startswith(NEGATIVE):
            into = negative
            into.append(line.removeprefix(NEGATIVE).strip())
        else:
            into.append(line)
    return Parameters(prompt="\n".join(prompt), negative="\n".join(negative), fields=fields)


def receipt_json(request: ResolvedRequest, picture: PictureFacts, plan: Plan) -> str:
    """Request, plan and numerics receipt of one picture as JSON; numbers are finite or null, and no folder names."""
    shown = msgspec.structs.replace(request, model=model_name(request.model))
    latents = PurePath(picture.latents).name if picture.latents else None
    receipt = msgspec.structs.replace(picture, path=PurePath(picture.path).name, latents=latents)
    content = {"schema": 1, "version": __version__, "request": shown, "plan": plan, "receipt": receipt}
    return msgspec.json.encode(content).decode()


def model_name(model: str) -> str:
    """The last part of a model's path without .safetensors; other programs show and match just this."""
    return PurePath(model.replace("\\", "/")).name.removesuffix(".safetensors") or model


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().split("\n"))


def _quoted(value: str) -> str:
    awkward = not value or value != value.strip() or value.startswith('"') or any(letter in value for letter in ",:\n\r")
    return json.dumps(value, ensure_ascii=False) if awkward else value


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value
    return value.strip()
