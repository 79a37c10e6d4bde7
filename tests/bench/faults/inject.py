"""Faults and sound controls, planted by seed into a sound tiny model, each with its truth as plain torch measured it."""

import math
import random
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from tests.bench.faults import structure, truth
from tests.bench.faults.families import Sound, arguments
from tests.bench.faults.solve import Answer, separating
from torch import nn

Change = Callable[[torch.Tensor], torch.Tensor]
BIG: Final = 1.25 * truth.LIMIT
"""What a planted answer reaches."""
TRIES: Final = 10
CLEAR: Final = 36.0
"""dB that must remain when all other networks run in float16: a picture that their rounding upsets proves nothing of a cure."""


@dataclass(frozen=True)
class Edit:
    component: str
    tensor: str
    change: Change


@dataclass(frozen=True)
class Proposal:
    """A change of a sound model that is to become a case, if plain torch confirms it.

    module: where the fault is expected; codes: names it may be given; fault: what plain torch must find ("" : it must stay
    sound); same: the float32 picture must stay the same; size: of the checked picture, None for the family's own.
    """

    edits: tuple[Edit, ...]
    component: str
    module: str
    codes: tuple[str, ...] = ()
    fault: str = ""
    same: bool = True
    size: int | None = None
    method: str = ""
    step: int | None = None
    also: "tuple[Proposal, ...]" = ()


@dataclass(frozen=True)
class Case:
    """verdicts: right ones; modules: names that are right for the origin (one where a number turns bad, several where a finite
    fault builds up); others: (component, module) of further faults that must be found too.
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


# --- proposals ---------------------------------------------------------------------------------------


def _power(k: int) -> Change:
    return lambda tensor: torch.ldexp(tensor, torch.tensor(k))


def _scaled(site: structure.Site, k: int) -> tuple[Edit, ...]:
    up = tuple(Edit(site.component, name, _power(k)) for name in site.grow)
    return up + tuple(Edit(site.component, name, _power(-k)) for name in site.shrink)


def _sites(sound: Sound, rng: random.Random, *kinds: str) -> list[structure.Site]:
    found = [
        site
        for name, module in truth.networks(sound.pipe).items()
        for site in structure.sites(name, module)
        if site.kind in kinds and _peak(sound, site) > 0
    ]
    rng.shuffle(found)
    return found


def _peak(sound: Sound, site: structure.Site) -> float:
    return max((sound.peaks.get((site.component, name), 0.0) for name in site.watch), default=0.0)


def _largest(sound: Sound, site: structure.Site, names: tuple[str, ...]) -> float:
    tensors = _named(truth.networks(sound.pipe)[site.component])
    return max((float(structure.part(tensors[structure.base(n)], n).abs().max()) for n in names), default=0.0)


def _named(module: nn.Module) -> dict[str, torch.Tensor]:
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(module.named_buffers()), **{name: parameter.data for name, parameter in parameters}}


def _encodes(sound: Sound, site: structure.Site) -> bool:
    """A place in the encoding half of an autoencoder."""
    return hasattr(truth.networks(sound.pipe)[site.component], "decode") and site.module.startswith("encoder")


def _overflow(kind: str) -> Callable[[Sound, random.Random], Iterator[Proposal]]:
    """An output is carried over the limit; the stored weights stay below it."""

    def propose(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
        for site in _sites(sound, rng, kind):
            if _encodes(sound, site):
                continue
            room = math.log2(_peak(sound, site) / max(_largest(sound, site, site.grow), 1e-30)) - 0.1
            bits = min(rng.uniform(1.0, 4.0), room)
            k = math.ceil(math.log2(truth.LIMIT / _peak(sound, site)) + max(bits - 1, 0.0))
            if bits <= 0 or _largest(sound, site, site.grow) * 2.0**k >= truth.LIMIT:
                continue
            yield Proposal(_scaled(site, k), site.component, site.module, ("activation-overflow",), "nonfinite")

    return propose


def _near_miss(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    """An output ends one to three bits below the limit: nothing is wrong."""
    for site in _sites(sound, rng, "value", "gate", "norm", "prenorm", "stream"):
        k = math.floor(math.log2(truth.LIMIT / _peak(sound, site)) - rng.uniform(1.0, 2.5))
        if _largest(sound, site, site.grow) * 2.0**k < truth.LIMIT / 2:
            yield Proposal(_scaled(site, k), site.component, site.module)


def _weights(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    """A stored number above the limit, in a float32 file."""
    for site in _sites(sound, rng, "value", "gate"):
        k = math.ceil(math.log2(truth.LIMIT / _largest(sound, site, site.grow)) + rng.uniform(0.5, 2.0))
        codes = ("weights-overflow", "activation-overflow")
        yield Proposal(_scaled(site, k), site.component, site.module, codes, "nonfinite")


def _underflow(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    """Values so small that float16 makes them zero, read by large weights, in a small residual stream where they matter."""
    streams = _sites(sound, rng, "stream")
    for site in _sites(sound, rng, "value"):
        if _encodes(sound, site):
            continue
        around = [s for s in streams if s.component == site.component and not s.module.startswith("conv_in")]
        inside = [s for s in around if not s.shrink or site.module.startswith(s.module.removesuffix("proj_in"))]
        if not inside:
            continue
        down = -math.floor(math.log2(2.0**-25 / _largest(sound, site, site.grow)))
        up = math.floor(math.log2(truth.LIMIT / 2 / _largest(sound, site, site.shrink)))
        stream = max(inside, key=lambda s: len(s.module))
        rest = tuple(e for e in _scaled(stream, -(down - up)))
        edits = tuple(Edit(site.component, name, _power(-down)) for name in site.grow)
        # the output projection is a writer of the stream too, so it shrinks with it: what it grows by is the whole of `down`
        edits += tuple(Edit(site.component, name, _power(down)) for name in site.shrink)
        codes = ("underflow",)
        yield Proposal((*edits, *rest), site.component, site.module, codes, "wrong")


def _flat(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    """An offset that all channels share before the decoder's last group norm."""
    decoder: Any = getattr(getattr(sound.pipe, "vae", None), "decoder", None)
    if isinstance(getattr(decoder, "conv_norm_out", None), nn.GroupNorm) and getattr(decoder, "up_blocks", None) is not None:
        offset = 2.0 ** rng.choice((14, 15))
        last = len(decoder.up_blocks) - 1
        name = f"decoder.up_blocks.{last}.resnets.{len(decoder.up_blocks[last].resnets) - 1}.conv2"
        edit = Edit("vae", f"{name}.bias", lambda tensor: tensor + offset)
        yield Proposal((edit,), "vae", name, ("flat-output", "saturated-output", "underflow"), "wrong")


