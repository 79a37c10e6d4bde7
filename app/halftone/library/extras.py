"""What numbers that were learned belong to beside the model: its LoRAs and its VAE, as their files are now."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from halftone.contract.request import Extras
from halftone.library.loras import lora_key
from halftone.library.vaes import VAE, names_in, vae_file, vae_version


class ExtraFile(NamedTuple):
    """A weight file of a component that is not the model's own. names: tensor -> parameter of the component."""

    component: str
    path: Path
    names: dict[str, str]


def extras_key(extras: Extras) -> str:
    """Changes with what is used, and when one of the files is rewritten; "" for the model alone."""
    key = lora_key(extras.loras)
    return key if extras.vae is None else f"{key}\0vae\0{extras.vae}\n{vae_version(extras.vae)}"


def parts_of(extras: Extras) -> Iterator[Extras]:
    """The model alone, with each part of what is used, and with all of it: what holds with less holds with more, too."""
    found = (
        Extras(loras=extras.loras if loras else (), vae=extras.vae if vae else None)
        for vae, loras in product((False, True), (False, True))
    )
    yield from dict.fromkeys(found)


def extra_files(extras: Extras) -> tuple[ExtraFile, ...]:
    """Those of whole components; LoRAs are added to others. Raises HalftoneError as `check_vae`."""
    if extras.vae is None:
        return ()
    return (ExtraFile(VAE, vae_file(extras.vae), names_in(extras.vae)),)
