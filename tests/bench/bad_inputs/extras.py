"""VAEs, ControlNets, IP-Adapters, transformers, LoRAs, embeddings and refiners beside a sound model, each spoilt in one way."""

import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from tests.bench.bad_inputs.case import Case
from tests.bench.bad_inputs.configurations import VALUES, read_config, shown, with_value
from tests.bench.bad_inputs.folders import CHANGES, read_tensors, write_tensors
from tests.bench.bad_inputs.models import MODEL, Base, base, check, generate, place
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.inversions import same_as
from tests.helpers.ip_adapters import save_adapter, save_encoder
from tests.helpers.loras import make_lora

from halftone.contract.request import Control, IpAdapter, Lora, Refiner

_NUMBER: Final = 150
_FIELDS: Final = ("vae", "vae folder", "transformer", "lora", "inversion", "control", "control folder", "ip", "image encoder")
Spoil = Callable[[Path], object]


def cases(rng: random.Random) -> Iterator[Case]:
    """Each is used to make a picture and in a check."""
    for index in range(_NUMBER):
        own = base(("SD 1.x", "SDXL")[index % 2])
        field = _FIELDS[index % len(_FIELDS)]
        _sound(own.family.name, field)  # here, not in the process of every case
        name, spoil = _spoilt(own, field, rng)
        yield Case("extras", f"{own.family.name}: {field} {index}: {name}", _made(own, field, spoil), _uses(own, field))


def _made(own: Base, field: str, spoil: Spoil) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        own.copied(lambda _model: None)(folder)
        place = folder / "extras"
        shutil.copytree(_sound(own.family.name, field), place)
        spoil(place)

    return make


@cache
def _sound(family: str, field: str) -> Path:
    """A folder with a sound one, made once; cases copy it."""
    made = place() / f"{family} {field}" / "extras"
    made.mkdir(parents=True)
    _write(base(family), field, made)
    return made


def _write(own: Base, field: str, place: Path) -> None:
    """A sound one, as "extra", with the ending of its kind."""
    file = place / "extra.safetensors"
    match field:
        case "vae":
            save_file(load_file(own.folder / "vae" / "diffusion_pytorch_model.safetensors"), file)
        case "vae folder":
            own.copied(lambda _model: None, "whole")(place.parent)
            (place.parent / "whole" / "vae").rename(place / "extra")
        case "transformer":
            save_file(load_file(own.folder / "unet" / "diffusion_pytorch_model.safetensors"), file)
        case "lora":
            make_lora(own.folder, file, text=("q_proj",), kohya=True)
        case "inversion":
            same_as(own.folder, file, "red sun")
        case "control" | "control folder":
            save_net(make_net(own.folder), place / "extra", "folder" if "folder" in field else "diffusers")
        case _:
            save_adapter(own.folder, file)
            save_encoder(place)


def _place(field: str) -> str:
    return "extras/extra" if "folder" in field else "extras/extra.safetensors"


def _given(field: str, folder: Path) -> dict[str, Any]:
    path = str(folder / _place(field))
    match field:
        case "vae" | "vae folder":
            return {"vae": path}
        case "transformer":
            return {"transformer": path}
        case "lora":
            return {"loras": (Lora(path=path),)}
        case "inversion":
            return {"inversions": (path,)}
        case "control" | "control folder":
            return {"controls": (Control(path=path, image=str(picture(folder / "given.png"))),)}
        case "refiner":
            return {"refiner": Refiner(path=path)}
        case _:
            return {"ip_adapters": (IpAdapter(path=path, images=(str(picture(folder / "given.png")),)),)}


def _uses(own: Base, field: str) -> tuple[Callable[[Path], object], ...]:
    return (
        lambda folder: generate(folder / MODEL, own.family, **_given(field, folder)),
        lambda folder: check(folder / MODEL, own.family, **_given(field, folder)),
    )


def _spoilt(own: Base, field: str, rng: random.Random) -> tuple[str, Spoil]:
    """Make a function that spoils an extra in the folder that it is given."""
    in_folder = "folder" in field or field == "image encoder"
    if in_folder and rng.random() < 0.5:
        config = Path("image_encoder" if field == "image encoder" else "extra") / "config.json"
        seed, value = rng.random(), rng.choice(VALUES)
        return f"a value ({seed:.3f}): {shown(value)}", lambda place: _with_any(place / config, seed, value)
    what, change = rng.choice((*CHANGES, ("infinite numbers", None)))
    seed = rng.random()

    def spoil(place: Path) -> None:
        inside = "image_encoder" if field == "image encoder" else "extra" if in_folder else ""
        file = min((place / inside).glob("*.safetensors"))
        if change is None:
            tensors = load_file(file)
            name = random.Random(seed).choice(sorted(tensors))
            save_file(tensors | {name: torch.full_like(tensors[name], float("inf"))}, file)
            return
        header, body = read_tensors(file)
        change(header, random.Random(seed))
        write_tensors(file, header, body)

    return f"{what} ({seed:.3f})", spoil


def _with_any(file: Path, seed: float, value: Any) -> None:
    with_value(file, random.Random(seed).choice(sorted(read_config(file))), value)
