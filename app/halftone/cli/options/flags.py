"""The options of the commands. Those of the numerics are made from the declared settings, so that none can be forgotten."""

import functools
import inspect
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, cast, get_args

import msgspec
import typer

from halftone.cli.generate.prompt_options import option, word_parameters
from halftone.contract.errors import HalftoneError
from halftone.contract.limits import RANDOM_SEED
from halftone.contract.parameters import OPTION_PARAMETERS, PARAMETERS, Parameter, check_range, option_flag
from halftone.contract.preprocessors import NONE, PREPROCESSORS
from halftone.contract.request import CheckInputs, Control, IpAdapter, Lora, Numerics, OptionValue, Saving, Start
from halftone.contract.vocabulary import ControlMode, MaskedContent, Resize, VideoFormat
from halftone.contract.wording import Words, either
from halftone.library.add_ons.control_kinds import ALL_KINDS
from halftone.library.add_ons.loras import weighted
from halftone.library.videos import FORMATS
from halftone.settings.declared import ALIASES, DECLARED, Alias, Setting
from halftone.settings.file_names import pattern_problem

_INPUTS: Final = "What to make"
_SHORT: Final = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "full": "float32"}
_SAVING: Final = "Saved pictures (default: your settings)"
_METAVARS: Final[dict[str, tuple[type, str]]] = {"choice": (str, "VALUE"), "number": (int, "N"), "pattern": (str, "PATTERN")}
_NUMERICS: Final = "Numerics (default: your settings; --no-… turns a switch off)"

_WHICH: Final = (
    "A .safetensors file, a diffusers folder, or pocket, the bundled model. Default: the window's last model, at first pocket."
)
_WHERE: Final = "auto, cpu, cuda:0, mps, xpu:0 … Default: your setting."

