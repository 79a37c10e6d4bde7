"""Grids: pictures that differ in two or three parameters, in an order that changes the model least."""

import csv
import math
import re
import secrets
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.limits import SIZE_MULTIPLE
from halftone.contract.parameters import BY_FIELD, OPTION_PARAMETERS, PARAMETERS, Parameter, check_range, idle_options
from halftone.contract.request import PictureRequest, model_stem
from halftone.contract.vocabulary import MaskedContent, Resize
from halftone.contract.wording import Words, either
from halftone.library.options import known_options
from halftone.library.samplers import SAMPLERS, offered, sampler_called
from halftone.library.videos import makes_videos
from halftone.session.pictures.draft import LISTED, fitting_sampler
from halftone.settings.declared import DECLARED, Setting

Value = int | float | str | bool
Kind = Literal["int", "float", "choice", "text"]

MOST_AXES: Final = 3
MOST_VALUES: Final = 100
"""Of one axis."""
MOST_PICTURES: Final = 500
_PROMPTS: Final = ("prompt", "negative")
_EXAMPLES: Final = "5, 7, 9; 1-10 (+2); 1-10 [5]"
_SWITCHES: Final = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}
_CHOICES: Final = {"start.resize": get_args(Resize), "start.masked_content": get_args(MaskedContent)}
_NOT_AN_AXIS: Final = ("image", "mask", "batch", "start.outpaint", *(one.field for one in PARAMETERS if one.names))
_LISTED: Final[tuple[tuple[str, str, Words], ...]] = (
    ("loras", "weight", Words("LoRA weight")),
    ("controls", "scale", Words("ControlNet strength")),
    ("controls", "start", Words("ControlNet start")),
    ("controls", "end", Words("ControlNet end")),
    ("ip_adapters", "scale", Words("IP-Adapter strength")),
)
_COSTS: Final = ("model", "transformer", "vae", "numerics", "refiner", "loras", "controls", "ip_adapters", "width", "height")
"""What takes the most time to change comes first; everything else costs nothing."""


class Variable(NamedTuple):
    """A parameter that an axis can vary. name: the request's field, as `varied` takes it; label: for people; of: the name of the
    add-on that it belongs to; step: what a whole number is a multiple of; choices: all values, empty for any.
    """

    name: str
    label: Words | str
    kind: Kind
    limits: tuple[float, float] = (-math.inf, math.inf)
    step: int = 1
    choices: tuple[str, ...] = ()
    of: str = ""


class Axis(msgspec.Struct, frozen=True):
    """label: in the language of the user; values: at least one; shown: the same as they are written."""

    name: str
    label: str
    values: tuple[Value, ...]
    shown: tuple[str, ...]


class Cell(msgspec.Struct, frozen=True):
    """A picture of the grid that is over. Both None: it was not made."""

    facts: PictureFacts | None = None
    error: ErrorFacts | None = None


class Grid(msgspec.Struct, frozen=True):
    """requests: of all pictures, in the order in which they are made; places: for each its value on each axis, counted from 0;
    cells: of those that are over, in the same order.
    """

    axes: tuple[Axis, ...]
    requests: tuple[PictureRequest, ...]
    places: tuple[tuple[int, ...], ...]
    cells: tuple[Cell, ...] = ()

    @property
    def count(self) -> int:
        return len(self.requests)

    @property
    def next(self) -> PictureRequest | None:
        """The next picture to make, None where all are over."""
        return self.requests[len(self.cells)] if len(self.cells) < self.count else None

    @property
    def failed(self) -> int:
        """How many pictures there are not, of those that are over."""
        return sum(1 for cell in self.cells if cell.facts is None or not cell.facts.path)

    def with_cell(self, cell: Cell) -> "Grid":
        return replace(self, cells=(*self.cells, cell))


# --- what can vary ---------------------------------------------------------------------------------------------------


def variables(request: PictureRequest, model: ModelFacts | None = None, models: Sequence[str] = ()) -> tuple[Variable, ...]:
    """Return everything that an axis can vary in this request. models: those that can be named, none for any."""
    rows = [_of_row(one) for one in PARAMETERS if _applies(one, request, model)]
    samplers = offered(model.samplers if model is not None and model.samplers else SAMPLERS)
    return (
        *rows,
        Variable("sampler", Words("Sampler"), "choice", choices=samplers),
        Variable("prompt", Words("Prompt"), "text"),
        Variable("model", Words("Model"), "choice" if models else "text", choices=tuple(models)),
        *_listed(request),
        *(_of_setting(one) for one in DECLARED if one.page == "Numerics"),
    )


