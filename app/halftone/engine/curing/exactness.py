"""Whether a rescaling is exact with what runs beside the model: proven once for each ControlNet, adapter or LoRA."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import torch

from halftone.contract.facts import DeviceFacts
from halftone.contract.plan import input_of, inputs_in, is_input, stored_in
from halftone.contract.request import Control, Extras
from halftone.contract.vocabulary import DType
from halftone.engine.inputs.memory import Reference, first_that_fits, free_bytes, is_shortage
from halftone.engine.loading.compiling import uncompiled
from halftone.engine.loading.load import Loaded, exact_source, file_exponents
from halftone.engine.loading.plans import apply_state
from halftone.engine.rescaling.added_inputs import Proof, acting, passed_inputs, prove, shape_of
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.engine.weights.calls import Call, run_call
from halftone.engine.weights.offload import settle_weights
from halftone.engine.weights.precision import ComponentState, own_inputs, put_own_inputs
from halftone.health.faults import ends_the_job
from halftone.health.planning.rescaling import exponents
from halftone.library.add_ons.extras import extras_key
from halftone.library.learned import recall_exactness, remember_exactness

log = logging.getLogger(__name__)

_NOT_EXACT: Final = Proof(None, lasting=False)
_MORE: Final = 1.1
"""A proof that did not fit is tried again when so many times the memory is free."""


class StillTooLargeError(MemoryError):
    """A proof did not fit into the memory before, and no more is free now."""


class Exactness:
    """Remembers what is proven of the rescalings of one loaded pipeline. dtype: asked for; check: raises if cancelled."""

    def __init__(self, loaded: Loaded, device: DeviceFacts, dtype: DType, check: Callable[[], None]) -> None:
        self._loaded = loaded
        self._device = device
        self._dtype: DType = dtype
        self._check = check
        self.references: Callable[[str], Sequence[Reference]] = lambda _: (Reference("float32", loaded.places.mode),)
        """These are, for a component, the ways to see it in a wide type, the cheapest that fits first."""
        self.free: Callable[[], int] = lambda: free_bytes(loaded)
        """The bytes that a proof may take."""
        self._unproven: dict[tuple[str | Reference, ...], int] = {}
        """The proofs that fitted in none of these ways, and the bytes that were free then."""
        self._known: dict[str, Proof] = {}
        self._foreign: dict[tuple[object, ...], bool] = {}

    def settled(
        self, call: Call, state: ComponentState, masters: Mapping[str, torch.Tensor] | None = None
    ) -> ComponentState | None:
        """The state with the exponents that the inputs of this call need; None where the rescaling is not exact with them.

        A component that had to run for it is left in that state, without the rescaling for None. masters: its exact weights,
        where at hand. Raises what check raises, and the shortage where memory ends in every way: then nothing is known, and the
        component is in its old state, or half done.
        """
        name, module = call.component, self._loaded.modules[call.component]
        if not self.fits_copy(call, masters):
            return None
        if not state.rescale:
            return state
        loras = self._foreign_loras(name, state.rescale)
        key, added = self._place(name, state.rescale, passed_inputs(call, module), loras=loras)
        if not added and not loras:
            return state
        if key not in self._known:
            proof = self._proof(call, state, masters, key)
            if proof is None:
                return state
            self._known[key] = proof
        found = self._known[key].rescale
        # what another call was proven with stays: it is not among the inputs of this one, or zeros
        others = {input_of(path): k for path, k in inputs_in(state.rescale).items() if path not in added}
        return None if found is None else msgspec.structs.replace(state, rescale={**others, **found})

    def fits_copy(self, call: Call, masters: Mapping[str, torch.Tensor] | None = None) -> bool:
        """Scale what is added to a call of a rescaled copy as its weights are; False where no scale fits. Raises as `settled`."""
        name, module = call.component, self._loaded.modules[call.component]
        if call.method != "forward" or not (own := file_exponents(self._loaded, name)):
            return True
        key, added = self._place("copy", own, passed_inputs(call, module), loras=False)
        if not added:
            return True
        if key not in self._known:
            before = own_inputs(module)
            put_own_inputs(module, {})
            try:
                proof = self._proof(call, self._loaded.states[name], masters, key, own)
            finally:
                put_own_inputs(module, before)
            if proof is None:
                return True
            self._known[key] = proof
        found = self._known[key].rescale
        put_own_inputs(module, {**own_inputs(module), **inputs_in(found or {})})
        return found is not None

    def as_original(self, name: str) -> dict[str, int]:
        """Exponents under which a component runs without any rescaling, that of its file included."""
        return {tensor: -k for tensor, k in file_exponents(self._loaded, name).items() if k}

    def _foreign_loras(self, name: str, rescale: Mapping[str, int]) -> bool:
        """Whether LoRAs write into layers that wrote next to nothing when the groups were found."""
        if not any(name in adapter.layers for adapter in self._loaded.patched):
            return False
        wanted = {tensor: k for tensor, k in stored_in(rescale).items() if k}
        key = (
            name,
            self._loaded.extras.ip_adapters,
            self._loaded.lights,
            frozenset(wanted.items()),
        )  # adapters bring layers of their own
        if key not in self._foreign:
            groups = rescale_groups(name, self._loaded.modules[name])
            shifts = [-rescale.get(group.shrink[0], 0) for group in groups]
            self._foreign[key] = stored_in(exponents(groups, shifts).get(name, {})) != wanted
        return self._foreign[key]

    def _place(
        self, name: str, rescale: Mapping[str, int], passed: Mapping[str, Any], *, loras: bool
    ) -> tuple[str, Mapping[str, Any]]:
        """(key of what is known of a call with these inputs, the inputs that it is known with).

        A proof with all inputs holds where some are zeros, as a ControlNet's are before its start. So they are read only until
        that is proven: reading waits for the device.
        """
        key = self._key(name, rescale, passed, loras=loras)
        if not passed or key in self._known:
            return key, passed
        added = acting(passed)
        return self._key(name, rescale, added, loras=loras), added

    def _key(self, name: str, rescale: Mapping[str, int], added: Mapping[str, Any], *, loras: bool) -> str:
        """The exponents of inputs are what a proof finds, so they are no part of it: the call after it has the same key."""
        extras = self._loaded.extras
        lights = tuple(Control(path=file.path, image="") for file in self._loaded.lights)
        patched = tuple(one.lora for one in self._loaded.patched) if loras else ()
        used = Extras(transformer=extras.transformer, ip_adapters=extras.ip_adapters, controls=lights, loras=patched)
        exponents = (f"{tensor} {k}" for tensor, k in sorted(rescale.items()) if not is_input(tensor))
        inputs = sorted(shape_of(*pair) for pair in added.items())
        return "\0".join((name, *exponents, "", *inputs, "", extras_key(used)))

    def _proof(
        self,
        call: Call,
        state: ComponentState,
        masters: Mapping[str, torch.Tensor] | None,
        key: str,
        of_file: Mapping[str, int] | None = None,
    ) -> Proof | None:
        """Run the component for a proof, and leave it in the state that follows, or as it was (of_file: the file's rescaling)."""
        name = call.component
        known = recall_exactness(self._loaded.facts, self._device, self._dtype, key)
        if known is not None:
            return Proof(known.rescale, lasting=True)
        ways = self.references(name)
        place, free = (key, *ways), self.free()
        if of_file is not None and not worth_trying(self._unproven.get(place), free):
            raise StillTooLargeError(f"the proof for {name} did not fit into the memory before")
        module = self._loaded.modules[name]
        self._loaded.places.packed = False  # until the next job, as for a diagnosis: its weights are written over
        settle_weights(module)
        exact = exact_source(self._loaded, name) if masters is None else masters
        rescale = state.rescale if of_file is None else of_file
        proof: Proof | None = None
        after = state

        def proven(way: Reference) -> Proof | None:
            return prove(call, module, rescale, partial(self._run, way.dtype, name, exact, of_file or {}))

        try:
            with uncompiled(module):
                proof = first_that_fits(self._loaded, ways, proven)
        except Exception as error:
            if is_shortage(error):
                self._unproven[place] = free
            if ends_the_job(error):
                raise
            log.info("whether the rescaling of %s is exact cannot be told", name, exc_info=True)
            proof = _NOT_EXACT
        finally:
            if proof is not None and of_file is None:
                after = msgspec.structs.replace(state, rescale=proof.rescale or {})
            apply_state(self._loaded, name, after, exact)
        if proof is not None:
            log.info("the rescaling of %s is %sexact for this call", name, "not " if proof.rescale is None else "")
        if proof is not None and proof.lasting:
            remember_exactness(self._loaded.facts, self._device, self._dtype, key, proof.rescale)
        return proof

    def _run(
        self,
        dtype: DType,
        name: str,
        masters: Mapping[str, torch.Tensor],
        of_file: Mapping[str, int],
        rescale: Mapping[str, int],
        call: Call,
    ) -> Any:
        """A call in a wide type under a rescaling, of which the file's weights hold a part."""
        self._check()
        own = {tensor: rescale.get(tensor, 0) - of_file.get(tensor, 0) for tensor in {**rescale, **of_file}}
        state = ComponentState(dtype=dtype, rescale={tensor: k for tensor, k in own.items() if k})
        apply_state(self._loaded, name, state, masters)
        return run_call(call, self._loaded.modules[name], dtype)


def worth_trying(before: int | None, free: int) -> bool:
    """Whether a proof may fit now. before: bytes that were free when it did not fit, None where it was not tried; free: now."""
    return before is None or free > _MORE * before
