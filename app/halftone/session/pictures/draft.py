"""The draft of the next pictures: all that the Create page asks for and remembers, frozen; every change makes a new one."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from halftone.contract import limits
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import BY_FIELD, OPTION_PARAMETERS, idle_options, option_numbers
from halftone.contract.request import (
    Control,
    Extras,
    Hires,
    IpAdapter,
    Lora,
    Numerics,
    OptionValue,
    PictureRequest,
    Refiner,
    Start,
    Style,
)
from halftone.contract.vocabulary import VideoFormat
from halftone.health.pictures.passes import strength_of
from halftone.library.add_ons.inversions import Inversion, named_of
from halftone.library.add_ons.loras import lora_folders
from halftone.library.options import known_options
from halftone.library.prompts.drawn_prompts import draws_words
from halftone.library.prompts.prompt_syntax import rules_of
from halftone.library.prompts.styles import styled
from halftone.library.samplers import sampler_called
from halftone.library.tasks import takes_mask, takes_picture, takes_strength
from halftone.library.videos import makes_videos
from halftone.session.pictures.draft_parts import PARTS, takes
from halftone.settings.store import Settings

Part = TypeVar("Part", bound=msgspec.Struct)


class Scalar(NamedTuple):
    """What a number of the draft may be, and how many decimal places it has. optional: 0 stands for None, the model's own."""

    allowed: tuple[float, float]
    places: int = 0
    optional: bool = False

    def held(self, value: float) -> float:
        """The nearest number that is allowed."""
        low, high = self.allowed
        nearest = round(min(high, max(low, value)), self.places)
        return nearest if self.places else int(nearest)


def _number(field: str, places: int = 0, *, optional: bool = False) -> Scalar:
    """A number with the limits that its parameter has in the table."""
    low, high = BY_FIELD[field].limits
    return Scalar((0 if optional else low, high), places, optional)


SCALARS: Final[dict[str, Scalar]] = {
    "steps": _number("steps"),
    "guidance": _number("guidance", 1),
    "batch": _number("batch"),
    "start.strength": _number("start.strength", 2),
    "start.mask_blur": _number("start.mask_blur"),
    "padding": _number("start.only_masked"),
    "num_frames": _number("num_frames", optional=True),
    "fps": _number("fps", optional=True),
    "variation_strength": _number("variation_strength", 2),
    "hires.scale": _number("hires.scale", 1),
    "hires.steps": _number("hires.steps", optional=True),
    "hires.strength": _number("hires.strength", 2),
    "refiner_at": _number("refiner.at", 2),
}
"""The numbers of the form, by field. "hires.steps" and the like is a field of a field."""
LISTED: Final[dict[str, Scalar]] = {
    "loras.weight": Scalar(limits.LORA_RANGE, 2),
    "loras.encoder_weight": Scalar(limits.LORA_RANGE, 2),
    "controls.scale": Scalar(limits.CONTROL_RANGE, 2),
    "controls.start": Scalar((0.0, 0.99), 2),
    "controls.end": Scalar((0.01, 1.0), 2),
    "ip_adapters.scale": Scalar(limits.IP_ADAPTER_RANGE, 2),
    "start.outpaint": Scalar(limits.OUTPAINT_RANGE),
}
"""The same of the entries of lists."""


class Seed(msgspec.Struct, frozen=True, omit_defaults=True):
    """number: None for a random one. locked: it stays when a picture was begun."""

    number: int | None = None
    locked: bool = False

    @property
    def next(self) -> "Seed":
        """The seed once a picture was begun."""
        return self if self.locked else Seed()


