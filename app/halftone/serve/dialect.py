"""What scripts send and get, in the words of A1111's web API (`/sdapi/v1`); fields that are not here are noted, not followed.

Source: A1111's modules/api/models.py, modules/api/api.py and modules/processing.py (1.10).
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from halftone.contract.errors import HalftoneError
from halftone.contract.limits import (
    GUIDANCE_RANGE,
    MASK_BLUR_RANGE,
    ONLY_MASKED_RANGE,
    SCALE_RANGE,
    SEED_RANGE,
    SIZE_RANGE,
    STEPS_RANGE,
    STRENGTH_RANGE,
)
from halftone.contract.parameters import check_range
from halftone.contract.request import Start, split_sampler
from halftone.contract.vocabulary import MaskedContent, Resize
from halftone.contract.wording import Words
from halftone.health.pictures.refiners import share_of_a1111
from halftone.health.pictures.requests import check_multiple
from halftone.library.prompts.composed_prompts import is_read_otherwise
from halftone.library.prompts.prompt_syntax import Rules, Syntax
from halftone.library.samplers import SOLVER_OPTIONS, sampler_called
from halftone.metadata.control_units import without_hash
from halftone.metadata.parameters import BY_STEPS, number_text
from halftone.metadata.reading import SYNTAX, Parameters

if TYPE_CHECKING:
    from PIL import Image

Sent = TypeVar("Sent", bound=msgspec.Struct)
Request = TypeVar("Request", bound="Asked")
_RESIZES: Final[tuple[Resize, ...]] = ("stretch", "crop", "fill", "stretch")
"""By A1111's number. Its fourth resizes latents to the same shape as its first."""
_CONTENTS: Final[tuple[MaskedContent, ...]] = ("fill", "original", "noise", "fill")
"""By A1111's number. Its fourth, empty latents, is not here."""
_NOT_HERE: Final = {"resize_mode": 3, "inpainting_fill": 3}
_RANDOM: Final = -1
CONTROLNET: Final = "controlnet"
"""The one script that is followed, in any case of letters."""
_OF_NO_EFFECT: Final = ("force_task_id", "comments", "firstphase_width", "firstphase_height")
"""A1111 itself makes the same picture with any value."""
_DEFAULTS: Final[Mapping[str, tuple[object, ...]]] = {
    "do_not_save_samples": (False,), "do_not_save_grid": (False,), "save_images": (False, True),  # they are saved in any case
    "override_settings_restore_afterwards": (True,), "script_args": ([],), "script_name": ("", "None"), "s_min_uncond": (0,),
    "initial_noise_multiplier": (1,), "image_cfg_scale": (1.5,),
    "mask_round": (True,), "mask_blur": (4,), "mask_blur_x": (4,), "mask_blur_y": (4,), "latent_mask": ("",), "infotext": ("",),
    "hr_prompt": ("",), "hr_negative_prompt": ("",), "hr_checkpoint_name": ("", "Use same checkpoint"),
    "hr_sampler_name": ("", "Use same sampler"), "hr_scheduler": ("", "Use same scheduler"), "disable_extra_networks": (False,),
}  # fmt: skip
"""A1111's defaults of fields that are not followed, and that clients send all the same. null is always one."""
_ANY_NUMBER: Final = (-SEED_RANGE[1], SEED_RANGE[1])
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "seed": (_RANDOM, SEED_RANGE[1]), "subseed": (_RANDOM, SEED_RANGE[1]), "subseed_strength": (0, 1), "steps": STEPS_RANGE,
    "cfg_scale": GUIDANCE_RANGE, "width": SIZE_RANGE, "height": SIZE_RANGE, "hr_second_pass_steps": (0, STEPS_RANGE[1]),
    "mask_blur": MASK_BLUR_RANGE, "inpaint_full_res_padding": ONLY_MASKED_RANGE,
}  # fmt: skip
"""What fields may be; nan is nowhere."""
_NUMBERS: Final[Mapping[str, str]] = {
    "CLIP_stop_at_last_layers": "Clip skip", "sigma_min": "Schedule min sigma", "sigma_max": "Schedule max sigma",
    "rho": "Schedule rho", "eta_noise_seed_delta": "ENSD",
}  # fmt: skip
"""A1111's settings -> what they are called in its pictures."""
_NEUTRAL: Final = ("", 0, 1, -1, False, [], {})
"""Values of other fields that change nothing."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A1111's settings that are followed: for one request, or by `POST options` for all that come later."""

    sd_model_checkpoint: str | None = None
    sd_vae: str | None = None
    CLIP_stop_at_last_layers: int | None = None
    eta_ancestral: float | None = None
    s_noise: float | None = None
    s_churn: float | None = None
    s_tmin: float | None = None
    s_tmax: float | None = None
    sigma_min: float | None = None
    sigma_max: float | None = None
    rho: float | None = None
    eta_noise_seed_delta: int | None = None
    randn_source: Literal["GPU", "CPU", "NV"] | None = None
    emphasis: Literal["Original", "No norm", "Ignore", "None"] | None = None
    always_discard_next_to_last_sigma: bool | None = None
    sd_noise_schedule: Literal["Default", "Zero Terminal SNR"] | None = None
    refiner_switch_by_sample_steps: bool | None = None


