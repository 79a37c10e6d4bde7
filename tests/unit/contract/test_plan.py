"""What a plan says of itself."""

import pytest

from halftone.contract.plan import RESULT, Plan, handed_on, joined_regions, rescaled_modules, result_of


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
