"""Options of a sampler that would do nothing or cannot be: refused before a model is loaded, and not offered."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import idle_options
from halftone.contract.request import PictureRequest
from halftone.health.pictures.requests import check_request
from halftone.library.models import POCKET, describe
from halftone.library.options import known_options
from halftone.library.sampler_options import noise_range, takes_seed_delta
from halftone.library.samplers import FLOW_SAMPLERS, SAMPLERS, samplers_of

SD15 = {"_class_name": "PNDMScheduler", "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
FLUX = {"_class_name": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": True}


def model(kind: str) -> ModelFacts:
    pipeline, scheduler = ("FluxPipeline", FLUX) if kind == "flow" else ("StableDiffusionPipeline", SD15)
    own = str(scheduler["_class_name"]).removesuffix("Scheduler")
    return replace(
        describe(POCKET),
        pipeline=pipeline,
        samplers=samplers_of(pipeline, scheduler),
        own_sampler=own,
        sigmas=noise_range(scheduler),
    )


def refusal(kind: str, sampler: str | None, options: dict[str, Any]) -> str:
    with pytest.raises(HalftoneError) as caught:
        check_request(PictureRequest(prompt="a", sampler=sampler, options=options), model(kind))
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "sampler", "options", "said"),
    [
        ("diffusion", "Euler Karras", {"sigma_max": 0.01}, "Schedule max sigma cannot be 0.01. Use more than 0.02917."),
        ("diffusion", "Euler Karras", {"sigma_min": 20.0}, "Schedule min sigma cannot be 20. Use less than 14.61."),
        ("diffusion", "Euler Karras", {"sigma_min": 10.0, "sigma_max": 5.0}, "Schedule min sigma cannot be 10. Use less than 5."),
        ("flow", "Euler Karras", {"sigma_max": 14.6}, "Schedule max sigma cannot be 14.6. Choose a value from 0 to 1."),
        ("flow", "DPM++ 2M SDE Karras", {"sigma_min": 1.5}, "Schedule min sigma cannot be 1.5. Choose a value from 0 to 1."),
        ("flow", "Euler Beta", {"sigma_max": 0.5}, "--sigma-max cannot be used with the sampler Euler Beta, which takes none."),
        ("flow", "Euler Normal", {"sigma_min": 0.1}, "--sigma-min cannot be used with the sampler Euler Normal"),
        ("flow", "Euler Simple", {"s_churn": 1.0}, "--sigma-churn cannot be used with the sampler Euler Simple"),
        ("diffusion", "euler_karras", {"eta_ancestral": 0.5}, "--eta cannot be used with the sampler Euler Karras, which"),
        ("diffusion", "Euler a", {"eta_ancestral": 0.5}, "Use a sampler with a schedule, such as Euler a Karras, or no --eta."),
        ("diffusion", None, {"eta_ancestral": 0.5}, "--eta cannot be used with the sampler PNDM, which takes none."),
        ("diffusion", "DDIM Simple", {"eta": 0.5}, "eta cannot be used with the sampler DDIM Simple, which takes none. Use DDIM"),
        ("diffusion", "Euler Karras", {"s_tmin": 0.5}, "--sigma-tmin cannot be set without --sigma-churn."),
        ("diffusion", "Euler Karras", {"s_tmax": 5.0}, "--sigma-tmax cannot be set without --sigma-churn."),
        (
            "diffusion", "Euler Karras", {"eta_noise_seed_delta": 31337},
            "--eta-noise-seed-delta cannot be used with the sampler Euler Karras, which adds no noise. "
            "Use a sampler that does, such as Euler a Karras, or no --eta-noise-seed-delta.",
        ),
        (
            "diffusion", "Euler a Karras", {"eta_noise_seed_delta": 31337, "eta_ancestral": 0.0},
            "--eta-noise-seed-delta cannot be used with the sampler Euler a Karras, which adds no noise.",
        ),
        ("flow", None, {"eta_noise_seed_delta": 1}, "FlowMatchEulerDiscrete, which adds no noise."),
        (
            "diffusion", "Euler Karras", {"emphasis": 1, "prompt_syntax": 2},
            "--emphasis cannot be used with --prompt-syntax ComfyUI. Use one of the two.",
        ),
    ],
)  # fmt: skip
def test_an_option_without_effect_is_refused_with_its_reason(
    kind: str, sampler: str | None, options: dict[str, Any], said: str
) -> None:
    assert re.search(re.escape(said), refusal(kind, sampler, options))


@pytest.mark.parametrize(
    ("kind", "sampler", "options"),
    [
        ("diffusion", "Euler Karras", {"sigma_min": 0.1, "sigma_max": 10.0}),
        ("diffusion", "Euler Karras", {"sigma_min": 20.0, "zero_snr": 1}),
        ("flow", "Euler Karras", {"sigma_max": 0.9, "sigma_min": 0.1}),
        ("diffusion", "Euler Karras", {"s_churn": 2.0, "s_tmin": 0.5}),
        ("diffusion", "Euler Karras", {"s_churn": 2.0, "eta_noise_seed_delta": 1}),
        ("diffusion", "Euler a", {"eta_noise_seed_delta": 1}),
        ("diffusion", "DDIM", {"eta": 0.5, "eta_noise_seed_delta": 1}),
        ("diffusion", "LCM Karras", {"eta_noise_seed_delta": 1}),
        ("diffusion", "Restart Karras", {"eta_noise_seed_delta": 1}),
        ("flow", "Euler a Simple", {"eta_noise_seed_delta": 1}),
        ("diffusion", "Euler Karras", {"emphasis": 1, "prompt_syntax": 1}),
    ],
)
def test_one_with_an_effect_is_not(kind: str, sampler: str, options: dict[str, Any]) -> None:
    check_request(PictureRequest(prompt="a", sampler=sampler, options=options), model(kind))


def test_what_has_no_effect_is_not_offered() -> None:
    def known(sampler: str | None, options: dict[str, Any]) -> set[str]:
        return set(known_options(model("diffusion"), sampler, options, image=False, mask=False)) - idle_options(options)

    assert "eta_noise_seed_delta" in known("Euler a Karras", {})
    assert "eta_noise_seed_delta" not in known("Euler Karras", {})
    assert "eta_noise_seed_delta" in known("Euler Karras", {"s_churn": 1.0})
    assert "eta_noise_seed_delta" not in known(None, {})
    assert idle_options({"s_tmin": 1.0, "emphasis": 2, "prompt_syntax": 2}) == {"s_tmin", "emphasis"}


def test_the_noise_of_a_model_is_read_from_its_scheduler() -> None:
    assert noise_range(SD15) == pytest.approx((0.0291672, 14.6146), rel=1e-5)
    assert noise_range({"beta_schedule": "squaredcos_cap_v2"}) == ()
    assert noise_range(FLUX) == (0, 1)
    assert set(model("flow").samplers) <= set(FLOW_SAMPLERS)
    assert set(model("diffusion").samplers) <= set(SAMPLERS)


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.just(10**11), st.floats(), st.text(max_size=5), st.lists(st.floats(0, 1.1)),
    st.lists(st.one_of(st.text(max_size=3), st.lists(st.floats(0, 1)))), st.dictionaries(st.text(max_size=3), st.integers()),
)  # fmt: skip
NAMES = ("num_train_timesteps", "beta_start", "beta_end", "trained_betas", "beta_schedule", "_class_name")


@given(st.dictionaries(st.sampled_from(NAMES), ODD), st.sampled_from(["linear", "scaled_linear"]))
def test_the_noise_of_an_odd_configuration_is_unknown_or_two_numbers(odd: dict[str, Any], schedule: str) -> None:
    found = noise_range({"beta_schedule": schedule, **odd})
    assert len(found) in (0, 2)
    assert all(number >= 0 for number in found)  # nan is not


@pytest.mark.parametrize(
    "odd",
    [
        {"num_train_timesteps": 0}, {"num_train_timesteps": 10**11}, {"num_train_timesteps": True}, {"beta_start": "0.1"},
        {"beta_end": 1.5}, {"trained_betas": "abc"}, {"trained_betas": [[0.1], [0.2]]}, {"trained_betas": []},
    ],
)  # fmt: skip
def test_the_noise_is_unknown_where_a_number_cannot_be(odd: dict[str, Any]) -> None:
    assert noise_range({**SD15, **odd}) == ()


def test_betas_that_are_given_count_and_may_leave_no_picture() -> None:
    assert noise_range({"trained_betas": [0.5, 0.5]}) == pytest.approx((1, 3**0.5))
    assert noise_range({"trained_betas": [0.999] * 1000}) == (pytest.approx(999**0.5), float("inf"))


@pytest.mark.parametrize(
    ("sampler", "source", "takes"),
    [
        ("Euler a Karras", 0, True), ("Euler a Karras", 1, True), ("Euler a Karras", 2, False), ("Euler Karras", 0, False),
        ("DPM++ 2M SDE Karras", 0, False), ("DPM++ SDE", 0, True), ("dpmpp_3m_sde_gpu exponential", 3, False),
        ("SEEDS 2 Karras", 1, True), ("LCM Simple", 2, False),
    ],
)  # fmt: skip
def test_another_seed_for_the_steps_needs_noise_that_goes_on(sampler: str, source: int, takes: bool) -> None:
    """SDE samplers, and all of ComfyUI, take theirs from the picture's seed; those of diffusers do not."""
    options = {"noise_source": source}
    assert takes_seed_delta(model("diffusion"), sampler, options) is takes
    known = known_options(model("diffusion"), sampler, options, image=False, mask=False)
    assert ("eta_noise_seed_delta" in known) is takes