class Defaults(msgspec.Struct, frozen=True):
    """What a model was made for."""

    size: tuple[int, int]
    steps: int
    guidance: float


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a request as the form has them, each under the request's name where it means the same. What is off, or not
    for the model in use, keeps its values.
    """

    prompt: str = ""
    negative: str = ""
    empty_negative: bool = False
    size: tuple[int, int] = (512, 512)
    steps: int = 20
    guidance: float = 7.0
    sampler: str | None = None
    """The one that is wanted; the model may not have it, see `fitting_sampler`."""
    seed: Seed = Seed()
    batch: int = 1
    image: str | None = None
    mask: str | None = None
    start: Start = Start(strength=0.75)
    """A1111 begins with this strength. `only_masked` of it is not used."""
    only_masked: bool = False
    padding: int = 32
    """Pixels around the masked part, as A1111 proposes."""
    num_frames: int | None = None
    video: VideoFormat = "mp4"
    fps: int | None = None
    options: dict[str, OptionValue] = msgspec.field(default_factory=dict)
    loras: tuple[Lora, ...] = ()
    vae: str | None = None
    transformer: str | None = None
    inversions: tuple[str, ...] = ()
    """Files that a picture brought with it; they count before those of the folders."""
    controls: tuple[Control, ...] = ()
    """One without a picture is a `problem`."""
    hires_on: bool = False
    hires: Hires = Hires()
    """strength: None for what the upscaler needs."""
    refiner: str | None = None
    refiner_at: float = Refiner(path="").at
    refiner_by_steps: bool = False
    upscaler: str | None = None
    """The upscale model for finished pictures, each a second file."""
    ip_adapters: tuple[IpAdapter, ...] = ()
    variation_seed: Seed = Seed()
    variation_strength: float = 0.0
    seed_size: tuple[int, int] | None = None
    styles: tuple[Style, ...] = ()
    draws: bool = True
    model: str = ""
    """The model whose defaults it follows."""
    defaults: Defaults | None = None
    """Those of that model, None while they are not known."""
    own: tuple[str, ...] = ()
    """Fields whose values the user set for an earlier model."""


EMPTY: Final = Draft()
FOLLOWING: Final = Defaults.__struct_fields__
"""Fields that a model has values of its own for."""
_MUCH: Final = 2
"""A picture with so many times the pixels that its model was made for is inpainted in its masked part only."""
_SAME: Final = (
    *("prompt", "negative", "empty_negative", "sampler", "batch", "image", "loras", "vae", "transformer", "inversions"),
    *("controls", "ip_adapters", "variation_strength", "seed_size", "styles", "draws", "num_frames", "fps"),
)
"""Fields that a request has as they are."""
_SENT: Final = tuple(set(_SAME) - {"prompt", "negative", "sampler", "inversions", "num_frames", "fps"})


def with_value(struct: Part, field: str, value: object) -> Part:
    """The draft with another value in a field. field: its name, with dots for a field of a field."""
    head, _, rest = field.partition(".")
    return replace(struct, **{head: with_value(getattr(struct, head), rest, value) if rest else value})


# --- what the model can use ------------------------------------------------------------------------------------------


def in_use(draft: Draft, part: str) -> bool:
    """Whether a part of the form changes the next pictures. part: as in `draft_parts.PARTS`."""
    return any(getattr(draft, name) != getattr(EMPTY, name) for name in PARTS[part].fields)


def unused(draft: Draft, model: ModelFacts | None) -> tuple[str, ...]:
    """Parts that hold something which the model cannot use."""
    return tuple(part for part in PARTS if not takes(model, part) and in_use(draft, part))


def usable(draft: Draft, model: ModelFacts | None) -> Draft:
    """The draft without what the model cannot use."""
    dropped = [name for part in unused(draft, model) for name in PARTS[part].fields]
    return replace(draft, **{name: getattr(EMPTY, name) for name in dropped}) if dropped else draft


def with_word(prompt: str, word: str) -> str:
    """The prompt with a word at its end, unless it is there already."""
    there = {part.strip() for part in prompt.split(",")}
    return prompt if word in there else ", ".join(filter(None, (prompt.rstrip(", "), word)))


# --- from and to requests --------------------------------------------------------------------------------------------


def from_request(draft: Draft, request: PictureRequest, selected: str = "") -> Draft:
    """The draft filled from an earlier request, with numbers that the form can show. What the request leaves to the model stays
    as it is. selected: the model in use, which stays.
    """
    start = request.start
    filled = replace(
        draft,
        **{name: getattr(request, name) for name in _SAME},
        size=draft.size if request.width is None or request.height is None else (request.width, request.height),
        steps=draft.steps if request.steps is None else request.steps,
        guidance=draft.guidance if request.guidance is None else request.guidance,
        seed=draft.seed if request.seed is None else Seed(request.seed),
        mask=request.mask if request.image is not None else None,
        start=replace(start, strength=EMPTY.start.strength if start.strength is None else start.strength, only_masked=None),
        only_masked=start.only_masked is not None,
        padding=EMPTY.padding if start.only_masked is None else start.only_masked,
        video=request.video or "mp4",
        options=_held_options(request),
        hires_on=request.hires is not None,
        hires=draft.hires if request.hires is None else with_strength(request.hires, strength_of(request.hires)),
        refiner=None if request.refiner is None else request.refiner.path,
        refiner_at=draft.refiner_at if request.refiner is None else request.refiner.at,
        refiner_by_steps=draft.refiner_by_steps if request.refiner is None else request.refiner.by_steps,
        variation_seed=Seed(request.variation_seed, locked=request.variation_seed is not None),
        model=selected if request.model == selected else draft.model,
        own=(),
    )
    return held(filled)


def held(draft: Draft) -> Draft:
    """The draft with numbers that the form can show."""
    for name, scalar in SCALARS.items():
        value = attrgetter(name)(draft)
        if value is not None and value != scalar.held(value):
            draft = with_value(draft, name, scalar.held(value))
    return draft


def to_request(
    draft: Draft, settings: Settings, numerics: Numerics, model: ModelFacts | None = None, known: Sequence[Inversion] = ()
) -> PictureRequest:
    """What the draft asks of the model in use; what that cannot use is not sent. known: the embeddings that it can read."""
    draft = usable(draft, model)
    there = model is not None and makes_videos(model) is True
    sized = not sets_size(draft, model)
    request = PictureRequest(
        **{name: getattr(draft, name) for name in _SENT},
        prompt=draft.prompt.strip(),
        negative=draft.negative.strip(),
        sampler=draft.sampler if model is None else fitting_sampler(draft.sampler, model.samplers),
        model=settings.last_model,
        device=settings.device,
        width=draft.size[0] if sized else None,
        height=draft.size[1] if sized else None,
        steps=draft.steps,
        guidance=draft.guidance,
        seed=draft.seed.number,
        output=settings.pictures_folder,
        saving=settings.saving,
        mask=draft.mask if masks(model) and draft.image is not None else None,
        start=_start(draft, model) if draft.image is not None else Start(),
        num_frames=draft.num_frames if there else None,
        video=draft.video if there else None,
        fps=draft.fps if there else None,
        options=draft.options,
        inversions=tuple(one.path for one in named_of(known, written(draft), rules_of(draft.options))),
        hires=replace(draft.hires, strength=strength_of(draft.hires)) if draft.hires_on else None,
        refiner=None
        if draft.refiner is None
        else Refiner(path=draft.refiner, at=draft.refiner_at, by_steps=draft.refiner_by_steps),
        variation_seed=draft.variation_seed.number,
        wildcards=settings.wildcard_folders,
        numerics=numerics,
    )
    if model is not None:
        supported = known_options(model, request.sampler, draft.options, image=request.image is not None, mask=request.masked)
        sent = set(supported) - idle_options(draft.options)
        request = replace(request, options={name: value for name, value in draft.options.items() if name in sent})
    return replace(request, lora_folders=lora_folders(settings)) if draws_words(request) else request


def _held_options(request: PictureRequest) -> dict[str, OptionValue]:
    """The options of a request, with numbers that the form can show."""
    numbers = option_numbers(request)
    found = {name: value for name, value in request.options.items() if name not in OPTION_PARAMETERS}
    for name, number in numbers.items():
        low, high = OPTION_PARAMETERS[name].limits
        found |= OPTION_PARAMETERS[name].entry(min(high, max(low, number)))
    return found


def written(draft: Draft) -> tuple[str, str]:
    """The prompts with the styles around them; the prompts alone where that would be too long."""
    prompts = draft.prompt.strip(), draft.negative.strip()
    try:
        return styled(*prompts, draft.styles)
    except HalftoneError:
        return prompts


def extras(draft: Draft) -> Extras:
    """What the next pictures and checks use beside the model's own parts."""
    return Extras(
        loras=draft.loras,
        vae=draft.vae,
        transformer=draft.transformer,
        controls=tuple(control for control in draft.controls if control.image),
        ip_adapters=tuple(adapter for adapter in draft.ip_adapters if adapter.images),
    )


