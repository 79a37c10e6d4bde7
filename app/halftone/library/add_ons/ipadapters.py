"""IP-Adapters: pictures as prompts. One safetensors file beside an image encoder; read from headers alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import IP_ADAPTER_RANGE
from halftone.contract.parameters import check_range
from halftone.contract.request import IpAdapter
from halftone.contract.wording import Words
from halftone.library.add_ons.controlnets import denoiser_config
from halftone.library.add_ons.faces import NUMBERS, check_faces
from halftone.library.add_ons.image_encoders import ENCODER, encoder_config, encoder_part, places
from halftone.library.add_ons.named_files import reading, refuse_folder
from halftone.library.add_ons.unusable_files import instead
from halftone.library.families.known_families import BY_NAME, CHROMA, FLUX, KOLORS, SD1, SD2, SD3, SDXL
from halftone.library.families.recognise import recognise
from halftone.library.files.header import UsedFile, file_stamp, path_version, read_header
from halftone.library.kinds.marks import Shapes

KIND: Final = "IP-Adapter"
_UNET: Final = "UNet2DConditionModel"
_FLUX: Final = "FluxTransformer2DModel"
_CHROMA: Final = "ChromaTransformer2DModel"
_SD3: Final = "SD3Transformer2DModel"
_READERS: Final = {_UNET: "Stable Diffusion", _FLUX: "FLUX", _CHROMA: "FLUX", _SD3: "SD 3"}
"""Class of a denoiser -> the models whose IP-Adapters it takes."""
_FLUX_PIPELINES: Final = ("", "FluxPipeline", "FluxKontextPipeline", "ChromaPipeline")
"""Pipelines that read pictures; of a single file no pipeline is known, and none that fills masks is made for it."""
_FAMILIES: Final = (SD1.name, SD2.name, SDXL.name, KOLORS.name, SD3.name)
"""Families beside those of FLUX whose denoisers read pictures."""

FLUX_PROJECTION: Final = "ip_adapter_proj_model."
"""Prefix of the layers that turn a picture into tokens, in files for FLUX; each block has keys and values of its own."""
FLUX_KEYS: Final = "double_blocks.0.processor.ip_adapter_double_stream_k_proj.weight"

_SD3_NORM: Final = "ip_adapter.0.norm_ip.linear.weight"
_SD3_TIME: Final = "image_proj.time_embedding.linear_1.weight"

_FACE_FIRST: Final = "image_proj.proj.0.weight"
"""What reads them first in FaceID."""
_FACE_POINTS: Final = "image_proj.proj_in.weight"
"""The same in InstantID."""
_FACE_PLUS: Final = "image_proj.perceiver_resampler.proj_in.weight"
"""What reads the picture beside them in FaceID plus."""
_FACE_LORA: Final = "_lora."
"""Only FaceID has LoRAs beside its keys and values."""

Form = Literal["plain", "plus", "full face", "face"]


class Facts(NamedTuple):
    """form: how it reads a picture, "face" by the numbers of its face; text: width of the model's prompt; picture: width of the
    image encoder's output, or how many numbers a face has; denoiser: class of the one that it is for.
    """

    form: Form
    text: int
    picture: int
    denoiser: str = _UNET


def adapter_files(adapters: Iterable[IpAdapter]) -> tuple[UsedFile, ...]:
    """The adapters as they are now; the version changes with the image encoder, too."""

    def version(path: str) -> str:
        try:
            place = _place(path)
        except (HalftoneError, OSError):
            place = None
        return f"{file_stamp(path)} {'' if place is None else path_version(str(place))}"

    return tuple(UsedFile(one.path, version(one.path)) for one in adapters)


def check_ip_adapters(adapters: Iterable[IpAdapter]) -> None:
    """Raise HalftoneError for what no model can use, from headers alone: value-out-of-range, setting-bad-value,
    ip-adapter-missing, ip-adapter-not-one, ip-adapter-no-encoder, ip-adapter-no-faces, model-truncated, model-bad-header.
    """
    wanted = tuple(adapters)
    for one in wanted:
        if not one.images:
            name, allowed = Words("The IP-Adapter {0}", (one.name,)), Words("at least one picture")
            raise HalftoneError("setting-bad-value", name=name, value=Words("given without a picture"), allowed=allowed)
    check_adapter_files(wanted)


def check_adapter_files(adapters: Iterable[IpAdapter]) -> None:
    """Raise the same, whether they have pictures or not."""
    encoders: dict[Path, str] = {}
    for one in adapters:
        check_range(Words("The strength of the IP-Adapter {0}", (one.name,)), one.scale, IP_ADAPTER_RANGE)
        if not reads_faces(one.path):
            encoders.setdefault(encoder_place(one.path).resolve(), one.name)
        elif one.images:
            check_faces(one.path, one.name)
    if len(encoders) > 1:
        first, second = list(encoders.values())[:2]
        detail = Words("it differs from that of {0}; only one can be used at a time", (first,))
        raise HalftoneError("ip-adapter-no-encoder", name=second, detail=detail)


def reads_faces(path: str) -> bool:
    """Whether it reads the numbers of a face, and no image encoder's. Raises as `adapter_facts`."""
    return adapter_facts(path).form == "face"


