"""Python code that loads a model with diffusers, whatever it is made of: a folder, one file, or parts in files of their own.

Sources: diffusers' loaders/single_file.py and single_file_model.py (which classes read one file) and quantizers/gguf;
transformers' `from_pretrained` with a state dict.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from halftone.contract.facts import ModelFacts
from halftone.library.families import known_families as of
from halftone.library.kinds.layouts import WAN_22_HIGH

_GGUF: Final = ".gguf"
_PLAIN: Final = ("float16", "bfloat16", "float32")
_SECOND: Final = "transformer_2"
_DENOISERS: Final = ("unet", "transformer")
_IN_DIFFUSERS: Final = (*_DENOISERS, _SECOND, "vae")
"""Other parts are transformers' text encoders."""
_IMPORTS: Final = ("import torch", "import diffusers")


class FileFamily(NamedTuple):
    """repository: where small files and parts come from that the user's files lack. classes: of the parts that can be read from a
    file each, in diffusers, or in transformers for text encoders; others come from the repository. whole: its pipeline reads one
    file.
    """

    repository: str
    classes: Mapping[str, str]
    whole: bool = True


_CLIP: Final = "CLIPTextModel"
_CLIP_G: Final = "CLIPTextModelWithProjection"
_WAN: Final = "WanTransformer3DModel"
_UNET: Final = {"unet": "UNet2DConditionModel", "vae": "AutoencoderKL"}
FAMILIES: Final[Mapping[str, FileFamily]] = {
    of.SD1.name: FileFamily("stable-diffusion-v1-5/stable-diffusion-v1-5", _UNET | {"text_encoder": _CLIP}),
    of.SD2.name: FileFamily("stabilityai/stable-diffusion-2-1", _UNET),
    of.SDXL.name: FileFamily(
        "stabilityai/stable-diffusion-xl-base-1.0", _UNET | {"text_encoder": _CLIP, "text_encoder_2": _CLIP_G}
    ),
    of.REFINER.name: FileFamily("stabilityai/stable-diffusion-xl-refiner-1.0", _UNET | {"text_encoder_2": _CLIP_G}),
    of.SD3.name: FileFamily(
        "stabilityai/stable-diffusion-3-medium-diffusers",
        {
            "transformer": "SD3Transformer2DModel", "vae": "AutoencoderKL", "text_encoder": _CLIP_G, "text_encoder_2": _CLIP_G,
            "text_encoder_3": "T5EncoderModel",
        },
    ),
    of.FLUX.name: FileFamily(
        "black-forest-labs/FLUX.1-dev",
        {
            "transformer": "FluxTransformer2DModel", "vae": "AutoencoderKL", "text_encoder": _CLIP,
            "text_encoder_2": "T5EncoderModel",
        },
    ),
    of.FLUX2.name: FileFamily("black-forest-labs/FLUX.2-dev", {"transformer": "Flux2Transformer2DModel"}, whole=False),
    of.Z_IMAGE.name: FileFamily(
        "Tongyi-MAI/Z-Image-Turbo",
        {"transformer": "ZImageTransformer2DModel", "vae": "AutoencoderKL", "text_encoder": "Qwen3Model"},
    ),
    of.QWEN_IMAGE.name: FileFamily("Qwen/Qwen-Image", {"transformer": "QwenImageTransformer2DModel"}, whole=False),
    of.WAN.name: FileFamily(
        "Wan-AI/Wan2.1-T2V-14B-Diffusers",
        {
            "transformer": _WAN, _SECOND: _WAN, "vae": "AutoencoderKLWan", "text_encoder": "UMT5EncoderModel",
        },
        whole=False,
    ),
    of.HUNYUAN_VIDEO.name: FileFamily(
        "hunyuanvideo-community/HunyuanVideo",
        {"transformer": "HunyuanVideoTransformer3DModel", "text_encoder_2": _CLIP},
        whole=False,
    ),
}  # fmt: skip
_OF_BASES: Final = {
    "FLUX.1 schnell": "black-forest-labs/FLUX.1-schnell",
    "SD 3.5 large": "stabilityai/stable-diffusion-3.5-large",
    "SD 3.5 large turbo": "stabilityai/stable-diffusion-3.5-large-turbo",
    "SD 3.5 medium": "stabilityai/stable-diffusion-3.5-medium",
    "Wan 1.3B": "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
    "Wan 2.2 5B": "Wan-AI/Wan2.2-TI2V-5B-Diffusers",
    WAN_22_HIGH: "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
    "FLUX.2 klein 4B": "black-forest-labs/FLUX.2-klein-4B",
    "FLUX.2 klein 9B": "black-forest-labs/FLUX.2-klein-9B",
    "FLUX.2 klein base 4B": "black-forest-labs/FLUX.2-klein-base-4B",
    "FLUX.2 klein base 9B": "black-forest-labs/FLUX.2-klein-base-9B",
}
"""Repositories of single models of a family."""
_UNREAD: Final = {"Wan 2.2 5B": "vae"}
"""Models -> a part whose file diffusers does not read, though it reads that of others: it knows the names of Wan 2.1's VAE."""


