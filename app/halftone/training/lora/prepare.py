"""Prepares a denoiser for training: the model loaded, its pictures encoded, all that is not trained released."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from halftone.contract.engine import Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, ModelFacts, SelfTestReport
from halftone.contract.messages import PhaseChanged
from halftone.contract.request import Numerics
from halftone.contract.training import TrainConfig, TrainPicture, WiderType
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.curing.first_plan import first_plan
from halftone.engine.inputs.memory import settle_at_rest
from halftone.engine.loading.load import Loaded, raise_if_too_large
from halftone.engine.loading.plans import apply_plan, apply_state
from halftone.engine.weights.offload import place, put_offload, settle_weights
from halftone.engine.weights.precision import ComponentState
from halftone.health.precision import granted_to, state_of
from halftone.health.training.training_types import trained_type, wider_type
from halftone.library.models import describe, runnable
from halftone.library.records import load_report
from halftone.library.training_data.training_pictures import usable
from halftone.measure.stats import peak
from halftone.training.lora.bases import Base, base_of
from halftone.training.lora.encoding import Encoded, encode_all
from halftone.training.lora.objectives import Objective


@dataclass(frozen=True)
class Prepared:
    """network: the denoiser alone, frozen, on its device, in dtype; wider: why that is not the type that was asked for."""

    model: ModelFacts
    base: Base
    network: Any
    objective: Objective
    encoded: Encoded
    dtype: DType
    device: torch.device
    wider: WiderType | None = None


def model_for(config: TrainConfig) -> tuple[ModelFacts, Base]:
    """Raises what `describe` raises, and HalftoneError train-other-base for what is no model that a LoRA can be trained on."""
    facts = describe(config.model)
    base = base_of(facts)
    runnable(facts)
    return facts, base


def prepare(
    loaded: Loaded,
    config: TrainConfig,
    pictures: tuple[TrainPicture, ...],
    folder: Path,
    device: DeviceFacts,
    tested: SelfTestReport | None,
    emit: Emit,
    check: Callable[[], None],
    dtype: DType | None = None,
) -> Prepared:
    """pictures: of the folder, good or not; folder: for the cache; check: may raise; dtype: of a resumed denoiser."""
    base = base_of(loaded.facts)
    numerics = Numerics(precision=config.precision)
    asked, _ = granted_to(numerics, tested, device, loaded.facts, loaded.extras)
    plan, _ = first_plan(loaded, device, asked, numerics)
    settle_at_rest(loaded, device, numerics, plan.dtypes, lambda: apply_plan(loaded, plan))

    def tick(done: int, total: int) -> None:
        check()
        emit(PhaseChanged(phase="encode", done=done, total=total))

    good = usable(config.pictures, pictures)
    read = encode_all(loaded, base, config, good, folder, tick)
    told = {picture.name: picture for picture in read.pictures}
    everything = tuple(told.get(picture.name, picture) for picture in pictures)
    usable(config.pictures, everything)
    narrow = dtype or trained_type(plan, base.denoiser, asked, state_of(tested, "bfloat16"))
    wider = wider_type(plan, base.denoiser, asked, narrow, load_report(loaded.facts, device, asked, loaded.extras))
    network = _alone(loaded, base.denoiser, narrow)
    _check_sound(loaded.facts, base.denoiser, network)
    objective = base.objective(loaded.native_scheduler.config, config.snr_gamma)
    encoded = Encoded(everything, read.latents, read.words, read.captions)
    return Prepared(loaded.facts, base, network, objective, encoded, narrow, loaded.device, wider)


def _alone(loaded: Loaded, name: str, dtype: DType) -> Any:
    """The denoiser whole on the device in its exact weights of that type."""
    module = loaded.modules[name]
    settle_weights(module)
    put_offload(loaded.places, "none")
    apply_state(loaded, name, ComponentState(dtype=dtype))
    try:
        place(module)
    except (RuntimeError, MemoryError) as error:
        raise_if_too_large(error, loaded.facts, loaded.device)
        raise
    return module


def _check_sound(model: ModelFacts, component: str, network: torch.nn.Module) -> None:
    """Raise HalftoneError model-broken for a number in the weights that is none."""
    for name, parameter in network.named_parameters():
        if parameter.is_floating_point() and not peak(parameter.detach()) < float("inf"):
            raise HalftoneError("model-broken", model=model.name, detail=Words("{0}.{1} is not finite", (component, name)))
