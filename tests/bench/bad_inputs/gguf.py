"""GGUF files: bytes and counts changed by chance, and files that promise what they do not hold."""

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.bench.bad_inputs.case import Case, Use
from tests.bench.bad_inputs.models import MODEL, base, generate
from tests.helpers.gguf_files import gguf

from halftone.library.models import describe, runnable

_NUMBER: Final = 200
_FILE: Final = "model.gguf"
_TYPES: Final = ("F32", "F16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "BF16", "I64", "IQ2_XXS", "TQ1_0", "MXFP4", "Q8_1")
_ARCHITECTURES: Final = ("flux", "sd3", "sdxl", "sd1", "llama", "", "\x1b[31m", "wan", "clip", "t5encoder")
_NAMES: Final = (
    "double_blocks.0.img_attn.qkv.weight", "img_in.weight", "single_blocks.0.linear1.weight", "x_embedder.proj.weight",
    "joint_blocks.0.x_block.attn.qkv.weight", "token_embd.weight", "input_blocks.0.0.weight", "a", "guidance_in.in_layer.weight",
    "patch_embedding.weight", "\u202eright to left", "x" * 900,
)  # fmt: skip
_NUMBERS: Final = (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 10**9)


def cases(rng: random.Random) -> Iterator[Case]:
    """Described alone, and used as the transformer of a model of FLUX.1."""
    flux = base("FLUX.1 dev")
    for index in range(_NUMBER):
        name, content = _content(rng)
        uses: tuple[Use, ...] = (
            lambda folder: runnable(describe(str(folder / _FILE))),
            lambda folder: generate(folder / MODEL, flux.family, transformer=str(folder / _FILE)),
        )
        yield Case("gguf", f"{index}: {name}", flux.copied(_written(content)), uses)


def _written(content: bytes) -> Callable[[Path], object]:
    return lambda model: (model.parent / _FILE).write_bytes(content)


def _content(rng: random.Random) -> tuple[str, bytes]:
    names = rng.sample(_NAMES, rng.randrange(1, 6))
    shapes = {name: tuple(rng.choice((1, 32, 64, 256, 0)) for _ in range(rng.randrange(1, 4))) for name in names}
    types = {name: rng.choice(_TYPES) for name in names}
    tensors = {name: (types[name], (*shapes[name][:-1], 256)) for name in names}
    sound = gguf(tensors, {"general.architecture": rng.choice(_ARCHITECTURES), "general.name": "a\x07b" * 30})
    drawn = rng.random()
    if drawn < 0.25:
        return "no change", sound
    content = bytearray(sound)
    if drawn < 0.5:
        for _ in range(rng.randrange(1, 5)):
            content[rng.randrange(min(len(content), 400))] = rng.randrange(256)
        return "bytes changed", bytes(content)
    if drawn < 0.8:
        at, number = rng.choice((4, 8, 16, 24, 32)), rng.choice(_NUMBERS)
        content[at : at + 8] = struct.pack("<Q", number)
        return f"{number} at byte {at}", bytes(content)
    if drawn < 0.9:
        return "cut off", bytes(content[: rng.randrange(len(content))])
    return "of zeros from the middle", bytes(content[: len(content) // 2]) + bytes(len(content) // 2)
