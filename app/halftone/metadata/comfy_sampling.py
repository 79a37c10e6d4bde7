"""Reads what one sampler of a ComfyUI graph says: its steps, its seed, the part of the way that it goes, and what it is given."""

from typing import Any, Final, NamedTuple

from halftone.contract.wording import Words
from halftone.metadata.comfy_graph import MOST, Graph, Node, NotPlainError, Place, inputs_of, kind_of

_ALL: Final = 10_000
"""More steps than there are: ComfyUI's own default for the end."""
_SCHEDULES: Final = {
    "BasicScheduler": "", "KarrasScheduler": "karras", "ExponentialScheduler": "exponential",
    "PolyexponentialScheduler": "polyexponential", "AlignYourStepsScheduler": "align_your_steps", "SDTurboScheduler": "turbo",
    "BetaSamplingScheduler": "beta", "LaplaceScheduler": "laplace", "VPScheduler": "vp", "GITSScheduler": "gits",
    "OptimalStepsScheduler": "optimal_steps", "Flux2Scheduler": "", "LTXVScheduler": "",
}  # fmt: skip
"""Kinds that make sigmas -> their name; "" where an input, or the model, says it."""
_RANGE: Final = {"sigma_max": "Schedule max sigma", "sigma_min": "Schedule min sigma", "rho": "Schedule rho"}
"""Inputs of such a node -> A1111's fields."""
_SAMPLERS: Final = {
    "SamplerEulerAncestral": "euler_ancestral", "SamplerEulerAncestralCFGPP": "euler_ancestral_cfg_pp",
    "SamplerEulerCFGpp": "euler_cfg_pp", "SamplerDPMPP_2S_Ancestral": "dpmpp_2s_ancestral", "SamplerDPMPP_SDE": "dpmpp_sde",
    "SamplerDPMPP_2M_SDE": "dpmpp_2m_sde", "SamplerDPMPP_3M_SDE": "dpmpp_3m_sde", "SamplerLMS": "lms",
    "SamplerDPMAdaptative": "dpm_adaptive", "SamplerER_SDE": "er_sde", "SamplerSASolver": "sa_solver",
}  # fmt: skip
_NOISE: Final = {"eta": "Eta", "s_noise": "Sigma noise"}
"""Inputs of such a node -> A1111's fields; 1 is usual."""
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "AlignYourStepsScheduler": {"model_type": "SD1"},
    "BetaSamplingScheduler": {"alpha": 0.6, "beta": 0.6},
    "LaplaceScheduler": {"mu": 0.0, "beta": 0.5},
    "VPScheduler": {"beta_d": 19.9, "beta_min": 0.1, "eps_s": 0.001},
    "SamplerDPMPP_SDE": {"r": 0.5},
    "SamplerLMS": {"order": 4},
    "SamplerDPMAdaptative": {
        "order": 3, "rtol": 0.05, "atol": 0.0078, "h_init": 0.05, "pcoeff": 0.0, "icoeff": 1.0, "dcoeff": 0.0,
        "accept_safety": 0.81,
    },
    "SamplerER_SDE": {"max_stage": 3},
    "SamplerSASolver": {
        "sde_start_percent": 0.2, "sde_end_percent": 0.8, "predictor_order": 3, "corrector_order": 4, "simple_order_2": False,
    },
}  # fmt: skip
"""Kinds -> inputs without a field of A1111, with ComfyUI's defaults. A node with another value is named."""
_VARIANTS: Final = {
    "SamplerDPMPP_2M_SDE": ("solver_type", "heun", "dpmpp_2m_sde_heun"),
    "SamplerSASolver": ("use_pece", True, "sa_solver_pece"),
}
"""Kinds -> an input, the value of it that makes another sampler, and that one's name."""
_GUIDERS: Final = ("CFGGuider", "BasicGuider")
_POSITIVE: Final = ("positive", "conditioning", "cond1")
_STRENGTHS: Final = ("cfg", "cfg_conds")


class Sampling(NamedTuple):
    """What one sampler says, and what it is given. span: the shares of the way at which it begins and ends."""

    fields: dict[str, Any]
    model: Node
    positive: Place
    negative: Place | None
    latent: Node | None
    denoise: float | None
    span: tuple[float, float]


class _Schedule(NamedTuple):
    """model: whose sigmas they are, where the schedule is given one of its own."""

    fields: dict[str, Any]
    denoise: float | None
    span: tuple[float, float]
    model: Node | None = None