class Asked(msgspec.Struct, kw_only=True):
    """A picture of words. Fields that are left out are the model's own choice, but for the noise and the schedule of a sampler
    that is named, which are A1111's.
    """

    prompt: str = ""
    negative_prompt: str = ""
    styles: list[str] = []
    seed: int = _RANDOM
    subseed: int = _RANDOM
    subseed_strength: float = 0.0
    seed_resize_from_w: int = 0
    seed_resize_from_h: int = 0
    sampler_name: str | None = None
    sampler_index: str | None = None
    scheduler: str | None = None
    batch_size: int = 1
    n_iter: int = 1
    steps: int | None = None
    cfg_scale: float | None = None
    eta: float | None = None
    s_noise: float | None = None
    s_churn: float | None = None
    s_tmin: float | None = None
    s_tmax: float | None = None
    width: int | None = None
    height: int | None = None
    denoising_strength: float | None = None
    refiner_checkpoint: str | None = None
    refiner_switch_at: float | None = None
    override_settings: dict[str, Any] = {}
    clip_skip: int | None = None
    """SD.Next's field for what is a setting in A1111."""
    enable_hr: bool = False
    hr_scale: float = 2.0
    hr_upscaler: str | None = None
    hr_second_pass_steps: int = 0
    hr_resize_x: int = 0
    hr_resize_y: int = 0
    send_images: bool = True
    alwayson_scripts: dict[str, Any] = {}

    @property
    def count(self) -> int:
        """How many pictures."""
        return self.batch_size * self.n_iter

    @property
    def model(self) -> str:
        """The name of the model that is wanted, "" for the one in use."""
        return without_hash(str(self.override_settings.get("sd_model_checkpoint") or ""))

    @property
    def sampler(self) -> str:
        """The sampler and its schedule, "" for the model's own."""
        schedule = self.scheduler if (self.scheduler or "").casefold() not in ("automatic", "") else ""
        name = self.sampler_name or self.sampler_index or ""
        return f"{name} {schedule}".strip() if name else ""


class AskedFromPicture(Asked, kw_only=True):
    """A picture of another one. Pictures are files in base64, with or without `data:image/png;base64,` before it."""

    init_images: list[str] = []
    mask: str | None = None
    include_init_images: bool = False
    resize_mode: int = 0
    mask_blur: int | None = None
    inpainting_fill: int = 0
    inpaint_full_res: bool = True
    inpaint_full_res_padding: int = 0
    inpainting_mask_invert: int = 0


class AskedOfPicture(msgspec.Struct, kw_only=True):
    """What a picture says of itself."""

    image: str


def settled(asked: Request, stored: Chosen) -> Request:
    """The request with the settings in force: its own override_settings, then its clip_skip, then the stored ones.

    Raises msgspec.ValidationError.
    """
    own = {name: value for name, value in asked.override_settings.items() if value is not None}
    followed = msgspec.to_builtins(msgspec.convert(own, Chosen, strict=False))
    skip = {} if asked.clip_skip is None else {"CLIP_stop_at_last_layers": asked.clip_skip}
    return replace(asked, override_settings=msgspec.to_builtins(stored) | skip | own | followed)


