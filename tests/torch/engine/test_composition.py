"""Prompts composed with AND: whole pictures against the formula computed plainly, and where they are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.device import DEVICE, FACTS
from tests.helpers.engine_runs import Recorder, Steady, generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Control, Extras, Hires, Numerics, PictureRequest
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.checks.examine import Examination
from halftone.engine.loading.load import load_pipeline
from halftone.engine.sampling.composition import Composition, Prompt, check_composable, denoised
from halftone.engine.sampling.perturbed import perturbed
from halftone.engine.service import DiffusersEngine
from halftone.health.forecasts.activations import Size, controlling
from halftone.health.forecasts.memory_forecast import job_of
from halftone.library.families.networks import Network, networks_of
from halftone.library.models import describe
from halftone.library.prompts.composed_prompts import composed
from halftone.library.prompts.prompt_syntax import Rules, Syntax

STEPS: Final = 4
GUIDANCE: Final = 3.0
ASKED: Final[dict[str, Any]] = {"negative": "bad", "seed": 5, "steps": STEPS, "guidance": GUIDANCE}
PARTS: Final = (("a red sun", 1.0), ("blue hills", 0.6), ("rain", -0.4))
PROMPT: Final = "a red sun AND blue hills:0.6 AND rain :-.4"
Parts = tuple[tuple[str, float], ...]


def drawn(
    pipe: Any,
    parts: Callable[[int], Parts],
    guidance: float = GUIDANCE,
    net: Any = None,
    seen: Path | None = None,
    pag: float = 0.0,
) -> NDArray[Any]:
    """uncond + guidance * sum of weight * (cond - uncond), step by step. parts: of a step, counted from 1; pag: the scale of the
    mean of what is added for each, with its weight (Forge's backend/sampling/sampling_function.py).
    """
    wide = hasattr(pipe, "text_encoder_2")
    with torch.no_grad(), quiet_libraries():
        pipe.scheduler.set_timesteps(STEPS)
        edge = 32 // pipe.vae_scale_factor
        x = torch.randn(1, 4, edge, edge, generator=torch.Generator().manual_seed(5)).to(DEVICE) * pipe.scheduler.init_noise_sigma

        def answer(scaled: torch.Tensor, time: torch.Tensor, text: str, *, negative: bool = False) -> torch.Tensor:
            encoded = pipe.encode_prompt(
                "x" if negative else text, device=DEVICE, num_images_per_prompt=1, do_classifier_free_guidance=True,
                negative_prompt=text,
            )  # fmt: skip
            given: dict[str, Any] = {"encoder_hidden_states": encoded[negative]}
            if wide:
                ids = torch.tensor([[32.0, 32, 0, 0, 32, 32]], device=DEVICE)
                given["added_cond_kwargs"] = {"text_embeds": encoded[2 + negative], "time_ids": ids}
            if net is not None and seen is not None:
                hint = torch.from_numpy(np.asarray(Image.open(seen).convert("RGB")) / 255).float().movedim(-1, 0)[None].to(DEVICE)
                names = ("down_block_additional_residuals", "mid_block_additional_residual")
                made = net.to(DEVICE)(scaled, time, controlnet_cond=hint, conditioning_scale=0.7, return_dict=False, **given)
                given |= dict(zip(names, made, strict=True))
            return pipe.unet(scaled, time, **given).sample

        for step, time in enumerate(pipe.scheduler.timesteps, start=1):
            scaled = pipe.scheduler.scale_model_input(x, time)
            negative = answer(scaled, time, "bad", negative=True)
            total = sum(weight * (answer(scaled, time, text) - negative) for text, weight in parts(step))
            if pag:
                whole = sum(weight for _, weight in parts(step))
                with perturbed(pipe.unet):
                    beside = [weight * answer(scaled, time, text) for text, weight in parts(step)]
                own = sum(weight * answer(scaled, time, text) for text, weight in parts(step))
                total = total + pag / guidance * (own - sum(beside)) / whole
            x = pipe.scheduler.step(negative + guidance * total, time, x).prev_sample
        made = pipe.vae.decode(x / pipe.vae.config.scaling_factor).sample
    return np.asarray(pipe.image_processor.postprocess(made)[0]).astype(int)


def test_prompts_are_combined_as_in_a1111() -> None:
    """Its own combine_denoised, at a guidance of 7, on made-up answers to each prompt."""
    known = json.loads((Path(__file__).parents[2] / "references" / "prompts.json").read_text("utf-8"))["a1111"]["combined"]
    for row in known:
        torch.testing.assert_close(_combined(row), torch.tensor(row["denoised"]).double(), rtol=1e-4, atol=1e-4)
    assert len(known) >= 30


def _combined(row: dict[str, Any]) -> torch.Tensor:
    parts, answers = composed(row["prompt"], Rules(Syntax.A1111)), dict(row["answers"])
    assert {part.text for part in parts} == set(answers)
    given = [torch.tensor(row["negative"]), *(torch.tensor(answers[part.text]) for part in parts)]
    negative = Prompt(torch.zeros(1, 1, 1), None)
    prompts = (Prompt(torch.full((1, 1, 1), place), None, part.weight) for place, part in enumerate(parts, start=1))
    now = Composition(tuple(prompts), negative, guided=True)

    def call(_sample: torch.Tensor, encoder_hidden_states: torch.Tensor) -> tuple[torch.Tensor]:
        return (torch.stack([given[int(place)] for place in encoder_hidden_states.flatten()]),)

    states = torch.cat([negative.states, now.prompts[0].states])
    uncond, cond = denoised(now, call, (torch.zeros(2, 1),), {"encoder_hidden_states": states})[0].double()
    return uncond + 7.0 * (cond - uncond)


def made(engine: DiffusersEngine, model: Path, prompt: str = PROMPT, **changes: Any) -> NDArray[Any]:
    return pixels(generate(engine, model, prompt=prompt, **{**ASKED, **changes})[0]).astype(int)


@pytest.mark.parametrize("guidance", [GUIDANCE, 1.0])
@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_a_picture_is_that_of_the_formula(engine: DiffusersEngine, models: dict[str, Path], family: str, guidance: float) -> None:
    wanted = drawn(load_tiny(models[family]), lambda _: PARTS, guidance)
    own = made(engine, models[family], guidance=guidance)
    assert np.abs(own - wanted).max() <= 1
    assert (own != made(engine, models[family], "a red sun", guidance=guidance)).any()


@pytest.mark.parametrize("guidance", [GUIDANCE, 1.0])
@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_perturbed_attention_adds_the_mean_of_all(
    engine: DiffusersEngine, models: dict[str, Path], family: str, guidance: float
) -> None:
    wanted = drawn(load_tiny(models[family]), lambda _: PARTS, guidance, pag=3.0)
    own = made(engine, models[family], guidance=guidance, options={"pag_scale": 3.0})
    assert np.abs(own - wanted).max() <= 1
    assert (own != made(engine, models[family], guidance=guidance)).any()
    first = made(engine, models[family], "a red sun AND blue hills:0", guidance=guidance, options={"pag_scale": 3.0})
    assert np.abs(first - made(engine, models[family], "a red sun", guidance=guidance, options={"pag_scale": 3.0})).max() <= 1


def test_a_mean_of_weights_that_add_up_to_nothing_is_refused(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with pytest.raises(HalftoneError, match="sum of their weights, which is 0"):
        made(engine, models["sd15"], "a red sun AND blue:-1", options={"pag_scale": 3.0})


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_each_prompt_changes_with_the_step(engine: DiffusersEngine, models: dict[str, Path], family: str) -> None:
    def parts(step: int) -> Parts:
        return (("red" if step <= 2 else "green", 1.0), ("sea" if step % 2 else "sky", 0.5))

    own = made(engine, models[family], "[red:green:.5] AND [sea|sky]:.5")
    assert np.abs(own - drawn(load_tiny(models[family]), parts)).max() <= 1


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3"])
def test_one_prompt_of_weight_one_is_as_without(engine: DiffusersEngine, models: dict[str, Path], family: str) -> None:
    plain = made(engine, models[family], "a red sun", family=family)
    assert np.array_equal(made(engine, models[family], "a red sun", family=family, options=_a1111(family)), plain)
    assert np.array_equal(made(engine, models[family], "a red sun:1.0", family=family, options=_a1111(family)), plain)
    halves = made(engine, models[family], "a red sun:0.25 AND a red sun:0.75", family=family)
    assert np.abs(halves - plain).max() <= 1
    assert (made(engine, models[family], "a red sun AND blue:0.5", family=family) != plain).any()


def _a1111(family: str) -> dict[str, Any]:
    return {"prompt_syntax": 1, **({"max_sequence_length": 64} if family == "sd3" else {})}


def test_a_weight_at_the_end_scales_the_guidance_in_the_syntax_of_a1111(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    weighed = made(engine, models["sd15"], "a red sun:1.5", options=_a1111(""))
    assert np.abs(weighed - made(engine, models["sd15"], "a red sun", guidance=1.5 * GUIDANCE)).max() <= 1
    assert (weighed != made(engine, models["sd15"], "a red sun:1.5")).any(), "elsewhere it is text"


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_a_controlnet_sees_each_prompt(engine: DiffusersEngine, models: dict[str, Path], family: str, tmp_path: Path) -> None:
    net, square = make_net(models[family]), picture(tmp_path / "square.png")
    place = save_net(net, tmp_path / "net")
    for guidance in (GUIDANCE, 1.0):
        control = Control(path=str(place), image=str(square), scale=0.7)
        own = made(engine, models[family], family=family, controls=(control,), guidance=guidance)
        wanted = drawn(load_tiny(models[family]), lambda _: PARTS, guidance, net, square)
        assert np.abs(own - wanted).max() <= 1
    asked: dict[str, Any] = {"family": family, "controls": (control, control)}
    assert (made(engine, models[family], options={"guess_mode": True}, **asked) != made(engine, models[family], **asked)).any()


def test_other_ways_to_a_picture_compose_as_well(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    start = str(picture(tmp_path / "start.png"))
    mask = str(picture(tmp_path / "mask.png"))
    ways: tuple[dict[str, Any], ...] = (
        {"image": start},
        {"image": start, "mask": mask},
        {"hires": Hires(scale=2.0, strength=0.6)},
        {"sampler": "Heun"},
        {"sampler": "Euler CFG++ Karras"},
    )
    for way in ways:
        plain, halves = (
            made(engine, models["sd15"], prompt, **way) for prompt in ("a red sun", "a red sun:0.25 AND a red sun:0.75")
        )
        assert np.abs(halves - plain).max() <= 2, way
        assert (made(engine, models["sd15"], "a red sun AND blue:-1", **way) != plain).any(), way
    report, _ = generate(engine, models["sd15"], prompt=PROMPT, batch=2, **ASKED)
    assert np.array_equal(pixels(report).astype(int), made(engine, models["sd15"]))


def test_a_long_prompt_beside_a_short_one(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    long = "a photograph of a red sun over green hills, " * 3
    plain = made(engine, models["sdxl"], long)
    assert np.abs(made(engine, models["sdxl"], f"{long} AND x:0") - plain).max() <= 1
    assert np.abs(made(engine, models["sdxl"], f"x:0 AND {long}") - plain).max() <= 1


def test_half_precision_is_watched_and_clean(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sdxl"], "float16", prompt=PROMPT, **ASKED)
    assert (report.images[0].state, report.images[0].finite) == ("clean", True)


@pytest.mark.parametrize("guidance", [GUIDANCE, 1.0])
@pytest.mark.parametrize("prompt", ["a red sun", "a AND b", "a AND b AND c:-1"])
def test_the_memory_forecast_counts_the_prompts_that_run(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, guidance: float, prompt: str
) -> None:
    """Each further prompt is a call of the denoiser with one row, so only what waits for the calls grows."""
    made(engine, models["sd15"], prompt, guidance=guidance, steps=1)
    assert engine.loaded is not None
    rows: list[int] = []

    def note(_module: Any, args: tuple[torch.Tensor]) -> None:
        rows.append(len(args[0]))

    hook = engine.loaded.pipe.unet.conv_in.register_forward_pre_hook(note)
    made(engine, models["sd15"], prompt, guidance=guidance, steps=1)
    hook.remove()
    facts = engine.loaded.facts
    job = job_of(facts, PictureRequest(model=facts.id, prompt=prompt), Size(32, 32, 1), guided=guidance > 1)
    assert rows == [2 if job.guided else 1, *[1] * job.further]
    assert job.prompts == sum(rows)
    net = engine_network(models["sd15"], tmp_path)
    one, all_ = (controlling(net, None, Size(64, 64, 1), prompts=count) for count in (1, job.prompts))
    assert all_ == job.prompts * one


def engine_network(model: Path, folder: Path) -> Network:
    """The forecast's view of a ControlNet for a model."""
    place = save_net(make_net(model), folder / "net")
    extras = Extras(controls=(Control(path=str(place), image=""),))
    return next(one for one in networks_of(describe(str(model)), extras) if one.work == "control")


def test_the_check_composes_too(models: dict[str, Path]) -> None:
    loaded = load_pipeline(describe(str(models["sd15"])), DEVICE)
    inputs = CheckInputs(width=32, height=32, guidance=7.0, prompt="red AND blue")
    command = Examine(job="c", model=loaded.facts.id, numerics=Numerics(precision="float16"), inputs=inputs)
    examination = Examination(loaded, FACTS, None, command, Recorder(), Steady())
    examination.run()
    assert examination.wide is not None
    assert {len(call.kwargs["encoder_hidden_states"]) for call, _ in examination.wide.of("unet")} == {1, 2}


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("LatentConsistencyModelPipeline", {}, "no classifier-free guidance"),
        ("StableDiffusionPAGPipeline", {}, "does not guide with one prompt"),
        ("StableDiffusionUpscalePipeline", {}, "does not guide with one prompt"),
        ("StableDiffusion3Pipeline", {"skip_guidance_layers": [1]}, "skip-layer guidance"),
    ],
)
def test_what_cannot_be_composed_is_refused_by_name(name: str, options: dict[str, Any], reason: str) -> None:
    import diffusers

    pipe = object.__new__(getattr(diffusers, name))
    with pytest.raises(HalftoneError, match=reason) as caught:
        check_composable(pipe, options)
    assert caught.value.code == "prompt-uncomposed"


def test_a_model_that_cannot_compose_says_so(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sana"], family="sana", prompt="a cat AND a dog")
    with Image.open(report.images[0].path) as image:
        assert "AND is read as a word" in str(image.info)
    options: dict[str, Any] = {"max_sequence_length": 64, "skip_guidance_layers": [0]}
    with pytest.raises(HalftoneError, match="skip-layer"):
        generate(engine, models["sd3"], family="sd3", prompt="a cat AND a dog", options=options)
