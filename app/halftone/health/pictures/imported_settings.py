"""The settings of a picture or a text of A1111, Forge or Halftone, as a request; and those that are missing here."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from halftone.contract.facts import ModelFacts
from halftone.contract.limits import (
    LORA_RANGE,
    OUTPAINT_RANGE,
    SCALE_RANGE,
    SIZE_MULTIPLE,
    SIZE_RANGE,
    STEPS_RANGE,
    STRENGTH_RANGE,
)
from halftone.contract.parameters import BY_FIELD, NOISE_SEED_DELTA, OPTION_PARAMETERS, idle_options
from halftone.contract.request import (
    LANCZOS,
    LATENT,
    TIME_UNIFORM,
    Hires,
    Lora,
    OptionValue,
    PictureRequest,
    Refiner,
    split_sampler,
)
from halftone.contract.vocabulary import DType, MaskedContent
from halftone.health.pictures.passes import Counting, part_of_schedule, steps_from_picture
from halftone.health.pictures.refiners import share_of_a1111, switches_by_steps
from halftone.library.add_ons.extras import parts_among
from halftone.library.add_ons.loras import lora_folders, loras_among, sort_tags
from halftone.library.add_ons.upscalers import upscalers_among
from halftone.library.families.known_families import REFINER
from halftone.library.files.model_hash import is_hash, model_hash
from halftone.library.index.known import listed_models
from halftone.library.options import CLIP_SKIP, NAMES, known_options, over
from halftone.library.prompts.composed_prompts import is_read_otherwise
from halftone.library.prompts.prompt_syntax import Rules, Syntax
from halftone.library.prompts.wildcards import is_drawn
from halftone.library.sampler_options import takes_seed_delta
from halftone.library.samplers import (
    begins_without_noise,
    by_comfyui,
    by_diffusers,
    is_solved,
    sampler_called,
    with_schedule,
)
from halftone.metadata.comfy import PROGRAM as COMFYUI
from halftone.metadata.other_programs import INVOKE, SWARM
from halftone.metadata.parameters import (
    BY_STEPS,
    CONTENT_NAMES,
    EMBEDDINGS,
    EMPTY_NEGATIVE,
    K_DIFFUSION,
    ONLY_MASKED,
    OPTIONS,
    RESIZE_NAMES,
    SOLVER,
)
from halftone.metadata.reading import SYNTAX, Parameters
from halftone.settings.store import Settings

_LONGEST: Final = 48
"""Letters of a shown value."""
_USUAL_SKIP: Final = 2
"""In A1111 this changes nothing with SDXL, which always leaves one layer out."""
_SAYS_NOTHING: Final = frozenset(
    {
        "Version", "Model hash", "VAE hash", "Lora hashes", "Hashes", "User", "Created Date", "Precision", "Numerics", "Cure",
        "Styles", "Template", "Negative Template", "VAE Encoder", "freeu_enabled",
        "pagi_enabled", "dynthres_enabled",
    }
)  # fmt: skip
"""Fields that do not change the picture."""
_AUTOMATIC: Final = "Automatic"
_OF_NO_EFFECT: Final = {"VAE": ("None", _AUTOMATIC), "Face restoration": ("None",), "Hires Module 1": ("Use same choices",)}
_OURS: Final = "Halftone"
_ETA_OF_DDIM: Final = "Eta DDIM"
"""What diffusers' pipelines call eta."""
_RNG: Final = "RNG"
_FREEU_ON: Final = "freeu_enabled"
_CARD: Final = "GPU"
"""A1111's default, which its pictures do not name."""
_BY_TIME: Final = "UniPC"
"""The sampler for which A1111 does not use the schedule that it writes."""
_RESIZES: Final = {name: resize for resize, name in RESIZE_NAMES.items()}
_CONTENTS: Final[dict[str, MaskedContent]] = {
    **{content: content for content in get_args(MaskedContent)},
    **{theirs: ours for ours, theirs in CONTENT_NAMES.items()},
}
_DTYPES: Final[tuple[DType, ...]] = ("float16", "bfloat16", "float32")


class Known(NamedTuple):
    """Files here. loras, vaes, upscalers: name -> path; words: names of embeddings."""

    models: Sequence[ModelFacts] = ()
    loras: Mapping[str, str] = {}
    vaes: Mapping[str, str] = {}
    upscalers: Mapping[str, str] = {}
    words: Sequence[str] = ()


class Imported(NamedTuple):
    """left: the settings that are not in the request, as written."""

    request: PictureRequest
    left: tuple[str, ...]


