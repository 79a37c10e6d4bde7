"""The proof of going on after a failure: a number that goes bad at any step gives the same picture, to the last bit, as a run
that had the cure from that step on, and at most one step is computed twice: two on a device that has to be waited for, as there
a step is read while the next one runs.

Run: `PYTHONPATH=app:. python tests/bench/bench_resume.py [--quick] [--only FAMILY …]`. Tiny models of many families in float16;
every sampler, every step as the failing one. Prints a line for each way to make a picture and each kind of fault; exits
with 1 when one of them misses its goal.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

if __name__ == "__main__":
    os.environ["HALFTONE_DATA"] = tempfile.mkdtemp(prefix="halftone-bench-")
    from halftone.worker.environment import prepare

    prepare()

from tests.bench.common import Options
from tests.bench.common import Row as Goal
from tests.bench.faults.families import FAMILIES
from tests.bench.resume.rig import Case, Fault, Made, Rig, decoding, not_float16, passing, standing, swelling, wide
from tests.helpers.device import DEVICE

from halftone.contract.errors import HalftoneError
from halftone.library.samplers import FLOW_METHODS, METHODS

EXACT: Final = {"vae_float32": "always"}
"""The decoder gets the latents as they are, so that they can be compared to the last bit."""


class Row(NamedTuple):
    """One line: what was tried, what came out, what was wanted."""

    what: str
    measured: str
    goal: str
    met: bool


def _case(family: str, sampler: str | None = None, label: str = "", **more: object) -> Case:
    return Case(family, sampler, label, **{"numerics": EXACT, **more})  # pyright: ignore[reportArgumentType]


def _guided() -> list[Case]:
    """With and without guidance, and the windows, rescalings and truncations that pipelines have."""
    return [
        *(
            _case(family, label="no guidance", guidance=1.0)
            for family in ("sd15", "sdxl", "sd3", "sana", "pixart", "wan", "ltx", "cogvideox")
        ),
        _case("sd15", label="guidance rescale", guidance=7.5, options={"guidance_rescale": 0.7}),
        _case("sdxl", label="guidance rescale", guidance=5.0, options={"guidance_rescale": 0.7}),
        _case("sdxl", label="ends early", options={"denoising_end": 0.8}),
        _case("sd15", "DDIM", "eta", options={"eta": 1.0}),
        _case("flux", label="true guidance", options={"true_cfg_scale": 3.0, "negative_prompt_2": "rain"}, negative="rain"),
        _case("ltx", label="guidance rescale", options={"guidance_rescale": 0.7}),
        _case("cogvideox", label="dynamic guidance", options={"use_dynamic_cfg": True}),
        _case("lumina2", label="guidance window", options={"cfg_trunc_ratio": 0.5, "cfg_normalization": True}),
        _case("z-image", label="guidance", guidance=4.0),
        _case("z-image", label="guidance window", guidance=4.0, options={"cfg_truncation": 0.5, "cfg_normalization": True}),
        _case("qwen-image", label="true guidance", options={"true_cfg_scale": 3.0}, negative="rain"),
        _case("hunyuan-image", label="momentum guidance", steps=8),
        _case("sd15", label="16-bit sampling", numerics={**EXACT, "upcast_sampling": False}),
        _case("sd3", label="16-bit sampling", numerics={**EXACT, "upcast_sampling": False}),
    ]


def _tasks() -> list[Case]:
    """Image-to-image and inpainting."""
    families = ("sd15", "sdxl", "sd3", "flux")
    made = [_case(family, label="image to image", task="image", strength=0.8) for family in families]
    paints = ("sd15", "sdxl", "flux")  # SD3's pipeline takes networks of 16 channels only
    made += [_case(family, label="inpainting", task="mask", strength=0.8) for family in paints]
    made += [_case("sd15", sampler, "image to image", task="image") for sampler in ("Euler a", "Heun", "DPM++ 2M SDE Karras")]
    return [*made, _case("sd15", "PNDM", "inpainting", task="mask"), _case("pixart", label="square", steps=8)]


def cases() -> list[Case]:
    """Everything that is tried."""
    usual = [_case(family, sampler) for family in ("sd15", "sdxl", "pixart", "cogvideox") for sampler in METHODS]
    flow = [_case(family, sampler) for family in ("sd3", "flux", "sana", "wan", "ltx") for sampler in FLOW_METHODS]
    own = ("sd15", "sdxl", "sd3", "flux", "sana", "pixart", "wan", "ltx", "cogvideox", "lumina2", "z-image", "qwen-image")
    return [*usual, *flow, *(_case(family) for family in own), *_guided(), *_tasks()]


QUICK: Final = (
    _case("sd15", "DPM++ 2M SDE Karras", steps=3),
    _case("sd15", "UniPC", "image to image", task="image", steps=4, strength=0.75),
    _case("sd15", label="inpainting", task="mask", steps=2),
    _case("sd3", "Heun", steps=2),
)


def results(chosen: Iterable[Case], folder: Path) -> Iterator[Row]:
    """A row for each case and kind of fault; folder: for the tiny models."""
    rigs: dict[str, Rig] = {}
    for case in chosen:
        if case.family not in rigs:
            rigs.clear()
            rigs[case.family] = Rig(FAMILIES[case.family], folder)
            rigs[case.family].prepare(Case(case.family, steps=1))
        yield from _of(rigs[case.family], case)


def _of(rig: Rig, case: Case) -> Iterator[Row]:
    try:
        clean = rig.make(case)
    except HalftoneError as error:
        refused = error.code == "setting-bad-value" and error.facts["name"] == "Sampler"
        yield Row(case.name, str(error), "made, or the sampler refused in one sentence", refused)
        return
    yield _passes(rig, case, clean)
    kinds: list[tuple[str, Callable[[int], Fault]]] = [("a layer in float16", lambda step: standing(step, not_float16))]
    if case.sampler is None and not case.label:
        kinds.append(("float16 everywhere", lambda step: standing(step, not_float16, everywhere=True)))
        kinds.append(("float32 needed everywhere", lambda step: standing(step, wide, everywhere=True)))
    if case.family in ("sd15", "sdxl") and not case.label:
        kinds.append(("numbers too large", swelling))
    for name, fault in kinds:
        yield _cured(rig, case, clean, name, fault)
    if case.sampler is None:
        yield from _decoded(rig, case, clean.steps)


def _passes(rig: Rig, case: Case, clean: Made) -> Row:
    """A fault that passes by itself leaves no trace."""
    made = [rig.make(case, fault=passing(step)) for step in range(clean.steps)]
    return _row(f"{case.name}: passes by itself", made, [clean] * len(made), clean.steps)


def _cured(rig: Rig, case: Case, clean: Made, name: str, fault: Callable[[int], Fault]) -> Row:
    """A fault that stays until it is cured, against a run that is given the cure at that step."""
    made = [rig.make(case, fault=fault(step)) for step in range(clean.steps)]
    world = fault if fault is swelling else None
    against = [
        rig.cured_from(case, step, one.plan, fault=None if world is None else world(step)) for step, one in enumerate(made)
    ]
    return _row(f"{case.name}: {name}", made, against, clean.steps)


def _decoded(rig: Rig, case: Case, steps: int) -> list[Row]:
    """Only the decode fails: no step is computed again."""
    plain = replace(case, numerics={})
    clean = rig.make(plain)
    once, stays = rig.make(plain, fault=decoding(once=True)), rig.make(plain, fault=decoding(once=False))
    after = rig.cured_from(plain, steps, stays.plan)
    return [
        _row(f"{case.name}: decode, passes by itself", [once], [clean], steps, again=0),
        _row(f"{case.name}: decode, cured", [stays], [after], steps, again=0, latents=False),
    ]


def _row(what: str, made: Sequence[Made], against: Sequence[Made], steps: int, *, again: int = 1, latents: bool = True) -> Row:
    same = sum(one.same(other, latents=latents) for one, other in zip(made, against, strict=True))
    recovered = sum(one.report.images[0].state == "recovered" for one in made)
    twice = max(one.steps - steps for one in made)
    again += again and DEVICE.type != "cpu"
    cures = ", ".join(sorted({event.cure for one in made for event in one.report.events}))
    return Row(
        what,
        f"{same} of {len(made)} the same to the last bit, {recovered} recovered, {twice} of {steps} steps twice ({cures})",
        f"all the same, {again} step{'s' * (again != 1)} twice",
        same == recovered == len(made) and twice == again,
    )


def rows(options: Options) -> list[Goal]:
    """All cases as lines of the table of the numerical heart: those that missed, and how many did not."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = QUICK if options.small else cases()
        found = list(results(sorted(chosen, key=lambda case: case.family), Path(folder)))
    missed = [row for row in found if not row.met]
    met = f"{len(found) - len(missed)} of {len(found)}"
    told: list[Goal] = [(row.what, row.measured, row.goal, False) for row in missed]
    return [("going on after a failure, to the last bit, at most one step twice: ways that hold", met, "all", not missed), *told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="what the tests run")
    parser.add_argument("--only", nargs="*", help="families")
    parser.add_argument("--plain", action="store_true", help="every family with its own sampler, and no more")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    chosen = [case for case in (QUICK if arguments.quick else cases()) if not arguments.only or case.family in arguments.only]
    chosen = [case for case in chosen if not arguments.plain or (case.sampler is None and not case.label)]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in results(sorted(chosen, key=lambda case: case.family), Path(folder)):
            missed += not row.met
            print(f"{'met   ' if row.met else 'MISSED'} {row.what}: {row.measured}; goal: {row.goal}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
