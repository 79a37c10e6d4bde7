"""Epsilons of norms, which a rescaling has to shrink with what the norms read.

A norm divides by the root of a variance plus its epsilon. Numbers 2**k times smaller have a variance 2**2k times smaller, so with
its epsilon shrunk alike the norm gives the very same. The kernels add it in float32 in every type (measured for group, layer and
RMS norms on a processor), so that 1e-6 * 2**-40 is no zero. It is an attribute, not a weight: no file holds it.
"""

import math
from collections.abc import Mapping
from typing import Final

from torch import nn

from halftone.contract.plan import EPSILONS, is_epsilon

_EXACT: Final = "_halftone_epsilons"


def has_epsilon(module: nn.Module, name: str) -> bool:
    """Whether this is the name of an epsilon that the module has ("decoder.conv_norm_out.eps")."""
    path, _, own = name.rpartition(".")
    owner = dict(module.named_modules()).get(path)
    return is_epsilon(name) and isinstance(getattr(owner, own, None), float)


def scale_epsilons(module: nn.Module, rescale: Mapping[str, int]) -> None:
    """Scale each inner norm's epsilon by 2**k where `rescale` has a k for it, and restore all others."""
    for path, owner in module.named_modules():
        for own in EPSILONS:
            k = rescale.get(f"{path}.{own}" if path else own, 0)
            exact: dict[str, float] = owner.__dict__.get(_EXACT, {})
            value = exact.get(own, owner.__dict__.get(own))
            if isinstance(value, float) and (k or own in exact):
                owner.__dict__[_EXACT] = {**exact, own: value}
                setattr(owner, own, math.ldexp(value, k))
