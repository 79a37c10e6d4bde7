"""Whole models in one file, as their makers and ComfyUI write them: which parts it holds, and how each is built.

The configurations of the families are in `resources/configs`; the file's own shapes go before them, so that a smaller or pruned
variant is read as it is. No weight is read.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.families import llm_parts, single_configs, video_vaes
from halftone.library.families.known_families import (
    FLUX,
    FLUX2,
    HUNYUAN_VIDEO,
    QWEN_IMAGE,
    REFINER,
    SD1,
    SD2,
    SD3,
    SDXL,
    WAN,
    Z_IMAGE,
    parts_of,
)
from halftone.library.families.layer_names import FLUX2_NAMES, HUNYUAN_NAMES, QWEN_NAMES, WAN_NAMES, Z_IMAGE_NAMES
from halftone.library.families.original_names import (
    FLUX_NAMES,
    SD3_NAMES,
    Naming,
    Place,
    flux2_vae_names,
    text_names,
    transformer_places,
    unet_names,
    vae_names,
)
from halftone.library.files.folder import read_json
from halftone.library.files.header import Header, TensorInfo
from halftone.library.kinds.layouts import DIFFUSERS, ORIGINAL, WAN_22_HIGH, WAN_22_LOW
from halftone.library.kinds.marks import View
from halftone.settings.places import resources

Config = dict[str, Any]

_UNET: Final = "model.diffusion_model."
SECOND: Final = "transformer_2"
"""The denoiser of the steps with little noise, which some models have."""
_FIRST: Final = ("first_stage_model.",)
_VAE: Final = (*_FIRST, "vae.")


class Reader(NamedTuple):
    """How a part is read. names: tensors -> each with its parameter; config: from the shapes of the tensors."""

    names: Callable[[Iterable[str]], dict[str, str]]
    config: Callable[[single_configs.Shapes], Config]


class Single(msgspec.Struct, frozen=True, kw_only=True):
    """Where a family's parts are in a file. key: its folder in resources/configs; prefixes: component -> prefixes of its tensors;
    optional: components that it runs without; naming: of its transformer, None for a UNet. readers: of other parts than CLIP, T5
    and AutoencoderKL. written: other programs read such a model in one file, so that a folder can become one. layout: whose names
    the transformer has there. words_only: a model of the family that needs a picture runs only as a folder,
    as do those with these bases (apart). variants: (mark of a transformer, folder of configurations) of models that differ from
    the family's in more than shapes.
    """

    key: str
    prefixes: dict[str, tuple[str, ...]]
    optional: tuple[str, ...] = ()
    naming: Naming | None = None
    readers: dict[str, Reader] = {}
    written: bool = True
    layout: str = ORIGINAL
    words_only: bool = False
    apart: tuple[str, ...] = ()
    variants: tuple[tuple[str, str], ...] = ()

    def starts(self, component: str) -> tuple[str, ...]:
        """The beginnings of its tensors' names."""
        return tuple(wrapper + start for wrapper in ("", _WRAPPED) for start in self.prefixes[component])

    def folder(self, transformer: single_configs.Shapes) -> str:
        """The folder of configurations for a transformer with such tensors."""
        view = View(transformer)
        return next((key for mark, key in self.variants if view.has(mark)), self.key)


_WRAPPED: Final = "state_dict."
"""Before the names of a model that was saved with the state of its training."""


def _comfy(encoder: str) -> tuple[str, ...]:
    return (f"text_encoders.{encoder}.transformer.",)


