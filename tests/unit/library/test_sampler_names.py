"""The names of samplers and schedules that A1111 and ComfyUI list, each of which is one of Halftone's.

python -m tests.unit.library.test_sampler_names
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from halftone.library.samplers import SAMPLERS, SOLVER_OPTIONS, sampler_called

OF_A1111: Final[dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "references" / "a1111_samplers.json").read_text()
)
A1111: Final = (
    "DPM++ 2M", "DPM++ SDE", "DPM++ 2M SDE", "DPM++ 2M SDE Heun", "DPM++ 2S a", "DPM++ 3M SDE", "Euler a", "Euler", "LMS",
    "Heun", "DPM2", "DPM2 a", "DPM fast", "DPM adaptive", "Restart", "DDIM", "DDIM CFG++", "PLMS", "UniPC", "LCM",
)  # fmt: skip
"""A1111 1.10, modules/sd_samplers_kdiffusion.py, sd_samplers_timesteps.py and sd_samplers_lcm.py."""
FORGE: Final = ("HeunPP2", "IPNDM", "IPNDM_V", "DEIS")
"""Those that Forge adds."""
A1111_SCHEDULES: Final = (
    "Automatic", "Uniform", "Karras", "Exponential", "Polyexponential", "SGM Uniform", "KL Optimal", "Align Your Steps", "Simple",
    "Normal", "DDIM", "Beta", "Turbo",
)  # fmt: skip
"""Forge's modules/sd_schedulers.py, of which A1111 1.10 has all but Turbo."""
COMFYUI: Final = (
    "euler", "euler_cfg_pp", "euler_ancestral", "euler_ancestral_cfg_pp", "heun", "heunpp2", "dpm_2", "dpm_2_ancestral", "lms",
    "dpm_fast", "dpm_adaptive", "dpmpp_2s_ancestral", "dpmpp_2s_ancestral_cfg_pp", "dpmpp_sde", "dpmpp_sde_gpu", "dpmpp_2m",
    "dpmpp_2m_cfg_pp", "dpmpp_2m_sde", "dpmpp_2m_sde_gpu", "dpmpp_2m_sde_heun", "dpmpp_2m_sde_heun_gpu", "dpmpp_3m_sde",
    "dpmpp_3m_sde_gpu", "ddpm", "lcm", "ipndm", "ipndm_v", "deis", "res_multistep", "res_multistep_cfg_pp",
    "res_multistep_ancestral", "res_multistep_ancestral_cfg_pp", "gradient_estimation", "gradient_estimation_cfg_pp", "er_sde",
    "seeds_2", "seeds_3", "sa_solver", "sa_solver_pece", "ddim", "uni_pc", "uni_pc_bh2",
)  # fmt: skip
"""ComfyUI 0.3.68, comfy/samplers.py, SAMPLER_NAMES."""
COMFYUI_LATER: Final = ("exp_heun_2_x0", "exp_heun_2_x0_sde")
"""Those of later versions."""
COMFYUI_SCHEDULES: Final = (
    "simple", "sgm_uniform", "karras", "exponential", "ddim_uniform", "beta", "normal", "linear_quadratic", "kl_optimal",
)  # fmt: skip
OF_DIFFUSERS: Final = ("PLMS",)
"""A1111 itself takes no schedule with it."""


@pytest.mark.parametrize("name", [*A1111, *FORGE, *COMFYUI, *COMFYUI_LATER])
def test_a_sampler_of_another_program_is_one_here_with_each_of_its_schedules(name: str) -> None:
    assert sampler_called(name) in SAMPLERS
    schedules = COMFYUI_SCHEDULES if name in (*COMFYUI, *COMFYUI_LATER) else A1111_SCHEDULES
    lacking = [way for way in schedules if sampler_called(f"{name} {way}") not in SAMPLERS]
    assert not lacking or name in OF_DIFFUSERS


@pytest.mark.parametrize(
    ("alias", "name"),
    [("k_euler_a", "Euler a"), ("k_dpmpp_2s_a", "DPM++ 2S a"), ("k_lms", "LMS"), ("k_dpmpp_2m Karras", "DPM++ 2M Karras")],
)
def test_an_alias_of_a1111_is_the_sampler(alias: str, name: str) -> None:
    assert sampler_called(alias) == name


@pytest.mark.parametrize("name", OF_A1111["samplers"])
def test_a_sampler_of_a1111_has_its_aliases_its_schedule_and_its_noise(name: str) -> None:
    known = OF_A1111["samplers"][name]
    assert {sampler_called(alias) for alias in known["aliases"]} == {sampler_called(name)}
    called, options = sampler_called(f"{name} Automatic") or "", known["options"]
    if "scheduler" in options:
        assert called.casefold() == f"{name} {options['scheduler']}".casefold()
    if options.get("uses_ensd") or options.get("brownian_noise"):
        assert name in SOLVER_OPTIONS["eta_ancestral"]


@pytest.mark.parametrize(("alias", "name"), OF_A1111["earlier"].items())
def test_an_alias_of_an_early_a1111_has_its_schedule(alias: str, name: str) -> None:
    assert sampler_called(alias) == name


def _count(names: tuple[str, ...]) -> int:
    return sum(sampler_called(name) in SAMPLERS for name in names)


if __name__ == "__main__":
    for title, names, schedules in (
        ("A1111", A1111, A1111_SCHEDULES),
        ("Forge's own", FORGE, ()),
        ("ComfyUI", COMFYUI, COMFYUI_SCHEDULES),
        ("later ComfyUI", COMFYUI_LATER, ()),
    ):
        there = sum(sampler_called(f"Euler {way}") in SAMPLERS for way in schedules)
        print(f"{title}: {_count(names)} of {len(names)} samplers, {there} of {len(schedules)} schedules")
