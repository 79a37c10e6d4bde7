"""A plan: the resolved set of cures and dtypes, each with its reason; and a cure: one plan with its prices."""

from typing import Final

import msgspec

from halftone.contract.words import CureKind, DType

RESULT: Final = ".(result)"
"""Ends the name of a layer that runs as it is and hands on what it makes in float32."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is done so that a model stays finite.

    dtypes: run dtype per component. rescale: per component, parameter tensor -> k, meaning the tensor is multiplied by 2**k.
    upcast: per component, the modules (dotted names) that run in float32 with boundary casts, and those, with RESULT behind the
    name, of which only what they make is kept in that. settings: Numerics fields to set.
    error: relative root-mean-square error of the denoiser and decoder outputs against the range pass, None if not measured.
    """

    dtypes: dict[str, DType] = msgspec.field(default_factory=dict)
    rescale: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    upcast: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    settings: dict[str, str | bool] = msgspec.field(default_factory=dict)
    upcast_parameters: int = 0
    total_parameters: int = 0
    error: float | None = None
    verified: bool = False
    reasons: tuple[str, ...] = ()

    def upcast_modules(self, component: str) -> tuple[str, ...]:
        """Names of the modules that work in float32 or hand it on."""
        return tuple(dict.fromkeys(name.removesuffix(RESULT) for name in self.upcast.get(component, ())))

    def wide_modules(self, component: str) -> tuple[str, ...]:
        """Those that work in float32."""
        return tuple(name for name in self.upcast.get(component, ()) if not name.endswith(RESULT))

    def wide_results(self, component: str) -> tuple[str, ...]:
        """Those of which only what they make is kept in float32."""
        return tuple(name.removesuffix(RESULT) for name in self.upcast.get(component, ()) if name.endswith(RESULT))

    @property
    def is_plain(self) -> bool:
        """True when nothing but the asked dtype is applied."""
        return not (self.rescale or self.upcast or self.settings) and self.upcast_parameters == 0


class Cure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to keep the model finite, with its four prices. A price that is not known is None.

    time_ratio: seconds with the cure over seconds without it (1.0: no cost), measured. memory_bytes: additional bytes of the
    parameters, computed from their sizes; what passes between the layers is not in it. disk_bytes: of the copy that is written.
    psnr: dB between the picture under the cure and the float32 picture (peak 1.0).
    refusal: why the cure is not offered, None when it is.
    """

    kind: CureKind
    plan: Plan
    time_ratio: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    psnr: float | None = None
    refusal: str | None = None
    suggested: bool = False


def rescaled_modules(tensors: dict[str, int]) -> list[str]:
    """Dotted module names that own the rescaled tensors, in their first order, without repeats."""
    return list(dict.fromkeys(name.rpartition(".")[0] for name in tensors))
