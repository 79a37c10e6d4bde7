"""Looks at a diffusers folder: is every part that model_index.json names there, whole, and of which size and type?"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.limits import SIZE_MULTIPLE
from halftone.contract.wording import Words
from halftone.library.files.header import Header, TensorInfo, read_header, refuse_misnamed
from halftone.settings.regular_files import read_json_bytes, read_once

INDEX: Final = "model_index.json"
_MAX_JSON: Final = 16 * 2**20
_SMALL_JSON: Final = 2**18
_PYTHONS_NUMBERS: Final = (b"Infinity", b"NaN")
"""Numbers of Python's json that JSON does not have: in the configuration of a DPM++ scheduler."""
_PLAIN_PARTS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "tokenizer": (
        ("tokenizer.json",),
        ("vocab.json", "merges.txt"),
        ("spiece.model",),
        ("tokenizer.model",),
        ("sentencepiece.bpe.model",),
        ("vocab.txt",),
    ),
    "scheduler": (("scheduler_config.json",),),
    "guider": (("guider_config.json",),),
    "feature_extractor": (("preprocessor_config.json",),),
    "image_processor": (("preprocessor_config.json",), ("config.json",)),
    "processor": (("preprocessor_config.json",), ("processor_config.json",), ("tokenizer_config.json",)),
}
"""Parts without weights, by the end of their name: one of these sets of files must be there."""

_DTYPES: Final[dict[str, str]] = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
_SAFE: Final = ".safetensors"
_DIFFUSERS: Final = "diffusion_pytorch_model"
_TRANSFORMERS: Final = "model"
_PICKLES: Final = (".bin", ".ckpt", ".pt", ".pth", ".pkl")


class Part(msgspec.Struct, frozen=True):
    """One component: its weight files with their headers, in the order they are read. variant: "fp16" of model.fp16.safetensors,
    "" of the plain ones.
    """

    name: str
    config: dict[str, object]
    files: tuple[tuple[Path, Header], ...]
    variant: str = ""

    @property
    def tensors(self) -> list[TensorInfo]:
        return [tensor for _, header in self.files for tensor in header.tensors]


def read_json(path: Path) -> dict[str, object]:
    """A JSON object from an untrusted file; a small one is read once a version. Raises HalftoneError model-bad-header."""
    try:
        if (size := path.stat().st_size) > _MAX_JSON:
            raise HalftoneError("model-bad-header", path=str(path), detail=Words("it is too large"))
        data = read_once(path, bytes) if size <= _SMALL_JSON else read_json_bytes(path)
        if any(word in data for word in _PYTHONS_NUMBERS):
            return msgspec.convert(json.loads(data), dict[str, object])
        return msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise HalftoneError("model-bad-header", str(error), path=str(path), detail=Words("it is not valid JSON")) from error


def files_in(folder: Path) -> list[Path]:
    """The files right in a folder. Raises OSError where it cannot be listed."""
    return [folder / name for name in os.listdir(folder) if os.path.isfile(folder / name)]


def component_names(index: dict[str, object]) -> tuple[str, ...]:
    """The components in model_index.json ([null, null]: left out), without the safety checker: it is never loaded."""
    named: list[str] = []
    for name, value in index.items():
        if name.startswith("_") or name == "safety_checker" or not isinstance(value, list) or len(value) != 2:
            continue
        if all(isinstance(item, str) for item in value):
            named.append(name)
    return tuple(named)


def read_part(root: Path, name: str) -> Part:
    """One component of the folder. Raises HalftoneError model-incomplete, model-pickle or what a header raises."""
    folder = root / name
    if os.sep in name or name in {".", ".."} or not os.path.isdir(folder):
        raise _missing(root, Words("folder {0}", (name,)))
    for kind, choices in _PLAIN_PARTS.items():
        if name.rstrip("0123456789_").endswith(kind):
            own = folder / "tokenizer_config.json"  # a tokenizer of bytes has no vocabulary
            of_bytes = os.path.isfile(own) and read_json(own).get("tokenizer_class") == "ByT5Tokenizer"
            if not of_bytes and not any(all(os.path.isfile(folder / file) for file in files) for files in choices):
                raise _missing(root, f"{name}/{choices[0][0]}")
            config = folder / f"{kind}_config.json"
            return Part(name, read_json(config) if os.path.isfile(config) else {}, ())
    config = folder / "config.json"
    if not os.path.isfile(config):
        raise _missing(root, f"{name}/config.json")
    content = read_json(config)
    variant, files = _weights(root, name, content)
    return Part(name, content, tuple(files), variant)


