"""Image encoders of IP-Adapters: the folder `image_encoder` of the official repository, or one file, as ComfyUI keeps it in
`clip_vision`. Read from headers alone.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from halftone.contract.errors import HalftoneError
from halftone.library.families.original_names import Place
from halftone.library.families.single_configs import count_blocks
from halftone.library.files.folder import Part, read_json, read_part
from halftone.library.files.header import TensorInfo, file_version, read_header
from halftone.library.kinds.marks import Shapes

ENCODER: Final = "image_encoder"
"""The component, and the folder that holds it."""
_FOLDERS: Final = ("", "..", "../models", "../sdxl_models")
"""Where that folder may be, from the adapter's: as in the official repository."""
_FILES: Final = ("clip_vision", "../clip_vision", "../../clip_vision", "../ControlNetPreprocessor/clip_vision")
"""Where single files may be, from the adapter's folder: as in ComfyUI and Forge."""
_ENDINGS: Final = (".safetensors", ".sft")
_SOUNDS: Final = re.compile(r"clip|vit|vision|siglip|image.?encoder", re.IGNORECASE)
"""Names of encoders that lie in the adapter's folder."""
_PREFIX: Final = "vision_model."
"""Before most names, as files hold them; networks of newer transformers lack it."""
_HEADS: Final = 16
"""Of every published one: OpenCLIP's H and bigG, OpenAI's L and SigLIP."""
_SIGLIP: Final = "head.probe"
_OPENAI: Final = 1024
"""Width of OpenAI's encoder, whose activation is the quick one."""
_SIZES: Final = {(27, 14): 384}
"""(patches of an edge, pixels of a patch) -> pixels of an edge, where the last patch is cut off."""


def places(adapter: str) -> Iterator[Path]:
    """Folders, then files, that may hold the image encoder of an adapter's file."""
    home = Path(adapter).parent
    for place in _FOLDERS:
        if os.path.isfile(home / place / ENCODER / "config.json"):
            yield home / place / ENCODER
    for place in _FILES:
        for root, _, names in os.walk(home / place):
            yield from (Path(root, name) for name in sorted(names) if name.lower().endswith(_ENDINGS))
    for name in sorted(os.listdir(home)):
        if name.lower().endswith(_ENDINGS) and name != Path(adapter).name and _SOUNDS.search(name):
            yield home / name


def encoder_config(place: Path) -> Mapping[str, Any]:
    """The configuration of the encoder at this place; {} where there is none that can be read."""
    if os.path.isdir(place):
        return read_json(place / "config.json")
    try:
        return _file_config(place, file_version(place))
    except (HalftoneError, OSError):
        return {}


@lru_cache(maxsize=128)
def _file_config(file: Path, version: tuple[int, int, int]) -> Mapping[str, Any]:
    """version: of `file_version`, so that a rewritten file is read again."""
    del version
    try:
        return _of_shapes({tensor.name.removeprefix(_PREFIX): tensor.shape for tensor in read_header(file).tensors})
    except (KeyError, IndexError, ValueError):  # ValueError: a weight with fewer or more dimensions
        return {}


def _of_shapes(shapes: Shapes) -> dict[str, Any]:
    """The configuration of CLIPVisionModelWithProjection or SiglipVisionModel. Raises KeyError for another network."""
    width, _, patch, _ = shapes["embeddings.patch_embedding.weight"]
    siglip = _SIGLIP in shapes
    edge = math.isqrt(shapes["embeddings.position_embedding.weight"][0] - (not siglip))
    found: dict[str, Any] = {
        "model_type": "siglip_vision_model" if siglip else "clip_vision_model",
        "hidden_size": width,
        "intermediate_size": shapes["encoder.layers.0.mlp.fc1.weight"][0],
        "num_hidden_layers": count_blocks(shapes, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": _HEADS,
        "patch_size": patch,
        "image_size": _SIZES.get((edge, patch), edge * patch),
    }
    if siglip:
        return found
    act = "quick_gelu" if width == _OPENAI else "gelu"
    return found | {"hidden_act": act, "projection_dim": shapes["visual_projection.weight"][0]}


def encoder_part(place: Path) -> Part:
    """Its configuration and weights. Raises HalftoneError as `read_part` and `read_header`."""
    if os.path.isdir(place):
        return read_part(place.parent, place.name)
    return Part(ENCODER, cast("dict[str, object]", dict(encoder_config(place))), ((place, read_header(place)),))


def parameters(tensors: Iterable[TensorInfo]) -> dict[str, Place]:
    """Parameter -> its place in an encoder's file, under either name of it."""
    found = {tensor.name: Place(tensor.name) for tensor in tensors}
    return found | {name.removeprefix(_PREFIX): place for name, place in found.items()}
