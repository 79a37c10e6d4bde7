"""Jobs whose memory ends: at every place from which one asks for memory, once or from there on until something was moved.

    PYTHONPATH=app:. python -m tests.bench.memory_faults [--only SCENE ...] [--each 3] [--most 10] [--lasting]

Each job goes on in a cheaper way with the same picture, or ends in a sentence about the memory with what was computed kept; then
the same job is done once more, undisturbed, and has to give what it gives alone. Exit code 1 where one does not.
"""

import argparse
import collections
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from tests.helpers.controls import loud_net, make_net, picture, save_net
from tests.helpers.engine_runs import faulty_copy
from tests.helpers.ip_adapters import save_adapter, save_encoder
from tests.helpers.loras import make_lora
from tests.helpers.memory import Chain
from tests.helpers.shortages import Scene, Shortage, disturbed, shortages, undisturbed
from tests.helpers.tiny import save_tiny
from tests.helpers.trainings import draw_pictures
from tests.helpers.vaes import other_vae, save_vae

from halftone.contract.messages import Examine, Generate, Repair, Train
from halftone.contract.request import CheckInputs, Control, Hires, IpAdapter, Lora, Numerics, PictureRequest, Refiner
from halftone.contract.training import TrainConfig

LASTS: Final = 40
"""Allocations in a row that fail where the shortage lasts."""
BITS: Final = 12
"""By which the stream of the denoiser beside a ControlNet is too large."""


def _generate(model: Path, precision: str = "float32", **changes: object) -> Generate:
    numerics = {name: changes.pop(name) for name in list(changes) if name in Numerics.__struct_fields__}
    fields = {"width": 32, "height": 32, "steps": 3, "seed": 5, "prompt": "a red sun", **changes}
    request = PictureRequest(model=str(model), numerics=Numerics(precision=precision, **numerics), **fields)  # type: ignore[arg-type]
    return Generate(job="", request=request)


def _check(model: Path, depth: str = "quick") -> Examine:
    inputs = CheckInputs(width=32, height=32)
    return Examine(job="", model=str(model), depth=depth, numerics=Numerics(precision="float16"), inputs=inputs)  # type: ignore[arg-type]


def _training(model: Path, pictures: Path, **changes: object) -> Train:
    plain = {"precision": "float32", "rank": 2, "steps": 3, "batch": 1, "test_every": 2, "save_every": 1}
    config = TrainConfig(model=str(model), pictures=str(pictures), output="", **{**plain, **changes})  # type: ignore[arg-type]
    return Train(job="", config=config)