def with_extras(draft: Draft, chosen: Extras) -> Draft:
    """The draft with what a picture was made with; embeddings stand in its prompt."""
    return replace(
        draft,
        **{name: getattr(chosen, name) for name in Extras.__struct_fields__ if name != "inversions"},
    )


def after_picture(draft: Draft) -> Draft:
    """The draft once its picture was begun: a seed that is not locked is used up."""
    return replace(draft, seed=draft.seed.next, variation_seed=draft.variation_seed.next)


# --- what follows the model ------------------------------------------------------------------------------------------


def defaults_of(model: ModelFacts) -> Defaults:
    """What a model was made for."""
    return Defaults((model.native_width, model.native_height), model.default_steps, round(model.default_guidance, 1))


def with_defaults_of(draft: Draft, model: ModelFacts) -> Draft:
    """The draft for a model that was chosen: values that nobody set follow it, the others stay and are the user's `own`."""
    new, old = defaults_of(model), draft.defaults
    if draft.model == model.id:
        return replace(draft, defaults=new)
    values, own = dict[str, object](), list[str]()
    for name in FOLLOWING:
        value, wanted = getattr(draft, name), getattr(new, name)
        if old is None or value == getattr(old, name):
            values[name] = wanted
        elif wanted != value and (name in draft.own or wanted != getattr(old, name)):
            own.append(name)
    return replace(draft, **values, model=model.id, defaults=new, own=tuple(own))


def without_own(draft: Draft) -> Draft:
    """The draft with the model's values in place of the user's own."""
    return replace(draft, **{name: getattr(draft.defaults, name) for name in draft.own if draft.defaults is not None}, own=())


