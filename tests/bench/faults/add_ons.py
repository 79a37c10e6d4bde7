"""Cures with add-ons: does a picture stay right when a ControlNet, an IP-Adapter or a LoRA comes beside a rescaled denoiser?

Run: `PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.faults.add_ons [--families …] [--places …] [--add-ons …]
[--out FILE]`. A fault is planted in the denoiser of a tiny model, its cure is found by a check (of the model alone, or with the
add-on) or while the picture is made; then the same picture with the add-on is made in float16 and in float32. Sound models with
the same add-ons are controls: nothing may be said of them. One line of JSON per case, one table at the end.
"""

import argparse
import json
import math
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch
from PIL import Image
from tests.bench.families import flows
from tests.bench.families.more import used_with
from tests.bench.faults import families, loras, truth
from tests.bench.faults.families import PROMPT, SEED, STEPS, Family, Sound, make_sound
from tests.bench.faults.inject import make_case
from tests.bench.faults.kinds import Proposal
from tests.helpers.controls import picture
from tests.helpers.silence import Going, silent

from halftone.contract.facts import GuardEvent
from halftone.contract.messages import Examine, Generate
from halftone.contract.request import CheckInputs, Control, IpAdapter, Lora, Numerics, PictureRequest
from halftone.contract.vocabulary import Precision
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.service import DiffusersEngine
from halftone.library.records import set_applied
from halftone.worker.environment import prepare

RIGHT: Final = 30.0
"""dB from the float32 picture with the same add-on."""
SHOWS: Final = 45.0
"""dB from the picture without the add-on below which the add-on shows."""
LOUD: Final = truth.LIMIT / 8
"""Largest residual of a ControlNet beside a large stream: sound in float16 by itself."""
UNETS: Final = ("sd15", "sdxl")
FAMILIES: Final = {
    family.name: family
    for family in (
        *(families.FAMILIES[name] for name in (*UNETS, "sd3", "flux")),
        Family("sd35", flows.sd35_medium, {"max_sequence_length": 32}),
    )
}
PLACES: Final = ("sound", "stream", "inner", "value", "prenorm")
"""The fault lies there: nowhere, in the stream that add-ons enter, in another stream, in values of attention, before a norm."""
ADD_ONS: Final = ("control", "two controls", "late control", "ip-adapter", "lora", "t2i", "control and lora", "control and ip")
WAYS: Final = ("checked alone", "checked with it", "not checked")
_STRONGER: Final = {"sd15": 2, "sdxl": 2, "sd3": 0, "sd35": 0, "flux": -2}
"""Bits by which a random ControlNet is made stronger, so that it shows, or weaker, so that it is not all that shows."""
_ENTERS: Final = ("conv_in.weight", "pos_embed.proj.weight", "x_embedder.weight")
"""First writer of the stream that a ControlNet's residuals are added to."""

Row = dict[str, Any]
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Faulty:
    """A model on disk; bits: how many the stream is too large, which an add-on made for this model knows; sound: what it was."""

    sound: Sound
    folder: Path
    bits: int
    place: str


def denoiser(pipe: Any) -> tuple[str, Any]:
    return ("unet", pipe.unet) if hasattr(pipe, "unet") else ("transformer", pipe.transformer)


# --- models and what is used with them ------------------------------------------------------------------------------


def faulty(sound: Sound, place: str, folder: Path) -> Faulty | None:
    """None where the family has no such place."""
    name, network = denoiser(sound.pipe)
    if place == "sound":
        return Faulty(sound, sound.folder, 0, place)
    entry = next(own for own in _ENTERS if own in dict(network.named_parameters()))

    def fits(proposal: Proposal) -> bool:
        enters = any(edit.tensor == entry for edit in proposal.edits)
        return proposal.component == name and (place not in ("stream", "inner") or enters == (place == "stream"))

    case = make_case(sound, "stream" if place == "inner" else place, 0, folder, fits)
    if case is None:
        return None
    before, after = (dict(denoiser(pipe)[1].named_parameters())[entry] for pipe in (sound.pipe, families.load(folder)))
    return Faulty(sound, folder, round(math.log2(float(after.detach().norm() / before.detach().norm()))), place)


