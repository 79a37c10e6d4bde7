"""Faults and sound controls, planted by seed into a sound tiny model, each with its truth as plain torch measured it."""

import random
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from tests.bench.faults import loras, structure, truth
from tests.bench.faults.families import Sound, arguments
from tests.bench.faults.kinds import KINDS, TRIES, Edit, Proposal, named

CLEAR: Final = 36.0
"""dB that must remain when all other networks run in float16: a picture that their rounding upsets proves nothing of a cure."""


@dataclass(frozen=True)
class Case:
    """verdicts: right ones; modules: names that are right for the origin (one where a number turns bad, several where a finite
    fault builds up); others: (component, module) of further faults that must be found too; lora: used with
    the model.
    """

    family: str
    kind: str
    seed: int
    folder: Path
    verdicts: tuple[str, ...]
    codes: tuple[str, ...] = ()
    component: str = ""
    modules: tuple[str, ...] = ()
    step: int | None = None
    picture: torch.Tensor | None = None
    size: int | None = None
    encode: bool = False
    others: tuple[tuple[str, str], ...] = ()
    lora: Path | None = None


def make_case(
    sound: Sound, kind: str, seed: int, folder: Path, fits: Callable[[Proposal], bool] = lambda _proposal: True
) -> Case | None:
    """The first proposal that fits and that plain torch confirms, written to `folder`; None when the family has no such place."""
    rng = random.Random(f"{sound.family.name} {kind} {seed}")
    for number, proposal in enumerate(filter(fits, KINDS[kind](sound, rng))):
        if number >= TRIES:
            return None
        with _planted(sound, proposal.edits):
            case = _confirmed(sound, kind, seed, proposal, folder)
        if case is not None:
            return case if proposal.lora is None else _as_lora(sound, proposal, case)
    return None


def _as_lora(sound: Sound, proposal: Proposal, case: Case) -> Case:
    """The same fault as a sound model and a LoRA beside it."""
    _write(sound, replace(proposal, edits=()), case.folder)
    file = case.folder.with_name(f"{case.folder.name}.safetensors")
    return replace(case, lora=loras.write(proposal.component, proposal.lora or {}, file))


@contextmanager
def _planted(sound: Sound, edits: tuple[Edit, ...]) -> Generator[None]:
    """The sound pipeline with its weights changed for a while."""
    tensors = {name: named(module) for name, module in truth.networks(sound.pipe).items()}
    before: dict[tuple[str, str], torch.Tensor] = {}
    with torch.no_grad():
        for edit in edits:
            name = structure.base(edit.tensor)
            tensor = tensors[edit.component][name]
            before.setdefault((edit.component, name), tensor.clone())
            part = structure.part(tensor, edit.tensor)
            part.copy_(edit.change(part.clone()))
    try:
        yield
    finally:
        for (component, name), value in before.items():
            tensors[component][name].copy_(value)


def _confirmed(sound: Sound, kind: str, seed: int, proposal: Proposal, folder: Path) -> Case | None:
    run = truth.with_encode(truth.run_float32(sound.pipe, arguments(sound.family, proposal.size)), sound.pipe)
    if proposal.fault == "nan":
        broken = any(not truth.finite(t) for c in run.calls if c.component == proposal.component for t in truth.tensors(c.result))
        if not broken or truth.finite(run.picture):
            return None
    elif not _worth(sound, run, proposal):
        return None
    _write(sound, proposal, folder)
    if proposal.fault == "nan":
        names = (proposal.module,)
        return Case(sound.family.name, kind, seed, folder, ("broken",), proposal.codes, proposal.component, names)
    fates = _fates(sound, run, proposal, folder)
    if fates is None:
        return None
    bad = [fate for fate in fates if fate.module is not None]
    if not proposal.fault:
        return None if bad else _control(sound, kind, seed, proposal, folder, run)
    return _fault(sound, kind, seed, proposal, folder, run, bad)


