"""Reads the text of programs that write as A1111 does but with names of their own: SD.Next, Fooocus, Civitai.

Sources: the programs' own code, which writes these texts. It is untrusted.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from halftone.metadata.extensions import from_extensions
from halftone.metadata.reading import Parameters, lora_tag, parse_parameters

_RESOURCES: Final = ", Civitai resources: "
_MORE: Final = ", Civitai metadata: "
_OF_SD_NEXT: Final = {
    "Variation strength": "Variation seed strength",
    "Hires scale": "Hires upscale",
    "Hires strength": "Denoising strength",
    "Refiner start": "Refiner switch at",
}
_FREEU: Final = re.compile(r"b1=(?P<b1>[0-9.]+) b2=(?P<b2>[0-9.]+) s1=(?P<s1>[0-9.]+) s2=(?P<s2>[0-9.]+)")
_OF_FOOOCUS: Final = {"Scheduler": "Schedule type"}
_UNUSED: Final = ("Raw prompt", "Raw negative prompt", "Lora weights", "Performance")
"""Fields of Fooocus that say again what others say."""
_USUAL_VAE: Final = "Default (model)"
_LORAS: Final = ("lora", "lycoris", "locon", "dora")


def parameters_of_text(text: str) -> Parameters:
    """Read A1111's text, by whichever program; text without parameters is all prompt."""
    said = _of_program(text)
    return Parameters(prompt=said.prompt, negative=said.negative, fields=from_extensions(said.fields))


def _of_program(text: str) -> Parameters:
    if _RESOURCES in text or _MORE in text:
        return _civitai(text)
    said = parse_parameters(text)
    if said.fields.get("App") == "SD.Next":
        return _sd_next(said)
    return _fooocus(said) if said.fields.get("Version", "").startswith("Fooocus") else said


def _sd_next(said: Parameters) -> Parameters:
    fields = {_OF_SD_NEXT.get(name, name): value for name, value in said.fields.items() if name != "App"}
    if "Hires upscale" not in fields:
        fields.pop("Hires steps", None)  # it writes 0 for the refiner
    if (found := _FREEU.fullmatch(fields.get("FreeU", ""))) is not None:
        del fields["FreeU"]
        fields |= {"FreeU version": "Diffusers", **{f"freeu_{name}": value for name, value in found.groupdict().items()}}
    version = {"Version": f"SD.Next {fields.get('Version', '')}".strip()}
    return Parameters(prompt=said.prompt, negative=said.negative, fields=fields | version)


def _fooocus(said: Parameters) -> Parameters:
    """It has the weights of LoRAs in a field, and the schedule in two."""
    fields = {_OF_FOOOCUS.get(name, name): value for name, value in said.fields.items() if name not in _UNUSED}
    if fields.get("Schedule type") == "karras":
        fields["Sampler"] = fields.get("Sampler", "").removesuffix(" Karras")
    if fields.get("VAE") == _USUAL_VAE:
        del fields["VAE"]
    pairs = (one.rpartition(": ") for one in said.fields.get("Lora weights", "").split(", "))
    tags = (lora_tag(name, weight) for name, _, weight in pairs if name)
    return Parameters(prompt=" ".join((said.prompt, *tags)), negative=said.negative, fields=fields)


def _civitai(text: str) -> Parameters:
    """It names the model and the LoRAs by their titles there, as JSON between the fields."""
    text, resources = _without(text, _RESOURCES)
    text, _ = _without(text, _MORE)
    said = parse_parameters(text)
    listed = cast("list[Any]", resources) if isinstance(resources, list) else []
    found = [cast("Mapping[str, Any]", one) for one in listed if isinstance(one, dict)]
    models = [str(one["modelName"]) for one in found if str(one.get("type")).lower() == "checkpoint" and one.get("modelName")]
    model = {"Model": models[0]} if models and "Model" not in said.fields else {}
    loras = (one for one in found if str(one.get("type")).lower() in _LORAS and one.get("modelName"))
    tags = [lora_tag(str(one["modelName"]), one.get("weight", 1)) for one in loras]
    version = {} if "Version" in said.fields else {"Version": "Civitai"}
    prompt = " ".join((said.prompt, *(tag for tag in tags if tag not in said.prompt)))
    return Parameters(prompt=prompt, negative=said.negative, fields=said.fields | model | version)


def _without(text: str, key: str) -> tuple[str, Any]:
    """(the text without the JSON behind the key, its value); None for none that can be read."""
    before, found, after = text.partition(key)
    if not found:
        return text, None
    decode: Callable[[str], tuple[Any, int]] = json.JSONDecoder().raw_decode
    try:
        value, end = decode(after)
    except (ValueError, RecursionError):
        return before + after[after.find("\n") :] if "\n" in after else before, None
    return before + after[end:], value
