"""The solvers by the names that users know."""

from collections.abc import Callable
from functools import partial
from typing import Final

from torch import Tensor

from halftone.engine.sampling.adams_solvers import deis, ipndm_v, sa_solver, sa_solver_pece, twice, unipc
from halftone.engine.sampling.dpm_solvers import (
    ddim_cfg_pp,
    dpm_adaptive,
    dpm_fast,
    evenly_in_groups,
    exp_heun,
    exp_heun_sde,
    in_groups,
    without_end,
)
from halftone.engine.sampling.solvers import (
    Run,
    Solver,
    ancestral_middle_of_snr,
    ancestral_midpoint,
    at_churned,
    begin_and_end,
    cfg_pp,
    churned_and_end,
    ddpm,
    downwards,
    dpm2,
    dpm2_ancestral,
    dpm2_calls,
    dpmpp_2m,
    dpmpp_2m_sde,
    dpmpp_2s_ancestral,
    dpmpp_2s_ancestral_cfg_pp,
    dpmpp_3m_sde,
    dpmpp_sde,
    er_sde,
    euler,
    euler_ancestral,
    gradient_estimation,
    heun,
    heunpp2,
    ipndm,
    lcm,
    lms,
    middle_of_snr,
    res_multistep,
    restart,
    seeds,
    thirds_of_snr,
    up_to_three,
    with_restarts,
)

SOLVERS: Final[dict[str, Solver]] = {
    "Euler": Solver(euler, at_churned),
    "Euler a": Solver(euler_ancestral),
    "LMS": Solver(lms),
    "Heun": Solver(heun, churned_and_end),
    "Heun++ 2": Solver(heunpp2, up_to_three),
    "DPM2": Solver(dpm2, dpm2_calls, drops_penultimate=True),
    "DPM2 a": Solver(dpm2_ancestral, ancestral_midpoint, drops_penultimate=True),
    "DPM++ 2S a": Solver(dpmpp_2s_ancestral, ancestral_middle_of_snr),
    "DPM++ 2M": Solver(dpmpp_2m),
    "DPM++ SDE": Solver(dpmpp_sde, middle_of_snr, over_snr=True, brownian=True),
    "DPM++ 2M SDE": Solver(dpmpp_2m_sde, over_snr=True, brownian=True),
    "DPM++ 2M SDE Heun": Solver(partial(dpmpp_2m_sde, heun=True), over_snr=True, brownian=True),
    "DPM++ 3M SDE": Solver(dpmpp_3m_sde, drops_penultimate=True, over_snr=True, brownian=True),
    "DDPM": Solver(ddpm),
    "LCM": Solver(lcm),
    "IPNDM": Solver(ipndm),
    "RES multistep": Solver(res_multistep),
    "RES multistep a": Solver(partial(res_multistep, adds_noise=True)),
    "Gradient estimation": Solver(gradient_estimation),
    "ER SDE": Solver(er_sde, over_snr=True),
    "IPNDM_V": Solver(ipndm_v),
    "DEIS": Solver(deis),
    "UniPC": Solver(unipc, drops_penultimate=True),
    "UniPC BH2": Solver(partial(unipc, second=True), drops_penultimate=True),
    "SA-Solver": Solver(sa_solver, over_snr=True),
    "SA-Solver PECE": Solver(sa_solver_pece, twice, over_snr=True),
    "Restart": Solver(restart, downwards, with_restarts),
    "SEEDS 2": Solver(seeds, middle_of_snr, over_snr=True),
    "SEEDS 3": Solver(partial(seeds, calls=thirds_of_snr), thirds_of_snr, over_snr=True),
    "Exp Heun 2 x0": Solver(exp_heun, begin_and_end, over_snr=True),
    "Exp Heun 2 x0 SDE": Solver(exp_heun_sde, begin_and_end, over_snr=True),
    "DPM fast": Solver(dpm_fast, in_groups, evenly_in_groups),
    "DPM adaptive": Solver(dpm_adaptive, adaptive=True),
    "DDIM": Solver(euler),
    "DDIM CFG++": Solver(ddim_cfg_pp, path=without_end, cfg_pp=True, begins_at_one=True),
    "Euler CFG++": cfg_pp(euler),
    "Euler a CFG++": cfg_pp(euler_ancestral),
    "DPM++ 2S a CFG++": cfg_pp(dpmpp_2s_ancestral_cfg_pp, ancestral_middle_of_snr),
    "DPM++ 2M CFG++": cfg_pp(dpmpp_2m),
    "RES multistep CFG++": cfg_pp(res_multistep),
    "RES multistep a CFG++": cfg_pp(partial(res_multistep, adds_noise=True)),
    "Gradient estimation CFG++": cfg_pp(gradient_estimation),
}


Predict = Callable[[Tensor, float], Tensor]


def solve(solver: Solver, run: Run, x: Tensor, predict: Predict, unguided: Predict | None = None) -> Tensor:
    """Make all steps. predict: the picture that the network sees in latents at a sigma; unguided: for the negative prompt."""
    while solver.adaptive and not run.memory.get("finished"):
        x = solver.step(run, x, predict(x, run.memory.get("sigma", run.sigma)))
    for step in range(0 if solver.adaptive else len(run.sigmas) - 1):
        run.step = step
        for stage, sigma in enumerate(solver.calls(run)):
            run.stage = stage
            run.unguided = unguided(x, sigma) if unguided is not None and solver.cfg_pp else None
            x = solver.step(run, x, predict(x, sigma))
    return x