def _applies(row: Parameter, request: PictureRequest, model: ModelFacts | None) -> bool:
    """Whether the parameter has an effect on the request."""
    part, _, name = row.field.rpartition(".")
    if row.field in _NOT_AN_AXIS:
        return False
    match part:
        case "options":
            return model is None or name in known_options(
                model, request.sampler, request.options, image=request.image is not None, mask=request.masked
            )
        case "hires":
            return request.hires is not None
        case "refiner":
            return request.refiner is not None
        case "start" if name in ("mask_blur", "masked_content", "only_masked"):
            return request.image is not None and request.masked
        case "start":
            return request.image is not None
        case _:
            pass
    if name == "variation_seed":
        return request.variation_strength > 0
    return name not in ("num_frames", "fps") or model is None or makes_videos(model) is True


def _of_row(row: Parameter) -> Variable:
    if row.kind is str:
        choices = _CHOICES.get(row.field, ())
        return Variable(row.field, row.label, "choice" if choices else "text", choices=choices)
    step = SIZE_MULTIPLE if row.field in ("width", "height") else 1
    return Variable(row.field, row.label, "int" if row.kind is int else "float", row.limits, step)


def _listed(request: PictureRequest) -> list[Variable]:
    """The numbers of the request's add-ons, each add-on with a place of its own."""
    return [
        Variable(f"{field}.{place}.{name}", label, "float", LISTED[f"{field}.{name}"].allowed, of=one.name)
        for field, name, label in _LISTED
        for place, one in enumerate(getattr(request, field))
    ]


def _of_setting(setting: Setting) -> Variable:
    choices = ("off", "on") if setting.kind == "switch" else tuple(choice.value for choice in setting.choices)
    return Variable(setting.name, setting.title, "choice", choices=choices)


def _names(variable: Variable) -> set[str]:
    """What the user may call it: its field, with or without the struct it is in, its flags and its names in pictures."""
    row = BY_FIELD.get(variable.name)
    plain = (
        variable.name.rpartition(".")[2] if variable.name.rpartition(".")[2] not in ("weight", "scale", "start", "end") else ""
    )
    names = {variable.name, plain, str(variable.label), variable.of}
    if row is not None:
        names |= {*(flag.lstrip("-") for flag in row.flags), *row.keys}
    return {_plain(name) for name in names if name}


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()


def variable_named(known: Sequence[Variable], name: str) -> Variable:
    """Find a variable by any of its names. Raises HalftoneError setting-bad-value."""
    found = next((one for one in known if _plain(name) in _names(one)), None)
    if found is None:
        allowed = either(*(one.name.rpartition(".")[2] if one.name.count(".") < 2 else one.of for one in known))
        raise HalftoneError("setting-bad-value", name=Words("The axis of a grid"), value=name, allowed=allowed)
    return found


# --- values, as they are typed in A1111 ------------------------------------------------------------------------------

_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)"
_RANGE: Final = re.compile(
    rf"({_NUMBER})\s*-\s*({_NUMBER})\s*(?:\(\s*({_NUMBER})\s*\)|\[\s*(\d+)\s*\])?",
)


def parsed(text: str, variable: Variable) -> tuple[Value, ...]:
    """The values of an axis: `5, 7, 9`, `1-5`, `1-10 (+2)`, `1-10 [5]`. Each counts once. Raises HalftoneError setting-bad-value
    and value-out-of-range.
    """
    pieces = [piece.strip() for piece in next(csv.reader([text.replace("\n", ",")], skipinitialspace=True), []) if piece.strip()]
    found: list[Value] = []
    for piece in pieces:
        found += _numbers(piece, variable) if variable.kind in ("int", "float") else [_text(piece, variable)]
        if len(found) > MOST_VALUES:
            break
    values = tuple(dict.fromkeys(found))
    if not values:
        raise _bad(variable, text)
    check_range(Words("The number of values of {0}", (variable.label,)), len(values), (1, MOST_VALUES))
    return values


