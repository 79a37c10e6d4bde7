"""A tiny twin of a network: the same class and configuration with narrow layers, random numbers and two blocks of each kind.

Which layers can be scaled together is a property of the architecture, so groups are found in the twin, where a run takes
milliseconds, and transferred by name. Each is then proven with the real weights.

No names of known architectures are used: what is narrower and still runs on the same inputs is a twin.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any, Final, cast

import torch
from torch import nn

from halftone.contract.plan import EPSILONS
from halftone.engine.rescaling.rescale import INSIDE
from halftone.engine.weights.mapped import empty
from halftone.engine.weights.packed import packed_layers
from halftone.engine.weights.precision import split_rows
from halftone.health.planning.rescaling import RescaleGroup

log = logging.getLogger(__name__)

_OF_A_KIND: Final = 2
"""Blocks of each kind: one shows what is inside a block, two what goes through all of them."""
_LARGEST: Final = 64_000_000
"""Parameters of a twin: with more it would take as long as the network itself."""
_HEADS: Final = re.compile(r"(n|num)_(\w+_)?heads$")
_EACH: Final = ("attention_head_dim", "head_dim", "d_kv")
_WIDTH: Final = ("hidden_size", "d_model", "dim")
"""The libraries' names for the width of a head, and of a network."""
_INNER: Final = ("d_ff", "intermediate_size", "ffn_dim", "ff_dim", "mlp_dim")
"""Widths that no other layer depends on."""
_CHANNELS: Final = "block_out_channels"


class Likeness:
    """Which parts of a twin stand for a network's. kept: by the network's list of blocks, the members in the twin."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        lists = {path: own for path, own in network.named_modules() if isinstance(own, nn.ModuleList)}
        self._kinds = {path: _kinds(own) for path, own in lists.items()}
        few = {path: _few(kinds) for path, kinds in self._kinds.items()}
        self.kept = {path: own for path, own in few.items() if len(own) < len(self._kinds[path])}

    def in_twin(self, name: str) -> str:
        """What stands for a module or parameter there; for a member that the twin lacks another one of its kind."""
        parts = name.split(".")
        return ".".join(
            str(self._stands_for(path, int(part))) if part.isdigit() and (path := ".".join(parts[:place])) in self.kept else part
            for place, part in enumerate(parts)
        )

    def carried_over(self, group: RescaleGroup, site: str) -> RescaleGroup:
        """A group of the twin, found for what stands for a site, in the network. Rows in it are shares of a tensor's height."""
        spanned = self._spanned((*group.shrink, *group.grow))

        def of(names: Sequence[str], those: Mapping[str, int]) -> tuple[str, ...]:
            rows = {base: name[len(base) :] for name in names for base in (name.partition("[")[0],)}
            found = [(name, rows[stands]) for name in those if (stands := self.in_twin(name)) in rows]
            return tuple(f"{name}{_of_height(own, those[name])}" for name, own in found if self._is_meant(name, site, spanned))

        return replace(
            group,
            name=f"what reaches {site}",
            shrink=of(group.shrink, self._tensors),
            grow=of(group.grow, self._tensors),
            modules=of(group.modules, self._modules),
            epsilons=of(group.epsilons, {f"{name}.{own}" if name else own: 0 for name in self._modules for own in EPSILONS}),
        )

    @cached_property
    def _tensors(self) -> dict[str, int]:
        """Name -> rows."""
        named = chain(self.network.named_buffers(), self.network.named_parameters())
        packed = {f"{name}.weight": own.out_features for name, own in packed_layers(self.network).items()}
        return {name: own.shape[0] if own.dim() else 1 for name, own in named} | packed

    @cached_property
    def _modules(self) -> dict[str, int]:
        names = [name for name, _ in self.network.named_modules()]
        return dict.fromkeys([*names, *(f"{name}.{INSIDE}" if name else INSIDE for name in names)], 0)

    def _stands_for(self, path: str, index: int) -> int:
        kept, kinds = self.kept[path], self._kinds[path]
        return max(place for place, own in enumerate(kept) if kinds[own] == kinds[index] and (own == index or index not in kept))

    def _spanned(self, names: Sequence[str]) -> set[tuple[str, int]]:
        """(List in the twin, kind) of which a group takes more than one member."""
        paths = {self.in_twin(path): path for path in self.kept}
        members = {(paths[path], index) for name in names for path, index in _members(name) if path in paths}
        kinds = [(self.in_twin(path), self._kinds[path][self.kept[path][index]]) for path, index in members]
        return {kind for kind in kinds if kinds.count(kind) > 1}

    def _is_meant(self, name: str, site: str, spanned: set[tuple[str, int]]) -> bool:
        """Whether a group that was found for a site takes this too: of a stream all members, else that of the site."""
        own = dict(_members(site))
        for path, index in _members(name):
            if path not in self.kept or (self.in_twin(path), self._kinds[path][index]) in spanned:
                continue
            stands = self._stands_for(path, index)
            at_site = path in own and self._stands_for(path, own[path]) == stands
            if index != (own[path] if at_site else self.kept[path][stands]):
                return False
        return True