def _weights(root: Path, name: str, config: Mapping[str, object]) -> tuple[str, list[tuple[Path, Header]]]:
    """(variant, weight files) of a component, by the names that its library reads: plain ones before a variant such as fp16, a
    divided set by its index. Other files are never opened.
    """
    folder = root / name
    files = sorted(file.name for file in files_in(folder))
    stem = _stem(config, files)
    found = ((file, variant) for file in files if (variant := _variant(file, stem)) is not None)
    # diffusers prefers an index to a whole file, transformers the file
    ranked = sorted((variant, file.endswith(_SAFE) is (stem == _DIFFUSERS), file) for file, variant in found)
    if ranked:
        variant, _, file = ranked[0]
        return variant, [(folder / file, read_header(folder / file))] if file.endswith(_SAFE) else _shards(root, name, file)
    pickles = [file for file in files if file.endswith(_PICKLES)]
    if pickles:
        refuse_misnamed(folder / pickles[0])
        raise HalftoneError("model-pickle", path=str(folder / pickles[0]))
    raise _missing(root, Words("weights of {0} (a .safetensors file)", (name,)))


def _stem(config: Mapping[str, object], files: Iterable[str]) -> str:
    """The beginning of the weight files' names in the library of a part's class."""
    if "_class_name" in config or "_diffusers_version" in config:
        return _DIFFUSERS
    has_type = "model_type" in config or "architectures" in config
    return _DIFFUSERS if not has_type and any(_variant(file, _DIFFUSERS) is not None for file in files) else _TRANSFORMERS


def _variant(file: str, stem: str) -> str | None:
    """ "" for model.safetensors and its index, "fp16" for model.fp16.safetensors, None for shards and other files."""
    if file.startswith(f"{stem}{_SAFE}.index.") and file.endswith(".json"):
        return file.removeprefix(f"{stem}{_SAFE}.index").removesuffix(".json").removeprefix(".")
    if not file.startswith(f"{stem}.") or not file.endswith(_SAFE) or "-of-" in file:
        return None
    return file.removeprefix(stem).removesuffix(_SAFE).removeprefix(".")


def _shards(root: Path, name: str, index: str) -> list[tuple[Path, Header]]:
    """Every shard must be there and hold the tensors that the index promises."""
    weight_map = read_json(root / name / index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(file, str) for file in weight_map.values()):
        raise HalftoneError("model-bad-header", path=str(root / name / index), detail=Words("it has no weight_map"))
    promised: dict[str, set[str]] = {}
    for tensor, file in weight_map.items():
        promised.setdefault(str(file), set()).add(str(tensor))
    shards: list[tuple[Path, Header]] = []
    for file, tensors in sorted(promised.items()):
        path = root / name / file
        if path.parent != root / name or not os.path.isfile(path):
            raise _missing(root, f"{name}/{file}")
        if path.suffix != _SAFE:
            refuse_misnamed(path)
            raise HalftoneError("model-pickle", path=str(path))
        header = read_header(path)
        if lost := tensors - {tensor.name for tensor in header.tensors}:
            raise _missing(root, Words("tensor {0} in {1}", (min(lost), f"{name}/{file}")))
        shards.append((path, header))
    return shards


def stored_dtype(tensors: list[TensorInfo]) -> str:
    """The type that most bytes are stored in, spelled as in torch where there is a common name."""
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.dtype] += tensor.end - tensor.start
    if not sizes:
        return "none"
    name = sizes.most_common(1)[0][0]
    return _DTYPES.get(name, "float8" if name.startswith("F8") else name.lower())


def native_edges(parts: dict[str, Part], fallback: int) -> tuple[int, int]:
    """(width, height) in pixels: the denoiser's sample_size times what the VAE scales by, else `fallback`."""
    denoiser = parts.get("unet") or parts.get("transformer")
    scale = _vae_scale(parts.get("vae"))
    size = denoiser.config.get("sample_size") if denoiser else None
    if isinstance(size, int) and 0 < size * scale <= 16384:
        return _whole(size * scale), _whole(size * scale)
    if isinstance(size, list) and len(size) == 2 and all(isinstance(edge, int) and 0 < edge <= 4096 for edge in size):
        height, width = (int(str(edge)) for edge in size)
        return _whole(width * scale), _whole(height * scale)
    return fallback, fallback


def _whole(edge: int) -> int:
    """The edge, rounded up to what any size must be a multiple of."""
    return -(-edge // SIZE_MULTIPLE) * SIZE_MULTIPLE


def _vae_scale(vae: Part | None) -> int:
    """Pixels per latent: each level of the VAE but the last halves the picture."""
    config = vae.config if vae else {}
    levels = config.get("block_out_channels") or config.get("encoder_block_out_channels")
    return 2 ** (len(levels) - 1) if isinstance(levels, list) and 0 < len(levels) <= 8 else 8


def _missing(root: Path, part: Words | str) -> HalftoneError:
    return HalftoneError("model-incomplete", path=str(root), missing=part)
