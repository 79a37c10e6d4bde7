import dataclasses
from dataclasses import dataclass, field

import msgspec
import pytest

from halftone.contract.facts import Finding, LayerPeak
from halftone.contract.plan import RESULT, Plan, result_of
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import CureKind, DType, DTypeState, FindingCode
from halftone.health.planning.planner import Region, candidate_plans, with_layers
from halftone.health.planning.rescaling import RescaleGroup

BLOCKS = tuple(Region("vae", name, (name,), 100) for name in ("conv_in", "mid", "up0", "up1", "conv_out"))
COMPONENTS = {"text_encoder": 1000, "unet": 8000, "vae": 1000}
ALL_WORK: dict[DType, DTypeState] = {"float16": "works", "bfloat16": "works", "float32": "works"}
STREAM = RescaleGroup("vae", "stream", ("up0.weight",), (), ("mid", "up0"), wide=True)


@dataclass
class Setup:
    layers: dict[str, float]
    groups: tuple[RescaleGroup, ...] = ()
    findings: tuple[Finding, ...] = ()
    numerics: Numerics = field(default_factory=Numerics)
    states: dict[DType, DTypeState] = field(default_factory=lambda: dict(ALL_WORK))
    dtype: DType = "float16"
    regions: tuple[Region, ...] = BLOCKS

    def plans(self) -> list[tuple[CureKind, Plan]]:
        layers = [LayerPeak(component="vae", module=m, kind="Block", peak=p) for m, p in self.layers.items()]
        return candidate_plans(
            self.groups, layers, self.regions, COMPONENTS, self.dtype, self.states,
            findings=self.findings, numerics=self.numerics,
        )  # fmt: skip

    def kinds(self) -> list[CureKind]:
        return [kind for kind, _ in self.plans()]


def finding(code: FindingCode, module: str = "mid", component: str = "vae") -> Finding:
    return Finding(code=code, component=component, module=module, dtype="float16", peak=None, limit=None)


HEALTHY = {"conv_in": 5.0, "mid": 9.0, "up0": 100.0, "up1": 3.0, "conv_out": 1.0}
HOT = {**HEALTHY, "mid": 9e4, "up0": 2e5}


def test_a_healthy_model_needs_no_plan() -> None:
    assert Setup(HEALTHY).plans() == []


def test_cures_come_cheapest_first() -> None:
    assert Setup(HOT, groups=(STREAM,)).kinds() == [
        "rescale", "upcast-region", "bfloat16", "float32-component", "float32-all",
    ]  # fmt: skip


def test_a_rescaling_brings_all_modules_of_the_group_under_the_margin() -> None:
    kind, plan = Setup(HOT, groups=(STREAM,)).plans()[0]
    assert kind == "rescale"
    assert plan.rescale == {"vae": {"up0.weight": -5}}
    assert plan.upcast_parameters == 0
    assert plan.total_parameters == 10_000
    assert "VAE decoder" in str(plan.reasons[0])


@pytest.mark.parametrize(
    ("deviation", "said"),
    [
        (0.0, "exact but for rounding."),
        (0.0031, "not exact, the result changed by up to 0.31\u00a0%."),
    ],
)
def test_a_reason_says_whether_a_rescaling_is_exact(deviation: float, said: str) -> None:
    group = dataclasses.replace(STREAM, deviation=deviation)
    plan = Setup(HOT, groups=(group,)).plans()[0][1]
    assert str(plan.reasons[0]).endswith(f"1 layer rescaled, up to 2^5; {said}")
    assert plan.deviation == ({"vae": deviation} if deviation else {})
    assert plan.change == deviation


def test_a_rescaling_that_leaves_something_over_is_joined_with_a_region() -> None:
    plans = Setup({**HOT, "conv_out": 1e5}, groups=(STREAM,)).plans()
    assert [kind for kind, _ in plans][:2] == ["upcast-region", "upcast-region"]
    assert plans[0][1].rescale
    assert plans[0][1].upcast == {"vae": ("conv_out",)}
    assert not plans[1][1].rescale


def test_a_region_reaches_from_an_offset_to_the_norm_that_takes_it_off() -> None:
    """In between the type has no bits for what the offset swallows, though no value passes its limit."""
    found = msgspec.structs.replace(finding("flat-output", "mid"), facts={"shows": "up1"})
    kind, plan = Setup(HEALTHY, findings=(found,)).plans()[0]
    assert (kind, plan.upcast) == ("upcast-region", {"vae": ("mid", "up0", "up1")})
    alone = Setup(HEALTHY, findings=(finding("flat-output", "mid"),)).plans()[0][1]
    assert alone.upcast == {"vae": ("mid",)}


