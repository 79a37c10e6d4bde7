"""What goes bad between modules, where no module shows it: attention scores and products of gates, in every family's own code."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own documentation calls it
from tests.bench.faults.families import FAMILIES, Family, arguments
from tests.helpers.engine_runs import Recorder, Steady
from torch import nn
from torch.overrides import TorchFunctionMode

from halftone.contract.facts import CheckReport
from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Numerics
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.parts import components
from halftone.measure.probe import Probe

EXACT = ("sd2", "sdxl", "sd3", "pixart", "auraflow", "kandinsky3", "kandinsky22")
"""Nothing turns their queries and keys after the projections."""
TURNED = ("flux", "lumina2", "qwen-image", "cogview4", "z-image", "wan", "hunyuandit")
"""Rotary embeddings do: the figure is an estimate."""


class Truth(TorchFunctionMode):
    """Notes the largest score of every attention that torch computes, by component."""

    def __init__(self) -> None:
        super().__init__()
        self.now = ""
        self.peaks: dict[str, float] = {}

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        given = kwargs or {}
        if func is F.scaled_dot_product_attention:
            whole = dict(zip(("query", "key"), args, strict=False)) | given
            query, key, scale = whole["query"], whole["key"], whole.get("scale")
            key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
            scale = query.shape[-1] ** -0.5 if scale is None else scale
            peak = (query.float() @ key.float().transpose(-1, -2)).abs().max() * scale
            self.peaks[self.now] = max(self.peaks.get(self.now, 0.0), float(peak))
        return func(*args, **given)

    def follow(self, name: str, module: nn.Module) -> None:
        """Know when this component runs; a VAE's halves are called by themselves."""

        def enter(_module: nn.Module, _args: object) -> None:
            self.now = name

        for part in (module, *module.children()):
            part.register_forward_pre_hook(enter)


def scores(family: Family) -> tuple[dict[str, float], dict[str, float]]:
    """(largest score of each component by the watch, the same as torch computes it) of one picture of one step."""
    torch.manual_seed(0)
    pipe = family.build()
    pipe.set_progress_bar_config(disable=True)
    truth = Truth()
    networks = components(pipe)
    with ExitStack() as stack:
        probes = {name: stack.enter_context(Probe(network, name)) for name, network in networks.items()}
        for name, network in networks.items():
            truth.follow(name, network)
        stack.enter_context(torch.no_grad())
        stack.enter_context(quiet_libraries())
        stack.enter_context(truth)
        pipe(**arguments(family) | {"num_inference_steps": 1})
    found = {name: max((score.peak for score in probe.scores()), default=0.0) for name, probe in probes.items()}
    return found, truth.peaks


@pytest.mark.parametrize("name", [*EXACT, *TURNED])
def test_the_watch_sees_the_scores_that_attention_computes(name: str) -> None:
    found, truth = scores(FAMILIES[name])
    assert len(truth) >= 2
    near = 1e-4 if name in EXACT else 0.25
    assert {part: found[part] for part in truth} == {part: pytest.approx(peak, rel=near) for part, peak in truth.items()}


def longer(*names: str, rows: int | None = None) -> Callable[[Any], None]:
    """Makes what these parts of an attention give so long that only the product leaves FP16. rows: of their weights."""

    def plant(attention: Any) -> None:
        for name in names:
            weight = attention.get_submodule(name).weight[:rows]
            weight *= 2048 / weight.abs().max()

    return plant


def large_gate(mlp: Any) -> None:
    """Both factors of the gate fit into FP16 while their product does not."""
    mlp.gate_proj.weight *= 400 / mlp.gate_proj.weight.abs().max()
    mlp.up_proj.weight *= 400 / mlp.up_proj.weight.abs().max()


Plant = Callable[[Any], None]
SCORES: list[tuple[str, str, str, Plant]] = [
    ("sdxl", "text_encoder", "encoder.layers.1.self_attn", longer("q_proj", "k_proj")),
    ("sd3", "text_encoder_3", "encoder.block.0.layer.0.SelfAttention", longer("q", "k")),
    ("sd3", "transformer", "transformer_blocks.0.attn", longer("to_q", "add_k_proj")),
    ("flux", "transformer", "transformer_blocks.0.attn", longer("norm_q", "norm_added_k")),
    ("lumina2", "transformer", "layers.0.attn", longer("norm_q", "norm_k")),
    ("cogview4", "text_encoder", "layers.1.self_attn", longer("q_proj", "k_proj")),
    ("z-image", "text_encoder", "layers.1.self_attn", longer("q_norm", "k_norm")),
    ("hunyuandit", "text_encoder", "encoder.layer.1.attention.self", longer("query", "key")),
    ("wan", "vae", "decoder.mid_block.attentions.0", longer("to_qkv", rows=32)),
]


@pytest.fixture
def faulty(tmp_path: Path) -> Callable[[str, str, str, Plant], Path]:
    """Plants a fault into one part of a fresh model of a family, and saves it."""

    def make(family: str, component: str, module: str, plant: Plant) -> Path:
        torch.manual_seed(0)
        pipe = FAMILIES[family].build()
        with torch.no_grad():
            plant(getattr(pipe, component).get_submodule(module))
        pipe.save_pretrained(tmp_path / "model")
        return tmp_path / "model"

    return make


def examined(engine: DiffusersEngine, model: Path, family: str, **numerics: Any) -> CheckReport:
    wanted = arguments(FAMILIES[family])
    inputs = {name: wanted[name] for name in ("width", "height", "num_frames") if name in wanted}
    given = CheckInputs(**inputs, options=FAMILIES[family].options)
    command = Examine(job="c", model=str(model), numerics=Numerics(precision="float16", **numerics), inputs=given)
    return engine.examine(command, Recorder(), Steady())


@pytest.mark.parametrize(
    ("family", "component", "module", "plant"), SCORES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_scores_that_pass_the_limit_are_named_by_their_attention_and_cured(
    engine: DiffusersEngine,
    faulty: Callable[[str, str, str, Plant], Path],
    family: str,
    component: str,
    module: str,
    plant: Plant,
) -> None:
    """On a processor only the math backend with half-precision sums keeps scores in FP16; elsewhere more do."""
    model = faulty(family, component, module, plant)
    report = examined(engine, model, family, attention_backend="math", math_attention_reduction=True)
    first = next(finding for finding in report.findings if finding.code != "tight")
    assert (first.component, first.module, first.code) == (component, module, "attention-overflow")
    assert first.peak is not None
    assert first.peak > 65504
    assert report.verdict == "fixable"
    assert report.plan.verified
    assert report.plan.settings.get("math_attention_reduction") is False


def test_scores_that_are_capped_are_no_fault(engine: DiffusersEngine, faulty: Callable[[str, str, str, Plant], Path]) -> None:
    """Gemma bends its scores to at most 50: infinite ones, too."""
    model = faulty("sana", "text_encoder", "layers.0.self_attn", longer("q_proj", "k_proj"))
    assert not [finding for finding in examined(engine, model, "sana").findings if finding.code == "attention-overflow"]


def test_the_product_of_a_gate_is_named_by_its_feed_forward_and_cured(
    engine: DiffusersEngine, faulty: Callable[[str, str, str, Plant], Path]
) -> None:
    model = faulty("sana", "text_encoder", "layers.1.mlp", large_gate)
    report = examined(engine, model, "sana")
    first = next(finding for finding in report.findings if finding.code != "tight")
    assert (first.component, first.module, first.code) == ("text_encoder", "layers.1.mlp", "activation-overflow")
    assert first.peak is not None
    assert first.peak > 65504
    assert report.plan.verified
