"""IP-Adapters beside a loaded model: its denoiser reads pictures; an image encoder is one more component, watched and cured."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import CLIPImageProcessorPil, CLIPVisionModelWithProjection, SiglipImageProcessorPil, SiglipVisionModel

from halftone.contract.errors import HalftoneError
from halftone.contract.request import IpAdapter
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import NAMES
from halftone.engine.loading.folder_parts import load_network
from halftone.engine.loading.load import Loaded, make_ready, stored_dtypes, told_loading
from halftone.engine.loading.plans import HALF_DONE
from halftone.engine.patches.face_loras import read_face_loras
from halftone.engine.patches.image_prompts import Halves, attach, detach, read_halves, reads_pictures, weigh
from halftone.engine.patches.lora import Adapter
from halftone.engine.weights.file_tensors import filled_component, one_type
from halftone.engine.weights.precision import ComponentState
from halftone.engine.weights.recipe import forget_base
from halftone.health.faults import is_out_of_memory
from halftone.library.add_ons.image_encoders import ENCODER, encoder_part, parameters
from halftone.library.add_ons.ipadapters import adapter_files, encoder_place, other_base, reads_faces

log = logging.getLogger(__name__)

_EXTRACTOR: Final = "feature_extractor"
_OTHER: Final = Words("its layers have other sizes or places than the model's")


def put_ip_adapters(loaded: Loaded, adapters: Sequence[IpAdapter]) -> None:
    """Read pictures through these adapters alone; none: as loaded. Raises HalftoneError ip-adapter-*, model-load-failed."""
    wanted = adapter_files(adapters)
    faces = _read_faces(loaded, adapters)
    if wanted != loaded.ip_adapters or (wanted and not reads_pictures(_reader(loaded))):  # another may be there now
        _forget(loaded)
        if wanted:
            _take(loaded, adapters)
            loaded.ip_adapters = wanted
        log.info("IP-Adapters: %s", ", ".join(one.name for one in adapters) or "none")
    if wanted:
        weigh(_reader(loaded), [one.scale for one in adapters])
    if faces != loaded.faces:
        loaded.faces = faces
        loaded.states[loaded.reader] = HALF_DONE


def _reader(loaded: Loaded) -> Any:
    return getattr(loaded.pipe, loaded.reader)


def _forget(loaded: Loaded) -> None:
    if not loaded.ip_adapters:
        return
    loaded.ip_adapters = ()
    detach(_reader(loaded))
    loaded.states[loaded.reader] = HALF_DONE
    forget_base(_reader(loaded))
    if ENCODER in loaded.sources:
        loaded.pipe.register_modules(**{ENCODER: None})
        for known in (loaded.sources, loaded.states, loaded.stored):
            cast("dict[str, Any]", known).pop(ENCODER, None)
    loaded.forget_sizes()


def _read_faces(loaded: Loaded, adapters: Sequence[IpAdapter]) -> tuple[Adapter, ...]:
    """The LoRAs in FaceID's files. Raises HalftoneError ip-adapter-not-one or ip-adapter-other-base."""
    found: tuple[Adapter, ...] = ()
    for one in (one for one in adapters if reads_faces(one.path)):
        try:
            found += read_face_loras(loaded.reader, _reader(loaded), (one,), loaded.faces)
        except (OSError, SafetensorError) as error:
            raise HalftoneError("ip-adapter-not-one", str(error), path=one.path, detail=Words("it cannot be read")) from error
        except ValueError as error:
            raise other_base(one.path, loaded.facts, _OTHER, str(error)) from error
    return found


def _take(loaded: Loaded, adapters: Sequence[IpAdapter]) -> None:
    place = next((encoder_place(one.path) for one in adapters if not reads_faces(one.path)), None)
    encoder, dtype = None, torch.float32
    if place is not None and getattr(loaded.pipe, ENCODER, None) is None:
        encoder = read_encoder(loaded, place)
        dtype = one_type(encoder.parameters())
        make_ready(loaded, ENCODER, encoder, dtype)
    files = [_read(one.path) for one in adapters]
    try:
        attach(_reader(loaded), files)
    except (RuntimeError, KeyError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        raise other_base(adapters[0].path, loaded.facts, _OTHER, str(error)) from error
    # nothing from here on can fail
    loaded.states[loaded.reader] = HALF_DONE
    forget_base(_reader(loaded))
    if encoder is not None and place is not None:
        loaded.pipe.register_modules(**{ENCODER: encoder})
        loaded.sources[ENCODER], loaded.stored[ENCODER] = partial(read_encoder, loaded, place), dtype
        loaded.states[ENCODER] = ComponentState(dtype=NAMES[dtype])
    if place is not None and getattr(loaded.pipe, _EXTRACTOR, None) is None:
        loaded.pipe.register_modules(**{_EXTRACTOR: _extractor(loaded.pipe.image_encoder.config)})
    loaded.forget_sizes()


def _read(path: str) -> Halves:
    try:
        halves = read_halves(path)
    except (OSError, SafetensorError) as error:
        raise HalftoneError("ip-adapter-not-one", str(error), path=path, detail=Words("it cannot be read")) from error
    for half, tensors in halves.items():
        for name, tensor in tensors.items():
            if not bool(tensor.isfinite().all()):
                detail = Words("its tensor {0}.{1} holds NaN or infinity", (half, name))
                raise HalftoneError("ip-adapter-not-one", path=path, detail=detail)
    return halves


def read_encoder(loaded: Loaded, place: Path) -> nn.Module:
    """The image encoder of a folder or file on the CPU, in its stored dtype. Raises model-load-failed."""
    with told_loading(loaded.facts, place):
        part = encoder_part(place)
        kind = SiglipVisionModel if _is_siglip(part.config) else CLIPVisionModelWithProjection
        if place.is_dir():
            return load_network(place.parent, place.name, kind, stored_dtypes(place.parent).get(place.name, torch.float32))
        (_, header), *_ = part.files
        return filled_component(kind, part.config, place, header, parameters(header.tensors))


def _is_siglip(config: Mapping[str, Any]) -> bool:
    return str(config.get("model_type", "")).startswith("siglip")


def _extractor(config: Any) -> Any:
    """What brings pictures to the size and range of an image encoder, by its configuration."""
    size = config.image_size
    if _is_siglip(config.to_dict()):
        return SiglipImageProcessorPil(size={"height": size, "width": size})
    return CLIPImageProcessorPil(size=size, crop_size=size)