SINGLES: Final[dict[str, Single]] = {
    SD1.name: Single(key="sd1", prefixes={"unet": (_UNET,), "vae": _FIRST, "text_encoder": ("cond_stage_model.transformer.",)}),
    SD2.name: Single(
        key="sd2",
        prefixes={
            "unet": (_UNET,),
            "vae": _FIRST,
            "text_encoder": ("cond_stage_model.model.", "conditioner.embedders.0.model."),
        },
    ),
    SDXL.name: Single(
        key="sdxl",
        prefixes={
            "unet": (_UNET,),
            "vae": _FIRST,
            "text_encoder": ("conditioner.embedders.0.transformer.",),
            "text_encoder_2": ("conditioner.embedders.1.model.",),
        },
    ),
    REFINER.name: Single(
        key="sdxl-refiner",
        prefixes={"unet": (_UNET,), "vae": _FIRST, "text_encoder_2": ("conditioner.embedders.0.model.",)},
    ),
    SD3.name: Single(
        key="sd3",
        prefixes={
            "transformer": (_UNET,),
            "vae": _VAE,
            "text_encoder": _comfy("clip_l"),
            "text_encoder_2": _comfy("clip_g"),
            "text_encoder_3": _comfy("t5xxl"),
        },
        optional=("text_encoder_3",),
        naming=SD3_NAMES,
    ),
    FLUX.name: Single(
        key="flux",
        prefixes={"transformer": (_UNET,), "vae": _VAE, "text_encoder": _comfy("clip_l"), "text_encoder_2": _comfy("t5xxl")},
        naming=FLUX_NAMES,
    ),
    FLUX2.name: Single(
        key="flux2",
        variants=(("txt_in.weight[*,7680]", "flux2-klein"), ("txt_in.weight[*,12288]", "flux2-klein")),
        prefixes={"transformer": (_UNET,), "vae": _VAE, "text_encoder": _comfy("llm")},
        naming=FLUX2_NAMES,
        readers={
            "vae": Reader(flux2_vae_names, single_configs.flux2_vae),
            "text_encoder": Reader(llm_parts.inner_names, llm_parts.decoder),
        },
        written=False,
    ),
    Z_IMAGE.name: Single(
        key="z-image",
        prefixes={"transformer": (_UNET,), "vae": _VAE, "text_encoder": _comfy("qwen3_4b")},
        naming=Z_IMAGE_NAMES,
        readers={"text_encoder": Reader(llm_parts.inner_names, llm_parts.decoder)},
        written=False,
    ),
    QWEN_IMAGE.name: Single(
        key="qwen-image",
        prefixes={"transformer": (_UNET,), "vae": _VAE, "text_encoder": _comfy("qwen25_7b")},
        naming=QWEN_NAMES,
        readers={
            "vae": Reader(video_vaes.wan_names, video_vaes.wan),
            "text_encoder": Reader(llm_parts.vision_names, llm_parts.vision_decoder),
        },
        written=False,
        layout=DIFFUSERS,
        words_only=True,
    ),
    WAN.name: Single(
        key="wan",
        variants=(("patch_embedding.weight[*,48,...]", "wan-5b"),),
        prefixes={
            "transformer": (_UNET,),
            SECOND: ("model.diffusion_model_2.",),
            "vae": _VAE,
            "text_encoder": _comfy("umt5xxl"),
        },
        optional=(SECOND,),
        naming=WAN_NAMES,
        readers={"vae": Reader(video_vaes.any_wan_names, video_vaes.any_wan)},
        written=False,
        words_only=True,
        apart=(WAN_22_LOW,),
    ),
    HUNYUAN_VIDEO.name: Single(
        key="hunyuan-video",
        prefixes={"transformer": (_UNET,), "vae": _VAE, "text_encoder": _comfy("llama"), "text_encoder_2": _comfy("clip_l")},
        naming=HUNYUAN_NAMES,
        readers={
            "vae": Reader(vae_names, video_vaes.hunyuan),
            "text_encoder": Reader(llm_parts.inner_names, llm_parts.decoder),
        },
        written=False,
        words_only=True,
    ),
}
"""By the name of the family."""

_NAMES: Final = {"unet": unet_names, "vae": vae_names}
DENOISERS: Final = ("unet", "transformer", SECOND)
_FACTORS: Final = (".scale_weight", ".weight_scale")
_TABLES: Final = ("encoder.embed_tokens.weight", "shared.weight")
"""Two names of T5's embedding table, of which files have one or both."""
_TRANSFORMERS: Final[dict[str, Callable[[single_configs.Shapes], Config]]] = {
    "sd3": single_configs.sd3,
    "flux": single_configs.flux,
    "flux2": single_configs.flux2,
    "z-image": single_configs.z_image,
    "qwen-image": single_configs.qwen_image,
    "wan": single_configs.wan,
    "hunyuan-video": single_configs.hunyuan_video,
}

_BOUNDARY: Final = 0.875
"""Share of the noise below which the second denoiser of Wan 2.2 works: `boundary` in wan/configs/wan_t2v_A14B.py of the
repository Wan-Video/Wan2.2, and `boundary_ratio` in diffusers' scripts/convert_wan_to_diffusers.py.
"""
_KLEIN_BASE: Final = "FLUX.2 klein base"

_PARTS: Final = {
    "unet": Words("the denoiser (UNet)"),
    "transformer": Words("the denoiser (transformer)"),
    SECOND: Words("the denoiser for low noise"),
    "vae": Words("the VAE"),
}