def check_usable_here(adapters: Iterable[IpAdapter], model: ModelFacts) -> None:
    """Raise as `check_files_fit`, and ip-adapter-no-faces even where no picture is given yet."""
    wanted = tuple(adapters)
    check_files_fit(wanted, model)
    for one in wanted:
        if reads_faces(one.path):
            check_faces(one.path, one.name)


def takes_ip_adapters(model: ModelFacts) -> bool:
    """Whether there are IP-Adapters for a model; True where its family is not known."""
    if model.family in (FLUX.name, CHROMA.name):
        return model.pipeline in _FLUX_PIPELINES
    return model.family not in BY_NAME or model.family in _FAMILIES


def check_files_fit(adapters: Iterable[IpAdapter], model: ModelFacts) -> None:
    """Raise HalftoneError ip-adapter-unsupported, ip-adapter-other-base, and as `check_adapter_files`, whatever the pictures."""
    wanted = tuple(adapters)
    check_adapter_files(wanted)
    for one in wanted:
        if adapter_facts(one.path).denoiser == _SD3 and (len(wanted) > 1 or len(one.images) > 1):
            name, allowed = Words("The IP-Adapter {0}", (one.name,)), Words("one picture and no other IP-Adapter")
            raise HalftoneError("setting-bad-value", name=name, value=Words("given more"), allowed=allowed)
        config = denoiser_config(model) or {"_class_name": ""}
        kind = config.get("_class_name", _UNET)
        if kind not in _READERS or (_READERS[kind] == "FLUX" and model.pipeline not in _FLUX_PIPELINES):
            detail = Words("Halftone has no IP-Adapter for {0} models", (model.base or model.family,))
            raise HalftoneError("ip-adapter-unsupported", model=model.name, detail=detail)
        if config.get("encoder_hid_dim_type") not in (None, "text_proj"):
            detail = Words("its denoiser does not support picture prompts")
            raise HalftoneError("ip-adapter-unsupported", model=model.name, detail=detail)
        facts = adapter_facts(one.path)
        if _READERS[facts.denoiser] != _READERS[kind]:
            raise other_base(one.path, model, Words("it is for {0} models", (_READERS[facts.denoiser],)))
        own = _width(config)
        if own != facts.text:
            raise other_base(one.path, model, Words("its tokens have {0} values, the model's {1}", (str(facts.text), str(own))))


def _width(config: Mapping[str, Any]) -> int | None:
    """Width of the prompt that the denoiser reads; in SD 3 that of its own layers."""
    if config.get("_class_name") == _SD3:
        return int(config["num_attention_heads"]) * int(config["attention_head_dim"])
    return config.get("joint_attention_dim" if config.get("_class_name") in (_FLUX, _CHROMA) else "cross_attention_dim")


def other_base(path: str, model: ModelFacts, detail: Words, details: str = "") -> HalftoneError:
    """An error; it is not raised."""
    name = IpAdapter(path=path, images=()).name
    return HalftoneError("ip-adapter-other-base", details, name=name, model=model.name, detail=detail, family=model.family)


