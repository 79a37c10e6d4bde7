"""Compile: the blocks that a denoiser repeats are compiled in the worker's engine, and nothing else of a picture changes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.engine_runs import check, faulty_copy, generate, pixels
from tests.helpers.loras import make_lora

from halftone.contract.request import Hires, Lora
from halftone.engine.loading.compiling import Backend, is_compiled, repeated_blocks
from halftone.engine.service import DiffusersEngine
from halftone.measure.compiler import in_a_folder_with_a_space, missing_compiler
from halftone.measure.pictures import psnr

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # what torch's compiler says
    pytest.mark.processor("torch compiles for no device that others add to it without Triton"),
]
NO_COMPILER = "Compile is left out: PyTorch finds no C++ compiler, which it needs to compile for a processor."


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Counting(Backend):
    """Runs what was traced as it is, and counts how often torch asked it to compile and how often that ran."""

    def __init__(self) -> None:
        super().__init__("eager")
        self.asked = 0
        self.ran = 0

    def compile(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        self.asked += 1
        made = super().compile(graph, inputs)

        def run(*args: Any) -> Any:
            self.ran += 1
            return made(*args)

        return run


class Failing(Backend):
    """Cannot compile, or cannot run what it compiled."""

    def __init__(self, *, late: bool) -> None:
        super().__init__()
        self._late = late

    def compile(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        if self._late:
            return self._fail
        self._fail()
        raise AssertionError

    def _fail(self, *_args: Any) -> Any:
        raise RuntimeError("cl.exe: no such header.\nmore of it")


def ready(model: Path, backend: Backend) -> DiffusersEngine:
    """With the model in memory."""
    engine = DiffusersEngine()
    generate(engine, model, steps=1)
    assert engine.loaded is not None
    engine.loaded.compiler = backend
    return engine


def unet_of(engine: DiffusersEngine) -> torch.nn.Module:
    assert engine.loaded is not None
    return engine.loaded.modules["unet"]


def said(report: Any) -> list[str]:
    return [reason for reason in map(str, report.plan.reasons) if reason.startswith("Compile")]


MISSING = missing_compiler(torch.device("cpu"))
needs_compiler = pytest.mark.skipif(bool(MISSING), reason=str(MISSING))


def test_a_folder_with_a_space_is_seen() -> None:
    """torch's linker gets it in pieces."""
    assert in_a_folder_with_a_space("/home/me/half tone/torch/__init__.py")
    assert not in_a_folder_with_a_space("/home/me/halftone/torch/__init__.py")


@needs_compiler
def test_the_blocks_are_compiled_by_torch_and_the_times_of_the_steps_told(models: dict[str, Path]) -> None:
    engine = ready(models["sd15"], Backend())
    usual, _ = generate(engine, models["sd15"])
    compiled, _ = generate(engine, models["sd15"], compile=True)
    assert is_compiled(unet_of(engine))
    assert psnr(pixels(compiled), pixels(usual)) > 50
    (told,) = said(compiled)
    assert told.startswith("Compile: the first step took ")
    assert said(usual) == []
    assert compiled.images[0].state == "clean"


@needs_compiler
def test_of_several_passes_and_pictures_the_times_of_the_first_step_are_told(models: dict[str, Path]) -> None:
    engine = ready(models["sd15"], Counting())
    hires = Hires(scale=2.0, upscaler="lanczos", steps=2, strength=0.5)
    report, _ = generate(engine, models["sd15"], compile=True, hires=hires, steps=2, batch=2)
    (told,) = said(report)
    assert tuple(map(str, report.images[0].ran)) == (told,)


def test_without_a_compiler_pictures_are_made_as_usual_and_say_so(models: dict[str, Path]) -> None:
    from torch._inductor import config

    engine = ready(models["sd15"], Backend())
    usual, _ = generate(engine, models["sd15"])
    with config.patch({"cpp.cxx": ("no-such-compiler",)}):
        report, _ = generate(engine, models["sd15"], compile=True)
    assert said(report) == [NO_COMPILER]
    assert tuple(map(str, report.images[0].ran)) == (NO_COMPILER,)
    assert (pixels(report) == pixels(usual)).all()


