"""Refusals before anything heavy is loaded, from the request and the model's headers alone."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import OUTPAINT_RANGE, SIZE_MULTIPLE, SIZE_RANGE
from halftone.contract.parameters import BY_FIELD, PARAMETERS, check_range
from halftone.contract.request import CheckInputs, PictureRequest, UpscaleRequest
from halftone.contract.wording import Words
from halftone.health.pictures.passes import check_passes
from halftone.health.pictures.refiners import check_refiner
from halftone.health.pictures.unfinished_pictures import check_kept, going_on
from halftone.library.add_ons.controlnets import check_controls
from halftone.library.add_ons.denoisers import check_transformer
from halftone.library.add_ons.inversions import read_inversion
from halftone.library.add_ons.ipadapters import check_adapter_files, check_ip_adapters
from halftone.library.add_ons.loras import check_loras
from halftone.library.add_ons.preprocessors import check_preprocessors
from halftone.library.add_ons.upscalers import check_upscaler, is_upscale_model
from halftone.library.add_ons.vaes import check_vae
from halftone.library.options import check_belonging
from halftone.library.prompts.drawn_prompts import check_drawn_loras
from halftone.library.prompts.styles import styled
from halftone.library.prompts.wildcards import check_wildcards
from halftone.library.sampler_options import check_sampler_options
from halftone.library.tasks import needs_picture
from halftone.library.videos import check_video, makes_videos
from halftone.metadata.picture import ALLOWED, PICTURES, check_format, check_output, check_room_for_text
from halftone.metadata.start_images import check_mask, picture_size
from halftone.settings.picture_files import check_there

_IMAGE_ENDINGS: Final = (*PICTURES, ".bmp", ".tif", ".tiff")
_SEEDS: Final = ("seed", "variation_seed")
SEEDS: Final = tuple(BY_FIELD[name].label for name in _SEEDS)
"""Names of the two seeds in refusals."""
_SIZES: Final = ("width", "height")
FIELDS: Final[dict[str, str]] = {argument: one.flags[0] for one in PARAMETERS for argument in one.arguments} | {
    "prompt": "--prompt",
    "control_image": "--control",
    "controlnet_conditioning_scale": "--control",
    "control_guidance_start": "--control",
    "control_guidance_end": "--control",
    "ip_adapter_image": "--ip-adapter",
    "output_type": "--output",
}
"""Arguments of the pipelines with a field in the request, and its flag."""


def check_request(request: PictureRequest, facts: ModelFacts | None = None) -> None:
    """Raise HalftoneError for a picture request that cannot work: prompt-*, wildcard-*, value-out-of-range, size-not-multiple,
    setting-bad-value, image-*, video-*, input-changed, lora-*, vae-*, transformer-*, control-*, latents-*, output-*, disk-full.
    An unfinished picture is checked as it was asked for. facts: of its model, where known.
    """
    check_kept(request)
    for control in request.controls:
        if not control.image:
            allowed = Words("CONTROLNET=PICTURE, for instance net=pose.png:0.8")
            raise HalftoneError("setting-bad-value", name="--control", value=control.path, allowed=allowed)
    request, only_decode = going_on(request)
    prompt, negative = styled(request.prompt, request.negative, request.styles)
    _check_numbers(request)
    for size in request.seed_size or ():
        check_range(Words("Size that the noise is drawn at"), size, SIZE_RANGE)
        check_multiple(Words("Size that the noise is drawn at"), size)
    if request.draws and not only_decode:
        check_wildcards((prompt, negative), request.wildcards)
    if not only_decode:  # neither reaches the decoder
        check_loras(request.loras)
        check_drawn_loras(request)
        for path in request.inversions:
            read_inversion(path)
        check_controls(request.controls)
        check_preprocessors(request.controls)
        check_passes(request, facts)
        check_refiner(request, facts)
        check_ip_adapters(request.ip_adapters)
    check_vae(request.vae)
    check_transformer(None if only_decode else request.transformer)
    _check_given(request)
    if facts is not None:
        check_video(request, facts)
        if not only_decode:
            check_belonging(request.options)
            check_sampler_options(facts, request.sampler, request.options)
    check_now(request, facts)
    _check_saving(request, prompt + negative)


def _check_saving(request: PictureRequest, prompts: str) -> None:
    """Raise HalftoneError setting-bad-value or prompt-too-long where the format cannot be written or cannot hold the prompts."""
    kind = request.saving.picture_format
    check_format(kind)
    if request.saving.save_metadata:
        output = request.output
        named = output is not None and Path(output).suffix.lower() in ALLOWED and not os.path.isdir(output)
        check_room_for_text(Path(output if output is not None and named else f"picture.{kind}"), prompts)


def check_now(request: PictureRequest, facts: ModelFacts | None = None) -> None:
    """Raise HalftoneError for a request's seeds and the place of its pictures alone. facts: of the model, where known."""
    _check_numbers(request, _SEEDS)
    if request.output is not None:
        pixels = (request.width or 0) * (request.height or 0)
        endings = PICTURES if facts is not None and makes_videos(facts) is False else ALLOWED
        check_output(request.output, overwrite=request.overwrite, pictures=request.batch, pixels=pixels, endings=endings)


