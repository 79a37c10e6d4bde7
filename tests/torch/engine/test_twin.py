"""Groups that were found in a tiny twin are those of the network, and count only after the real weights proved them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from diffusers import FluxTransformer2DModel
from tests.bench.families.remade import remade
from tests.bench.faults import architectures, videos
from tests.helpers import tiny
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import Recorder, check
from torch import nn

from halftone.contract.facts import CheckReport
from halftone.contract.messages import PhaseChanged
from halftone.engine.basics.runs import Runs
from halftone.engine.checks.fragile import exponents_up, scale_parameters
from halftone.engine.rescaling import learned
from halftone.engine.rescaling.flow import Flow
from halftone.engine.rescaling.flow_groups import group_at
from halftone.engine.rescaling.learned import learned_groups
from halftone.engine.rescaling.twin import Likeness, twins_of
from halftone.engine.service import DiffusersEngine
from halftone.health.planning.rescaling import RescaleGroup
from halftone.library.learned import FoundGroup, FoundGroups

pytestmark = pytest.mark.usefixtures("made_on_the_device")
DEPTH = 4


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def flux_inputs(config: Any) -> dict[str, Any]:
    rows = torch.arange(16.0)
    return {
        "hidden_states": numbers(1, 16, config.in_channels),
        "encoder_hidden_states": numbers(1, 7, config.joint_attention_dim),
        "pooled_projections": numbers(1, config.pooled_projection_dim),
        "timestep": torch.tensor([0.5]),
        "guidance": torch.tensor([3.5]),
        "img_ids": torch.stack([rows * 0, rows // 4, rows % 4], dim=1),
        "txt_ids": torch.zeros(7, 3),
    }


def sd3_inputs(config: Any) -> dict[str, Any]:
    return {
        "hidden_states": numbers(1, config.in_channels, 8, 8),
        "encoder_hidden_states": numbers(1, 7, config.joint_attention_dim),
        "pooled_projections": numbers(1, config.pooled_projection_dim),
        "timestep": torch.tensor([500.0]),
    }


def captioned(config: Any, **more: Any) -> dict[str, Any]:
    words = config.get("caption_channels") or config.get("text_dim") or config.get("cap_feat_dim")
    frames = (2,) if "text_dim" in config else ()
    return {
        "hidden_states": numbers(1, config.in_channels, *frames, 8, 8),
        "encoder_hidden_states": numbers(1, 7, words),
        "timestep": torch.tensor([500]),
        **more,
    }


FAMILIES: dict[str, tuple[Callable[[], Any], Callable[[Any], dict[str, Any]], tuple[str, ...]]] = {
    "FLUX": (architectures.flux, flux_inputs, ("x_embedder",)),
    "SD 3": (tiny.sd3, sd3_inputs, ("transformer_blocks.1",)),
    "Sana": (tiny.sana, captioned, ("transformer_blocks.3",)),
    "Wan": (videos.wan, captioned, ("blocks.3",)),
    "PixArt": (
        architectures.pixart,
        lambda config: captioned(config, added_cond_kwargs={"resolution": None, "aspect_ratio": None}),
        ("transformer_blocks.2.attn1.to_v",),
    ),
    "Lumina": (
        architectures.lumina2,
        lambda config: captioned(config, encoder_attention_mask=torch.ones(1, 7, dtype=torch.bool)),
        ("layers.2.attn.to_v",),
    ),
}


def network_of(family: str, depth: int = DEPTH) -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    """Of so many blocks of each kind, and what runs it."""
    build, inputs, _ = FAMILIES[family]
    torch.manual_seed(0)
    own = build().transformer
    deep = {name: depth for name in ("num_layers", "num_single_layers") if isinstance(own.config.get(name), int)}
    network = remade(own, **deep).to(DEVICE).eval()
    tiny.liven(network)
    given = inputs(network.config)

    def run(module: nn.Module) -> Any:
        with torch.no_grad():
            return module(**given, return_dict=False)

    return network, run


@pytest.mark.parametrize("family", FAMILIES)
def test_a_twin_of_two_blocks_tells_what_the_whole_network_does(family: str) -> None:
    network, run = network_of(family)
    twin = next(twins_of(Likeness(network)))
    assert sum(own.numel() for own in twin.parameters()) < sum(own.numel() for own in network.parameters())
    flow = Flow(network, lambda: run(network), Runs(10_000, lambda: None))
    for site in FAMILIES[family][2]:
        whole = group_at("transformer", flow, site)
        learned = learned_groups("transformer", network, [site], run, lambda: None, DEVICE)
        assert learned is not None
        if whole is None:
            assert learned == []
            continue
        (group,) = learned
        assert set(group.shrink) == set(whole.shrink), site
        assert set(group.grow) == set(whole.grow), site
        assert set(group.epsilons) == set(whole.epsilons), site
        assert flow.deviation(group, 6) is not None, "and holds for the real weights"


def test_streams_that_are_laid_side_by_side_are_found_with_one_block_of_each_kind() -> None:
    network, run = network_of("FLUX", depth=1)
    flow = Flow(network, lambda: run(network), Runs(100, lambda: None))
    group = group_at("transformer", flow, "x_embedder")
    assert group is not None
    block = "transformer_blocks.0"
    assert {f"{block}.ff.net.2.weight", f"{block}.ff_context.net.2.weight", "context_embedder.weight"} < set(group.shrink)


@pytest.fixture
def fragile(models: dict[str, Path], tmp_path: Path) -> Path:
    """A model whose transformer's residual stream is far too large; nothing knows its shape."""
    pipe = tiny.load_tiny(models["sana"])
    network = pipe.transformer
    given = captioned(network.config)

    def run(module: nn.Module) -> Any:
        with torch.no_grad():
            return module(**given, return_dict=False)

    found = learned_groups("transformer", network, ["transformer_blocks.0"], run, lambda: None, DEVICE)
    assert found
    scale_parameters(network, exponents_up(found[0], 18))
    pipe.save_pretrained(tmp_path / "sana")
    return tmp_path / "sana"