def sampling_of(graph: Graph, node: Node) -> Sampling:
    """Read one sampler. Raises NotPlainError."""
    if kind_of(node) in ("KSampler", "KSamplerAdvanced", "KSampler (Efficient)"):
        return _plain(graph, node)
    schedule = _schedule(graph, graph.needed_place(node, "sigmas"))
    fields = schedule.fields | _sampler(graph, graph.needed(node, "sampler"))
    guider = node if kind_of(node) == "SamplerCustom" else graph.needed(node, "guider")
    source = node if guider is node else graph.needed(node, "noise")
    if guider is not node and kind_of(guider) not in _GUIDERS:
        graph.note(guider)
    fields["CFG scale"] = next((graph.known(guider, name) for name in _STRENGTHS if name in inputs_of(guider)), 1)
    own = schedule.model
    if own is not None and kind_of(own).startswith("ModelSampling") and own is not graph.needed(guider, "model"):
        graph.note(own)  # it moves the sigmas alone
    if kind_of(source) == "DisableNoise":
        graph.note(source)
    else:
        fields["Seed"] = graph.known(source, "noise_seed")
    return _given(graph, node, guider, schedule._replace(fields=fields))


def _plain(graph: Graph, node: Node) -> Sampling:
    advanced = kind_of(node) == "KSamplerAdvanced"
    steps = graph.known(node, "steps")
    fields = {
        "Steps": steps,
        "Sampler": graph.text(node, "sampler_name"),
        "Schedule type": graph.text(node, "scheduler"),
        "CFG scale": graph.known(node, "cfg"),
        "Seed": graph.known(node, "noise_seed" if advanced else "seed"),
    }
    if not advanced:
        return _given(graph, node, node, _Schedule(fields, graph.known(node, "denoise", 1), (0, 1)))
    start, end = graph.number(node, "start_at_step", 0), graph.number(node, "end_at_step", _ALL)
    span = (min(start / steps, 1), min(end / steps, 1)) if steps else (0, 1)
    return _given(graph, node, node, _Schedule(fields, round(1 - span[0], 6), span))


def _given(graph: Graph, node: Node, guider: Node, said: _Schedule) -> Sampling:
    positive = next((found for name in _POSITIVE if (found := graph.place(guider, name)) is not None), None)
    return Sampling(
        said.fields,
        graph.needed(guider, "model"),
        positive or graph.needed_place(guider, "positive"),
        graph.place(guider, "negative"),
        graph.behind(node, "latent_image"),
        said.denoise,
        said.span,
    )


def _schedule(graph: Graph, place: Place) -> _Schedule:
    """Read the nodes that make sigmas, and those that take a part of them."""
    parts: list[Place] = []
    node = place.node
    for _ in range(MOST):
        if kind_of(node) in _SCHEDULES:
            break
        if kind_of(node) in ("SplitSigmas", "SplitSigmasDenoise"):
            parts.append(place)
        else:
            graph.note(node)
        behind = graph.place(node, "sigmas")
        if behind is None:
            raise NotPlainError(Words("it has the node {0}", (kind_of(node),)))
        place, node = behind, behind.node
    _note_others(graph, node)
    name = _SCHEDULES.get(kind_of(node), "")
    steps = graph.known(node, "steps")
    fields = {
        "Steps": steps,
        "Schedule type": name or (graph.text(node, "scheduler") if "scheduler" in inputs_of(node) else None),
    }
    fields |= {ours: graph.number(node, theirs) for theirs, ours in _RANGE.items() if theirs in inputs_of(node)}
    denoise = graph.known(node, "denoise", 1)
    begin, end = 0.0, 1.0
    for part in reversed(parts):
        cut = _cut(graph, part.node, steps or 0)
        at = begin + (end - begin) * cut
        begin, end = (begin, at) if part.slot == 0 else (at, end)
    last = None if denoise is None else round(denoise * (1 - begin), 6)
    return _Schedule(fields, last, (begin, end), graph.behind(node, "model"))


def _cut(graph: Graph, node: Node, steps: int | float) -> float:
    """The share of the sigmas that the first part has."""
    if kind_of(node) == "SplitSigmas":
        return min(graph.number(node, "step", 0) / steps, 1) if steps else 0
    return 1 - min(graph.number(node, "denoise", 1), 1)


def _sampler(graph: Graph, node: Node) -> dict[str, Any]:
    """The name, and the noise of samplers that have nodes of their own."""
    if kind_of(node) == "KSamplerSelect":
        return {"Sampler": graph.text(node, "sampler_name")}
    if kind_of(node) not in _SAMPLERS:
        raise NotPlainError(Words("it has the node {0}", (kind_of(node),)))
    _note_others(graph, node)
    name = _SAMPLERS[kind_of(node)]
    given, value, other = _VARIANTS.get(kind_of(node), ("", None, ""))
    if given and graph.value(node, given) == value:
        name = other
    if graph.value(node, "noise_device") == "gpu":
        name += "_gpu"
    noise = {ours: graph.number(node, theirs, 1) for theirs, ours in _NOISE.items()}
    return {"Sampler": name} | {ours: number for ours, number in noise.items() if number != 1}


def _note_others(graph: Graph, node: Node) -> None:
    """Note a node that has a value which no field takes, unless it is the default."""
    usual = _DEFAULTS.get(kind_of(node), {})
    if any(name in inputs_of(node) and graph.value(node, name) != default for name, default in usual.items()):
        graph.note(node)