def with_shares(group: RescaleGroup, twin: nn.Module) -> RescaleGroup:
    """A group of the twin with rows as shares of a tensor's height, which a wider one has too."""
    heights = {name: own.shape[0] for name, own in twin.named_parameters() if own.dim()}

    def of(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(_as_share(name, heights.get(name.partition("[")[0], 0)) for name in names)

    return replace(group, shrink=of(group.shrink), grow=of(group.grow))


def _as_share(name: str, height: int) -> str:
    base, rows = split_rows(name)
    return f"{base}[{rows.start / height}:{(rows.stop or height) / height}]" if "[" in name else name


def _of_height(shares: str, height: int) -> str:
    if not shares:
        return ""
    first, end = (round(float(share) * height) for share in shares.strip("[]").split(":"))
    return f"[{first or ''}:{end}]"


def twins_of(likeness: Likeness) -> Iterator[nn.Module]:
    """Twins of a network, the narrowest first; whether one runs on the network's own inputs is to be seen."""
    network = likeness.network
    config = config_of(network)
    for changes in _narrower(config):
        try:
            twin = empty(type(network), {**config, **changes})
            for path in sorted(likeness.kept, key=len, reverse=True):  # lists inside members first, while these have their names
                owner = cast("nn.ModuleList", twin.get_submodule(path))
                left = [owner[index] for index in likeness.kept[path]]
                del owner[:]
                owner.extend(left)
        except Exception:  # a class refuses a configuration in its own way
            log.debug("no twin of %s with %s", type(network).__name__, changes, exc_info=True)
            continue
        if sum(parameter.numel() for parameter in twin.parameters()) <= _LARGEST:
            yield _drawn(twin)


def config_of(network: nn.Module) -> dict[str, Any]:
    """The configuration that a network was built with, without the libraries' own notes: diffusers builds what
    `_use_default_values` lists with its defaults, whatever the configuration has.
    """
    config = cast("Any", network).config
    own: Mapping[str, Any] = config if isinstance(config, Mapping) else config.to_dict()
    return {name: value for name, value in own.items() if not name.startswith("_")}


def _narrower(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Changes that narrow a configuration. With fewer heads the widths as large as all heads together shrink, too; which of these
    are the network's and which its inputs' is found by trying.
    """
    channels, groups = config.get(_CHANNELS), config.get("norm_num_groups")
    if isinstance(channels, (list, tuple)) and isinstance(groups, int):
        least = min(cast("Sequence[int]", channels))
        yield {_CHANNELS: [width * groups // least for width in cast("Sequence[int]", channels)]}
    heads = {name: own for name, own in config.items() if _HEADS.match(name) and isinstance(own, int) and own > 1}
    fewer = _fewer(list(heads.values()))
    if fewer < 1:
        each = next((config[name] for name in _EACH if isinstance(config.get(name), int)), 0)
        widths = {next(iter(heads.values())) * each, *(config.get(name) for name in _WIDTH)} - {0, None}
        inner = {name: round(config[name] * fewer) for name in _INNER if isinstance(config.get(name), int)}
        same = [name for name, own in config.items() if type(own) is int and own in widths and name not in inner]
        least = {name: round(own * fewer) for name, own in heads.items()} | inner
        for some in chain.from_iterable(combinations(same, size) for size in range(len(same), -1, -1)):
            yield least | {name: round(config[name] * fewer) for name in some}
    yield {}


def _fewer(heads: Sequence[int]) -> float:
    """The smallest share of all these numbers of heads that leaves whole ones, at least two where there are more."""
    shares = [count / heads[0] for count in range(min(2, heads[0]), heads[0])] if heads else []
    return next((share for share in shares if all((own * share).is_integer() for own in heads)), 1.0)


def _few(kinds: Sequence[int]) -> tuple[int, ...]:
    """Indices of the first members of each kind."""
    return tuple(index for index, kind in enumerate(kinds) if list(kinds[:index]).count(kind) < _OF_A_KIND)


def _kinds(members: nn.ModuleList) -> list[int]:
    """By member, the first one built alike: the same layers with parameters of the same shapes."""
    built = [(type(own), [(name, tuple(p.shape)) for name, p in own.named_parameters()]) for own in members]
    return [built.index(own) for own in built]


def _drawn(module: nn.Module) -> nn.Module:
    """Draw non-zero numbers that keep what passes through as large as it is: every layer has to show."""
    generator = torch.Generator().manual_seed(0)
    drawn: dict[int, nn.Parameter] = {}
    for owner in module.modules():
        for name, blank in list(owner.named_parameters(recurse=False)):
            if id(blank) not in drawn:  # some are shared
                value = torch.randn(blank.shape, generator=generator)
                value *= max(1, blank[0].numel()) ** -0.5 if blank.dim() > 1 else 0.1
                drawn[id(blank)] = nn.Parameter(value + float(blank.dim() == 1 and name == "weight"), requires_grad=False)
            owner.register_parameter(name, drawn[id(blank)])
    return module.eval()


def _members(name: str) -> list[tuple[str, int]]:
    """(List, index) of each list that a name passes through, as it is called."""
    parts = name.split(".")
    return [(".".join(parts[:place]), int(part)) for place, part in enumerate(parts) if part.isdigit()]
