"""Whether a LoRA is what makes a component overflow: measured by running its failing call with the file's own weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import torch
from torch import nn

from halftone.contract.facts import Finding
from halftone.engine.calls import Call, run_call
from halftone.engine.flight import is_finite
from halftone.engine.load import Loaded, add_loras, component_from
from halftone.engine.lora import Adapter
from halftone.engine.plans import apply_state
from halftone.engine.precision import exact_weights
from halftone.health.judge import BEYOND

_SHARES: Final = (0.5, 0.25, 0.125)
"""Of a LoRA's weight: what is tried until one holds."""


def with_lora_causes(
    loaded: Loaded,
    findings: Sequence[Finding],
    failing: Mapping[str, Call],
    masters: Mapping[str, Mapping[str, torch.Tensor]],
    check: Callable[[], None],
) -> list[Finding]:
    """The findings; the first one of a component that holds without its LoRAs names them, and a weight at which it held.

    failing: by component the call that gave bad numbers; masters: the exact weights, which are put back.
    """
    causes = {
        name: _cause(_Trial(loaded, name, call, masters[name], check))
        for name, call in failing.items()
        if any(name in adapter.layers for adapter in loaded.adapters)
    }
    told: list[Finding] = []
    for finding in findings:
        cause = causes.pop(finding.component, {}) if finding.code in BEYOND else {}  # said once, of the origin
        told.append(msgspec.structs.replace(finding, facts={**finding.facts, **cause}))
    return told


class _Trial:
    """One failing call, to be run again with other LoRAs than those that are applied."""

    def __init__(
        self, loaded: Loaded, name: str, call: Call, masters: Mapping[str, torch.Tensor], check: Callable[[], None]
    ) -> None:
        self._loaded = loaded
        self._name = name
        self._call = call
        self._masters = masters
        self._check = check
        self._file: nn.Module = component_from(loaded, name, Path(loaded.facts.path))
        self.adapters = tuple(adapter for adapter in loaded.adapters if name in adapter.layers)

    def holds(self, adapters: Sequence[Adapter]) -> bool:
        """Whether the call is finite with the file's weights and these LoRAs, in the state that the component is in."""
        self._check()
        loaded, name, state = self._loaded, self._name, self._loaded.states[self._name]
        before = exact_weights(self._file)
        add_loras(loaded, adapters, name, self._file)
        try:
            apply_state(loaded, name, state, exact_weights(self._file), force=True)
            return is_finite(run_call(self._call, loaded.modules[name], state.dtype))
        finally:
            for key, parameter in self._file.named_parameters():
                parameter.data = before[key]
            apply_state(loaded, name, state, self._masters, force=True)


def _cause(trial: _Trial) -> dict[str, str | int | float | bool]:
    """Facts of a finding; none if the call fails without the LoRAs too."""
    if not trial.holds(()):
        return {}
    alone = trial.adapters if len(trial.adapters) == 1 else [one for one in trial.adapters if not trial.holds((one,))]
    culprits = tuple(alone) or trial.adapters
    facts: dict[str, str | int | float | bool] = {
        "lora": ", ".join(adapter.lora.name for adapter in culprits),
        "lora_weight": culprits[0].lora.weight,
        "loras": len(culprits),
    }
    share = next((share for share in _SHARES if trial.holds(_scaled(trial.adapters, culprits, share))), None)
    return facts if share is None else {**facts, "lora_share": share}


def _scaled(adapters: Sequence[Adapter], culprits: Sequence[Adapter], share: float) -> tuple[Adapter, ...]:
    """All of them, the culprits with that share of their weight."""
    return tuple(_lighter(adapter, share) if adapter in culprits else adapter for adapter in adapters)


def _lighter(adapter: Adapter, share: float) -> Adapter:
    return replace(adapter, lora=msgspec.structs.replace(adapter.lora, weight=adapter.lora.weight * share))
