"""Whether a LoRA is what makes a layer overflow: measured by running the failing call with the file's own weights."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from torch import nn

from halftone.contract.errors import JobCancelled
from halftone.contract.facts import Finding, LoraCause
from halftone.contract.vocabulary import FLOAT_LIMITS, DType
from halftone.engine.basics.tensors import relative_error
from halftone.engine.inputs.memory import free_after
from halftone.engine.loading.load import Loaded, exact_source
from halftone.engine.loading.plans import apply_state, streamed
from halftone.engine.patches.lora import Adapter
from halftone.engine.sampling.hooks import is_finite
from halftone.engine.weights.calls import CLOSE, Call, run_call
from halftone.engine.weights.precision import ComponentState
from halftone.engine.weights.recipe import Exact
from halftone.health.faults import is_device_lost, is_out_of_memory
from halftone.health.judge import BEYOND
from halftone.library.add_ons.loras import lora_key
from halftone.measure.probe import Probe, Reading

log = logging.getLogger(__name__)

_WIDE: Final = ComponentState(dtype="float32")
_SHARES: Final = (0.5, 0.25, 0.125)
"""Shares of a LoRA's weight that are tried until one holds."""

Readings = Mapping[str, Reading]
"""By module."""
Found = TypeVar("Found")


def with_lora_causes(
    loaded: Loaded,
    findings: Sequence[Finding],
    failing: Mapping[str, Sequence[Call]],
    masters: Mapping[str, Exact],
    check: Callable[[], None],
) -> list[Finding]:
    """Add to findings the LoRAs without which their layers hold, and a weight at which they held.

    Where the whole call holds without them, only the origin names them; else each layer is tried by itself.

    failing: all calls by component, the first of them failed; masters: the exact weights, which are restored.
    """
    trials = {
        name: _Trial(loaded, name, calls, masters[name], check)
        for name, calls in failing.items()
        if any(name in adapter.layers for adapter in loaded.adapters)
    }
    told: list[Finding] = []
    for finding in findings:
        trial = trials.get(finding.component) if finding.code in BEYOND else None
        cause = None if trial is None else trial.cause(finding.module)
        if cause is not None and cause.alone:
            del trials[finding.component]
        told.append(finding if cause is None else msgspec.structs.replace(finding, facts={**finding.facts, **_facts(cause)}))
    return told


def _facts(cause: LoraCause) -> dict[str, str | int | float | bool]:
    facts: dict[str, str | int | float | bool] = {
        "lora": ", ".join(cause.names),
        "lora_weight": cause.weight,
        "loras": len(cause.names),
    }
    if not cause.alone:
        facts["lora_alone"] = False
    return facts if cause.share is None else {**facts, "lora_share": cause.share}


def cause_of(loaded: Loaded, call: Call, module: str, masters: Exact, check: Callable[[], None]) -> LoraCause | None:
    """The LoRAs without which a failing call holds at its origin; None where the model fails alone, or it is unknown."""
    name = call.component
    if not any(name in adapter.layers for adapter in loaded.adapters):
        return None
    try:
        return _Trial(loaded, name, [call], masters, check).cause(module)
    except Exception as failure:
        if isinstance(failure, JobCancelled) or is_device_lost(failure):
            raise
        log.info("whether a LoRA makes %s fail cannot be told", name, exc_info=True)
        if is_out_of_memory(failure):
            free_after(failure)
        return None


