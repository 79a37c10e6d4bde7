"""What a plan says of itself."""

import pytest

from halftone.contract.plan import (
    RESULT,
    Plan,
    handed_on,
    joined_deviation,
    joined_regions,
    rescaled_modules,
    result_of,
    stored_rescale,
)


@pytest.mark.parametrize(
    ("plan", "plain"),
    [
        (Plan(), True),
        (Plan(dtypes={"unet": "float16"}, total_parameters=7), True),
        (Plan(rescale={"vae": {"conv_in.weight": -4}}), False),
        (Plan(upcast={"vae": ("mid",)}), False),
        (Plan(settings={"attention_backend": "math"}), False),
        (Plan(upcast_parameters=3), False),
    ],
)
def test_a_plan_is_plain_when_it_applies_nothing(plan: Plan, *, plain: bool) -> None:
    assert plan.is_plain is plain


def test_rescaled_modules_stand_once_in_their_order() -> None:
    tensors = {"decoder.conv_in.weight": -4, "decoder.conv_in.bias": -4, "decoder.mid.norm.weight": 2}
    assert rescaled_modules(tensors) == ["decoder.conv_in", "decoder.mid.norm"]


def test_epsilons_are_no_layers_and_stand_in_no_file() -> None:
    rescale = {"vae": {"conv_in.weight": -4, "norm.eps": -8, "norm2.variance_epsilon": -8}}
    assert rescaled_modules(rescale["vae"]) == ["conv_in"]
    assert stored_rescale(rescale) == {"vae": {"conv_in.weight": -4}}


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (Plan(), Plan(rescale={"vae": {"a.weight": 1}}, deviation={}), {}),
        (Plan(), Plan(rescale={"vae": {"a.weight": 1}}, deviation={"vae": 0.1}), {"vae": 0.1}),
        (Plan(rescale={"vae": {"a.weight": 1}}, deviation={"vae": 0.2}), Plan(rescale={"vae": {}}, deviation={}), {}),
        (Plan(rescale={"unet": {"a.weight": 1}}, deviation={"unet": 0.2}), Plan(), {"unet": 0.2}),
        (Plan(rescale={"unet": {"a.weight": 1}}), Plan(rescale={"vae": {"a.weight": 1}}, deviation={}), None),
    ],
)
def test_deviations_of_two_plans(first: Plan, second: Plan, joined: dict[str, float] | None) -> None:
    assert joined_deviation(first, second) == joined


def test_what_is_known_of_a_rescaling() -> None:
    assert Plan().change is None, "a plan of an earlier version did not measure it"
    assert Plan(deviation={}).change == 0.0
    assert Plan(deviation={"vae": 0.1, "unet": 0.2}).change == 0.2
    assert Plan(deviation={"vae": 0.1, "unet": 0.2}).deviation_of("vae") == {"vae": 0.1}


def test_what_works_in_float32_and_what_only_hands_it_on_are_told_apart() -> None:
    plan = Plan(upcast={"unet": ("a", f"b{RESULT}", result_of("c", 4), f"a{RESULT}")})
    assert plan.wide_modules("unet") == ("a",)
    assert plan.wide_results("unet") == ("b", "a")
    assert plan.scaled_layers("unet") == {"c": 4}
    assert plan.upcast_modules("unet") == ("a", "b", "c")
    assert plan.scaled_layers("vae") == {}
    assert plan.upcast_modules("vae") == plan.wide_modules("vae") == plan.wide_results("vae") == ()


@pytest.mark.parametrize("k", [None, 0, 1, 99])
@pytest.mark.parametrize("module", ["", "a", "a.0.(result)x"])
def test_what_a_name_says_can_be_read_back(module: str, k: int | None) -> None:
    assert handed_on(module if k is None else result_of(module, k)) == (module, k)


def test_regions_of_two_plans_become_one() -> None:
    names = (
        "a",
        result_of("a", 3),
        result_of("b"),
        result_of("c", 2),
        result_of("b", 5),
        result_of("c", 1),
        result_of("d", 1),
        "d",
    )
    assert joined_regions(names) == ("a", result_of("b", 5), result_of("c", 2), "d")
