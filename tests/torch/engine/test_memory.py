"""What stays in memory after a job, and what a change of precision leaves behind that ran out of memory."""

import gc
import sys
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.bench.common import write_large
from tests.helpers.engine_runs import Recorder, check, generate
from tests.helpers.memory import Full

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import AnyEvent
from halftone.engine.checks.examine import Examination
from halftone.engine.loading.load import exact_source
from halftone.engine.loading.plans import apply_state
from halftone.engine.sampling.flight import Flight
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import ComponentState
from halftone.measure.giving_back import trim_heap
from halftone.measure.peak import resident
from halftone.measure.probe import Probe
from halftone.measure.sentinel import Sentinel

OF_A_JOB = (Flight, Sentinel, Examination, Probe)


@contextmanager
def no_collection() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alive() -> list[str]:
    return [type(found).__name__ for found in gc.get_objects() if issubclass(type(found), OF_A_JOB)]


@pytest.mark.parametrize("job", [generate, check])
def test_a_job_leaves_nothing_of_itself_behind(models: dict[str, Path], job: Any) -> None:
    engine = DiffusersEngine()
    with no_collection():
        job(engine, models["sd15"], "float16")
        assert alive() == []


@pytest.mark.parametrize("job", [generate, check])
def test_unloading_gives_the_weights_back_at_once(models: dict[str, Path], job: Any) -> None:
    engine = DiffusersEngine()
    with no_collection():
        job(engine, models["sd15"], "float16")
        assert engine.loaded is not None
        weights = [weakref.ref(parameter) for module in engine.loaded.modules.values() for parameter in module.parameters()]
        engine.unload()
        assert weights
        assert not any(weight() is not None for weight in weights)


def test_running_out_of_memory_half_way_through_a_change_of_precision_harms_no_weight(models: dict[str, Path]) -> None:
    engine = DiffusersEngine()
    generate(engine, models["sd15"], "float32")
    loaded = engine.loaded
    assert loaded is not None
    with Full(9), pytest.raises(HalftoneError) as caught:
        apply_state(loaded, "unet", ComponentState(dtype="bfloat16"))
    assert caught.value.code == "model-too-large"
    kinds = {parameter.dtype for parameter in loaded.modules["unet"].parameters()}
    assert kinds == {torch.bfloat16, torch.float32}, "the change was broken off in the middle"
    apply_state(loaded, "unet", ComponentState(dtype="float32"))
    in_file = exact_source(loaded, "unet")
    for name, parameter in loaded.modules["unet"].named_parameters():
        assert torch.equal(parameter.cpu(), in_file[name]), name


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell the resident size in other words")
def test_unloading_gives_the_memory_back_to_the_system(tmp_path: Path) -> None:
    """Weights that were converted are memory of the process's own, and a good part of it lies in the C library's arenas."""
    model = write_large(tmp_path / "model", small=True)
    engine = DiffusersEngine()
    for _ in range(2):  # until the libraries and their caches are there
        generate(engine, model, "bfloat16", steps=1)
        engine.unload()
    before = resident()["RssAnon"]
    generate(engine, model, "bfloat16", steps=1)
    grown = resident()["RssAnon"] - before
    weights = sum(sum(p.nbytes for p in module.parameters()) for module in loaded_modules(engine))
    engine.unload()
    left = resident()["RssAnon"] - before
    assert grown > 0.5 * weights  # some of it found room in what other work had left
    assert left < 0.1 * weights


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell the resident size in other words")
def test_what_the_steps_left_in_the_heap_does_not_lie_beside_the_decode(models: dict[str, Path]) -> None:
    engine = DiffusersEngine()
    generate(engine, models["sd15"], steps=1)
    pins: list[torch.Tensor] = []

    def litter(_module: torch.nn.Module, _args: Any, _result: Any) -> None:
        """256 MB in pieces that are freed, between small ones that stay."""
        pieces = [(torch.ones(16_000), torch.ones(8)) for _ in range(4_000)]
        pins.extend(small for _, small in pieces)

    seen: dict[str, int] = {}

    class Watching(Recorder):
        def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
            seen[getattr(event, "phase", type(event).__name__)] = resident()["RssAnon"]
            super().__call__(event, blob)

    handle = loaded_modules(engine)[1].register_forward_hook(litter)
    trim_heap()  # what other tests left would take the pieces in
    before = resident()["RssAnon"]
    generate(engine, models["sd15"], steps=1, emit=Watching())
    handle.remove()
    assert pins
    assert seen["decode"] - before < 100_000_000


def loaded_modules(engine: DiffusersEngine) -> list[torch.nn.Module]:
    assert engine.loaded is not None
    return list(engine.loaded.modules.values())