class _Trial:
    """Calls, the first of which failed, to be run again with other LoRAs than those that are applied. Each run is made once."""

    def __init__(self, loaded: Loaded, name: str, calls: Sequence[Call], masters: Exact, check: Callable[[], None]) -> None:
        self._loaded = loaded
        self._name = name
        self._calls = calls
        self._masters = masters
        self._check = check
        self._state = loaded.states[name]
        self._adapters = tuple(adapter for adapter in loaded.adapters if name in adapter.layers)
        self._whole: dict[str, bool] = {}
        self._readings: dict[tuple[str, str], Readings] = {}

    def cause(self, module: str) -> LoraCause | None:
        """Which LoRAs make a layer fail, and a share of their weights at which it holds; None if it fails without them too."""
        alone = self.holds(())
        holds = self.holds if alone else lambda some: self._layer_holds(module, some)
        if not holds(()) or holds(self._adapters):
            return None
        several = len(self._adapters) > 1
        culprits = tuple(one for one in self._adapters if not several or not holds((one,))) or self._adapters
        share = next((share for share in _SHARES if holds(_scaled(self._adapters, culprits, share))), None)
        weight = culprits[0].lora.weight_in(self._name)
        return LoraCause(names=tuple(one.lora.name for one in culprits), weight=weight, share=share, alone=alone)

    def holds(self, adapters: Sequence[Adapter]) -> bool:
        """Whether every call in the component's state, with these LoRAs, is finite and close to float32."""
        key = _key(adapters)
        if key not in self._whole:
            results = self._run(adapters, self._state, self._results)
            wide = self._run(adapters, _WIDE, self._results) if results else []
            close = (relative_error(*pair) <= CLOSE for pair in zip(results, wide, strict=False))
            self._whole[key] = 0 < len(results) == len(wide) and all(close)
        return self._whole[key]

    def _layer_holds(self, module: str, adapters: Sequence[Adapter]) -> bool:
        """Whether one layer stays in range. Where what it is given is bad already, its peak in float32 decides."""
        reading = self._measured(adapters, self._state).get(module)
        if reading is not None and (reading.failed_at is None or reading.inputs_finite):
            return reading.failed_at is None
        wide = self._measured(adapters, _WIDE).get(module)
        return wide is None or wide.peak <= FLOAT_LIMITS[self._state.dtype]

    def _measured(self, adapters: Sequence[Adapter], state: ComponentState) -> Readings:
        key = _key(adapters), state.dtype
        if key not in self._readings:
            self._readings[key] = self._run(adapters, state, self._probed)
        return self._readings[key]

    def _results(self, module: nn.Module, dtype: DType) -> list[Any]:
        """The results of all calls; nothing where one is not finite."""
        results: list[Any] = []
        for call in self._calls:
            self._check()
            results.append(run_call(call, module, dtype))
            if not is_finite(results[-1]):
                return []
        return results

    def _probed(self, module: nn.Module, dtype: DType) -> Readings:
        with Probe(module, self._name, scores=False) as probe:
            run_call(self._calls[0], module, dtype)
        return {reading.module: reading for reading in probe.readings()}

    def _run(self, adapters: Sequence[Adapter], state: ComponentState, look: Callable[[nn.Module, DType], Found]) -> Found:
        """What `look` sees of the component with the file's weights and these LoRAs in a state; then it is as it was."""
        self._check()
        loaded, name = self._loaded, self._name
        exact = exact_source(loaded, name, (*adapters, *loaded.faces))
        if state == _WIDE:
            with streamed(loaded, name, state.dtype, self._masters, exact):
                return look(loaded.modules[name], state.dtype)
        try:
            apply_state(loaded, name, state, exact, force=True)
            return look(loaded.modules[name], state.dtype)
        finally:
            apply_state(loaded, name, self._state, self._masters, force=True)


def _key(adapters: Sequence[Adapter]) -> str:
    return lora_key(adapter.lora for adapter in adapters)


def _scaled(adapters: Sequence[Adapter], culprits: Sequence[Adapter], share: float) -> tuple[Adapter, ...]:
    """All of them, the culprits with that share of their weight."""
    return tuple(_lighter(adapter, share) if adapter in culprits else adapter for adapter in adapters)


def _lighter(adapter: Adapter, share: float) -> Adapter:
    lora = adapter.lora
    encoder = None if lora.encoder_weight is None else lora.encoder_weight * share
    return replace(adapter, lora=msgspec.structs.replace(lora, weight=lora.weight * share, encoder_weight=encoder))