def can_load(facts: ModelFacts) -> bool:
    """Whether there is code that loads the model: not every family's pipeline reads one file."""
    if facts.format != "single-file":
        return True
    family = FAMILIES.get(facts.family)
    return family is not None and (family.whole or _only_denoiser(facts))


def loading_code(facts: ModelFacts, dtype: str, vae: str = "") -> tuple[str, ...]:
    """The lines that load a model as `pipe`, of one that `can_load`. vae: the VAE's type where that is another."""
    pipeline = facts.pipeline or "DiffusionPipeline"
    if facts.format != "single-file":
        return (*_IMPORTS, "", f"pipe = diffusers.{pipeline}.from_pretrained({facts.path!r}, torch_dtype={_types(dtype, vae)})")
    family = FAMILIES[facts.family]
    repository = _OF_BASES.get(facts.base, family.repository)
    files = dict(_files(facts, family, vae=bool(vae)))
    lines = [_part(name, file, family, repository, vae if name == "vae" and vae else dtype) for name, file in files.items()]
    text = any(name not in _IN_DIFFUSERS for name in files)
    imports = (*_IMPORTS, *(("import transformers", "from safetensors.torch import load_file") if text else ()))
    given = "".join(f"{name}={name}, " for name in files)
    if _only_denoiser(facts):
        note = f"# {repository} has what is not loaded here."
        types = _types(dtype, "" if "vae" in files else vae)
        lines += [note, f"pipe = diffusers.{pipeline}.from_pretrained({repository!r}, {given}torch_dtype={types})"]
    else:
        lines.append(f"pipe = diffusers.{pipeline}.from_single_file({facts.path!r}, {given}torch_dtype={dtype})")
    return (*imports, "", *lines)


def _types(dtype: str, vae: str) -> str:
    return f'{{"vae": {vae}, "default": {dtype}}}' if vae else dtype


def _only_denoiser(facts: ModelFacts) -> bool:
    """Whether the model's own file holds its denoiser alone."""
    own = [name for name in facts.stored if name not in facts.parts]
    return bool(facts.parts) and all(name in _DENOISERS for name in own)


def _files(facts: ModelFacts, family: FileFamily, *, vae: bool) -> Iterator[tuple[str, str]]:
    """Yield component and file of what is loaded by itself. Quantised text encoders are not: transformers cannot read such files.

    vae: also that of the model's own file.
    """
    if _only_denoiser(facts):
        yield next(name for name in family.classes if name in _DENOISERS), facts.path
    if vae and "vae" not in facts.parts and not _only_denoiser(facts):
        yield "vae", facts.path
    for name, file in facts.parts.items():
        is_text = name not in _IN_DIFFUSERS
        if (
            name in family.classes
            and name != _UNREAD.get(facts.base)
            and (not is_text or facts.stored.get(name) in _PLAIN)
            and not (is_text and file.endswith(_GGUF))
        ):
            yield name, file


def _part(name: str, file: str, family: FileFamily, repository: str, dtype: str) -> str:
    kind = family.classes[name]
    if name not in _IN_DIFFUSERS:
        config = f"transformers.{kind}.config_class.from_pretrained({repository!r}, subfolder={name!r})"
        weights = f"state_dict=load_file({file!r}), torch_dtype={dtype}"
        return f"{name} = transformers.{kind}.from_pretrained(None, config={config}, {weights})"
    packed = f"quantization_config=diffusers.GGUFQuantizationConfig(compute_dtype={dtype}), " if file.endswith(_GGUF) else ""
    place = f"config={repository!r}, subfolder={name!r}, "
    return f"{name} = diffusers.{kind}.from_single_file({file!r}, {place}{packed}torch_dtype={dtype})"