def fitting_sampler(wanted: str | None, names: Sequence[str]) -> str | None:
    """The wanted sampler, as a model names it; None for the model's own where it has no such one. names: of its samplers."""
    return next((name for name in (wanted, sampler_called(wanted or "")) if name in names), None)


def with_strength(hires: Hires, strength: float) -> Hires:
    """The second pass with a strength; the one that its upscaler needs goes with the upscaler."""
    usual = strength_of(replace(hires, strength=None))
    return replace(hires, strength=None if strength == usual else strength)


# --- the start picture -----------------------------------------------------------------------------------------------


def masks(model: ModelFacts | None) -> bool:
    """Whether the model paints inside a mask."""
    return model is None or takes_mask(model.pipeline)


def extends(draft: Draft, model: ModelFacts | None) -> bool:
    """Whether something is added at the sides of the start picture."""
    return masks(model) and draft.start.extends


def is_masked(draft: Draft, model: ModelFacts | None) -> bool:
    """Whether only a part of the start picture changes."""
    return draft.image is not None and (extends(draft, model) or (draft.mask is not None and masks(model)))


def has_strength(draft: Draft, model: ModelFacts | None) -> bool:
    """Whether the start picture has a denoising strength."""
    masked = draft.mask is not None and masks(model)
    return model is None or takes_strength(model.pipeline, mask=masked or extends(draft, model))


def sets_size(draft: Draft, model: ModelFacts | None) -> bool:
    """Whether the size comes from the start picture, and not from the draft."""
    usable = draft.image is not None and model is not None and takes_picture(model.pipeline)
    return usable and extends(draft, model) and not draft.only_masked


def computed_edges(draft: Draft, model: ModelFacts | None, seen: tuple[int, int] | None) -> tuple[int, int]:
    """(width, height) that will be computed. seen: size of the start picture, None while it is not known."""
    if seen is None or not sets_size(draft, model):
        return draft.size
    left, top, right, bottom = draft.start.outpaint
    return _up(seen[0] + left + right), _up(seen[1] + top + bottom)


def inpainting(draft: Draft, path: str, size: tuple[int, int], prompt: str = "") -> Draft:
    """The draft for painting on a picture: in its own size, or only the masked part where that is much more than the model was
    made for. size: of the picture; prompt: for a draft without one.
    """
    width, height = draft.size if draft.defaults is None else draft.defaults.size
    large = size[0] * size[1] > _MUCH * width * height
    same = draft.image == path
    edges = (max(limits.SIZE_MULTIPLE, edge - edge % limits.SIZE_MULTIPLE) for edge in size)
    return replace(
        draft,
        image=path,
        mask=draft.mask if same else None,
        start=draft.start if same else replace(draft.start, outpaint=EMPTY.start.outpaint),
        size=draft.size if large else tuple(edges),
        only_masked=draft.only_masked if same else large,
        hires_on=False,
        prompt=draft.prompt if draft.prompt.strip() else prompt,
    )


def undone(before: Draft, after: Draft, now: Draft) -> Draft:
    """The draft with a change taken back, but with what was changed since. before, after: around the change to take back."""
    names = (name for name in Draft.__struct_fields__ if getattr(now, name) == getattr(after, name))
    return replace(now, **{name: getattr(before, name) for name in names})


def _up(edge: int) -> int:
    """Round to the next multiple of 8."""
    return -(-edge // limits.SIZE_MULTIPLE) * limits.SIZE_MULTIPLE


def _start(draft: Draft, model: ModelFacts | None) -> Start:
    """How the start picture is used; what has no effect is left out, so that equal requests are equal."""
    masked, sides = draft.mask is not None and masks(model), draft.start.outpaint if masks(model) else Start().outpaint
    start = Start(
        strength=draft.start.strength if has_strength(draft, model) else None, resize=draft.start.resize, outpaint=sides
    )
    if not masked and not any(sides):
        return start
    content = draft.start.masked_content if masked else "original"
    only = draft.padding if draft.only_masked else None
    return replace(start, mask_blur=draft.start.mask_blur, only_masked=only, masked_content=content)


# --- the next start --------------------------------------------------------------------------------------------------


def kept(draft: Draft) -> str:
    """The draft as text, for the next start."""
    return msgspec.json.encode({"draft": draft}).decode()


def restored(text: str, selected: str = "") -> Draft:
    """The draft of the last close, an empty one where there is none. Earlier versions kept a request. selected: the model in
    use.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, Draft])["draft"]
    except (msgspec.DecodeError, KeyError):
        pass
    try:
        return from_request(EMPTY, msgspec.json.decode(text, type=PictureRequest), selected)
    except msgspec.DecodeError:
        return EMPTY