def missing_parts(family: str, base: str, header: Header) -> tuple[Words, ...]:
    """Parts of a whole model that the file lacks, for a sentence; () also for an unknown family. base: which one of it."""
    single = SINGLES.get(family)
    if single is None:
        return ()
    held = tensors_by_component(family, header)
    optional = [name for name in single.optional if (name, base) != (SECOND, WAN_22_HIGH)]
    lost = [name for name in single.prefixes if name not in held and name not in optional]
    named = _PARTS | {
        f"text_encoder_{number}": Words("the text encoder {0}", (kind,))
        for number, kind in enumerate(parts_of(family, base)[1], 1)
    }
    named["text_encoder"] = named["text_encoder_1"]
    named.setdefault("text_encoder_2", named["text_encoder_1"])  # a refiner has no first one
    return tuple(named[name] for name in lost)


def holds_packed(family: str, header: Header) -> bool:
    """Whether 8-bit numbers of a whole model in one file stay so in memory; those of a UNet only where factors scale them."""
    return SINGLES[family].naming is not None or any(tensor.name.endswith(_FACTORS) for tensor in header.tensors)


def component_of(family: str, tensor: str) -> str | None:
    """The component of a tensor; None for averages from training and noise schedules, which none reads."""
    single = SINGLES[family]
    return next((name for name in single.prefixes if tensor.startswith(single.starts(name))), None)


def tensors_by_component(family: str, header: Header) -> dict[str, list[TensorInfo]]:
    """Component -> its tensors."""
    starts = {name: SINGLES[family].starts(name) for name in SINGLES[family].prefixes}
    found = {name: [tensor for tensor in header.tensors if tensor.name.startswith(own)] for name, own in starts.items()}
    return {name: tensors for name, tensors in found.items() if tensors}


def kinds_by_component(family: str, header: Header) -> dict[str, set[str]]:
    """Component -> the types of its tensors, as the file spells them."""
    return {name: {tensor.dtype for tensor in tensors} for name, tensors in tensors_by_component(family, header).items()}


def module_names(family: str, header: Header) -> dict[str, tuple[str, str]]:
    """Tensor of the file -> (component, its first parameter there), of all that a component reads."""
    found: dict[str, tuple[str, str]] = {}
    for key, place in places(family, header).items():
        found.setdefault(place.tensor, key)
    return found


def places(family: str, header: Header) -> dict[tuple[str, str], Place]:
    """(component, parameter) -> its place in the file."""
    single = SINGLES[family]
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    found: dict[tuple[str, str], Place] = {}
    for component in single.prefixes:
        for start in single.starts(component):
            own = {name.removeprefix(start): shape for name, shape in shapes.items() if name.startswith(start)}
            if component in DENOISERS and single.naming is not None:
                inside = dict(transformer_places(single.naming, own))
            else:
                reader = single.readers.get(component)
                names = _NAMES.get(component, text_names) if reader is None else reader.names
                inside = _by_name(names(own), own)
            found |= {(component, name): place._replace(tensor=start + place.tensor) for name, place in inside.items()}
    return found


def _by_name(names: Mapping[str, str], shapes: single_configs.Shapes) -> dict[str, Place]:
    """Places of parameters that have a tensor each, but for the three of attention in OpenCLIP."""
    found: dict[str, Place] = {}
    for tensor, name in names.items():
        if ".in_proj_" not in tensor:
            found |= dict.fromkeys(_TABLES if name in _TABLES else (name,), Place(tensor))
            continue
        third = shapes[tensor][0] // 3
        for index, part in enumerate(("q_proj", "k_proj", "v_proj")):
            found[name.replace("q_proj", part)] = Place(tensor, (index * third, (index + 1) * third))
    return found


def of_component(found: Mapping[tuple[str, str], Place], component: str) -> dict[str, Place]:
    """Of one component: parameter -> where it lies."""
    return {name: place for (part, name), place in found.items() if part == component}


def place_of(found: Mapping[tuple[str, str], Place], component: str, parameter: str) -> Place:
    """Where a parameter of a loaded component lies; the libraries wrap some text encoders. Raises KeyError."""
    name = parameter if (component, parameter) in found else parameter.removeprefix("text_model.")
    return found[component, name]