def known_here(settings: Settings, models: Sequence[ModelFacts], words: Sequence[str]) -> Known:
    """Read the folders of the settings, each once. words: of the embeddings that the model can read."""
    found = listed_models(lora_folders(settings))  # those of the models are among them
    return Known(models, loras_among(found), parts_among(found, "VAE"), upscalers_among(found, settings), words)


def import_settings(said: Parameters, now: PictureRequest, known: Known) -> Imported:
    """Return the request with the settings that a text names. now: the form's request, for settings that the text lacks."""
    return _Reader(said, now, known).imported()


def made_in(said: Parameters) -> DType | None:
    """What it was made in, where it says so."""
    return narrowest(re.findall(r"[a-z0-9]+", said.fields.get("Precision", "")))


def narrowest(dtypes: Iterable[str]) -> DType | None:
    """The precision of a picture among its parts': a cure runs single parts in FP32. None without any."""
    among = set(dtypes)
    return next((dtype for dtype in _DTYPES if dtype in among), None)


def is_ours(said: Parameters) -> bool:
    """Whether Halftone made it."""
    return said.fields.get("Version", "").startswith(_OURS)


class OtherFile(NamedTuple):
    """A model of the name that a text says, whose file is another one. own, said: their hashes."""

    model: str
    own: str
    said: str


def other_file(said: Parameters, model: ModelFacts, stop: Callable[[], bool]) -> OtherFile | None:
    """The model in use, where the text has the hash of another file under its name; None too where that is unknown, as of a
    folder. Reads the whole file unless `stop` returns True.
    """
    wanted, name = said.fields.get("Model hash", "").lower(), _stem(said.fields.get("Model", model.name))
    if not is_hash(wanted) or model.format != "single-file" or name not in (_stem(model.name), _stem(model.path)):
        return None
    own = model_hash(model.path, len(wanted), stop)
    return OtherFile(model.name, own, wanted) if own and own != wanted else None