def attempts(events: Recorder) -> int:
    return max(event.done for event in events.of(PhaseChanged) if event.phase == "plan")


def stored(data: Path) -> Path:
    (file,) = (data / "data" / "architectures").glob("*.json")
    return file


def suggested(report: CheckReport) -> str:
    return next(cure.kind for cure in report.cures if cure.suggested)


def test_an_architecture_is_learned_once_and_never_trusted(engine: DiffusersEngine, fragile: Path, own_data: Path) -> None:
    stored(own_data).unlink()
    first, events = check(engine, fragile)
    assert (suggested(first), first.plan.verified) == ("rescale", True)
    learned = msgspec.json.decode(stored(own_data).read_bytes(), type=FoundGroups)
    again, fewer = check(engine, fragile)
    assert again.plan.rescale == first.plan.rescale
    assert attempts(fewer) < 4 < attempts(events), "what is left are the proofs with the real weights"
    part = {
        place: found and FoundGroup(shrink=found.shrink[:1], grow=found.grow, modules=found.modules, epsilons=found.epsilons)
        for place, found in learned.items()
    }
    stored(own_data).write_bytes(msgspec.json.encode(part))
    wrong, _ = check(engine, fragile)
    assert suggested(wrong) != "rescale"


# --- what is remembered -----------------------------------------------------------------------------------------------------


def learn(sites: Sequence[str], *, fits: bool = True) -> tuple[list[RescaleGroup] | None, int]:
    """Groups of the FLUX network, and how many runs the search began."""
    network, run = network_of("FLUX")
    begun: list[None] = []

    def inputs_of_another(_twin: nn.Module) -> Any:
        raise ValueError("these inputs do not fit")

    found = learned_groups("transformer", network, sites, run if fits else inputs_of_another, lambda: begun.append(None), DEVICE)
    return found, len(begun)


def test_a_better_search_looks_again_where_an_earlier_one_found_nothing(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = learn(["x_embedder"])
    assert found
    stored(own_data).write_bytes(msgspec.json.encode({"x_embedder": None}))
    assert learn(["x_embedder"]) == ([], 0), "the same search would find nothing again"
    monkeypatch.setattr(learned, "SEARCH", learned.SEARCH + 1)
    assert learn(["x_embedder"])[0] == found


@pytest.mark.parametrize("damaged", ["[0:inf]", "[a:b]", ".transformer_blocks.²", "transformer_blocks.99.attn.to_v"])
def test_a_damaged_group_is_looked_for_again(damaged: str, own_data: Path) -> None:
    found, _ = learn(["x_embedder"])
    sound = stored(own_data).read_bytes()
    remembered = msgspec.json.decode(sound, type=FoundGroups)
    (group,) = filter(None, remembered.values())
    name = damaged if damaged.startswith("t") else f"{group.shrink[0]}{damaged}"
    wrong = FoundGroup(shrink=(name, *group.shrink[1:]), grow=group.grow, modules=group.modules, epsilons=group.epsilons)
    stored(own_data).write_bytes(msgspec.json.encode(dict.fromkeys(remembered, wrong)))
    assert learn(["x_embedder"])[0] == found
    assert stored(own_data).read_bytes() == sound


def test_groups_found_before_remain_where_the_twin_does_not_run(own_data: Path) -> None:
    found, _ = learn(["x_embedder"])
    assert found
    other = next(name for name in ("context_embedder", "proj_out", "norm_out") if name not in found[0].modules)
    assert learn(["x_embedder", other], fits=False)[0] == found
    assert learn([other], fits=False)[0] is None


def test_what_was_found_is_written_once_at_the_end(own_data: Path) -> None:
    network, run = network_of("FLUX")
    sites = ["proj_out", "time_text_embed", "x_embedder"]
    folder = own_data / "data" / "architectures"
    seen: set[int] = set()

    def begins() -> None:
        seen.add(len(list(folder.glob("*"))))

    learned_groups("transformer", network, sites, run, begins, DEVICE)
    assert seen == {0}, "nothing is on disk while the search goes on"
    assert len(msgspec.json.decode(stored(own_data).read_bytes(), type=FoundGroups)) > 1
    before = stored(own_data).stat()
    learn(sites)
    assert stored(own_data).stat() == before, "nothing new was found"


def test_a_network_built_from_defaults_has_narrow_twins() -> None:
    with torch.device("meta"):
        network = FluxTransformer2DModel()
    twin: Any = next(twins_of(Likeness(network)), None)
    assert twin is not None
    assert twin.config["num_attention_heads"] < network.config["num_attention_heads"]
