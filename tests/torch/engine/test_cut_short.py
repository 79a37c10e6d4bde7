"""What befalls the second pass of a picture never costs the picture of the first one."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.engine_runs import Recorder, generate, pixels
from tests.helpers.interrupted import failing
from tests.helpers.upscalers import make_upscaler
from tests.helpers.wording import translated
from tests.torch.engine.test_out_of_memory import FULL, full, large, part

from halftone.contract.errors import HalftoneError, say
from halftone.contract.messages import PictureReady, StepDone
from halftone.contract.request import Hires
from halftone.contract.wording import Words
from halftone.engine.service import DiffusersEngine

LATENT = Hires(scale=2.0, steps=2, strength=0.5)
LANCZOS = Hires(scale=2.0, upscaler="lanczos", steps=2, strength=0.5)


def is_second(latents: torch.Tensor) -> bool:
    """Latents on a face, in the larger pass."""
    return latents.shape[-1] > 16


@pytest.fixture(scope="module")
def first(engine: DiffusersEngine, models: dict[str, Path]) -> Any:
    report, _ = generate(engine, models["sd15"])
    return pixels(report)


@pytest.mark.parametrize("hires", [LATENT, LANCZOS], ids=["latent", "lanczos"])
def test_a_second_pass_that_does_not_fit_leaves_the_first_picture(
    engine: DiffusersEngine, models: dict[str, Path], first: Any, hires: Hires
) -> None:
    with full(part(engine, "unet.conv_in"), FULL[0], is_second):
        report, told = generate(engine, models["sd15"], hires=hires, batch=2)
    (picture,) = report.images  # nor would another of the job fit
    assert len(told.of(PictureReady)) == 1
    assert picture.cut_short is not None
    assert (picture.cut_short.code, picture.state, picture.width) == ("out-of-memory", "clean", 32)
    assert [one.kind for one in picture.passes] == ["first"]
    assert np.array_equal(pixels(report), first)


def test_a_second_pass_that_stopped_in_its_steps_can_go_on_later(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    whole, _ = generate(engine, models["sd15"], hires=LANCZOS)
    calls: list[int] = []

    def its_second_step(latents: torch.Tensor) -> bool:
        if is_second(latents):
            calls.append(1)
        return len(calls) > 1

    with full(part(engine, "unet.conv_in"), FULL[0], its_second_step):
        report, _ = generate(engine, models["sd15"], hires=LANCZOS)
    (picture,) = report.images
    assert Path(picture.path).is_file()
    again, _ = generate(engine, models["sd15"], resume_latents=picture.latents)
    assert np.array_equal(pixels(again), pixels(whole))


def test_an_upscale_model_that_fails_leaves_the_first_pictures(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, first: Any
) -> None:
    upscaler = make_upscaler(tmp_path / "bad.safetensors", nan=True)
    report, _ = generate(engine, models["sd15"], hires=Hires(scale=1.5, upscaler=str(upscaler)), batch=2)
    assert [picture.cut_short and picture.cut_short.code for picture in report.images] == ["upscaler-broken"] * 2
    assert np.array_equal(pixels(report), first)


def test_what_is_no_upscale_model_is_told_before_the_first_step(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    other, told = tmp_path / "other.safetensors", Recorder()
    save_file({"some.weight": torch.zeros(4, 4)}, other)
    with pytest.raises(HalftoneError) as refused:
        generate(engine, models["sd15"], hires=Hires(upscaler=str(other)), emit=told)
    assert refused.value.code == "upscaler-not-one"
    assert not told.of(StepDone)


@pytest.mark.usefixtures("first")
def test_the_memory_that_ended_in_the_first_pass_is_told_with_the_last(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with full(part(engine, "vae.decoder"), FULL[0], lambda latents: large(latents) and not is_second(latents)):
        report, _ = generate(engine, models["sd15"], hires=LANCZOS)
    (picture,) = report.images
    assert [one.kind for one in picture.passes] == ["first", "second"]
    assert [(one.phase, one.then, one.width) for one in picture.shortages] == [("decode", "tiles", 32)]


@contextmanager
def black(module: torch.nn.Module) -> Generator[None]:
    """What the module gives in the larger pass is infinite, in any precision."""

    def strike(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return output * float("inf") if is_second(output) else None

    handle = module.register_forward_hook(strike)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("hires", [LATENT, LANCZOS], ids=["latent", "lanczos"])
@pytest.mark.parametrize("on_black", ["recover", "stop"])
def test_a_second_pass_that_comes_out_black_leaves_the_first_pictures(
    engine: DiffusersEngine, models: dict[str, Path], first: Any, hires: Hires, on_black: str
) -> None:
    with black(part(engine, "unet.conv_in")):
        report, told = generate(engine, models["sd15"], hires=hires, on_black=on_black, batch=2)
    assert [picture.state for picture in report.images] == ["clean"] * 2
    assert len(told.of(PictureReady)) == 2
    picture = report.images[0]
    assert picture.cut_short is not None
    assert picture.cut_short.code == "second-pass-black"
    detail = picture.cut_short.facts["detail"]
    assert isinstance(detail, Words)
    assert translated(detail)
    assert picture.latents is None, "it would fail again"
    assert [one.kind for one in picture.passes] == ["first"]
    assert np.array_equal(pixels(report), first)


@contextmanager
def flat(module: torch.nn.Module) -> Generator[None]:
    """What the decoder gives in the larger pass is of one colour, in any precision."""

    def strike(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return output * 0 - 1 if output.shape[-1] > 32 else None

    handle = module.register_forward_hook(strike)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("hires", [LATENT, LANCZOS], ids=["latent", "lanczos"])
def test_a_second_pass_of_one_colour_leaves_the_first_picture(
    engine: DiffusersEngine, models: dict[str, Path], first: Any, hires: Hires
) -> None:
    with flat(part(engine, "vae.decoder.conv_out")):
        report, _ = generate(engine, models["sd15"], hires=hires)
    (picture,) = report.images
    assert (picture.state, picture.black) == ("clean", False)
    assert picture.cut_short is not None
    assert say(picture.cut_short).startswith("The second pass is one flat colour. Its values are finite, so no cure can help.")
    assert picture.latents is None, "it would come out so again"
    assert np.array_equal(pixels(report), first)


@pytest.mark.parametrize("step", [1, 2])
def test_a_second_pass_that_is_to_ask_leaves_the_first_picture_and_can_go_on(
    engine: DiffusersEngine, models: dict[str, Path], step: int
) -> None:
    generate(engine, models["sd15"], "float16", steps=1)
    with failing(engine, 3 + step - 1):
        whole, _ = generate(engine, models["sd15"], "float16", hires=LANCZOS)
    with failing(engine, 3 + step - 1):
        report, _ = generate(engine, models["sd15"], "float16", hires=LANCZOS, on_black="ask")
    (picture,) = report.images
    assert (picture.state, Path(picture.path).is_file()) == ("clean", True)
    assert picture.cut_short is not None
    assert "the setting for black pictures says to ask first" in say(picture.cut_short)
    detail = picture.cut_short.facts["detail"]
    assert isinstance(detail, Words)
    assert translated(detail)
    with failing(engine):
        again, _ = generate(engine, models["sd15"], "float16", resume_latents=picture.latents)
    assert np.array_equal(pixels(again), pixels(whole))


@contextmanager
def breaking(module: torch.nn.Module) -> Generator[None]:
    def strike(_module: Any, args: tuple[torch.Tensor, ...]) -> None:
        if is_second(args[0]):
            raise RuntimeError("a shape")

    handle = module.register_forward_pre_hook(strike)
    try:
        yield
    finally:
        handle.remove()


def test_a_fault_that_nobody_foresaw_ends_the_job_after_the_first_picture_is_saved(
    engine: DiffusersEngine, models: dict[str, Path]
) -> None:
    told = Recorder()
    with breaking(part(engine, "unet.conv_in")), pytest.raises(RuntimeError, match="a shape"):
        generate(engine, models["sd15"], hires=LANCZOS, emit=told)
    (ready,) = told.of(PictureReady)
    assert Path(ready.facts.path).is_file()