def used(model: Faulty, what: str, folder: Path) -> Fields | None:
    """Fields of the request, for add-ons that were made for this model; None where the family has no such thing."""
    shown = folder / "shown.png"
    if not shown.is_file():
        picture(shown)
    if what == "t2i":
        return {} if model.sound.family.name in UNETS else None
    found: dict[str, Any] = {}
    for part in what.split(" and "):
        kind = "ip-adapter" if part == "ip" else part
        one = _one(model, kind, folder, shown)
        if one is None:
            return None
        found |= one
    return found


def _one(model: Faulty, what: str, folder: Path, shown: Path) -> dict[str, Any] | None:
    place = folder / what.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    if what == "lora":
        return {"loras": (_lora(model, place),)}
    if what == "ip-adapter":
        found = used_with("IP-Adapter", model.sound.folder, place, shown)
        (one,) = cast("tuple[IpAdapter, ...]", (found or {}).get("ip_adapters", (None,)))
        _louder(Path(one.path), _adapter_bits(model), "_v_")
        return {"ip_adapters": (one,)}
    nets = [_control(model, place / str(index), shown) for index in range(2 if what == "two controls" else 1)]
    if None in nets:
        return None
    start = 0.3 if what == "late control" else 0.0
    return {"controls": tuple(Control(path=str(net), image=str(shown), scale=2.0, start=start) for net in nets)}


def _control(model: Faulty, folder: Path, shown: Path) -> Path | None:
    folder.mkdir(parents=True, exist_ok=True)
    found = used_with("ControlNet", model.sound.folder, folder, shown)
    if found is None:
        return None
    net = Path(cast("tuple[Control, ...]", found["controls"])[0].path)
    _louder(net, model.bits + _STRONGER[model.sound.family.name], "controlnet_")
    return net


def _louder(place: Path, bits: int, inside: str) -> None:
    """Multiply what an add-on gives by as much as the stream of this model is too large, as far as float16 holds it."""
    from safetensors.torch import load_file, save_file

    for file in [place] if place.is_file() else sorted(place.glob("*.safetensors")):
        tensors = load_file(file)
        loud = {name: value for name, value in tensors.items() if inside in name and "cond_embedding" not in name}
        largest = max((float(value.abs().max()) for value in loud.values()), default=1.0)
        power = 2.0 ** min(bits, math.floor(math.log2(LOUD / max(largest, 1e-3))))
        save_file({name: value * power if name in loud else value for name, value in tensors.items()}, file)


def _adapter_bits(model: Faulty) -> int:
    """FLUX adds what an IP-Adapter gives to the stream, the others to the values."""
    return model.bits if model.sound.family.name == "flux" else 0


def _lora(model: Faulty, folder: Path) -> Lora:
    pipe = families.load(model.folder)
    name, _ = denoiser(pipe)
    deltas = loras.mild(replace(model.sound, pipe=pipe), random.Random(3), name)
    file = loras.write(name, {layer: 12 * delta for layer, delta in deltas.items()}, folder / "lora.safetensors")
    return Lora(path=str(file))


# --- pictures -------------------------------------------------------------------------------------------------------


def drawn(engine: DiffusersEngine, model: Faulty, fields: Fields, precision: Precision) -> tuple[torch.Tensor | None, Any]:
    """(picture in [0, 1] or None, facts of it)."""
    family = model.sound.family
    request = PictureRequest(
        prompt=PROMPT,
        model=str(model.folder),
        width=family.size,
        height=family.size,
        steps=STEPS,
        guidance=family.guidance,
        seed=SEED,
        options=family.options,
        output=str(model.folder.parent / "made.png"),
        overwrite=True,
        numerics=Numerics(precision=precision),
        **fields,
    )
    facts = engine.generate(Generate(job="g", request=request), silent, Going()).images[0]
    if not facts.path:
        return None, facts
    with Image.open(facts.path) as image:
        return torch.from_numpy(np.asarray(image.convert("RGB")).copy()).double() / 255, facts


