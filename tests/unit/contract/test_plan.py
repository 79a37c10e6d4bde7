"""What a plan says of itself."""

import pytest

from halftone.contract.plan import RESULT, Plan, rescaled_modules


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
    plan = Plan(upcast={"unet": ("a", f"b{RESULT}", f"a{RESULT}")})
    assert plan.wide_modules("unet") == ("a",)
    assert plan.wide_results("unet") == ("b", "a")
    assert plan.upcast_modules("unet") == ("a", "b")
    assert plan.upcast_modules("vae") == plan.wide_modules("vae") == plan.wide_results("vae") == ()
