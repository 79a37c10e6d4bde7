"""The file of settings of a training: read as the person wrote it, and what is wrong with it in a sentence."""

import codecs
import difflib
import os
import tomllib
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from halftone.cli.options import flags
from halftone.cli.terminal.command_lines import command_line
from halftone.cli.terminal.control_characters import say
from halftone.contract.errors import HalftoneError
from halftone.contract.training import TrainConfig
from halftone.contract.wording import Words
from halftone.settings.disk import system_words
from halftone.settings.regular_files import read_regular

EXAMPLE: Final = """\
# A LoRA training. Run it with:  {command}
# A missing setting has the model's recommended value (Pocket: 0.003, 300 steps), else the value shown here.
model = "pocket"                 # a model's name or its path
pictures = "pictures"            # a folder; captions in .txt files of the same name
output = "loras"                 # where the LoRA and its run are saved
name = "my-style"                # also the file name

# size = 0                       # edge in pixels; 0: the model's native size
# shapes = 3                     # aspect buckets: number of aspect ratios; 1: square only
# repeats = 1                    # times each picture is used
# flip = false                   # also train on flipped copies
# word = ""                      # trigger word, added before every caption
# left_out = []                  # names of excluded pictures

# steps = 1600
# batch = 2                      # pictures per step
# accumulate = 1                 # gradient accumulation: batches per step
# rank = 16                      # capacity and file size of the LoRA
# alpha = 16.0                   # the LoRA is scaled by alpha / rank
# optimizer = "adamw"            # adamw, adamw8bit, prodigy
# learning_rate = 0.0001         # prodigy: 1.0
# schedule = "cosine"            # constant, linear, cosine
# warm_up = 0                    # steps over which the learning rate rises
# weight_decay = 0.01
# clip = 1.0                     # maximum gradient norm; 0: off
# snr_gamma = 5.0                # Min-SNR; 0: off
# caption_dropout = 0.05         # share of steps without a caption
# seed = 0

# device = "auto"
# precision = "auto"             # auto, float16, bfloat16, float32; the LoRA stays in float32
# loss_scale = "auto"            # auto, off
# guard = "every-step"           # every-step, off
# stop_after = 5                 # NaN steps in a row that end the training; fewer are skipped
# checkpointing = false          # gradient checkpointing: less memory, slower

# save_every = 200               # steps; a saved run can be resumed
# test_every = 200               # steps between test pictures; 0: none
# test_prompt = ""
# test_seed = 7
"""
_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "words in quotes",
    tuple: "a list of words in quotes",
}
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
"""How a file begins that an editor or a shell of Windows wrote, and what it is then."""


def example() -> str:
    """A file of settings with comments."""
    return EXAMPLE.format(command=command_line("train", "my-training.toml"))


def read_config(place: str) -> TrainConfig:
    """Paths in it count from the folder of the call; what it leaves open is what the model's note has, and is printed. Raises
    HalftoneError train-config where the file holds no training.
    """
    from halftone.cli.train.sd_scripts_names import of_sd_scripts
    from halftone.library.training_data.training_checks import settings_for

    content = _content(place)
    wrong = of_sd_scripts(content) or next((said for said in _faults(content)), None)
    if wrong is not None:
        raise _refused(place, wrong)
    known = {name: value for name, value in settings_for(content["model"]).items() if name not in content}
    if known:
        listing = ", ".join(f"{name} = {value:g}" for name, value in known.items())
        say(f"Recommended by the model, as the file does not set them: {listing}.", err=True)
    try:
        config = msgspec.convert({**known, **content}, TrainConfig)
    except msgspec.ValidationError as error:
        raise _refused(place, str(error).rstrip(".")) from error
    pictures, output = flags.absolute(config.pictures), flags.absolute(config.output)
    return msgspec.structs.replace(config, name=config.name.removesuffix(".safetensors"), pictures=pictures, output=output)


def _content(place: str) -> dict[str, Any]:
    try:
        raw = read_regular(place)
    except OSError as error:
        why = Words("it is a folder") if os.path.isdir(place) else system_words(error)
        raise _refused(place, Words("it cannot be read ({0})", (why,))) from error
    coding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        return tomllib.loads(raw.decode(coding))
    except UnicodeDecodeError as error:
        raise _refused(place, Words("it is not a UTF-8 text file")) from error
    except tomllib.TOMLDecodeError as error:
        raise _refused(place, _complaint(str(error), raw.decode(coding))) from error
    except RecursionError as error:
        raise _refused(place, Words("it is nested too deeply")) from error
    except ValueError as error:
        raise _refused(place, Words("it holds a number of too many digits")) from error


def _complaint(problem: str, text: str) -> Words | str:
    """What the parser says, with what most often lies behind it."""
    problem = (problem[:1].lower() + problem[1:]).rstrip(".")
    if "escape" in problem or "hex" in problem:
        return Words(r"{0}: in a path write / or \\ for each \, or put it between 'single quotes'", (problem,))
    if "invalid value" in problem:
        return Words('{0}: words need quotes, as in name = "my-style"', (problem,))
    return problem if text.strip() else Words("it is empty")


def _faults(content: dict[str, Any]) -> Iterator[Words]:
    """What is wrong with it, one sentence's middle after another."""
    kinds = get_type_hints(TrainConfig)
    for name, value in content.items():
        if name not in kinds:
            close = difflib.get_close_matches(name.lower().replace("-", "_"), list(kinds), 1)
            if close:
                yield Words("there is no setting {0}; {1} may be meant", (name, close[0]))
            else:
                yield Words("there is no setting {0}", (name,))
        elif (takes := _takes(kinds[name], value)) is not None:
            shown = f"“{value}”" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
            yield Words("{0} takes {1}, not {2}", (name, takes, shown))
    for field in msgspec.structs.fields(TrainConfig):
        if field.required and field.name not in content:
            yield Words("{0} is not set", (field.name,)) if content else Words("it is empty")


def _takes(kind: Any, value: object) -> Words | None:
    """What a setting takes, None where `value` is that."""
    if get_origin(kind) is Literal:
        return None if value in get_args(kind) else Words("one of {0}", (get_args(kind),))
    kind = get_origin(kind) or kind
    fits = {
        bool: isinstance(value, bool),
        int: isinstance(value, int) and not isinstance(value, bool),
        float: isinstance(value, int | float) and not isinstance(value, bool),
        str: isinstance(value, str),
        tuple: isinstance(value, list) and all(isinstance(one, str) for one in value),
    }
    return None if fits[kind] else Words(_KINDS[kind])


def _refused(place: str, wrong: Words | str) -> HalftoneError:
    return HalftoneError("train-config", file=place, problem=wrong)
