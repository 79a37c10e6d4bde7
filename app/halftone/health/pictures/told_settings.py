"""Names what a picture says of how it was made, for those who decide whether to use it."""

from typing import Final, NamedTuple

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
    "Clip skip": Words("Clip skip"),
}


class Told(NamedTuple):
    """program: that made it, "" where it is not known. names: the settings that can be used."""

    program: str
    names: tuple[Words, ...]


def program_of(version: str) -> str:
    """The program that writes such a version, "" where it is not known."""
    return next((name for begin, name in _PROGRAMS if version.startswith(begin)), "")


def told(said: Parameters, left: tuple[str, ...] = ()) -> Told:
    """What a picture says. left: the settings that cannot be used here, as `Taken` has them."""
    prompts = ((said.prompt, Words("Prompt")), (said.negative, Words("Negative prompt")))
    unused = {text.partition(":")[0] for text in left}
    names = [words for text, words in prompts if text]
    return Told(
        program_of(said.fields.get("Version", "")),
        (*names, *(words for name, words in _NAMES.items() if name in said.fields and name not in unused)),
    )