def test_a_region_reaches_until_the_stream_is_back_in_range() -> None:
    plan = Setup(HOT).plans()[0][1]
    assert plan.upcast == {"vae": ("mid", "up0", "up1")}
    assert plan.upcast_parameters == 300


def test_a_region_holds_the_readers_of_a_skip_connection() -> None:
    regions = tuple(Region("vae", r.name, r.modules, 100, readers=("conv_out",) if r.name == "mid" else ()) for r in BLOCKS)
    plan = Setup({**HEALTHY, "mid": 9e4}, regions=regions).plans()[0][1]
    assert plan.upcast == {"vae": ("mid", "up0", "conv_out")}


def test_overflow_inside_a_block_keeps_the_region_to_that_block() -> None:
    assert Setup({**HEALTHY, "up0.conv1": 1e6}).plans()[0][1].upcast == {"vae": ("up0",)}


def test_containers_of_blocks_do_not_stop_a_region() -> None:
    regions = (Region("vae", "decoder.up0", ("decoder.up0",), 10), Region("vae", "decoder.out", ("decoder.out",), 10))
    plan = Setup({"decoder.up0": 1e6, "decoder.out": 1.0, "decoder": 1e6, "": 1e6}, regions=regions).plans()[0][1]
    assert plan.upcast == {"vae": ("decoder.up0", "decoder.out")}


def test_without_a_block_around_the_module_the_whole_component_moves() -> None:
    assert Setup({"elsewhere": 1e6}).kinds() == ["bfloat16", "float32-component", "float32-all"]


@pytest.mark.parametrize("state", ["missing", "wrong", "slow"])
def test_bfloat16_is_offered_only_where_the_device_really_has_it(state: DTypeState) -> None:
    assert "bfloat16" not in Setup(HOT, states={**ALL_WORK, "bfloat16": state}).kinds()


def test_only_the_sick_component_moves() -> None:
    plans = dict(Setup(HOT).plans())
    assert plans["float32-component"].dtypes == {"text_encoder": "float16", "unet": "float16", "vae": "float32"}
    assert plans["float32-component"].upcast_parameters == 1000
    assert plans["float32-all"].upcast_parameters == 10_000


def test_attention_overflow_is_cured_by_a_setting() -> None:
    plans = Setup(HEALTHY, findings=(finding("attention-overflow"),)).plans()
    assert plans[0][0] == "setting"
    assert plans[0][1].settings == {"upcast_cross_attention": "always"}


@pytest.mark.parametrize(
    ("numerics", "settings"),
    [
        (Numerics(math_attention_reduction=True), {"math_attention_reduction": False}),
        (Numerics(attention_backend="math"), {"attention_backend": "auto"}),
        (Numerics(upcast_cross_attention="always"), None),
    ],
)
def test_the_setting_that_made_the_trouble_is_taken_back_first(numerics: Numerics, settings: dict[str, object] | None) -> None:
    kind, plan = Setup(HEALTHY, findings=(finding("attention-overflow"),), numerics=numerics).plans()[0]
    if settings is None:
        assert kind == "upcast-region"
        assert plan.upcast == {"vae": ("mid",)}
    else:
        assert plan.settings == settings


def test_accumulation_overflow_turns_half_precision_sums_off() -> None:
    numerics = Numerics(fp16_accumulation=True, fp16_reduction=True)
    plan = Setup(HEALTHY, findings=(finding("accumulation-overflow"),), numerics=numerics).plans()[0][1]
    assert plan.settings == {"fp16_accumulation": False, "fp16_reduction": False}


def test_a_rescaling_and_a_setting_go_together() -> None:
    plans = Setup(HOT, groups=(STREAM,), findings=(finding("attention-overflow"),)).plans()
    assert plans[0][0] == "rescale"
    assert plans[0][1].rescale
    assert plans[0][1].settings


def test_a_finite_fault_moves_the_block_that_carries_it() -> None:
    assert Setup(HEALTHY, findings=(finding("underflow", "up1.conv"),)).plans()[0][1].upcast == {"vae": ("up1",)}


def test_bad_weights_that_are_read_have_no_cure() -> None:
    assert Setup(HOT, findings=(finding("weights-nonfinite"),)).plans() == []