class _Reader:
    """Takes one value after the other; the rest is left over."""

    def __init__(self, said: Parameters, now: PictureRequest, known: Known) -> None:
        self._said = said
        self._fields = dict(said.fields)
        self._known = known
        self._now = now
        self._left: list[str] = []
        if self._fields.get(_RNG, _CARD if _is_of_a1111(said) else "") == _CARD:
            self._fields[_RNG] = "NV"  # the same numbers
        elif self._is_of_comfyui:
            self._fields.setdefault(_RNG, "ComfyUI GPU" if self._fields.get("Sampler", "").endswith("_gpu") else "ComfyUI")
        theirs = (is_read_otherwise(text, Rules(Syntax.A1111)) for text in (said.prompt, said.negative))
        if SYNTAX not in said.fields and _is_of_a1111(said) and any(theirs):
            self._fields[SYNTAX] = "A1111"
        if self._fields.get(_FREEU_ON) == "True":
            self._fields.setdefault(BY_FIELD["options.freeu"].keys[0], "V2")  # Forge has no other

    def imported(self) -> Imported:
        now = self._now
        prompt, loras, unknown = sort_tags(self._said.prompt, self._known.loras)

        def fits(lora: Lora) -> bool:
            return all(LORA_RANGE[0] <= weight <= LORA_RANGE[1] for weight in lora.weights)

        self._left += [_shortened("LoRA", f"<lora:{lora.name}:{lora.shown_weight}>") for lora in loras if not fits(lora)]
        self._left += unknown
        width, height = self._size("Size") or (now.width, now.height)
        model = self._model()
        sampler = self._sampler(model)
        request = replace(
            now,
            prompt=prompt,
            negative=self._said.negative,
            empty_negative=self._fields.pop(EMPTY_NEGATIVE, "") == "True",
            model=now.model if model is None else model.id,
            width=width,
            height=height,
            steps=self._number("steps", now.steps),
            guidance=self._number("guidance", now.guidance),
            sampler=sampler,
            seed=self._number("seed"),
            loras=tuple(filter(fits, loras)),
            lora_folders=None,
            vae=self._vae(),
            options=self._options(model, sampler),
            hires=self._hires(width, height),
            refiner=self._refiner(),
            variation_seed=self._number("variation_seed"),
            variation_strength=self._number("variation_strength", 0.0),
            seed_size=self._size("Seed resize from"),
            num_frames=self._number("num_frames"),
            fps=self._number("fps"),
            styles=(),
            draws=now.draws and not any(map(is_drawn, (prompt, self._said.negative))),
        )
        request = self._started(request)
        self._left += self._rest()
        return Imported(request, tuple(self._left))

    def _rest(self) -> list[str]:
        words = [_shortened("Embedding", name) for name in self._strange_words()]
        quiet = {name for name, values in _OF_NO_EFFECT.items() if self._fields.get(name) in values}
        return words + [_shortened(name, value) for name, value in self._fields.items() if name not in _SAYS_NOTHING | quiet]

    def _strange_words(self) -> list[str]:
        """Embeddings that the text names and that are not here: they are read as words."""
        known = {word.casefold() for word in self._known.words}
        pairs = (*self._fields.pop("TI hashes", "").split(","), *self._fields.pop(EMBEDDINGS, "").split(","))
        named = (pair.partition(":")[0].strip() for pair in pairs)
        return [name for name in named if name and name.casefold() not in known]

    # --- single values ------------------------------------------------------------------------------------------------

    def _take(self, name: str, read: Callable[[str], Any]) -> Any:
        """The value of a field, which is then taken; None where there is none, or none that can be used."""
        text = self._fields.get(name)
        found = None if text is None else read(text)
        if found is not None:
            del self._fields[name]
        return found

    @property
    def _is_of_comfyui(self) -> bool:
        """Whether ComfyUI made it, for itself or for SwarmUI."""
        return self._said.fields.get("Version", "").startswith((COMFYUI, SWARM))

    def _number(self, field: str, otherwise: Any = None, key: str = "") -> Any:
        """The number of a parameter; `otherwise` where there is none. key: where it stands under the name of another one."""
        one = BY_FIELD[field]
        read, limits = _whole if one.kind is int else _number, one.limits
        if one.names:
            return next((number for name in one.keys if (number := self._take(name, one.named)) is not None), otherwise)
        found = [self._take(name, lambda text: read(text, limits)) for name in ((key,) if key else one.keys)]
        return next((number for number in reversed(found) if number is not None), otherwise)

    def _size(self, name: str) -> tuple[int, int] | None:
        return self._take(name, _size)

    def _sampler(self, model: ModelFacts | None) -> str | None:
        """Old texts have both names in one. Left out: the model's own."""
        method, schedule = self._fields.pop("Sampler", ""), self._fields.pop("Schedule type", "")
        ours, solver = is_ours(self._said), self._fields.pop(SOLVER, "")
        if not method:
            self._left += [_shortened("Schedule type", schedule)] if schedule not in ("", _AUTOMATIC) else []
            return self._now.sampler
        found = sampler_called(f"{method} {schedule}")
        if found is None and (found := sampler_called(method)) is not None:
            self._left.append(_shortened("Schedule type", schedule))
        elif found is None:
            self._left.append(_shortened("Sampler", method))
            self._left += [_shortened("Schedule type", schedule)] if schedule not in ("", _AUTOMATIC) else []
        by_theirs = self._said.fields.get("Version", "").startswith(INVOKE)  # it uses the schedulers of diffusers
        if found is None or by_theirs or (ours and solver == K_DIFFUSION):
            return found
        if split_sampler(found)[0] == _BY_TIME and _is_of_a1111(self._said):
            named = f"{_BY_TIME} {TIME_UNIFORM}"
        else:
            named = by_diffusers(found) if ours else by_comfyui(found) if self._is_of_comfyui else with_schedule(found)
        return named if model is None or not model.samplers or named in model.samplers else found

    def _options(self, model: ModelFacts | None, sampler: str | None) -> dict[str, OptionValue]:
        said: dict[str, OptionValue] = self._take(OPTIONS, _options_in) or {}
        for one in OPTION_PARAMETERS.values():
            said |= one.entry(self._number(one.field))
        if (eta := self._take(_ETA_OF_DDIM, lambda text: _number(text, (0, 1)))) is not None:
            said["eta"] = eta
        if begins_without_noise(self._said.fields.get("Sampler", "")):
            said.setdefault("eta_ancestral", 0.0)
        sdxl = model is not None and model.pipeline.startswith("StableDiffusionXL")
        if sdxl and not is_ours(self._said) and isinstance(skip := said.pop(CLIP_SKIP, 0), int) and skip >= _USUAL_SKIP:
            self._left.append(_shortened("Clip skip", str(skip + 1)))
        own = {name: value for name, value in self._now.options.items() if name not in OPTION_PARAMETERS}
        return over(self._known_options(said, model, sampler), own, "" if model is None else model.pipeline)

    def _known_options(
        self, said: Mapping[str, OptionValue], model: ModelFacts | None, sampler: str | None
    ) -> dict[str, OptionValue]:
        """Return those that the model's pipeline and the sampler take; the others are left over."""
        image, mask = self._now.image is not None, self._now.mask is not None
        known = set(NAMES if model is None else known_options(model, sampler, said, image=image, mask=mask)) - idle_options(said)
        for name, value in said.items():
            without_effect = name == NOISE_SEED_DELTA and model is not None and not takes_seed_delta(model, sampler, said)
            if name in known or without_effect:  # A1111 writes that one beside any sampler
                continue
            one = OPTION_PARAMETERS.get(name)
            number = None if one is None else one.number(PictureRequest(prompt="", options={name: value}))
            self._left.append(_shortened(name if one is None else one.keys[0], str(value if number is None else number)))
        return {name: value for name, value in said.items() if name in known}

    # --- files --------------------------------------------------------------------------------------------------------

    def _model(self) -> ModelFacts | None:
        """That of the text where it is known here, else the one that is chosen."""
        chosen = next((model for model in self._known.models if model.id == self._now.model), None)
        name = self._fields.get("Model", "")
        wanted = _stem(name)
        alike = [model for model in self._known.models if wanted in (_stem(model.name), _stem(model.path))]
        found = chosen if chosen in alike else next(iter(alike), None)
        if found is None:
            return chosen
        self._fields.pop("Model")
        return found

    def _vae(self) -> str | None:
        if self._fields.get("VAE") in _OF_NO_EFFECT["VAE"]:
            return None
        return self._take("VAE", lambda name: _among(self._known.vaes, name)) or self._now.vae

    def _hires(self, width: int | None, height: int | None) -> Hires | None:
        scale = self._number("hires.scale") or self._hires_size(width, height)
        if scale is None:
            return None
        own = "Hires denoising strength" in self._fields
        key = "Hires denoising strength" if own else "Denoising strength"
        strength = (
            STRENGTH_RANGE[0] if _is_zero(self._fields.get(key)) else self._number("hires.strength", key="" if own else key)
        )
        steps = self._take("Hires steps", lambda text: _whole(text, (0, STEPS_RANGE[1])))
        return Hires(scale=scale, upscaler=self._upscaler(), steps=steps or None, strength=strength)

    def _refiner(self) -> Refiner | None:
        """None where it is not here: it is listed as not found, with its switch point."""
        wanted = _stem(re.sub(r" \[\w+\]$", "", self._fields.get("Refiner", "")))
        alike = (model for model in self._known.models if model.family == REFINER.name)
        found = next((model for model in alike if wanted in (_stem(model.name), _stem(model.path))), None)
        if not wanted or found is None:
            return None
        del self._fields["Refiner"]
        by_steps = switches_by_steps(self._said)
        if self._fields.get(BY_STEPS) == "True":
            del self._fields[BY_STEPS]
        at = self._number("refiner.at", Refiner(path="").at)
        if by_steps and _is_of_a1111(self._said):
            steps = self._said.fields.get("Steps", "")
            begun = self._said.fields.get("Denoising strength", "") if self._now.image is not None else ""
            at = share_of_a1111(at, _whole(steps, STEPS_RANGE) or 1, _number(begun, STRENGTH_RANGE))
        return Refiner(path=found.path, at=at, by_steps=by_steps)

    def _hires_size(self, width: int | None, height: int | None) -> float | None:
        """The scale that covers the size; a size of another aspect is left over, as A1111 cuts what is beyond it."""
        found = _size(self._fields.get("Hires resize", ""))
        if found is None or not width or not height:
            return None
        scale = round(max(found[0] / width, found[1] / height), 2)
        if not SCALE_RANGE[0] <= scale <= SCALE_RANGE[1]:
            return None
        if all(abs(edge * scale - wanted) < SIZE_MULTIPLE for edge, wanted in zip((width, height), found, strict=True)):
            del self._fields["Hires resize"]
        return scale

    def _upscaler(self) -> str:
        """Latents where A1111 has another way to interpolate them, Lanczos where a model is not here: both are not found."""
        name = self._fields.pop("Hires upscaler", "Latent")
        if (plain := name.casefold()) in (LATENT, LANCZOS):
            return plain
        found = _among(self._known.upscalers, name)
        if found is None:
            self._left.append(_shortened("Hires upscaler", name))
        return found or (LATENT if plain.startswith(LATENT) else LANCZOS)

    def _started(self, request: PictureRequest) -> PictureRequest:
        """Add how a start picture was used, where the form has one; the size of an extended picture comes from it."""
        if request.image is None:
            return request
        start = replace(request.start, **self._start_fields(masked=request.mask is not None))
        if self._said.fields.get("Version") == COMFYUI and request.steps is not None and start.strength is not None:
            steps, strength = _all_computed(request.steps, start.strength, "A1111" if is_solved(request.sampler) else "diffusers")
            request, start = replace(request, steps=steps), replace(start, strength=strength)
        if is_ours(self._said):
            self._fields.pop("Start picture", None)
        if start.extends and start.only_masked is None:
            self._fields.pop("Size", None)
            request = replace(request, width=None, height=None)
        return replace(request, start=start)

    def _start_fields(self, *, masked: bool) -> dict[str, Any]:
        """Read the fields of `Start` that the text has. masked: whether the form has a mask."""
        found: dict[str, Any] = {
            "strength": self._number("start.strength"),
            "resize": self._take("Resize mode", _RESIZES.get),
            "outpaint": self._take("Outpaint", _sides),
        }
        if masked:
            self._fields.pop("Mask", None)
            found["masked_content"] = self._take("Masked content", _CONTENTS.get)
        if masked or found["outpaint"] is not None:
            found["mask_blur"] = self._number("start.mask_blur")
            only = self._fields.get("Inpaint area") == ONLY_MASKED
            found["only_masked"] = self._number("start.only_masked") if only else None
            if found["only_masked"] is not None:
                del self._fields["Inpaint area"]
        return {name: value for name, value in found.items() if value is not None}