def configs(family: str, header: Header, path: str) -> dict[str, Config]:
    """Component -> its configuration, scheduler and tokenizers included; "model_index" -> that of the pipeline. path: for errors.

    Raises HalftoneError model-load-failed where the tensors that show a part's shape are missing or fit no such model.
    """
    single = SINGLES[family]
    own = {name: _without(single.starts(name), header) for name in single.prefixes}
    folder = resources() / "configs" / single.folder(own.get("transformer", {}))
    found = {file.parent.name: cast("Config", read_json(file)) for file in sorted(folder.glob("*/*.json"))}
    found["model_index"] = cast("Config", read_json(folder / "model_index.json"))
    for name in single.optional:
        if not own[name]:
            del own[name]
            found.pop(name, None)
            tokenizer = name.replace("text_encoder", "tokenizer")
            found["model_index"] |= {name: [None, None], tokenizer: [None, None]}
    for part in sorted(own, key=DENOISERS.__contains__):  # a denoiser's configuration needs those of the others
        try:
            _complete(part, single, found, own, header)
        except KeyError as error:
            lost = Words("the file lacks {0}", (f"{error.args[0]} ({part})",))
            raise HalftoneError("model-load-failed", path=path, detail=lost) from error
        except (IndexError, ValueError, ZeroDivisionError) as error:
            odd = Words("the shapes of its {0} fit no {1} model", (part, family))
            raise HalftoneError("model-load-failed", path=path, detail=odd) from error
    return found


def own_options(base: str) -> Config:
    """What the pipeline of one model of its family is given beside what its tensors tell."""
    return {"is_distilled": False} if base.startswith(_KLEIN_BASE) else {}


def own_schedule(base: str) -> Config:
    """What the scheduler of one model of its family is given in the place of the family's."""
    return {"shift": 3.0} if base == "Z-Image Turbo" else {}


def _complete(
    part: str, single: Single, found: dict[str, Config], own: Mapping[str, single_configs.Shapes], header: Header
) -> None:
    """Complete the configuration of a part from the shapes of its tensors."""
    shapes = own[part]
    if part in single.readers:
        for name, value in single.readers[part].config(shapes).items():
            inner = isinstance(value, dict)  # the configuration of a network inside it
            found[part][name] = found[part][name] | value if inner else value
    elif part == "vae":
        found[part] |= single_configs.vae({ours: shapes[name] for name, ours in vae_names(shapes).items()})
    elif part not in DENOISERS:
        is_t5 = any("SelfAttention" in tensor for tensor in shapes)
        found[part] |= (single_configs.t5 if is_t5 else single_configs.clip)(shapes)
    elif single.naming is None:
        _complete_unet(found, shapes, header)
    else:
        _complete_transformer(single.key, part, found, shapes)


def _complete_unet(found: dict[str, Config], shapes: single_configs.Shapes, header: Header) -> None:
    """Complete the configurations of the UNet, the scheduler and the pipeline from the UNet's shapes and the file's metadata."""
    found["unet"] |= single_configs.unet(shapes, found["unet"])
    if "addition_time_embed_dim" in found["unet"]:
        pooled = found["text_encoder_2"]["projection_dim"]
        numbers = 5 if found["model_index"].get("requires_aesthetics_score") else 6  # sizes, or sizes and a score
        found["unet"]["addition_time_embed_dim"] = (found["unet"]["projection_class_embeddings_input_dim"] - pooled) // numbers
    inputs, latents = found["unet"]["in_channels"], found["vae"]["latent_channels"]
    if inputs > latents:  # it takes a picture, too; and to fill a hole, the mask
        kind = "InstructPix2PixPipeline" if inputs == 2 * latents else "InpaintPipeline"
        index = found["model_index"]
        index["_class_name"] = str(index["_class_name"]).replace("Pipeline", kind)
        if index["_class_name"] == "StableDiffusionXLInstructPix2PixPipeline":  # it takes none of those that may be left out
            found["model_index"] = {name: value for name, value in index.items() if value != [None, None]}
    found["scheduler"] |= _prediction(header)


def _complete_transformer(key: str, part: str, found: dict[str, Config], shapes: single_configs.Shapes) -> None:
    found[part] = found["transformer"] | _TRANSFORMERS[key](shapes)
    if part == SECOND:
        found["model_index"]["boundary_ratio"] = _BOUNDARY
    if key == "flux":
        found["scheduler"] |= single_configs.flux_scheduler(shapes)
        found["model_index"]["_class_name"] = single_configs.flux_pipeline(shapes)


def _without(starts: tuple[str, ...], header: Header) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for start in starts:
        found |= {tensor.name.removeprefix(start): tensor.shape for tensor in header.tensors if tensor.name.startswith(start)}
    return found


def _prediction(header: Header) -> Config:
    """The scheduler's prediction, where the file says so: by its metadata (Stability's model specification), or by empty tensors
    that trainers of velocity models add.
    """
    names = {tensor.name for tensor in header.tensors}
    said = header.metadata.get("modelspec.prediction_type", "").lower()
    found: Config = {}
    if "v_pred" in names or said in ("v", "v_prediction"):
        found["prediction_type"] = "v_prediction"
    elif said in ("epsilon", "eps"):
        found["prediction_type"] = "epsilon"
    if "ztsnr" in names:
        found |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    return found
