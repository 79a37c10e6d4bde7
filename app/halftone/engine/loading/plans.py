"""Plans and the loaded pipeline: which plan a request starts from, and how a pipeline is brought into the state a plan wants."""

import inspect
import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import torch
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.plan import Plan, handed_on, input_of, joined_deviation
from halftone.contract.request import Lora, Numerics
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import DTYPES, NAMES
from halftone.engine.loading.load import Loaded, exact_source, raise_if_too_large
from halftone.engine.patches.image_prompts import adapter_exponents
from halftone.engine.patches.inversions import read_inversions, take_from_end, told_components
from halftone.engine.patches.lora import changed_components, left_out, read_adapters
from halftone.engine.weights.borders import can_hand_on
from halftone.engine.weights.epsilons import has_epsilon
from halftone.engine.weights.offload import compute_with, place, settle_weights
from halftone.engine.weights.parts import role
from halftone.engine.weights.precision import (
    ComponentState,
    exact_weights,
    own_weights,
    put_stream,
    realise,
    split_rows,
    state_in,
    upcast_parameters,
)
from halftone.engine.weights.recipe import Exact, forget_base, known_of
from halftone.measure.giving_back import trim_heap
from halftone.measure.wide_kernels import gains_by_channels_last

log = logging.getLogger(__name__)

Masters = Mapping[str, Mapping[str, torch.Tensor]]

HALF_DONE: Final = ComponentState(dtype="float32", rescale={"": 1})
"""The state of a component whose change was interrupted, or whose LoRAs changed: equal to no other, never exact."""


def base_plan(loaded: Loaded, dtype: DType, numerics: Numerics) -> Plan:
    """Every component in dtype, changed only by what the settings order outright."""
    dtypes: dict[str, DType] = dict.fromkeys(loaded.modules, dtype)
    upcast: dict[str, tuple[str, ...]] = {}
    reasons: list[Words] = [*left_out(loaded.adapters)]
    for name, module in loaded.modules.items():
        if role(name, module) == "decode" and numerics.vae_float32 == "always" and dtype != "float32":
            dtypes[name] = "float32"
            reasons.append(Words("{0} in FP32: Keep the VAE in FP32 is set to Always.", (name,)))
        if role(name, module) == "denoise" and numerics.upcast_cross_attention == "always" and dtype != "float32":
            if crossing := cross_attentions(module):
                upcast[name] = crossing
                reasons.append(Words("Cross-attention of {0} in FP32: Upcast cross-attention is set to Always.", (name,)))
            else:
                reasons.append(Words("Upcast cross-attention has no effect: {0} has no separate cross-attention.", (name,)))
    return with_counts(loaded, Plan(dtypes=dtypes, upcast=upcast, reasons=tuple(reasons)), dtype)


def cross_attentions(module: nn.Module) -> tuple[str, ...]:
    """Attention modules that read the prompt: named attn2 next to an attn1 in all transformer blocks of diffusers."""
    return tuple(name for name, _ in module.named_modules() if name.rpartition(".")[2] == "attn2")


def with_counts(loaded: Loaded, plan: Plan, asked: DType) -> Plan:
    """The plan with its parameter counts filled in."""
    modules = loaded.modules
    states = {name: state_in(plan, name, asked) for name in modules}
    upcast = sum(
        size if states[name].dtype != asked else upcast_parameters(modules[name], states[name])
        for name, size in loaded.sizes.items()
    )
    return msgspec.structs.replace(plan, upcast_parameters=upcast, total_parameters=sum(loaded.sizes.values()))


def with_settings(loaded: Loaded, plan: Plan) -> Plan:
    """The plan with its settings that are regions written out as regions (upcast cross-attention)."""
    if plan.settings.get("upcast_cross_attention") != "always":
        return plan
    upcast = dict(plan.upcast)
    for name, module in loaded.modules.items():
        if role(name, module) == "denoise" and not upcast.get(name):
            upcast[name] = cross_attentions(module)
    return msgspec.structs.replace(plan, upcast={name: regions for name, regions in upcast.items() if regions})


def permitted(loaded: Loaded, plan: Plan, numerics: Numerics) -> Plan:
    """A kept plan without what the settings meanwhile rule out with Never: the whole VAE, or cross-attention, in float32."""
    dtypes, upcast, settings = dict(plan.dtypes), dict(plan.upcast), dict(plan.settings)
    if numerics.vae_float32 == "never":
        decoders = {name for name, module in loaded.modules.items() if role(name, module) == "decode"}
        dtypes = {name: dtype for name, dtype in dtypes.items() if not (name in decoders and dtype == "float32")}
    if numerics.upcast_cross_attention == "never":
        settings.pop("upcast_cross_attention", None)
        crossing = {name: cross_attentions(module) for name, module in loaded.modules.items()}
        upcast = {name: own for name, own in upcast.items() if own != crossing.get(name)}
    return msgspec.structs.replace(plan, dtypes=dtypes, upcast=upcast, settings=settings)