def _worth(sound: Sound, run: truth.Run, proposal: Proposal) -> bool:
    """Finite in float32, the same picture where it should be, and no flat one."""
    if not truth.finite(run.picture) or any(not truth.finite(t) for call in run.calls for t in truth.tensors(call.result)):
        return False
    if proposal.same and truth.psnr(run.picture, sound.run.picture) < 40:
        return False
    if float((run.picture.amax((0, 1)) - run.picture.amin((0, 1))).max()) <= 0.1:
        return False
    if proposal.same:
        return True
    touched = {edit.component for edit in proposal.edits}
    halves = {name: half for name, half in sound.halves.items() if name not in touched}
    beside = truth.run_beside(sound.pipe, arguments(sound.family, proposal.size), halves)
    return truth.psnr(run.picture, beside) > CLEAR


def _write(sound: Sound, proposal: Proposal, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound.folder, folder)
    for component in {edit.component for edit in proposal.edits}:
        network: Any = truth.networks(sound.pipe)[component]
        network.save_pretrained(folder / component)


def _fates(sound: Sound, run: truth.Run, proposal: Proposal, folder: Path) -> list[truth.Fate] | None:
    """How each component fares in float16; None when one that was not touched fails."""
    touched = {edit.component for edit in proposal.edits}
    found: list[truth.Fate] = []
    for name, module in truth.networks(sound.pipe).items():
        if not any(call.component == name for call in run.calls):
            continue
        half = truth.in_float16(module, folder / name) if name in touched else sound.halves[name]
        fate = truth.fate(name, half, run.calls)
        if fate.module is not None and name not in touched:
            return None
        found.append(fate)
    return found


def _control(sound: Sound, kind: str, seed: int, proposal: Proposal, folder: Path, run: truth.Run) -> Case:
    verdicts = ("healthy", "tight") if kind != "sound" else ("healthy",)
    return Case(
        sound.family.name,
        kind,
        seed,
        folder,
        verdicts,
        proposal.codes,
        proposal.component,
        (proposal.module,),
        picture=run.picture,
    )


def _fault(
    sound: Sound, kind: str, seed: int, proposal: Proposal, folder: Path, run: truth.Run, bad: list[truth.Fate]
) -> Case | None:
    wanted = {proposal.component, *(other.component for other in proposal.also)}
    if {fate.component for fate in bad} != wanted or any((proposal.fault == "nonfinite") == fate.finite for fate in bad):
        return None
    fate, *others = sorted(bad, key=lambda fate: _rank(run, fate))
    if (proposal.method and fate.method != proposal.method) or (proposal.step is not None and fate.step != proposal.step):
        return None
    return Case(
        family=sound.family.name,
        kind=kind,
        seed=seed,
        folder=folder,
        verdicts=("fixable",),
        codes=proposal.codes,
        component=fate.component,
        modules=_origins(sound, proposal, folder, run, fate),
        step=None if fate.step is None else fate.step + 1,
        picture=run.picture,
        size=proposal.size,
        encode=fate.method == "encode",
        others=tuple((other.component, other.module or "") for other in others),
    )


def _rank(run: truth.Run, fate: truth.Fate) -> int:
    """When the component runs for the first time."""
    return next(index for index, call in enumerate(run.calls) if call.component == fate.component)


def _origins(sound: Sound, proposal: Proposal, folder: Path, run: truth.Run, fate: truth.Fate) -> tuple[str, ...]:
    """One module where a number turns bad; for a finite fault the one that was changed, and the first that departs by it."""
    if not fate.finite:
        return (fate.module or "",)
    call = next(c for c in run.calls if (c.component, c.step, c.method) == (fate.component, fate.step, fate.method))
    module = truth.networks(sound.pipe)[fate.component]
    gone = truth.departures(fate.component, truth.in_float16(module, folder / fate.component), module, call)
    return (*gone[:1], proposal.module)
