"""A plan: the resolved set of cures and dtypes, each with its reason; and a cure: one plan with its prices."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from halftone.contract.vocabulary import CureKind, DType
from halftone.contract.wording import Words

RESULT: Final = ".(result)"
"""Ends the name of a layer that runs unchanged and outputs float32."""
_INPUT: Final = ".(input)"
"""Ends the name of an argument of a component's forward that is scaled with its tensors."""
_HANDED_ON: Final = re.compile(r"(?P<module>.*)\.\(result(?:\*2\^(?P<k>\d{1,2}))?\)")


EPSILONS: Final = ("eps", "variance_epsilon")
"""Names in the libraries of the number that a norm adds to a variance."""


def is_epsilon(name: str) -> bool:
    """Whether a name in `Plan.rescale` is that of a norm's epsilon, which no file holds, and not of a tensor."""
    return name.rpartition(".")[2] in EPSILONS


def result_of(module: str, k: int = 0) -> str:
    """The name in `Plan.upcast` of a layer that outputs float32. k: it computes with its input and its bias times 2**-k, and its
    result is multiplied by 2**k in float32: the same numbers, none of them too large.
    """
    return f"{module}.(result*2^{k})" if k else f"{module}{RESULT}"


def handed_on(name: str) -> tuple[str, int | None]:
    """A name in `Plan.upcast` as a module and its k (see `result_of`); None: all of it runs in float32."""
    found = _HANDED_ON.fullmatch(name)
    return (name, None) if found is None else (found["module"], int(found["k"] or 0))


def joined_regions(names: Iterable[str]) -> tuple[str, ...]:
    """Names of several plans as one: what is whole in one of them is whole, else the largest k counts."""
    found: dict[str, int | None] = {}
    for module, k in map(handed_on, names):
        known = found.get(module, k)
        found[module] = None if k is None or known is None else max(k, known)
    return tuple(module if k is None else result_of(module, k) for module, k in found.items())


def input_of(argument: str) -> str:
    """Name under which `Plan.rescale` holds the exponent of an argument: what a ControlNet adds to a scaled residual stream."""
    return f"{argument}{_INPUT}"


def is_input(name: str) -> bool:
    """Whether a name in `Plan.rescale` is an argument of forward, not a stored tensor."""
    return name.endswith(_INPUT)


def inputs_in(exponents: Mapping[str, int]) -> dict[str, int]:
    """Argument of forward -> k, of the exponents of one component."""
    return {name.removesuffix(_INPUT): k for name, k in exponents.items() if is_input(name)}


def stored_in(exponents: Mapping[str, int]) -> dict[str, int]:
    """The exponents of tensors that the component stores."""
    return {name: k for name, k in exponents.items() if not is_input(name) and not is_epsilon(name)}


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What keeps a model finite.

    dtypes: per component. rescale: per component, parameter tensor (or epsilon of a norm, or an argument of forward, `input_of`)
    -> k: it is multiplied by 2**k. deviation: by how much a rescaling that is not exact changes a component's output (relative
    root mean square, measured in a type with headroom); components without an entry are exact; None: not known. upcast: per
    component, the modules (dotted names) that run in float32 with boundary casts, and those that only output it (`result_of`).
    settings: Numerics fields to set. error: relative root-mean-square error of the denoiser and decoder outputs against the range
    pass, None if not measured.
    """

    dtypes: dict[str, DType] = msgspec.field(default_factory=dict)
    rescale: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    deviation: dict[str, float] | None = None
    upcast: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    settings: dict[str, str | bool] = msgspec.field(default_factory=dict)
    upcast_parameters: int = 0
    total_parameters: int = 0
    error: float | None = None
    verified: bool = False
    reasons: tuple[Words, ...] = ()

    def upcast_modules(self, component: str) -> tuple[str, ...]:
        """Modules that compute in float32 or output it."""
        return tuple(dict.fromkeys(module for module, _ in map(handed_on, self.upcast.get(component, ()))))

    def wide_modules(self, component: str) -> tuple[str, ...]:
        """Modules that compute in float32."""
        return tuple(module for module, k in map(handed_on, self.upcast.get(component, ())) if k is None)

    def wide_results(self, component: str) -> tuple[str, ...]:
        """Modules that only output float32."""
        return tuple(module for module, k in map(handed_on, self.upcast.get(component, ())) if k == 0)

    def scaled_layers(self, component: str) -> dict[str, int]:
        """Modules that compute with their input times 2**-k, with this k."""
        return {module: k for module, k in map(handed_on, self.upcast.get(component, ())) if k}

    def deviation_of(self, component: str) -> dict[str, float] | None:
        """The deviation of one component alone."""
        return None if self.deviation is None else {name: own for name, own in self.deviation.items() if name == component}

    @property
    def change(self) -> float | None:
        """The largest deviation of all components: 0.0 where the rescaling is exact, None where it is not known."""
        return None if self.deviation is None else max(self.deviation.values(), default=0.0)

    @property
    def is_plain(self) -> bool:
        """True when nothing but the asked dtype is applied."""
        return not (self.rescale or self.upcast or self.settings) and self.upcast_parameters == 0


class Cure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to keep the model finite, with its four prices; None: not known.

    time_ratio: seconds with the cure over seconds without it, measured; time_spread: by how much the ratios of single runs
    differ, so that a smaller difference shows nothing. memory_bytes: additional bytes of the parameters, computed, without
    activations. disk_bytes: of the written copy. psnr: dB between the picture under the cure and the float32 picture (peak 1.0).
    refusal: why the cure is not offered.
    """

    kind: CureKind
    plan: Plan
    time_ratio: float | None = None
    time_spread: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    psnr: float | None = None
    refusal: Words | None = None
    suggested: bool = False


def rescaled_modules(tensors: dict[str, int]) -> list[str]:
    """Dotted module names that own the rescaled tensors, in their first order, without repeats; norms keep what they give."""
    return list(dict.fromkeys(name.rpartition(".")[0] for name in stored_in(tensors)))


def stored_rescale(rescale: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The part of a rescaling that a file can hold."""
    return {component: stored_in(own) for component, own in rescale.items()}


def joined_deviation(first: Plan, second: Plan) -> dict[str, float] | None:
    """The deviations of two plans as one, those of the second where it names a component; None where one is not known."""
    if any(plan.deviation is None and plan.rescale for plan in (first, second)):
        return None
    kept = {name: own for name, own in (first.deviation or {}).items() if name not in second.rescale}
    return {**kept, **(second.deviation or {})}