def fitting(loaded: Loaded, plan: Plan) -> Plan:
    """Drop modules and tensors that the model lacks from a plan; keys and values also apply to those of IP-Adapters."""
    upcast: dict[str, tuple[str, ...]] = {}
    rescale: dict[str, dict[str, int]] = {}
    for name, module in loaded.modules.items():
        modules = dict(module.named_modules())
        tensors = {*exact_weights(module), *map(input_of, inspect.signature(type(module).forward).parameters)}
        upcast[name] = tuple(own for own in plan.upcast.get(name, ()) if can_hand_on(modules.get(handed_on(own)[0]), own))
        rescale[name] = {
            own: k for own, k in plan.rescale.get(name, {}).items() if split_rows(own)[0] in tensors or has_epsilon(module, own)
        }
    kept = msgspec.structs.replace(
        plan,
        upcast={name: own for name, own in upcast.items() if name in plan.upcast},
        rescale={name: own for name, own in rescale.items() if name in plan.rescale},
    )
    if (kept.upcast, kept.rescale) != (plan.upcast, plan.rescale):
        log.warning("a plan names parts that %s has not: they are left out", loaded.facts.name)
    added = {name: {**adapter_exponents(own, loaded.modules[name]), **own} for name, own in kept.rescale.items()}
    return msgspec.structs.replace(kept, rescale=added)


def merged(base: Plan, cure: Plan) -> Plan:
    """Change base by a cure: its dtypes, regions, exponents and settings win where it names a component.

    A component named with nothing (an empty region, no exponents) loses what base had for it.
    """
    return Plan(
        dtypes={**base.dtypes, **cure.dtypes},
        rescale={name: own for name, own in {**base.rescale, **cure.rescale}.items() if own},
        deviation=joined_deviation(base, cure),
        upcast={name: own for name, own in {**base.upcast, **cure.upcast}.items() if own},
        settings={**base.settings, **cure.settings},
        verified=cure.verified,
        error=cure.error,
        reasons=tuple(dict.fromkeys((*base.reasons, *cure.reasons))),
    )


def apply_plan(loaded: Loaded, plan: Plan, masters: Masters | None = None) -> None:
    """Bring every component into the plan's state and to its place. masters: exact weights. Raises model-too-large."""
    before = dict(loaded.states)
    for name, module in loaded.modules.items():
        wanted = state_in(plan, name, loaded.states[name].dtype)
        apply_state(loaded, name, wanted, None if masters is None else masters.get(name))
        try:
            place(module)
        except (RuntimeError, MemoryError) as error:
            raise_if_too_large(error, loaded.facts, loaded.device)
            raise
    if loaded.states != before:
        trim_heap()


def apply_state(
    loaded: Loaded, name: str, wanted: ComponentState, masters: Mapping[str, torch.Tensor] | None = None, *, force: bool = False
) -> None:
    """Bring one component into a state. Without masters its own weights are used while exact, else its files are read.

    force: even if it is in that state, because the masters are other weights.
    """
    if loaded.states[name] == wanted and not force:
        return
    try:
        _change_state(loaded, name, wanted, masters, force=force)
    except (RuntimeError, MemoryError) as error:
        raise_if_too_large(error, loaded.facts, loaded.device)
        raise
    log.info(
        "%s now runs in %s, %d tensors rescaled, %d regions in float32",
        name,
        wanted.dtype,
        len(wanted.rescale),
        len(wanted.upcast),
    )


def _change_state(
    loaded: Loaded, name: str, wanted: ComponentState, masters: Mapping[str, torch.Tensor] | None, *, force: bool
) -> None:
    """The component counts as half done until all of it is."""
    module = loaded.modules[name]
    exact, before = masters, None if force else loaded.states[name]
    if force and exact is not None:
        loaded.states[name] = HALF_DONE  # it may hold other weights than its state tells
    settle_weights(module)
    if exact is None:
        exact = exact_now(loaded, name)
    loaded.states[name] = HALF_DONE
    layout = layout_of(role(name, module), wanted, loaded.device)
    if name in loaded.streams:
        put_stream(module, exact if isinstance(exact, Exact) else Exact(exact), wanted, layout or torch.contiguous_format)
    else:
        realise(module, exact, wanted, None if before == HALF_DONE else before, layout or torch.contiguous_format)
        if layout is not None:
            lay_out(module, layout)
    loaded.states[name] = wanted