def scenes(folder: Path) -> Iterator[Scene]:
    """folder: for the models."""
    model = save_tiny(folder / "sd15", "sd15")
    unet = faulty_copy(model, folder / "unet", "unet", "stream of unet", 17)
    vae = faulty_copy(model, folder / "vae", "vae", "stream of decoder", 17)
    add = {"loras": (Lora(path=str(make_lora(model, folder / "add.safetensors"))),)}
    net = Control(path=str(save_net(make_net(model), folder / "net")), image=str(picture(folder / "square.png")))
    save_encoder(folder)
    adapter = IpAdapter(path=str(save_adapter(model, folder / "adapter.safetensors", "plus")), images=(net.image,), scale=0.8)
    own = str(save_vae(other_vae(), folder / "other.safetensors"))
    plain = _generate(model)
    yield Scene("generate", _generate(model, batch=2))
    yield Scene("recover a step", _generate(unet, "float16"))
    yield Scene("recover a decode", _generate(vae, "float16"))
    yield Scene("recover with a LoRA", _generate(unet, "float16", **add))
    loud = save_net(loud_net(make_net(model), BITS - 2), folder / "loud")
    beside = {"controls": (msgspec.structs.replace(net, path=str(loud), scale=2.0),)}
    stream = faulty_copy(model, folder / "stream", "unet", "residual stream", BITS)
    yield Scene("recover beside a ControlNet", _generate(stream, "float16", **beside))
    yield Scene("prove a plan", _generate(stream, "float16", **beside), (_check(stream),))
    yield Scene("apply a plan", _generate(model, "bfloat16"), (plain,))
    yield Scene("apply a LoRA", _generate(model, "float16", **add), (plain,))
    yield Scene("apply extras", _generate(model, controls=(net,), ip_adapters=(adapter,), vae=own), (plain,))
    yield Scene("apply FP8", _generate(model, "bfloat16", fp8_storage=True), (plain,))
    yield Scene("offloaded recovery", _generate(unet, "float16", offload="auto"), (_generate(unet, steps=1),), apart=True)
    yield Scene("offloaded decode", _generate(vae, "float16", offload="auto"), (_generate(vae, steps=1),), apart=True)
    yield Scene("offloaded plan", _generate(model, "bfloat16", offload="group", batch=2), (plain,), apart=True)
    yield Scene("second pass", _generate(model, hires=Hires(scale=2.0, steps=2)))
    yield Scene("start picture", _generate(model, image=net.image))
    yield Scene("check", _check(model))
    yield Scene("check a fault", _check(unet))
    yield Scene("check a decoder", _check(vae, "thorough"))
    yield Scene("offloaded check", _check(unet), (_generate(unet, steps=1),), apart=True)
    yield Scene("repair", Repair(job="", model=str(unet), output="", numerics=Numerics(precision="float16")))
    yield Scene("train", _training(model, draw_pictures(folder / "pictures", 2)))
    yield Scene("train in BF16", _training(model, folder / "pictures", precision="bfloat16"))
    base = save_tiny(folder / "sdxl", "sdxl")
    from tests.bench.families import kin

    kin.refiner().save_pretrained(folder / "refiner")
    refiner = Refiner(path=str(folder / "refiner"), at=0.6)
    yield Scene("refiner", _generate(base, steps=5, guidance=4.0, refiner=refiner))


def run(
    scene: Scene, each: int, lasting: int, seen: set[Chain], most: int, *, tell: bool
) -> tuple[int, collections.Counter[str], list[str]]:
    """(places, what became of them, what is wrong). seen: places that an earlier scene tried; those of this one join them.

    most: so many places, spread over all; those that an earlier scene tried where there are too few others. 0: all new ones.
    """
    normal = undisturbed(scene)
    ended: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    found = shortages(normal.chains, each, lasting)
    fresh = [one for one in found if one.chain not in seen]
    chosen = _spread(fresh, most) if most else fresh
    if len(chosen) < most:  # places that another scene tried in another state of the model
        chosen += _spread([one for one in found if one.chain in seen], most - len(chosen))
    seen.update(normal.chains)
    for one in chosen:
        what, fault = disturbed(scene, normal, one)
        ended[what] += 1
        if fault:
            wrong.append(f"{scene.name} at {one.nth} of {_way(one.chain)}: {what}: {fault}")
            if tell:
                print("  ", wrong[-1], flush=True)
    return len(chosen), ended, wrong


def _spread(found: Sequence[Shortage], most: int) -> list[Shortage]:
    """So many of them at most, evenly spread."""
    count = min(most, len(found))
    return [found[step * len(found) // count] for step in range(count)]


def _way(chain: Chain) -> str:
    return " > ".join(f"{site.module.rpartition('.')[2]}.{site.function}:{site.line}" for site in chain[-6:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="SCENE")
    parser.add_argument("--each", type=int, default=3, help="allocations of each place in the program")
    parser.add_argument("--most", type=int, default=0, help="so many places of each scene, spread over all")
    parser.add_argument("--lasting", action="store_true", help=f"{LASTS} allocations in a row fail, not one")
    options = parser.parse_args()
    bad, total, seen = 0, 0, set[Chain]()
    with tempfile.TemporaryDirectory(prefix="halftone-memory-") as folder:
        for scene in scenes(Path(folder)):
            if options.only and scene.name not in options.only:
                continue
            started = time.perf_counter()
            count, ended, wrong = run(scene, options.each, LASTS if options.lasting else 1, seen, options.most, tell=True)
            bad, total = bad + len(wrong), total + count
            said = ", ".join(f"{number} {what}" for what, number in ended.most_common())
            print(f"{scene.name}: {count - len(wrong)} of {count} in {time.perf_counter() - started:.0f} s ({said})", flush=True)
    print(f"{total - bad} of {total}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