def check_upscale(request: UpscaleRequest) -> None:
    """Raise HalftoneError for an upscale request that cannot work: upscaler-*, model-truncated, model-bad-header,
    image-unreadable, setting-bad-value, output-*, disk-full. Only the model tells the size of the result.
    """
    check_format(request.saving.picture_format)
    if not is_upscale_model(request.upscaler):
        raise HalftoneError("upscaler-missing", path=request.upscaler)
    check_upscaler(request.upscaler)
    for picture in request.pictures:
        picture_size(picture)
    if request.output is None:
        for folder in {Path(picture).absolute().parent for picture in request.pictures}:
            check_output(folder)
        return
    if len(request.pictures) > 1 and not Path(request.output).expanduser().is_dir():
        raise HalftoneError("output-folder-missing", folder=request.output)
    check_output(request.output, endings=PICTURES)


def check_inputs(inputs: CheckInputs, facts: ModelFacts | None = None) -> None:
    """The same for the inputs of a check, which makes up missing pictures. facts: of its model, where known."""
    _check_numbers(inputs)
    check_loras(inputs.loras)
    check_vae(inputs.vae)
    check_transformer(inputs.transformer)
    for path in inputs.inversions:
        read_inversion(path)
    check_controls(inputs.controls)
    check_preprocessors(inputs.controls)
    check_adapter_files(inputs.ip_adapters)
    _check_given(inputs, pictured=facts is not None and needs_picture(facts.pipeline))


def _check_given(values: PictureRequest | CheckInputs, *, pictured: bool = False) -> None:
    """pictured: a missing start picture is made up."""
    for text in (values.prompt, values.negative):
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:  # a lone surrogate, which Python puts in the place of bytes that it cannot decode
            raise HalftoneError("prompt-no-text") from error
    for name, value in values.options.items():
        if name in FIELDS:
            raise HalftoneError("setting-bad-value", name="--option", value=f"{name}={value}", allowed=FIELDS[name])
    shown = (image for one in values.ip_adapters for image in one.images)
    controls = [control.image for control in values.controls if control.image or not isinstance(values, CheckInputs)]
    for path in filter(None, (values.image, values.mask, *controls, *shown)):
        check_there(path)
        if Path(path).suffix.lower() not in _IMAGE_ENDINGS:
            raise HalftoneError("image-unreadable", path=path)
    _check_start(values, pictured=pictured)


def _check_start(values: PictureRequest | CheckInputs, *, pictured: bool) -> None:
    """Check the settings of a start picture and a mask. A mask is never used with a made-up picture."""
    start = values.start
    given = {
        "--mask": values.mask is not None,
        "--strength": start.strength is not None and not pictured,
        "--outpaint": start.extends,
    }
    for name, there in given.items():
        if there and values.image is None:
            value, allowed = Words("used without a picture"), Words("--image as well")
            raise HalftoneError("setting-bad-value", name=name, value=value, allowed=allowed)
    if start.only_masked is not None:
        if not values.masked:
            value, allowed = Words("used without a mask"), Words("--mask as well")
            raise HalftoneError("setting-bad-value", name="--only-masked", value=value, allowed=allowed)
    elif start.extends and (values.width or values.height):
        allowed = Words("only --outpaint: the size comes from the start picture")
        raise HalftoneError("setting-bad-value", name="--outpaint", value=Words("given together with a size"), allowed=allowed)
    for pixels in start.outpaint:
        check_range("--outpaint", pixels, OUTPAINT_RANGE)
    if values.mask is not None and values.image is not None:
        check_mask(values.mask, values.image)


def _check_numbers(values: PictureRequest | CheckInputs, fields: Iterable[str] = BY_FIELD) -> None:
    """Raise value-out-of-range and size-not-multiple. fields: those that are looked at."""
    for one in map(BY_FIELD.__getitem__, fields):
        value = one.number(values)
        if value is None:
            continue
        check_range(one.label, value, one.limits)
        if one.field in _SIZES:
            check_multiple(one.label, int(value))


def check_multiple(name: Words | str, value: int, multiple: int = SIZE_MULTIPLE) -> None:
    """Raise size-not-multiple with the nearest sizes that work."""
    if value % multiple:
        below = value // multiple * multiple
        least, above = max(multiple, below), below + multiple
        raise HalftoneError("size-not-multiple", name=name, value=value, multiple=multiple, below=least, above=above)
