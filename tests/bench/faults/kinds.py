"""Kinds of faults and of sound controls: what is changed in a sound model, where it should show, and under which name."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from tests.bench.faults import loras, structure, truth
from tests.bench.faults.families import Sound
from tests.bench.faults.solve import Answer, separating
from torch import nn

Change = Callable[[torch.Tensor], torch.Tensor]
BIG: Final = 1.25 * truth.LIMIT
"""What a planted answer reaches."""
TRIES: Final = 10


@dataclass(frozen=True)
class Edit:
    component: str
    tensor: str
    change: Change


@dataclass(frozen=True)
class Proposal:
    """A change of a sound model that is to become a case, if plain torch confirms it.

    module: where the fault is expected; codes: names it may be given; fault: what plain torch must find ("" : it must stay
    sound); same: the float32 picture must stay the same; size: of the checked picture, None for the family's own; lora: the
    edits are what a LoRA adds, and the model itself stays sound.
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
    lora: "loras.Deltas | None" = None


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
    tensors = named(truth.networks(sound.pipe)[site.component])
    return max((float(structure.part(tensors[structure.base(n)], n).abs().max()) for n in names), default=0.0)


def named(module: nn.Module) -> dict[str, torch.Tensor]:
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
        yield Proposal((edit,), "vae", name, ("flat-output", "saturated-output", "inexact-output", "underflow"), "wrong")


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


def _lora(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    """A LoRA that carries the values of an attention over the limit; the model alone is sound."""
    for site in _sites(sound, rng, "value"):
        if site.component in loras.denoisers(sound) and (deltas := loras.strong(sound, rng, site)):
            edits = _adding(site.component, deltas)
            codes = ("activation-overflow",)
            yield Proposal(edits, site.component, site.module, codes, "nonfinite", same=False, lora=deltas)


def _mild_lora(sound: Sound, rng: random.Random) -> Iterator[Proposal]:
    for component in loras.denoisers(sound):
        if deltas := loras.mild(sound, rng, component):
            yield Proposal(_adding(component, deltas), component, "", same=False, lora=deltas)


def _adding(component: str, deltas: loras.Deltas) -> tuple[Edit, ...]:
    def added(delta: torch.Tensor) -> Change:
        return lambda tensor: tensor + delta

    return tuple(Edit(component, f"{name}.weight", added(delta)) for name, delta in deltas.items())


KINDS: Final[dict[str, Callable[[Sound, random.Random], Iterator[Proposal]]]] = {
    "sound": lambda _sound, _rng: iter((Proposal((), "", ""),)),
    "near-miss": _near_miss,
    "zero-layer": _zero_layer,
    "big-unread": _unread(1e6),
    "nan-unread": _unread(math.nan),
    "mild-lora": _mild_lora,
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
    "lora": _lora,
}
CONTROLS: Final = ("sound", "near-miss", "zero-layer", "big-unread", "nan-unread", "mild-lora")