def test_bad_numbers_in_the_range_pass_have_no_cure() -> None:
    assert Setup({**HOT, "mid": float("nan")}).plans() == []


def test_a_faulty_device_is_answered_by_another_precision_only() -> None:
    plans = Setup(HEALTHY, groups=(STREAM,), findings=(finding("device-fault", "", ""),)).plans()
    assert [kind for kind, _ in plans] == ["bfloat16", "float32-all"]
    assert plans[0][1].dtypes == dict.fromkeys(COMPONENTS, "bfloat16")


def test_tight_layers_alone_need_no_plan_but_widen_a_region() -> None:
    assert Setup({**HEALTHY, "up1": 4e4}).plans() == []
    plans = Setup({**HOT, "conv_in": 4e4}).plans()
    regions = [plan.upcast["vae"] for kind, plan in plans if kind == "upcast-region"]
    assert regions == [("mid", "up0", "up1"), ("conv_in", "mid", "up0", "up1")]


def test_plans_are_not_offered_twice() -> None:
    plans = Setup(HOT).plans()
    assert len(plans) == len({repr(plan) for _, plan in plans})


def test_float32_has_no_wider_type_to_go_to() -> None:
    assert Setup({**HEALTHY, "mid": 9e37}, dtype="float32", findings=(finding("flat-output"),)).plans() == []


def test_never_for_the_vae_leaves_its_whole_float32_out_and_nothing_else() -> None:
    numerics = Numerics(vae_float32="never")
    assert Setup(HOT, groups=(STREAM,), numerics=numerics).kinds() == ["rescale", "upcast-region", "bfloat16"]


def test_never_for_cross_attention_is_not_answered_by_upcasting_it() -> None:
    attention = (finding("attention-overflow"),)
    asked = Setup(HEALTHY, findings=attention, numerics=Numerics(upcast_cross_attention="never"))
    assert all("upcast_cross_attention" not in plan.settings for _, plan in asked.plans())
    needed = Setup(HEALTHY, findings=attention)
    assert any(plan.settings.get("upcast_cross_attention") == "always" for _, plan in needed.plans())


def test_verbs_agree_with_what_they_are_said_of() -> None:
    def reasons(setup: Setup) -> str:
        return " ".join(str(reason) for _, plan in setup.plans() for reason in plan.reasons)

    one = reasons(Setup(HOT, groups=(STREAM,)))
    assert "1 layer rescaled" in one
    assert "VAE decoder runs in FP32." in one
    both = tuple(finding("activation-overflow", "mid", name) for name in ("text_encoder", "vae"))
    assert "Text encoder and VAE decoder run in FP32." in reasons(Setup(HEALTHY, findings=both))
    alone = reasons(Setup({**HEALTHY, "conv_out": 1e5}))
    assert "conv_out runs in FP32 until" in alone


def test_layers_and_results_take_the_place_of_the_reason_for_blocks() -> None:
    mid = {"unet": ("mid",)}
    plan = with_layers(Plan(dtypes={"unet": "float16"}), mid, 9, {"unet": 100}, "float16")
    assert list(map(str, plan.reasons)) == [
        "mid runs in FP32 until values are back in range; 91\u00a0% of the model stays in FP16."
    ]
    found = with_layers(plan, {"unet": ("a", f"b{RESULT}", f"c{RESULT}")}, 5, {"unet": 100}, "float16")
    assert (found.upcast_parameters, found.upcast["unet"]) == (5, ("a", f"b{RESULT}", f"c{RESULT}"))
    assert list(map(str, found.reasons)) == [
        "a runs in FP32 until values are back in range; 95\u00a0% of the model stays in FP16.",
        "Results of b and c stay in FP32.",
    ]
    again = with_layers(found, {"unet": (f"b{RESULT}",)}, 0, {"unet": 100}, "float16")
    assert list(map(str, again.reasons)) == ["Results of b stay in FP32."]
    scaled = with_layers(again, {"unet": (f"b{RESULT}", result_of("c", 3))}, 0, {"unet": 100}, "float16")
    assert list(map(str, scaled.reasons)) == [
        "Inputs of c are scaled by powers of two; results stay in FP32.",
        "Results of b stay in FP32.",
    ]
    assert with_layers(scaled, {"unet": (f"b{RESULT}",)}, 0, {"unet": 100}, "float16").reasons == again.reasons
