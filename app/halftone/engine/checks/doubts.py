"""Trouble in a check that is not the model's: numbers that went bad in memory, and what does not come again in a second run."""

from collections.abc import Callable
from typing import Any

import msgspec

from halftone.contract.facts import Finding
from halftone.engine.basics.tensors import relative_error
from halftone.engine.finding.capture import Range
from halftone.engine.finding.findings import source_of
from halftone.engine.loading.load import Loaded, exact_source
from halftone.engine.loading.plans import apply_state
from halftone.engine.sampling.hooks import is_finite, is_in_range
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.offload import settle_weights
from halftone.engine.weights.precision import damaged, mend
from halftone.engine.weights.recipe import Exact, forget
from halftone.health.judge import ONCE


class Doubts:
    """Tells the model's trouble from the device's, once for each component and pass. found: what was the device's."""

    def __init__(self, loaded: Loaded, masters: dict[str, Exact]) -> None:
        self._loaded, self._masters = loaded, masters
        self._compared: set[str] = set()
        self.found: list[Finding] = []

    def is_sound_now(self, call: Call, module: str) -> bool:
        """Whether a call whose numbers went bad gives sound ones when it runs again."""
        return self._now(call, module, is_in_range)

    def is_right_now(self, call: Call, before: object, reference: object, allowed: float) -> bool:
        """Whether a call with a finite but wrong result (before) comes close to the reference when it runs again, and differs
        from before by more than the order of summing explains. allowed: relative error.
        """
        return self._now(
            call,
            "",
            lambda result: (
                is_in_range(result) and relative_error(result, reference) <= allowed and relative_error(before, result) > allowed
            ),
        )

    def _now(self, call: Call, module: str, is_sound: Callable[[Any], bool]) -> bool:
        dtype = self._loaded.states[call.component].dtype
        sound = is_sound(run_call(call, self._loaded.modules[call.component], dtype))
        if sound:
            self._note(call.component, module, {ONCE: True})
        return sound

    def reads_again(self, name: str) -> bool:
        """Whether weights of a component differed from its file; they are then read again. Compared once per pass. Where the
        component computes block by block, the weights that the others are made from are compared.
        """
        if name in self._compared:
            return False
        self._compared.add(name)
        module, state = self._loaded.modules[name], self._loaded.states[name]
        settle_weights(module)
        exact = exact_source(self._loaded, name, anew=True)
        in_blocks = name in self._loaded.streams
        broken = mend(self._masters[name], exact, module.state_dict()) if in_blocks else damaged(module, exact, state)
        if broken:
            if not in_blocks:
                self._masters[name] = exact
                forget(module, broken)
            apply_state(self._loaded, name, state, self._masters[name], force=True)
            self._note(name, broken[0].rpartition(".")[0], {"tensor": broken[0], "count": len(broken)})
        return bool(broken)

    def is_the_devices(self, wide: Range) -> bool:
        """Whether the device caused the bad values of a range pass in any component. The pass must then be repeated."""
        theirs = [name for name in wide.readings if self._in_range_pass(name, wide)]
        return bool(theirs)

    def _in_range_pass(self, name: str, wide: Range) -> bool:
        source = source_of(wide.readings[name])
        if source is None:
            return False
        if self.reads_again(name):
            return True
        bad = next((call for call, result in wide.of(name) if not is_finite(result)), None)
        return bad is not None and is_finite((bad.args, bad.kwargs)) and self.is_sound_now(bad, source.module)

    def next_pass(self) -> None:
        """Forget what was compared: the next pass writes its weights again."""
        self._compared.clear()

    def _note(self, component: str, module: str, facts: dict[str, str | int | float | bool]) -> None:
        dtype = self._loaded.states[component].dtype
        found = Finding(code="memory-damage", component=component, module=module, dtype=dtype, peak=None, limit=None, facts=facts)
        if not any(msgspec.structs.replace(one, dtype=dtype) == found for one in self.found):
            self.found.append(found)