def _all_computed(computed: int, strength: float, counting: Counting) -> tuple[int, float]:
    """ComfyUI computes all steps, of a longer schedule: (the steps of that one, the strength, of two digits where they do)."""
    steps, exact = part_of_schedule(computed, strength, counting)
    short = math.ceil(exact * 100) / 100
    return steps, short if steps_from_picture(steps, short, counting) == computed else exact


def _is_of_a1111(said: Parameters) -> bool:
    """Whether A1111 or a fork of it wrote the text. Others name themselves, and have no hash of the model without that."""
    version = said.fields.get("Version")
    return "Model hash" in said.fields if version is None else bool(re.match(r"[a-z]?[0-9]+\.", version))


def _options_in(text: str) -> dict[str, OptionValue] | None:
    """Read arguments of the pipeline that Halftone wrote; None for anything else."""
    try:
        found = msgspec.json.decode(text, type=dict[str, OptionValue])
    except (msgspec.DecodeError, ValueError):
        return None
    return found if found.keys() <= NAMES else None


def _sides(text: str) -> tuple[int, int, int, int] | None:
    """Read "8, 0, 16, 0" as pixels at the left, top, right and bottom."""
    match [_whole(part.strip(), OUTPAINT_RANGE) for part in text.split(",")]:
        case [int(left), int(top), int(right), int(bottom)]:
            return left, top, right, bottom
        case _:
            return None