def check_numbers(asked: Asked) -> None:
    """Raise HalftoneError value-out-of-range or size-not-multiple for a number that cannot be followed, by its field's name."""
    for name in asked.__struct_fields__:
        value = getattr(asked, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            check_range(name, value, _RANGES.get(name, _ANY_NUMBER))
    for name, value in (("width", asked.width), ("height", asked.height)):
        check_multiple(name, value or 0)
    if asked.denoising_strength is not None and (asked.enable_hr or isinstance(asked, AskedFromPicture)):
        check_range("denoising_strength", asked.denoising_strength, (0, STRENGTH_RANGE[1]))
    if asked.enable_hr and not (asked.hr_resize_x and asked.hr_resize_y):
        check_range("hr_scale", asked.hr_scale, SCALE_RANGE)


def parameters_of(asked: Asked) -> Parameters:
    """The same as A1111 writes it into its pictures, so that both are read alike."""
    return Parameters(prompt=asked.prompt, negative=asked.negative_prompt, fields=dict(_fields(asked)))


def _switch(asked: Asked) -> Iterator[tuple[str, str]]:
    """Where the refiner begins."""
    at, by_steps = asked.refiner_switch_at, asked.override_settings.get("refiner_switch_by_sample_steps")
    if at is not None and by_steps and asked.steps:
        at = share_of_a1111(at, asked.steps, asked.denoising_strength if isinstance(asked, AskedFromPicture) else None)
    if at is not None:
        yield "Refiner switch at", number_text(at)
    if by_steps:
        yield BY_STEPS, "True"


def _fields(asked: Asked) -> Iterator[tuple[str, str]]:
    settings = asked.override_settings
    yield from _numbers(asked)
    if asked.width and asked.height:
        yield "Size", f"{asked.width}x{asked.height}"
    if asked.seed != _RANDOM:
        yield "Seed", str(asked.seed)
    if asked.subseed_strength > 0:
        yield "Variation seed strength", f"{asked.subseed_strength:g}"
        if asked.subseed != _RANDOM:
            yield "Variation seed", str(asked.subseed)
    if asked.seed_resize_from_w > 0 and asked.seed_resize_from_h > 0:
        yield "Seed resize from", f"{asked.seed_resize_from_w}x{asked.seed_resize_from_h}"
    if asked.model:
        yield "Model", asked.model
    if (vae := settings.get("sd_vae")) and str(vae) not in ("Automatic", "None"):
        yield "VAE", str(vae)
    if asked.refiner_checkpoint and asked.refiner_checkpoint != "None":
        yield "Refiner", asked.refiner_checkpoint
        yield from _switch(asked)
    if asked.enable_hr:
        yield from _second_pass(asked)


def _numbers(asked: Asked) -> Iterator[tuple[str, str]]:
    """Steps and guidance, the noise and the schedule, and how the prompt is read."""
    settings = asked.override_settings
    numbers = {"Steps": asked.steps, "CFG scale": asked.cfg_scale}
    numbers |= {name: settings.get(setting) for setting, name in _NUMBERS.items()}
    for name in ("noise", "churn", "tmin", "tmax"):
        own = getattr(asked, f"s_{name}")
        numbers[f"Sigma {name}"] = settings.get(f"s_{name}") if own is None else own
    yield from ((name, number_text(number)) for name, number in numbers.items() if number is not None)
    eta = settings.get("eta_ancestral") if asked.eta is None else asked.eta
    if eta is not None and _matters(eta, asked.sampler):
        yield "Eta", number_text(float(eta))
    if source := settings.get("randn_source"):
        yield "RNG", str(source)
    if emphasis := settings.get("emphasis"):
        yield "Emphasis", str(emphasis)
    if any(is_read_otherwise(text, Rules(Syntax.A1111)) for text in (asked.prompt, asked.negative_prompt)):
        yield SYNTAX, "A1111"
    if schedule := settings.get("sd_noise_schedule"):
        yield "Noise Schedule", str(schedule)
    if settings.get("always_discard_next_to_last_sigma"):
        yield "Discard penultimate sigma", "True"


def _second_pass(asked: Asked) -> Iterator[tuple[str, str]]:
    if asked.hr_resize_x and asked.hr_resize_y:
        yield "Hires resize", f"{asked.hr_resize_x}x{asked.hr_resize_y}"
    else:
        yield "Hires upscale", f"{asked.hr_scale:g}"
    upscaler = asked.hr_upscaler or "Latent"
    yield "Hires upscaler", "Lanczos" if upscaler == "None" else upscaler  # what A1111 resizes with then
    if asked.hr_second_pass_steps:
        yield "Hires steps", str(asked.hr_second_pass_steps)
    if asked.denoising_strength is not None:
        yield "Denoising strength", f"{asked.denoising_strength:g}"


def start_of(asked: AskedFromPicture) -> Start:
    """How the start picture is used. Raises HalftoneError setting-bad-value for a number that A1111 does not have."""
    return Start(
        strength=0.75 if asked.denoising_strength is None else max(asked.denoising_strength, STRENGTH_RANGE[0]),
        resize=_numbered("resize_mode", asked.resize_mode, _RESIZES),
        mask_blur=Start().mask_blur if asked.mask_blur is None else asked.mask_blur,
        masked_content=_numbered("inpainting_fill", asked.inpainting_fill, _CONTENTS) if asked.mask else "original",
        only_masked=asked.inpaint_full_res_padding if asked.mask and asked.inpaint_full_res else None,
    )


def mask_in(picture: "Image.Image") -> "Image.Image":
    """A mask as A1111 reads it: by its transparency where it has any, else by its brightness."""
    if picture.has_transparency_data:
        alpha = picture.convert("RGBA").getchannel("A")
        if alpha.getextrema() != (255, 255):
            return alpha.point([255 * (value > 128) for value in range(256)])
    return picture.convert("L")


def _numbered(name: str, number: int, values: tuple[Any, ...]) -> Any:
    if not 0 <= number < len(values):
        allowed = Words("a number from {0} to {1}", (0, len(values) - 1))
        raise HalftoneError("setting-bad-value", name=name, value=str(number), allowed=allowed)
    return values[number]


def ignored(body: Mapping[str, Any], kind: type[Asked]) -> tuple[str, ...]:
    """Fields that a client sent, that would change the picture, and that are not followed."""
    fields = [name for name, value in body.items() if name not in kind.__struct_fields__ and not _changes_nothing(name, value)]
    if body.get("scheduler") and not (body.get("sampler_name") or body.get("sampler_index")):
        fields += ["scheduler"] if str(body["scheduler"]).casefold() != "automatic" else []
    fields += [name for name, number in _NOT_HERE.items() if body.get(name) == number and name in kind.__struct_fields__]
    scripts = body.get("alwayson_scripts")
    others = [name for name in scripts if name.casefold() != CONTROLNET] if isinstance(scripts, dict) else []
    inside = [f"alwayson_scripts.{name}" for name in others]
    settings = body.get("override_settings")
    unknown = [f"override_settings.{name}" for name in unknown_settings(settings)] if isinstance(settings, dict) else []
    return (*fields, *inside, *unknown)


def unknown_settings(sent: Mapping[str, Any]) -> tuple[str, ...]:
    """A1111's settings among these that are not followed."""
    return tuple(name for name in sent if name not in Chosen.__struct_fields__)


def _matters(eta: float, sampler: str) -> bool:
    """Whether eta can change the picture: 0 cannot with a sampler that adds no noise."""
    method = split_sampler(sampler_called(sampler) or "")[0]
    return eta != 0 or not method or method in SOLVER_OPTIONS["eta_ancestral"]


def _changes_nothing(name: str, value: object) -> bool:
    if name in _OF_NO_EFFECT:
        return True
    if name in _DEFAULTS:
        return value is None or value in _DEFAULTS[name]
    return value is None or (value is not True and value in _NEUTRAL)


def decoded(body: bytes, kind: type[Sent]) -> Sent:
    """A request; a field of null counts as left out, as in A1111. Raises msgspec.DecodeError, msgspec.ValidationError."""
    sent = msgspec.json.decode(body, type=dict[str, Any])
    return msgspec.convert({name: value for name, value in sent.items() if value is not None}, kind, strict=False)


def picture_bytes(text: str, field: str) -> bytes:
    """The file in a field of base64. Raises HalftoneError image-unreadable."""
    head, comma, rest = text.partition(",")
    try:
        return base64.b64decode(rest if comma and head.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HalftoneError("image-unreadable", path=field) from error