@contextmanager
def streaming(loaded: Loaded, masters: Mapping[str, Exact]) -> Generator[None]:
    """While open, components compute in every state with weights made one block at a time, so that they are never whole in it.
    Their own weights stay, and their states return.

    masters: their exact weights.
    """
    before = {name: loaded.states[name] for name in masters}
    begun = masters.keys() - loaded.streams
    loaded.streams |= begun
    try:
        yield
    finally:
        loaded.streams -= begun
        loaded.states |= dict.fromkeys(before, HALF_DONE)
        for name in begun:
            compute_with(loaded.modules[name], None)
        for name, state in before.items():
            if state != HALF_DONE:
                _change_state(loaded, name, state, masters[name], force=True)


@contextmanager
def streamed(loaded: Loaded, name: str, dtype: DType, masters: Exact, instead: Exact | None = None) -> Generator[None]:
    """Compute one component so, with its exact weights in another type. instead: others to compute with."""
    with streaming(loaded, {name: masters}):
        _change_state(loaded, name, ComponentState(dtype=dtype), masters if instead is None else instead, force=True)
        yield


def put_loras(loaded: Loaded, loras: Iterable[Lora], *, sound: bool = True) -> None:
    """Make these LoRAs, and no others, part of the exact weights, for the next plan to read.

    sound: only if all their numbers are finite. Raises HalftoneError lora-broken, and as `read_adapters`; then nothing is
    changed.
    """
    before, after = loaded.adapters, read_adapters(loaded.pipe, loaded.facts, loras, loaded.adapters)
    for adapter in after:
        if sound and adapter.bad:
            raise HalftoneError("lora-broken", name=adapter.lora.name, tensor=adapter.bad[0].tensor)
    if before == after:
        return
    for name in changed_components((*before, *after)):
        loaded.states[name] = HALF_DONE
    loaded.adapters = after
    log.info("LoRAs: %s", ", ".join(f"{adapter.lora.name} {adapter.lora.shown_weight}" for adapter in after) or "none")


def put_fp8(loaded: Loaded, *, wanted: bool) -> None:
    """Round the denoiser's exact weights to eight bits, or restore those of its files. The next plan reads them."""
    if loaded.fp8 == wanted:
        return
    for name, module in loaded.modules.items():
        if role(name, module) == "denoise" and name not in loaded.sources:
            loaded.states[name] = HALF_DONE
    loaded.fp8 = wanted


def put_inversions(loaded: Loaded, paths: Iterable[str]) -> None:
    """Give the text encoders the words of these files and of the LoRAs, and of no others. Raises as `read_inversions`."""
    bundled = [one for adapter in loaded.adapters for one in adapter.inversions]
    before, after = loaded.inversions, read_inversions(loaded.pipe, loaded.facts, paths, loaded.inversions, bundled)
    if before == after:
        return
    for name in told_components((*before, *after)):
        loaded.states[name] = HALF_DONE
        forget_base(loaded.modules[name])
        take_from_end(loaded.modules[name])
    loaded.inversions = after


def exact_now(loaded: Loaded, name: str) -> Exact:
    """The exact weights of a component: its own, where they are and its file is not mapped, else those that its file gives."""
    module = loaded.modules[name]
    others = known_of(module).base is not None or loaded.fp8 or name in {*changed_components(loaded.patched), *loaded.streams}
    state = loaded.states[name]
    exact = not state.rescale and state.dtype in (NAMES[loaded.exact_dtype(name)], "float32")  # never narrowed
    return own_weights(module) if exact and not others else exact_source(loaded, name)


def layout_of(kind: str, state: ComponentState, device: torch.device) -> torch.memory_format | None:
    """The layout of convolution weights: channels last where that is faster, 16-bit types on CUDA, bfloat16 on a CPU (measured,
    see CONTRIBUTING). None: unchanged. kind: the component's role.
    """
    if kind not in ("denoise", "decode"):
        return None
    gains = gains_by_channels_last(device.type, DTYPES[state.dtype])
    return torch.channels_last if gains else torch.contiguous_format


def lay_out(module: nn.Module, layout: torch.memory_format) -> None:
    """Bring flat convolutions into this order, one by one: the format has four dimensions, other weights may have more."""
    for child in module.modules():
        if isinstance(child, nn.Conv2d) and not child.weight.is_contiguous(memory_format=layout):
            child.to(memory_format=layout)  # pyright: ignore[reportCallIssue]


def any_component(loaded: Loaded, kind: str) -> tuple[str, Any] | None:
    """The first component with a role."""
    return next(((name, module) for name, module in loaded.modules.items() if role(name, module) == kind), None)