def _encode_only(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    for site in _sites(sound, rng, "stream", "prenorm", "value", "norm", "gate"):
        if not _encodes(sound, site):
            continue
        k = math.ceil(math.log2(truth.LIMIT / _peak(sound, site)) + 0.5)
        if _largest(sound, site, site.grow) * 2.0**k < truth.LIMIT:
            codes = ("activation-overflow",)
            yield Proposal(_scaled(site, k), site.component, site.module, codes, "nonfinite", method="encode")


def _two(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    """Two components with an overflow each."""
    for _ in range(TRIES):
        kinds = rng.choices(("value", "gate", "norm", "prenorm", "stream"), k=2)
        pair = [next(_overflow(kind)(sound, rng), None) for kind in kinds]
        first, second = pair
        if first is not None and second is not None and first.component != second.component:
            yield replace(first, edits=(*first.edits, *second.edits), also=(second,))


def _nan_read(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    for component, name, module in _layers(sound, rng):
        index = rng.randrange(module.weight.numel())
        edit = Edit(component, f"{name}.weight", lambda tensor, at=index: _with(tensor, at, math.nan))
        yield Proposal((edit,), component, name, ("weights-nonfinite",), "nan", same=False)


def _with(tensor: torch.Tensor, index: int, value: float) -> torch.Tensor:
    changed = tensor.clone()
    changed.view(-1)[index] = value
    return changed


def _unread(value: float) -> Callable[[Sound, random.Random], Iterator[Proposal]]:
    """A bad number in the row of a word that no prompt here has."""

    def propose(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
        for component, name, module in _layers(sound, rng, nn.Embedding):
            if component.startswith("text_encoder") and module.num_embeddings > 100:
                edit = Edit(component, f"{name}.weight", lambda tensor: _with(tensor, tensor.numel() - 3, value))
                codes = ("weights-nonfinite",) if math.isnan(value) else ()
                yield Proposal((edit,), component, name, codes)

    return propose


def _zero_layer(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    for component, name, module in _layers(sound, rng):
        if name.endswith(("to_out.0", "conv2", "out_proj", "o_proj", "net.2", "fc2")):
            edits = tuple(Edit(component, tensor, torch.zeros_like) for tensor in structure.own(name, module))
            yield Proposal(edits, component, name, same=False)


def _layers(sound: Sound, rng: random.Random, *kinds: type[nn.Module]) -> Iterator[tuple[str, str, Any]]:
    found = [
        (component, name, module)
        for component, network in truth.networks(sound.pipe).items()
        for name, module in network.named_modules()
        if isinstance(module, kinds or (nn.Linear, nn.Conv2d, nn.Conv3d)) and (component, name) in sound.peaks
    ]
    rng.shuffle(found)
    return iter(found)


def _score(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    """Queries and keys so long that their product passes the limit."""
    for component, network in truth.networks(sound.pipe).items():
        names = [(n, m) for n, m in network.named_modules() if n and (component, n) in sound.peaks]
        rng.shuffle(names)
        for name, owner in names:
            query, key = structure.child(owner, "to_q", "q_proj", "q"), structure.child(owner, "to_k", "k_proj", "k")
            paths = [f"{name}.{found[0]}" for found in (query, key) if found is not None]
            if query is None or key is None or any((component, path) not in sound.peaks for path in paths):
                continue
            k = [math.floor(math.log2(truth.LIMIT / 8 / sound.peaks[component, f"{name}.{found[0]}"])) for found in (query, key)]
            edits = [
                Edit(component, tensor, _power(power))
                for found, power in zip((query, key), k, strict=True)
                for tensor in structure.own(f"{name}.{found[0]}", found[1])
            ]
            yield Proposal(tuple(edits), component, name, ("attention-overflow",), "nonfinite", same=False)
            break  # one place of each component tells whether its kernel keeps scores in float16


def _separated(which: str) -> Callable[[Sound, random.Random], Iterator[Proposal]]:
    """A row of a layer that answers only to what is read at one step, without a prompt, or in a larger picture."""

    def propose(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
        for found in separating(sound, which):
            yield _answering(found, which)

    return propose


def _answering(found: Answer, which: str) -> Proposal:
    direction = found.direction * BIG

    def change(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone()
        changed[found.row] += direction
        return changed

    edit = Edit(found.component, f"{found.module}.weight", change)
    codes = ("activation-overflow",)
    return Proposal((edit,), found.component, found.module, codes, "nonfinite", same=False, size=found.size, step=found.step)


KINDS: Final[dict[str, Callable[[Sound, random.Random], Iterator[Proposal]]]] = {
    "sound": lambda _sound, _rng: iter((Proposal((), "", ""),)),
    "near-miss": _near_miss,
    "zero-layer": _zero_layer,
    "big-unread": _unread(1e6),
    "nan-unread": _unread(math.nan),
    "value": _overflow("value"),
    "gate": _overflow("gate"),
    "norm": _overflow("norm"),
    "prenorm": _overflow("prenorm"),
    "stream": _overflow("stream"),
    "weights": _weights,
    "score": _score,
    "underflow": _underflow,
    "flat": _flat,
    "encode-only": _encode_only,
    "first-step": _separated("first"),
    "last-step": _separated("last"),
    "guidance": _separated("guidance"),
    "larger": _separated("larger"),
    "two": _two,
    "nan-read": _nan_read,
}
CONTROLS: Final = ("sound", "near-miss", "zero-layer", "big-unread", "nan-unread")


# --- cases -------------------------------------------------------------------------------------------


def make_case(sound: Sound, kind: str, seed: int, folder: Path) -> Case | None:
    """The first proposal that plain torch confirms, written to `folder`; None when the family has no such place."""
    rng = random.Random(f"{sound.family.name} {kind} {seed}")
    for number, proposal in enumerate(KINDS[kind](sound, rng)):
        if number >= TRIES:
            return None
        with _planted(sound, proposal.edits):
            case = _confirmed(sound, kind, seed, proposal, folder)
        if case is not None:
            return case
    return None


@contextmanager
def _planted(sound: Sound, edits: tuple[Edit, ...]) -> Generator[None]:
    """The sound pipeline with its weights changed for a while."""
    tensors = {name: _named(module) for name, module in truth.networks(sound.pipe).items()}
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