def adapter_facts(path: str) -> Facts:
    """Read a file. Raises HalftoneError ip-adapter-missing, ip-adapter-not-one, and what a header raises."""
    with reading(path, "ip-adapter-missing", "ip-adapter-not-one") as file:
        refuse_folder(path, "ip-adapter-not-one")
        header = read_header(file)
    found = recognise(header, file.stem)
    if found.kind != KIND:
        raise HalftoneError("ip-adapter-not-one", path=path, detail=instead(found, KIND))
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    if (detail := _unusable_face(shapes)) is not None:
        raise HalftoneError("ip-adapter-not-one", path=path, detail=detail)
    try:
        if {_SD3_NORM, _SD3_TIME} <= shapes.keys():
            return Facts("plus", shapes["image_proj.proj_out.weight"][0], shapes["image_proj.proj_in.weight"][1], _SD3)
        if FLUX_KEYS in shapes:
            return Facts("plain", shapes[FLUX_KEYS][1], shapes[f"{FLUX_PROJECTION}proj.weight"][1], _FLUX)
        form, picture = _form(shapes)
        return Facts(form, shapes["ip_adapter.1.to_k_ip.weight"][1], picture)
    except (KeyError, IndexError) as error:
        detail = Words("its layers are for another kind of denoiser, or the file is damaged")
        raise HalftoneError("ip-adapter-not-one", path=path, detail=detail) from error


def _unusable_face(shapes: Shapes) -> Words | None:
    """Why it cannot be used, of a file that goes by a face: FaceID in its forms, or InstantID."""
    if _FACE_PLUS in shapes:
        return Words("FaceID plus looks at a face's numbers and at its picture at once, which Halftone does not do")
    if _width_of(shapes, _FACE_POINTS) == NUMBERS:
        return Words("InstantID works with a ControlNet of its own and the points of a face, which Halftone does not do")
    if _width_of(shapes, _FACE_FIRST) != NUMBERS and any(map(is_face_lora, shapes)):
        return Words("it holds LoRAs as FaceID does, but its other layers are not FaceID's")
    return None


def is_face_lora(name: str) -> bool:
    """Whether a tensor of an adapter's file is one of a LoRA."""
    return _FACE_LORA in name


def _width_of(shapes: Shapes, name: str) -> int:
    """What a layer takes; 0 for one that is not there."""
    shape = shapes.get(name, ())
    return shape[1] if len(shape) > 1 else 0


def _form(shapes: Shapes) -> tuple[Form, int]:
    """(form, width that the image encoder has to give). Raises KeyError."""
    if _width_of(shapes, _FACE_FIRST) == NUMBERS and {"image_proj.proj.2.weight", "image_proj.norm.weight"} <= shapes.keys():
        return "face", NUMBERS
    if "image_proj.proj.weight" in shapes:
        return "plain", shapes["image_proj.proj.weight"][1]
    if "image_proj.proj.3.weight" in shapes:
        return "full face", shapes["image_proj.proj.0.weight"][1]
    if "image_proj.latents" in shapes:
        return "plus", shapes["image_proj.proj_in.weight"][1]
    raise KeyError("image_proj")


def encoder_place(path: str) -> Path:
    """The folder or the file of its image encoder, which a FaceID adapter does not have. Raises HalftoneError
    ip-adapter-no-encoder, and as `adapter_facts`.
    """
    facts = adapter_facts(path)
    place = _place(path)
    name = IpAdapter(path=path, images=()).name
    if place is None:
        detail = Words(
            "none that gives {0} numbers is at {1} or in the folder clip_vision",
            (str(facts.picture), str(Path(path).parent / ENCODER)),
        )
        raise HalftoneError("ip-adapter-no-encoder", name=name, detail=detail)
    try:
        encoder_part(place)
    except HalftoneError as error:
        detail = Words("the one at {0} cannot be read", (str(place),))
        if missing := error.facts.get("missing"):
            detail = Words("the one at {0} lacks its {1}", (str(place), missing))
        raise HalftoneError("ip-adapter-no-encoder", str(error), name=name, detail=detail) from error
    return place


def _place(path: str) -> Path | None:
    """The first that gives what the adapter takes."""
    facts = adapter_facts(path)
    if facts.form == "face":
        return None
    return next((place for place in places(path) if _gives(encoder_config(place), facts)), None)


def _gives(config: Mapping[str, object], facts: Facts) -> bool:
    """A plain adapter takes the encoder's picture as a whole, the others every part of it."""
    if facts.form == "plain":
        return config.get("projection_dim") == facts.picture
    inside = config.get("vision_config", config)  # of a model that reads words too
    return isinstance(inside, dict) and cast("dict[str, object]", inside).get("hidden_size") == facts.picture