@needs_compiler
@pytest.mark.parametrize("late", [False, True])
def test_a_compiler_that_fails_costs_a_sentence_and_no_picture(models: dict[str, Path], late: bool) -> None:
    engine = ready(models["sd15"], Failing(late=late))
    usual, _ = generate(engine, models["sd15"])
    report, _ = generate(engine, models["sd15"], compile=True)
    assert said(report) == ["Compile is left out, because torch's compiler failed here: cl.exe: no such header."]
    assert (pixels(report) == pixels(usual)).all()


@needs_compiler
def test_whatever_comes_and_goes_is_computed_and_no_job_is_compiled_twice(models: dict[str, Path], tmp_path: Path) -> None:
    backend = Counting()
    engine = ready(models["sd15"], backend)
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "style.safetensors", strength=2.0)))
    jobs: tuple[dict[str, Any], ...] = ({}, {"width": 48}, {"precision": "bfloat16"}, {"loras": (lora,)})
    usual = [pixels(generate(engine, models["sd15"], steps=2, **job)[0]) for job in jobs]
    assert backend.asked == 0
    for job, expected in zip(jobs, usual, strict=True):
        assert (pixels(generate(engine, models["sd15"], steps=2, compile=True, **job)[0]) == expected).all(), job
    asked, ran = backend.asked, backend.ran
    for job in jobs[::-1]:
        generate(engine, models["sd15"], steps=2, compile=True, **job)
    assert (backend.asked, backend.ran > ran) == (asked, True)
    assert asked > 0
    after, _ = generate(engine, models["sd15"], steps=2)
    assert not is_compiled(unet_of(engine))
    assert (pixels(after) == usual[0]).all()


@needs_compiler
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"upcast_cross_attention": "always"}, "a cure computes some layers of unet in FP32."),
        ({"fp8_storage": True}, "the weights of unet are kept in fewer bits and widened layer by layer."),
    ],
    ids=["cure", "fp8"],
)
def test_layers_that_something_is_hung_onto_are_not_compiled(
    models: dict[str, Path], changes: dict[str, Any], reason: str
) -> None:
    engine = ready(models["sd15"], Counting())
    report, _ = generate(engine, models["sd15"], "float16", compile=True, **changes)
    assert not is_compiled(unet_of(engine))
    assert said(report) == [f"Compile is left out: {reason}"]


@needs_compiler
def test_a_compiled_picture_that_goes_bad_is_diagnosed_and_cured(models: dict[str, Path], tmp_path: Path) -> None:
    group = "values of mid_block.attentions.0.transformer_blocks.0.attn2"
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "unet", group, 17)
    engine = ready(model, Counting())
    wide, _ = generate(engine, model, "float32")
    report, _ = generate(engine, model, "float16", compile=True)
    picture = report.images[0]
    assert (picture.state, [event.cure for event in picture.events]) == ("recovered", ["rescale"])
    assert picture.events[0].module == "mid_block.attentions.0.transformer_blocks.0.attn2.to_v"
    assert psnr(pixels(report), pixels(wide)) >= 30
    assert said(report) == ["Compile: after a fault the model ran uncompiled, so that its cause could be found."]
    again, _ = generate(engine, model, "float16", compile=True)
    assert (again.images[0].state, is_compiled(unet_of(engine))) == ("clean", True), "the cure is known, and rescaled weights"


@needs_compiler
def test_a_check_looks_at_networks_that_are_not_compiled(models: dict[str, Path]) -> None:
    engine = ready(models["sd15"], Counting())
    generate(engine, models["sd15"], compile=True)
    report, _ = check(engine, models["sd15"], "float32")
    assert not is_compiled(unet_of(engine))
    assert len({layer.module for layer in report.layers if "transformer_blocks" in layer.module}) > 10


@needs_compiler
def test_a_model_without_repeated_blocks_says_so(models: dict[str, Path]) -> None:
    engine = DiffusersEngine()
    report, _ = generate(engine, models["sd3"], family="sd3", compile=True)
    assert engine.loaded is not None
    assert repeated_blocks(engine.loaded.modules["transformer"]) == []
    assert said(report) == ["Compile has no effect: transformer names no blocks that repeat."]