def _bad(variable: Variable, text: str) -> HalftoneError:
    allowed = either(*variable.choices[:20]) if variable.choices else Words("values such as {0}", (_EXAMPLES,))
    return HalftoneError("setting-bad-value", name=variable.label, value=text or Words("empty"), allowed=allowed)


def _text(piece: str, variable: Variable) -> Value:
    """A word of the axis; of those that it may be where they are known."""
    if variable.choices == ("off", "on"):
        if piece.casefold() not in _SWITCHES:
            raise _bad(variable, piece)
        return _SWITCHES[piece.casefold()]
    if not variable.choices:
        return piece
    wanted = sampler_called(piece) or piece if variable.name == "sampler" else piece
    for match in (lambda one: one == piece, lambda one: one == wanted, lambda one: _plain(one) == _plain(piece)):
        if (found := next(filter(match, variable.choices), None)) is not None:
            return found
    if variable.name == "model":
        stems = [one for one in variable.choices if model_stem(one).casefold() == piece.casefold()]
        if stems:
            return stems[0]
    raise _bad(variable, piece)


def _numbers(piece: str, variable: Variable) -> list[Value]:
    """One number, or those of a range with a step or a count."""
    try:
        numbers = [float(piece)]
    except ValueError:
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise _bad(variable, piece) from None
        numbers = _spread(match, variable, piece)
    if variable.kind == "int":
        numbers = [int(number) if abs(number) < 2**53 else int(float(number)) for number in numbers]
        if piece.lstrip("+-").isdigit():
            numbers = [int(piece)]  # a float holds no large seed
        elif numbers and "." in piece:
            raise _bad(variable, piece)
    for number in numbers:
        if not math.isfinite(number):
            raise _bad(variable, piece)
        check_range(variable.label, number, variable.limits)
        if variable.step > 1 and number % variable.step:
            below = int(number) // variable.step * variable.step
            raise HalftoneError(
                "size-not-multiple",
                name=variable.label,
                value=int(number),
                multiple=variable.step,
                below=below,
                above=below + variable.step,
            )
    return list(numbers)


def _spread(match: re.Match[str], variable: Variable, piece: str) -> list[float]:
    """The numbers of a range, both ends included."""
    start, end = float(match[1]), float(match[2])
    if match[4] is not None:
        count = int(match[4])
        if not 1 <= count <= MOST_VALUES:
            raise _bad(variable, piece)
        spread = [start + (end - start) * index / max(1, count - 1) for index in range(count)]
    else:
        step = float(match[3]) if match[3] is not None else 1.0 if end >= start else -1.0
        if step == 0 or (end - start) * step < 0:
            raise _bad(variable, piece)
        count = math.floor((end - start) / step + 1e-9) + 1
        if count > MOST_VALUES:
            check_range(Words("The number of values of {0}", (variable.label,)), count, (1, MOST_VALUES))
        spread = [start + step * index for index in range(count)]
    return [float(int(number)) for number in spread] if variable.kind == "int" else [round(number, 6) for number in spread]


