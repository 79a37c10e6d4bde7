"""The names of the settings in a picture, so that the user can decide whether to use them."""

from typing import Final, NamedTuple

from halftone.contract.parameters import OPTION_PARAMETERS
from halftone.contract.wording import Words
from halftone.metadata.reading import Parameters

_PROGRAMS: Final = (("Halftone", "Halftone"), ("ComfyUI", "ComfyUI"), ("f", "Forge"), ("v", "A1111"))
"""Beginning of the version -> program."""
_NAMES: Final = {
    "Seed": Words("Seed"),
    "Size": Words("Size"),
    "Steps": Words("Steps"),
    "Sampler": Words("Sampler"),
    "CFG scale": Words("Guidance"),
    "Model": Words("Model"),
    **{one.keys[0]: one.label for one in OPTION_PARAMETERS.values() if not one.names},
}


class SettingNames(NamedTuple):
    """program: that made it, "" where it is not known. names: the settings that can be used."""

    program: str
    names: tuple[Words, ...]


def program_of(version: str) -> str:
    """The program that writes such a version, "" where it is not known."""
    return next((name for begin, name in _PROGRAMS if version.startswith(begin)), "")


def setting_names(said: Parameters, left: tuple[str, ...] = ()) -> SettingNames:
    """Return the program and the settings that a picture names. left: those that cannot be used here, as `Imported` has them."""
    prompts = ((said.prompt, Words("Prompt")), (said.negative, Words("Negative prompt")))
    unused = {text.partition(":")[0] for text in left}
    names = [words for text, words in prompts if text]
    return SettingNames(
        program_of(said.fields.get("Version", "")),
        (*names, *(words for name, words in _NAMES.items() if name in said.fields and name not in unused)),
    )
