"""Whether a LoRA fits a model, as far as the headers of both tell: before anything is loaded."""

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Lora
from halftone.contract.wording import Words, either
from halftone.library.add_ons.controlnets import denoiser_config
from halftone.library.families.layer_names import NAMINGS, layer_places
from halftone.library.families.recognise import recognise
from halftone.library.families.single_files import SINGLES, places
from halftone.library.families.split_files import model_header
from halftone.library.files.header import Header, read_header
from halftone.library.kinds.loras import Layer, has_widths_of, sized_layers
from halftone.library.models import weight_files

_TEXT: Final = "text_model_"
_WEIGHT: Final = ".weight"

Shapes = Mapping[tuple[int, str], tuple[int, ...]]
"""(0 for the denoiser or the number of a text encoder, path of the layer with its parts joined by _) -> shape of its weight."""


def check_lora_fit(loras: Iterable[Lora], model: ModelFacts) -> None:
    """Raise HalftoneError lora-other-base for one whose layers have other widths than the model's, or that is of another family
    and has no layer of the model's size. Layers whose names are not the model's own are not compared.
    """
    wanted = tuple(loras)
    shapes = _layer_shapes(model) if wanted else {}
    for lora in wanted:
        if (detail := _difference(lora, model, shapes)) is not None:
            raise other_base(lora, model, detail)


def _difference(lora: Lora, model: ModelFacts, shapes: Shapes) -> Words | None:
    header = read_header(Path(lora.path))
    families = _families(header, lora)
    other = None if not families or model.family in families else Words("it was made for {0}", (either(*families),))
    fitting = 0
    for layer in sized_layers({tensor.name: tensor.shape for tensor in header.tensors}):
        shape = shapes.get((layer.text, layer.path.removeprefix(_TEXT)))
        if shape is None:
            continue
        if not _fits(layer, shape):
            return other or _widths(layer, shape)
        fitting += 1
    return other if shapes and not fitting else None


def _fits(layer: Layer, shape: tuple[int, ...]) -> bool:
    outward, inward, area = _width(shape, 0), _width(shape, 1), prod(shape[2:])
    return layer.outward in (0, outward) and layer.inward in (0, inward, inward * area)


def _widths(layer: Layer, shape: tuple[int, ...]) -> Words:
    own, theirs = (" → ".join(map(str, widths)) for widths in ((layer.inward, layer.outward), (*shape[1:2], shape[0])))
    return Words("one of its layers has the widths {0}, the model's {1}", (own, theirs))


def _layer_shapes(model: ModelFacts) -> Shapes:
    """Shapes of the model's own weights; {} where headers do not tell its names."""
    files = weight_files(model)
    if any(file.suffix.lower() != ".safetensors" for _, file in files):
        return {}
    whole = model.family in SINGLES and ("model", Path(model.path)) in files
    own = ((component, tensor.name, tensor.shape) for component, file in files for tensor in read_header(file).tensors)
    found: dict[tuple[int, str], tuple[int, ...]] = {}
    denoiser: dict[str, tuple[int, ...]] = {}
    for part, name, shape in _placed(model) if whole else own:
        if name.endswith(_WEIGHT) and (number := _number(part)) is not None:
            flat = name.removesuffix(_WEIGHT).replace(".", "_")
            found[number, flat.removeprefix(_TEXT)] = shape
            if number == 0:
                denoiser[name.removesuffix(_WEIGHT)] = shape
    return dict(_by_maker(model, denoiser)) | found


def _by_maker(model: ModelFacts, layers: Mapping[str, tuple[int, ...]]) -> Iterable[tuple[tuple[int, str], tuple[int, ...]]]:
    """The layers of a transformer again, as its maker names and joins them."""
    single = SINGLES.get(model.family)
    naming = NAMINGS.get(str((denoiser_config(model) or {}).get("_class_name"))) if single is None else single.naming
    if naming is None:
        return
    for layer, parts in layer_places(naming, {name: _width(shape, 0) for name, shape in layers.items()}).items():
        shapes = [layers[name] for name in parts]
        yield (0, layer.replace(".", "_")), (sum(_width(shape, 0) for shape in shapes), *shapes[0][1:])


def _placed(model: ModelFacts) -> Iterable[tuple[str, str, tuple[int, ...]]]:
    """(component, parameter, shape) of a whole model in one file, where several layers may lie in one tensor."""
    header = model_header(model)
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    for (component, name), place in places(model.family, header).items():
        shape = shapes[place.tensor]
        yield component, name, shape if place.rows is None else (place.rows[1] - place.rows[0], *shape[1:])


def _number(component: str) -> int | None:
    """The first part of a key of `Shapes`; None for a component to which no LoRA is added."""
    if component.startswith("text_encoder"):
        return int(component.removeprefix("text_encoder").removeprefix("_") or 1)
    return 0 if component in ("unet", "transformer") else None


def other_base(lora: Lora, model: ModelFacts, detail: Words, details: str = "") -> HalftoneError:
    """Return the refusal of a LoRA for another base. It advises LoRAs for the model's family only where this one is for another
    family, and where those would fit.
    """
    families = _families(read_header(Path(lora.path)), lora)
    another = bool(families) and model.family not in families
    wanted = model.family if model.family and another and _has_usual_widths(model) else model.name
    return HalftoneError("lora-other-base", details, name=lora.name, model=model.name, detail=detail, family=wanted)


def _families(header: Header, lora: Lora) -> tuple[str, ...]:
    found = recognise(header, lora.name).lora
    return () if found is None else found.families


def _has_usual_widths(model: ModelFacts) -> bool:
    """Whether the model is as wide as LoRAs for its family are, as far as its headers tell."""
    shapes = _layer_shapes(model)
    layers = [Layer(path, text, inward=_width(shape, 1), outward=_width(shape, 0)) for (text, path), shape in shapes.items()]
    return not layers or has_widths_of(model.family, layers)


def _width(shape: tuple[int, ...], axis: int) -> int:
    """0 for an axis that a weight lacks."""
    return shape[axis] if axis < len(shape) else 0