def shown_value(value: Value) -> str:
    """A value as it is written on the sheet."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str) and ("/" in value or "\\" in value):
        return model_stem(value)
    return str(value)


def axis_of(variable: Variable, values: tuple[Value, ...], label: str = "") -> Axis:
    """An axis with its values. label: in the language of the user."""
    named = label or str(variable.label)
    return Axis(variable.name, f"{variable.of} · {named}" if variable.of else named, values, tuple(map(shown_value, values)))


# --- the pictures ----------------------------------------------------------------------------------------------------


def varied(request: PictureRequest, axis: Axis, place: int) -> PictureRequest:
    """The request with one value of an axis. Raises HalftoneError setting-bad-value where a prompt lacks the searched words."""
    value, (head, _, rest) = axis.values[place], axis.name.partition(".")
    if head in _PROMPTS:
        return _replaced_words(request, head, axis, str(value))
    if head == "options":
        others = {name: one for name, one in request.options.items() if name != rest}
        return replace(request, options=others | OPTION_PARAMETERS[rest].entry(float(value)))
    holder = getattr(request, head)
    if isinstance(holder, tuple):
        number, _, name = rest.partition(".")
        entries = list(holder)
        entries[int(number)] = replace(entries[int(number)], **{name: value})
        return replace(request, **{head: tuple(entries)})
    return replace(request, **{head: replace(holder, **{rest: value}) if rest else value})


def _replaced_words(request: PictureRequest, field: str, axis: Axis, value: str) -> PictureRequest:
    """The first value of the axis is searched in the prompt, and each value takes its place."""
    searched, text = str(axis.values[0]), getattr(request, field)
    if searched not in text:
        allowed = Words("words of the prompt as the first value: they are searched and replaced")
        raise HalftoneError("setting-bad-value", name=axis.label, value=searched, allowed=allowed)
    return replace(request, **{field: text.replace(searched, value)})


def planned(
    base: PictureRequest, axes: Sequence[Axis], fit: Callable[[PictureRequest], PictureRequest] = lambda request: request
) -> Grid:
    """The grid of a request: one picture for each combination, all from the same seed unless it is varied. fit: adapts each
    request to its model. Raises HalftoneError setting-bad-value and value-out-of-range.
    """
    names = [axis.name for axis in axes]
    check_range(Words("The number of axes"), len(axes), (1, MOST_AXES))
    if len(set(names)) < len(names):
        twice = next(axis.label for axis in axes if names.count(axis.name) > 1)
        raise HalftoneError("setting-bad-value", name=Words("The axis of a grid"), value=twice, allowed=Words("each once"))
    check_range(Words("The number of pictures of the grid"), math.prod(len(axis.values) for axis in axes), (1, MOST_PICTURES))
    base = replace(base, batch=1, seed=secrets.randbelow(2**32) if base.seed is None else base.seed)
    if base.variation_strength > 0 or "variation_strength" in names:
        other = secrets.randbelow(2**32) if base.variation_seed is None else base.variation_seed
        base = replace(base, variation_seed=other)
    places = _in_order(axes)
    requests: list[PictureRequest] = []
    for place in places:
        request = base
        for axis, index in zip(axes, place, strict=True):
            request = varied(request, axis, index)
        requests.append(fit(request))
    return Grid(tuple(axes), tuple(requests), places)


def fitted(request: PictureRequest, model: ModelFacts | None) -> PictureRequest:
    """The request for another model: its own sampler where it lacks the wanted one, and without options that it does not know."""
    if model is None:
        return request
    sampler = fitting_sampler(request.sampler, model.samplers)
    known = known_options(model, sampler, request.options, image=request.image is not None, mask=request.masked)
    sent = set(known) - idle_options(request.options)
    options = {name: value for name, value in request.options.items() if name in sent}
    return replace(request, sampler=sampler, options=options)


def _in_order(axes: Sequence[Axis]) -> tuple[tuple[int, ...], ...]:
    """All combinations; what takes long to change is changed last."""
    slowest_first = sorted(range(len(axes)), key=lambda number: _cost(axes[number].name))
    found: list[tuple[int, ...]] = []
    for combination in product(*(range(len(axes[number].values)) for number in slowest_first)):
        place = [0] * len(axes)
        for number, index in zip(slowest_first, combination, strict=True):
            place[number] = index
        found.append(tuple(place))
    return tuple(found)


def _cost(name: str) -> int:
    head = name.partition(".")[0]
    return _COSTS.index(head) if head in _COSTS else len(_COSTS)


# --- a first proposal ------------------------------------------------------------------------------------------------


def proposed(request: PictureRequest, model: ModelFacts | None = None) -> tuple[tuple[str, str], tuple[str, str]]:
    """Two axes to begin with, (name, values as typed) each: guidance and steps around what they are now."""
    guidance = request.guidance if request.guidance is not None else model.default_guidance if model is not None else 7.0
    steps = request.steps if request.steps is not None else model.default_steps if model is not None else 20
    low, high = BY_FIELD["guidance"].limits
    around = [min(high, max(low + 1, round(guidance + shift, 1))) for shift in (-2.0, 0.0, 2.0)]
    fewer, most = max(1, steps // 2), BY_FIELD["steps"].limits[1]
    counts = [fewer, max(fewer + 1, steps), min(int(most), max(fewer + 2, steps + steps // 2))]
    return (
        ("guidance", ", ".join(f"{number:g}" for number in dict.fromkeys(around))),
        ("steps", ", ".join(str(number) for number in dict.fromkeys(counts))),
    )