Model = Annotated[str | None, typer.Argument(help=_WHICH, show_default=False)]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", help=_WHICH, show_default=False)]
Device = Annotated[str | None, typer.Option("--device", metavar="NAME", help=_WHERE, show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of text.")]
_LORA: Final = "FILE[:WEIGHT]"
_CONTROL: Final = "CONTROLNET=[PREPROCESSOR:]PICTURE[:STRENGTH[:START-END]][:KIND]"
_CONTROL_HELP: Final = (
    "A ControlNet and its picture; may be repeated. START-END: control steps, 0-1. KIND: what the picture is, for a ControlNet "
    "Union. PREPROCESSOR: what is drawn of the picture "
    "first, with its numbers: canny, canny,100,200 or canny,res=512,resize=crop; "
    + ", ".join(f"{name},model=FOLDER" for name, known in PREPROCESSORS.items() if known.has_model)
    + "; "
    + ", ".join(name for name, known in PREPROCESSORS.items() if name not in (NONE, "canny") and not known.has_model)
    + "."
)
_PREPROCESSOR: Final = re.compile(
    rf"({'|'.join(PREPROCESSORS)})"
    r"(?:,(\d*\.?\d+))?(?:,(\d*\.?\d+))?(?:,res=(\d+))?(?:,resize=(\w+))?(?:,mode=(\w+))?(?:,model=((?:[A-Za-z]:[\\/])?[^:]+))?:(.*)",
    re.DOTALL,
)
"""Name, first and second number, resolution, resize mode, control mode, folder of its model, the rest."""
_IP_ADAPTER: Final = "FILE=PICTURE[:STRENGTH]"
_IP_ADAPTER_HELP: Final = "An IP-Adapter and a reference picture; may be repeated, with the same file for several pictures."
_PICTURE: Final = re.compile(r"(.+?)(?::(\d*\.?\d+)(?::(\d*\.?\d+)-(\d*\.?\d+))?)?", re.DOTALL)
"""Picture, strength, start, end."""
_SCALED: Final = re.compile(r"(.+):(\d*\.?\d+)", re.DOTALL)
"""Picture, strength."""
_LORA_HELP: Final = "A LoRA and its weight; may be repeated. In the prompt: <lora:name:weight>."
_EMBEDDING_HELP: Final = "An embedding (textual inversion), used in the prompt by its file name; may be repeated."
_MERGED: Final = "A LoRA to merge into the copy; may be repeated."
Merged = Annotated[list[str] | None, typer.Option("--lora", metavar=_LORA, help=_MERGED, show_default=False)]
Inputs = dict[str, Any]
"""Inputs that were given: field of CheckInputs or PictureRequest -> value; None of a seed: a random one is wanted."""

PromptFlags = dict[str, Any]
"""Options of `halftone.cli.generate.prompt_options` that were given."""

Flags = dict[str, str | bool | int]
"""Numerics or saving options that were given: parameter name -> value."""


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command with a parameter `inputs: Inputs` the options of a picture's inputs, one with `numerics: Flags` one option
    for each numerics setting and A1111's names, and one with `saving: Flags` one for each setting of saved pictures."""
    own = inspect.signature(command, eval_str=True).parameters
    numerics = [parameter for setting in _settings() for parameter in _setting_parameters(setting, _NUMERICS)]
    saving = [parameter for setting in _saving() for parameter in _setting_parameters(setting, _SAVING)]
    numerics += [_alias_parameter(alias) for alias in ALIASES]
    offered = (("inputs", _input_parameters()), ("words", word_parameters()), ("numerics", numerics), ("saving", saving))
    groups = {name: group for name, group in offered if name in own}

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        gathered: dict[str, dict[str, Any]] = {}
        for name, group in groups.items():
            picked = {parameter.name: values.pop(parameter.name) for parameter in group}
            gathered[name] = {key: value for key, value in picked.items() if value is not None}
        if gathered.get("inputs", {}).get("seed") == RANDOM_SEED:
            gathered["inputs"]["seed"] = None
        if "option" in gathered.get("inputs", {}):
            gathered["inputs"]["options"] = options_of(gathered["inputs"].pop("option"))
        if "inputs" in gathered:
            gathered["inputs"] = _with_options_named(gathered["inputs"])
        if "lora" in gathered.get("inputs", {}):
            gathered["inputs"]["loras"] = loras_of(gathered["inputs"].pop("lora"))
        if "embedding" in gathered.get("inputs", {}):
            gathered["inputs"]["inversions"] = tuple(map(absolute, gathered["inputs"].pop("embedding")))
        if "control" in gathered.get("inputs", {}):
            gathered["inputs"]["controls"] = tuple(map(_control, gathered["inputs"].pop("control")))
        if "ip_adapter" in gathered.get("inputs", {}):
            gathered["inputs"]["ip_adapters"] = ip_adapters_of(gathered["inputs"].pop("ip_adapter"))
        if "inputs" in gathered:
            gathered["inputs"] = with_start(gathered["inputs"])
        for name in {"image", "mask", "vae", "transformer"} & gathered.get("inputs", {}).keys():
            gathered["inputs"][name] = absolute(gathered["inputs"][name])
        command(**values, **gathered)

    shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, parameter in own.items() if name not in groups]
    shown += [parameter for group in groups.values() for parameter in group]
    vars(wrapper)["__signature__"] = inspect.Signature(shown)
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return wrapper


def numerics_of(flags: Flags, saved: Numerics) -> Numerics:
    """The saved numerics, changed by what was given. Raises HalftoneError setting-bad-value."""
    changes = _changes(_settings(), flags)
    for alias in ALIASES:
        if not flags.get(_alias_name(alias)):
            continue
        if changes.get(alias.field, alias.value) != alias.value:
            _contradict(alias.flag, _spelled(alias.field, changes[alias.field]))
        changes[alias.field] = alias.value
    return msgspec.convert(msgspec.to_builtins(saved) | changes, Numerics)


def saving_of(flags: Flags, saved: Saving) -> Saving:
    """How pictures are saved, changed by what was given. Raises HalftoneError setting-bad-value and value-out-of-range."""
    return msgspec.convert(msgspec.to_builtins(saved) | _changes(_saving(), flags), Saving)


def _changes(settings: list[Setting], flags: Flags) -> dict[str, str | bool | int]:
    changes: dict[str, str | bool | int] = {}
    for setting in settings:
        if setting.field in flags:
            changes[setting.field] = _checked(setting, flags[setting.field])
        if _off_name(setting) in flags:
            if setting.field in flags:
                _contradict(setting.flags[1], setting.flags[0])
            changes[setting.field] = False
    return changes


def _contradict(flag: str, other: str) -> NoReturn:
    raise HalftoneError(
        "setting-bad-value", name=flag, value=Words("given together with {0}", (other,)), allowed=Words("only one of them")
    )


def options_of(pairs: list[str] | None) -> dict[str, OptionValue]:
    """["eta=0.5", "name=x"] -> {"eta": 0.5, "name": "x"}: JSON where it is a number, a boolean, a string or a list of
    these, else text.
    """
    options: dict[str, OptionValue] = {}
    for pair in pairs or []:
        key, found, text = pair.partition("=")
        if not found or not key.strip():
            raise HalftoneError(
                "setting-bad-value",
                name="--option",
                value=pair,
                allowed=Words("KEY=VALUE, for instance eta=0.5 or sigmas=[1.0, 0.5]"),
            )
        options[key.strip()] = _parsed(text)
    return options


def _with_options_named(inputs: Inputs) -> Inputs:
    """Put the options that have a flag of their own into the others, as diffusers counts. Raises HalftoneError setting-bad-value
    where both were given.
    """
    named = {name: inputs[name] for name in OPTION_PARAMETERS if name in inputs}
    options: dict[str, OptionValue] = dict(inputs.get("options", {}))
    for name, number in named.items():
        if name in options:
            _contradict(option_flag(name), f"--option {name}")
        one = OPTION_PARAMETERS[name]
        options |= one.entry(_numbered(one, number) if one.names else number)
    return {name: value for name, value in inputs.items() if name not in named} | ({"options": options} if named else {})


def _numbered(one: Parameter, name: str) -> int:
    """The number of a name. Raises HalftoneError setting-bad-value."""
    if (found := one.named(name)) is None:
        raise HalftoneError("setting-bad-value", name=one.flags[0], value=name, allowed=either(*one.names))
    return found


def video_of(kind: str | None) -> VideoFormat | None:
    """Raises HalftoneError setting-bad-value."""
    if kind is None:
        return None
    try:
        return msgspec.convert(kind.lower().removeprefix("."), VideoFormat)
    except msgspec.ValidationError as error:
        raise HalftoneError("setting-bad-value", name="--video", value=kind, allowed=either(*FORMATS)) from error


def loras_of(texts: list[str] | None) -> tuple[Lora, ...]:
    """["a.safetensors:0.6", "b.safetensors"] -> LoRAs with their weights, 1 where none is named; paths absolute. Of two weights
    the first is that of the text encoders.
    """
    return tuple(_lora(text) for text in texts or [])


def _lora(text: str) -> Lora:
    path, weights = text, list[str]()
    while len(weights) < 2 and not _is_file(path):
        rest, _, weight = path.rpartition(":")
        if not rest or not (_is_number(weight) or rest.endswith(".safetensors") or _is_file(rest)):
            break  # the colon is one of the path itself
        path, weights = rest, [weight, *weights]
    lora = Lora(path=path)
    return weighted(Lora(path=absolute(path)), lora.name, weights)


def _control(text: str) -> Control:
    """ "net=pose.png:0.8:0-0.5" -> a ControlNet with its picture; a colon may be of a path, as in C:\\net=C:\\pose.png. "net"
    alone has none: a check makes one up.
    """
    path, right = _halves(text)
    if path and path == text:
        return Control(path=absolute(path), image="")
    drawn, right = _preprocessed(right)
    before, _, last = right.rpartition(":")
    kind = last if before and last in ALL_KINDS and not _is_file(right) else ""
    right = before if kind else right
    found = None if _is_file(right) else _PICTURE.fullmatch(right)
    image, scale, start, end = (right, None, None, None) if found is None else found.groups()
    if not path or not image:
        allowed = Words("{0}, for instance net=pose.png:0.8", (_CONTROL,))
        raise HalftoneError("setting-bad-value", name="--control", value=text, allowed=allowed)
    numbers = {name: float(number) for name, number in (("scale", scale), ("start", start), ("end", end)) if number is not None}
    fields: dict[str, Any] = {"kind": kind, **drawn, **numbers}
    return Control(path=absolute(path), image=absolute(image), **fields)


def _preprocessed(text: str) -> tuple[dict[str, Any], str]:
    """ "canny,50,100:a.png" -> (the fields of Control that it sets, "a.png")."""
    found = _PREPROCESSOR.fullmatch(text)
    if found is None or _is_file(text):
        return {}, text
    name, low, high, resolution, resize, mode, model, rest = found.groups()
    if resize is not None and resize not in get_args(Resize):
        raise HalftoneError("setting-bad-value", name="--control", value=f"resize={resize}", allowed=either(*get_args(Resize)))
    if mode is not None and mode not in get_args(ControlMode):
        usable = either(*get_args(ControlMode))
        raise HalftoneError("setting-bad-value", name="--control", value=f"mode={mode}", allowed=usable)
    fields: dict[str, Any] = {
        "preprocessor": name,
        "threshold_a": None if low is None else float(low),
        "threshold_b": None if high is None else float(high),
        "resolution": None if resolution is None else int(resolution),
        "resize": resize,
        "mode": mode,
        "preprocessor_model": None if model is None else absolute(model),
    }
    return {field: value for field, value in fields.items() if value is not None}, rest


def ip_adapters_of(texts: list[str]) -> tuple[IpAdapter, ...]:
    """["a=x.png", "a=y.png", "b=z.png:0.5"] -> two adapters, the first with both pictures; of the same file with another strength
    it is another one.
    """
    found: dict[tuple[str, float], IpAdapter] = {}
    for text in texts:
        path, right = _halves(text)
        if path and path == text:
            found[path, 1.0] = IpAdapter(path=absolute(path), images=())
            continue
        match = None if _is_file(right) else _SCALED.fullmatch(right)
        image, scale = (right, 1.0) if match is None else (match[1], float(match[2]))
        if not path or not image:
            allowed = Words("{0}, for instance plus.safetensors=face.png:0.6", (_IP_ADAPTER,))
            raise HalftoneError("setting-bad-value", name="--ip-adapter", value=text, allowed=allowed)
        before = found.get((path, scale), IpAdapter(path=absolute(path), images=(), scale=scale))
        found[path, scale] = msgspec.structs.replace(before, images=(*before.images, absolute(image)))
    return tuple(found.values())


def _halves(text: str) -> tuple[str, str]:
    """ControlNet and picture: at the first = that has a file or folder before it, else at the first one."""
    places = [index for index, letter in enumerate(text) if letter == "="]
    place = next((index for index in places if os.path.exists(text[:index])), places[0] if places else len(text))
    return text[:place], text[place + 1 :]


def with_start(inputs: Inputs) -> Inputs:
    """The fields of Start put into one. Raises HalftoneError setting-bad-value."""
    found = {name: inputs[name] for name in Start.__struct_fields__ if name in inputs}
    if not found:
        return inputs
    for name, allowed in (("resize", get_args(Resize)), ("masked_content", get_args(MaskedContent))):
        if found.get(name, allowed[0]) not in allowed:
            raise HalftoneError("setting-bad-value", name=_spelled(name, True), value=found[name], allowed=either(*allowed))
    if "outpaint" in found:
        found["outpaint"] = _sides(found["outpaint"])
    return {name: value for name, value in inputs.items() if name not in found} | {"start": Start(**found)}


def _sides(text: str) -> tuple[int, int, int, int]:
    try:
        left, top, right, bottom = (int(part) for part in text.split(","))
    except ValueError as error:
        raise _no_sides(text) from error
    if not any((left, top, right, bottom)):
        raise _no_sides(text)
    return left, top, right, bottom


def _no_sides(text: str) -> HalftoneError:
    allowed = Words("LEFT,TOP,RIGHT,BOTTOM in pixels, for instance 0,0,128,0")
    return HalftoneError("setting-bad-value", name="--outpaint", value=text, allowed=allowed)


def absolute(path: str) -> str:
    """A path that means the same from another folder; as it is where its `~` names nobody."""
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError:
        return path


def _is_file(path: str) -> bool:
    """Whether it is a file; False for what cannot be a file name, for example one that is too long."""
    try:
        return os.path.isfile(path)
    except (OSError, ValueError):
        return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parsed(text: str) -> OptionValue:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if any(isinstance(item, float) and not math.isfinite(item) for item in items):
        return text
    return value if all(isinstance(item, bool | int | float | str) for item in items) else text


def _input_parameters() -> list[inspect.Parameter]:
    single = [
        _parameter(one.name, Annotated[(str if one.names else one.kind) | None, option(one.field, _INPUTS)])
        for one in PARAMETERS
        if _is_input(one)
    ]
    help_text = "Any other pipeline argument; may be repeated."
    repeated = typer.Option("--option", metavar="KEY=VALUE", rich_help_panel=_INPUTS, help=help_text, show_default=False)
    lora = typer.Option("--lora", metavar=_LORA, rich_help_panel=_INPUTS, help=_LORA_HELP, show_default=False)
    embedding = typer.Option("--embedding", metavar="FILE", rich_help_panel=_INPUTS, help=_EMBEDDING_HELP, show_default=False)
    control = typer.Option("--control", metavar=_CONTROL, rich_help_panel=_INPUTS, help=_CONTROL_HELP, show_default=False)
    shown = typer.Option("--ip-adapter", metavar=_IP_ADAPTER, rich_help_panel=_INPUTS, help=_IP_ADAPTER_HELP, show_default=False)
    return [
        *single,
        _parameter("lora", Annotated[list[str] | None, lora]),
        _parameter("embedding", Annotated[list[str] | None, embedding]),
        _parameter("control", Annotated[list[str] | None, control]),
        _parameter("ip_adapter", Annotated[list[str] | None, shown]),
        _parameter("option", Annotated[list[str] | None, repeated]),
    ]


def _is_input(one: Parameter) -> bool:
    """Whether a check takes it, too."""
    return one.field.partition(".")[0] in CheckInputs.__struct_fields__


def _settings() -> list[Setting]:
    return [setting for setting in DECLARED if setting.page == "Numerics"]


def _saving() -> list[Setting]:
    return [setting for setting in DECLARED if setting.section == "Saving"]


def _setting_parameters(setting: Setting, panel: str) -> list[inspect.Parameter]:
    """One option; for a switch its --no- form too, which the help leaves out (its panel names it)."""
    first, *opposite = setting.flags
    if setting.kind != "switch":
        kind, metavar = _METAVARS[setting.kind]
        return [_hinted(setting.field, kind, first, panel, metavar=metavar, help_text=_help(setting))]
    switch = _hinted(setting.field, bool, first, panel, help_text=_help(setting), hidden=setting.default is True)
    help_text = f"Turn off: {setting.title}. {setting.sentence}"
    return [
        switch,
        *(_hinted(_off_name(setting), bool, flag, panel, help_text=help_text, hidden=not setting.default) for flag in opposite),
    ]


def _alias_parameter(alias: Alias) -> inspect.Parameter:
    return _hinted(_alias_name(alias), bool, alias.flag, _NUMERICS, help_text=f"Same as {_spelled(alias.field, alias.value)}.")


def _hinted(
    name: str, kind: type, flag: str, panel: str, *, help_text: str, metavar: str | None = None, hidden: bool = False
) -> inspect.Parameter:
    option = typer.Option(flag, metavar=metavar, rich_help_panel=panel, help=help_text, show_default=False, hidden=hidden)
    return _parameter(name, Annotated[kind | None, option])


def _parameter(name: str, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _alias_name(alias: Alias) -> str:
    return "alias_" + alias.flag.strip("-").replace("-", "_")


def _off_name(setting: Setting) -> str:
    return f"off_{setting.field}"


def _help(setting: Setting) -> str:
    if setting.kind == "switch":
        return f"{setting.title}. {setting.sentence}"
    if setting.kind == "number":
        return f"{setting.title}, from {setting.limits[0]} to {setting.limits[1]}. {setting.sentence}"
    if setting.kind != "choice":
        return f"{setting.sentence} {setting.tooltip}."
    *values, last = (choice.value for choice in setting.choices)
    sentence = re.sub(r" ?Compared with [^.]+\.$", "", setting.sentence)  # that is about the settings page's figures
    return f"{', '.join(values)} or {last}. {sentence or setting.tooltip}"


def _spelled(field: str, value: str | bool | int) -> str:
    flag = "--" + field.replace("_", "-")
    return f"{flag} {value}" if isinstance(value, str) else flag


def _checked(setting: Setting, value: str | bool | int) -> str | bool | int:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        check_range(setting.flags[0], value, setting.limits)
        return value
    if setting.kind == "pattern":
        if (problem := pattern_problem(value)) is not None:
            raise HalftoneError("names-bad-pattern", pattern=value, problem=problem)
        return value
    wanted = _SHORT.get(value.lower(), value.lower())
    allowed = [choice.value for choice in setting.choices]
    if wanted not in allowed:
        raise HalftoneError("setting-bad-value", name=setting.flags[0], value=value, allowed=either(*allowed))
    return wanted