def checked(engine: DiffusersEngine, model: Faulty, fields: Fields) -> None:
    """Check in float16 and apply what is suggested."""
    family = model.sound.family
    inputs = CheckInputs(
        prompt=PROMPT,
        width=family.size,
        height=family.size,
        steps=STEPS,
        guidance=family.guidance,
        seed=SEED,
        options=family.options,
        **fields,
    )
    command = Examine(job="c", model=str(model.folder), numerics=Numerics(precision="float16"), inputs=inputs)
    set_applied(engine.examine(command, silent, Going()), True)


@contextmanager
def with_features(engine: DiffusersEngine, model: Faulty, what: str) -> Generator[None]:
    """Hand what a T2I-Adapter adds to the UNet as its pipeline does: by an argument of forward."""
    if what != "t2i":
        yield
        return
    drawn(engine, model, {}, "float32")
    assert engine.loaded is not None
    unet = engine.loaded.modules["unet"]
    handle = unet.register_forward_pre_hook(_features(model), with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def _features(model: Faulty) -> Callable[..., Any]:
    """One for each block of the way down, half as large from one to the next."""
    generator = torch.Generator().manual_seed(9)
    channels = denoiser(model.sound.pipe)[1].config.block_out_channels
    power = 2.0 ** min(model.bits, math.floor(math.log2(LOUD)) - 1)
    edge = denoiser(model.sound.pipe)[1].config.sample_size
    made = [torch.randn((1, wide, edge >> level, edge >> level), generator=generator) for level, wide in enumerate(channels)]

    def add(_unet: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        sample = args[0] if args else kwargs["sample"]
        rows = sample.shape[0]
        added = [(feature * power).to(sample).expand(rows, -1, -1, -1).clone() for feature in made]
        return args, {**kwargs, "down_intrablock_additional_residuals": added}

    return add


# --- cases ----------------------------------------------------------------------------------------------------------


def measured(model: Faulty, what: str, way: str, fields: Fields, folder: Path) -> Row:
    """One case: what came out, beside the float32 picture."""
    os.environ["HALFTONE_DATA"] = str(folder / "data")
    shutil.rmtree(folder / "data", ignore_errors=True)
    engine = DiffusersEngine()
    plain, _ = drawn(engine, model, {}, "float32")
    if way == "checked alone":
        checked(engine, model, {})
    with with_features(engine, model, what):
        if way == "checked with it":
            checked(engine, model, fields)
        wide, _ = drawn(engine, model, fields, "float32")
        narrow, facts = drawn(engine, model, fields, "float16")
        again, twice = drawn(engine, model, fields, "float16")
    assert plain is not None
    assert wide is not None
    found = [-1.0 if made is None else min(round(truth.psnr(made, wide), 1), 120.0) for made in (narrow, again)]
    return {
        "shows": round(min(truth.psnr(wide, plain), 120.0), 1),
        "psnr": found[0],
        "psnr again": found[1],
        "made": facts.state,
        "made again": twice.state,
        "cures": [f"{event.component} {event.cure}" for event in cast("Sequence[GuardEvent]", facts.events)],
    }


def cases(
    names: Iterable[str], places: Iterable[str], add_ons: Iterable[str], folder: Path, ways: Sequence[str] = WAYS
) -> Iterator[Row]:
    """A line for every case, as it comes. Every way for the stream that add-ons enter, a check of the model alone for others."""
    for name in names:
        sound = _quietly(make_sound, FAMILIES[name], folder / "models", 0)
        for place in places:
            model = _quietly(faulty, sound, place, folder / f"{name}-{place}")
            for what in add_ons if model is not None else ():
                at = folder / f"{name}-{place}-{what.replace(' ', '-')}"
                at.mkdir(parents=True, exist_ok=True)
                fields = _quietly(used, model, what, at)
                for way in (ways if place == "stream" else ways[:1]) if fields is not None else ():
                    row = {"family": name, "place": place, "add-on": what, "way": way}
                    row |= _quietly(measured, model, what, way, fields, at)
                    sys.stderr.write(f"{json.dumps(row)}\n")
                    yield row


def _quietly(make: Callable[..., Any], *given: Any) -> Any:
    with quiet_libraries(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*given)


# --- the table ------------------------------------------------------------------------------------------------------


def is_good(row: Row) -> bool:
    """Right, both times; a control is also clean, without a word."""
    right = row["psnr"] >= RIGHT and row["psnr again"] >= RIGHT
    return right and (row["place"] != "sound" or (row["made"] == "clean" and not row["cures"]))


def is_silent_fault(row: Row) -> bool:
    """A wrong picture that is called clean."""
    first = row["psnr"] < RIGHT and row["made"] == "clean"
    return first or (row["psnr again"] < RIGHT and row["made again"] == "clean")


def goals(rows: Sequence[Row]) -> list[tuple[str, str, str, bool]]:
    """Return what Halftone promises of cures with add-ons. A case counts where the add-on shows in the picture."""
    shown = [row for row in rows if row["shows"] < SHOWS]
    cured = [row for row in shown if row["place"] != "sound"]
    sound = [row for row in shown if row["place"] == "sound"]
    silent_faults = sum(map(is_silent_fault, cured))
    good = sum(map(is_good, cured))
    least = min((min(row["psnr"], row["psnr again"]) for row in cured), default=0.0)
    false = sum(not is_good(row) for row in sound)
    return [
        ("cures with add-ons", str(len(cured)), "60", len(cured) >= 60),
        ("wrong pictures called clean", str(silent_faults), "0", not silent_faults),
        ("within 30 dB of FP32, the next picture too", f"{good}/{len(cured)} (least {least:.1f} dB)", "100%", good == len(cured)),
        ("false alarms among sound models with add-ons", f"{false} of {len(sound)}", "0", not false),
    ]


def table(rows: Sequence[Row]) -> str:
    lines = [f"{'':<18}{'cases':>7}{'good':>7}{'silent':>8}{'least dB':>10}{'clean':>7}"]
    faults = [row for row in rows if row["shows"] < SHOWS]
    for key in ("family", "place", "add-on", "way"):
        for value in dict.fromkeys(row[key] for row in faults):
            own = [row for row in faults if row[key] == value]
            least = min(min(row["psnr"], row["psnr again"]) for row in own)
            counts = len(own), sum(map(is_good, own)), sum(map(is_silent_fault, own))
            clean = sum(row["made"] == "clean" for row in own)
            lines.append(f"{value:<18}{counts[0]:>7}{counts[1]:>7}{counts[2]:>8}{least:>10.1f}{clean:>7}")
    lines += [f"{len(rows) - len(faults)} cases whose add-on does not show are left out.", ""]
    lines += [f"{what}: {found} (goal {goal}){'' if met else ', MISSED'}" for what, found, goal, met in goals(rows)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--places", nargs="*", default=list(PLACES), choices=PLACES, metavar="PLACE")
    parser.add_argument("--add-ons", nargs="*", default=list(ADD_ONS), choices=ADD_ONS, metavar="ADD-ON")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS, metavar="WAY")
    parser.add_argument("--out", type=Path, help="lines of JSON, one per case")
    chosen = parser.parse_args()
    prepare()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="halftone-add-ons-") as folder:
        rows = list(cases(chosen.families, chosen.places, chosen.add_ons, Path(folder), chosen.ways))
    if chosen.out is not None:
        chosen.out.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    print(table(rows))
    sys.exit(not all(met for *_, met in goals(rows)))


if __name__ == "__main__":
    main()
