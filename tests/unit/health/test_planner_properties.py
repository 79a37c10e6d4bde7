"""What holds of every plan, whatever the peaks, blocks and groups are."""

from dataclasses import dataclass
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.facts import LayerPeak
from halftone.contract.plan import Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import FLOAT_LIMITS, CureKind, DTypeState
from halftone.health.planning.planner import Region, candidate_plans
from halftone.health.planning.rescaling import RescaleGroup, TensorPeaks

LIMIT: Final = FLOAT_LIMITS["float16"]
COSTS: Final[tuple[CureKind, ...]] = ("rescale", "setting", "upcast-region", "bfloat16", "float32-component", "float32-all")
SIZES: Final = {"text_encoder": 10, "unet": 100, "vae": 20}


@dataclass(frozen=True)
class Model:
    """Blocks in a row, each with one module inside; every group shrinks a tensor of its own, so that its k can be read."""

    layers: tuple[LayerPeak, ...]
    regions: tuple[Region, ...]
    groups: tuple[RescaleGroup, ...]
    tensors: TensorPeaks
    bfloat16: DTypeState

    def plans(self, numerics: Numerics | None = None) -> list[tuple[CureKind, Plan]]:
        return candidate_plans(
            self.groups,
            self.layers,
            self.regions,
            SIZES,
            "float16",
            {"float16": "works", "bfloat16": self.bfloat16, "float32": "works"},
            numerics=numerics,
            tensors=self.tensors,
        )

    def over(self) -> list[LayerPeak]:
        return [layer for layer in self.layers if layer.peak > LIMIT]

    def peak_under(self, plan: Plan, layer: LayerPeak) -> float:
        own = plan.rescale.get(layer.component, {})
        moved = [g for g in self.groups if g.component == layer.component and layer.module in g.modules]
        return layer.peak * 2.0 ** sum(own.get(group.shrink[0], 0) for group in moved)


peaks = st.one_of(st.floats(0, 1e4), st.floats(LIMIT / 16, LIMIT * 64), st.floats(1e6, 1e12))
stored = st.one_of(st.none(), st.floats(1e-4, 1e3))


@st.composite
def models(draw: st.DrawFn) -> Model:
    layers: list[LayerPeak] = []
    regions: list[Region] = []
    groups: list[RescaleGroup] = []
    tensors: dict[str, dict[str, float]] = {}
    for component in SIZES:
        names = [f"b{index}" for index in range(draw(st.integers(1, 5)))]
        for index, name in enumerate(names):
            readers = tuple(draw(st.lists(st.sampled_from(names[index + 1 :]), max_size=2))) if names[index + 1 :] else ()
            regions.append(Region(component, name, (name,), draw(st.integers(0, 5)), readers=readers))
            inner = (f"{name}.conv", name)
            layers += [LayerPeak(component=component, module=module, kind="Block", peak=draw(peaks)) for module in inner]
        known = [layer.module for layer in layers if layer.component == component]
        for number in range(draw(st.integers(0, 4))):
            modules = tuple(draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True)))
            grow = (f"g{number}.grow",) if draw(st.booleans()) else ()
            groups.append(RescaleGroup(component, f"g{number}", (f"g{number}.shrink",), grow, modules, wide=draw(st.booleans())))
            for tensor in (f"g{number}.shrink", *grow):
                if (value := draw(stored)) is not None:
                    tensors.setdefault(component, {})[tensor] = value
    return Model(tuple(layers), tuple(regions), tuple(groups), tensors, draw(st.sampled_from(["works", "slow", "missing"])))


def block_of(layer: LayerPeak) -> str:
    return layer.module.partition(".")[0]


@given(models())
def test_no_plan_leaves_a_module_over_the_limit(model: Model) -> None:
    for kind, plan in model.plans():
        for layer in model.over():
            wider = plan.dtypes[layer.component] != "float16"
            inside = block_of(layer) in plan.upcast.get(layer.component, ())
            assert wider or inside or model.peak_under(plan, layer) <= LIMIT, (kind, layer)


@given(models())
def test_what_leaves_a_region_fits_into_the_narrow_type(model: Model) -> None:
    """A block whose output does not has all its readers inside as well."""
    for _, plan in model.plans():
        for component, chosen in plan.upcast.items():
            blocks = [region for region in model.regions if region.component == component]
            for block, following in zip(blocks, [*blocks[1:], None], strict=True):
                output = next(found for found in model.layers if (found.component, found.module) == (component, block.name))
                if block.name in chosen and model.peak_under(plan, output) > LIMIT:
                    assert following is None or following.name in chosen
                    assert set(block.readers) <= set(chosen)


@given(models())
def test_there_are_plans_exactly_where_something_is_over_and_they_come_cheapest_first(model: Model) -> None:
    plans = model.plans()
    assert bool(plans) == bool(model.over())
    ranks = [COSTS.index(kind) for kind, _ in plans]
    assert ranks == sorted(ranks)
    if plans:
        assert plans[-1][0] == "float32-all"
        assert plans[-1][1].dtypes == dict.fromkeys(SIZES, "float32")
    assert ("bfloat16" in {kind for kind, _ in plans}) == (bool(plans) and model.bfloat16 == "works")


@given(models())
def test_a_plan_touches_only_what_is_sick_and_counts_what_it_moves(model: Model) -> None:
    sick = {layer.component for layer in model.over()}
    sizes = {(region.component, region.name): region.parameters for region in model.regions}
    for kind, plan in model.plans():
        assert plan.total_parameters == sum(SIZES.values())
        assert plan.reasons
        assert set(plan.rescale) | set(plan.upcast) <= sick
        moved = {component for component, dtype in plan.dtypes.items() if dtype != "float16"}
        assert kind == "float32-all" or moved <= sick
        regions = sum(sizes[component, name] for component, names in plan.upcast.items() for name in names)
        assert plan.upcast_parameters == regions + sum(SIZES[component] for component in moved)


@given(models())
def test_never_for_the_vae_is_kept(model: Model) -> None:
    plans = model.plans(Numerics(vae_float32="never"))
    assert all(plan.dtypes["vae"] != "float32" for _, plan in plans)
    assert [pair for pair in model.plans() if pair[1].dtypes["vae"] != "float32"] == plans