def _shortened(name: str, value: str) -> str:
    return f"{name}: {value if len(value) <= _LONGEST else value[: _LONGEST - 1] + '…'}"


def _number(text: str, limits: tuple[float, float]) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and limits[0] <= found <= limits[1] else None


def _whole(text: str, limits: tuple[float, float]) -> int | None:
    found = int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None
    return found if found is not None and limits[0] <= found <= limits[1] else None


def _is_zero(text: str | None) -> bool:
    return text is not None and _number(text, (0, 0)) is not None


def _size(text: str) -> tuple[int, int] | None:
    """In whole latents: the programs leave out what is beyond."""
    match = re.fullmatch(r"([0-9]{1,6})\s*[x×]\s*([0-9]{1,6})", text)
    if match is None:
        return None
    width, height = (int(edge) // SIZE_MULTIPLE * SIZE_MULTIPLE for edge in match.groups())
    return (width, height) if all(SIZE_RANGE[0] <= edge <= SIZE_RANGE[1] for edge in (width, height)) else None


def _stem(name: str) -> str:
    """Without folder and ending, in small letters."""
    last = PurePath(name.replace("\\", "/")).name.casefold()
    return re.sub(r"\.(safetensors|ckpt|pt|pth|gguf|sft|bin)$", "", last)


def _among(known: Mapping[str, str], name: str) -> str | None:
    return next((path for own, path in known.items() if _stem(own) == _stem(name)), None)
