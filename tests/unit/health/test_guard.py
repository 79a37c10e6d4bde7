import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.vocabulary import CureKind, OnBlack
from halftone.health.planning.recovery_policy import Where, next_action

KINDS: tuple[CureKind, ...] = ("rescale", "setting", "upcast-region", "bfloat16", "float32-component", "float32-all")
policies = st.sampled_from(("recover", "quiet", "ask", "stop"))
places = st.sampled_from(("encode", "step", "decode"))
plans = st.lists(st.sampled_from(("none", *KINDS)), max_size=10)


@given(policies, places, plans)
def test_the_policy_is_honoured(policy: OnBlack, where: Where, available: list[CureKind]) -> None:
    action = next_action(policy, where, available)
    curable = any(kind != "none" for kind in available)
    expected = {"recover": "cure", "quiet": "cure", "ask": "ask", "stop": "stop"}[policy] if curable else "stop"
    assert action.kind == expected
    assert action.reason.endswith(".")


def test_words_of_the_action_say_where_it_happened() -> None:
    words = {where: next_action("recover", where, ["rescale"]).word for where in ("encode", "step", "decode")}
    assert words == {"encode": "encoded-again", "step": "went-back-one-step", "decode": "decoded-again"}


@given(policies, places, plans)
def test_bad_in_float32_is_not_cured(policy: OnBlack, where: Where, available: list[CureKind]) -> None:
    assert next_action(policy, where, available, bad_in_float32=True).kind == "stop"
    assert "FP32" in next_action("recover", where, available, bad_in_float32=True).reason


@given(st.sampled_from(("recover", "quiet")), places, plans)
def test_a_cure_that_failed_is_never_named_again(policy: OnBlack, where: Where, available: list[CureKind]) -> None:
    """Cures that fail one after the other are struck off; each is named once, in their order, and then it ends."""
    left: list[CureKind] = list(dict.fromkeys(available))
    named: list[str] = []
    while (action := next_action(policy, where, left)).kind == "cure":
        kind = action.reason.removeprefix("The cheapest cure: ").removesuffix(".")
        named.append(kind)
        left = [other for other in left if other != kind]
    assert named == [kind for kind in dict.fromkeys(available) if kind != "none"]
    assert (action.kind, action.why) == ("stop", "no-cure")


@pytest.mark.parametrize(
    ("policy", "available", "bad", "why"),
    [
        ("stop", KINDS, False, "setting"),
        ("recover", KINDS, True, "float32"),
        ("recover", (), False, "no-cure"),
        ("ask", KINDS, False, ""),
        ("recover", KINDS, False, ""),
    ],
)
def test_a_stop_names_its_reason(policy: OnBlack, available: tuple[CureKind, ...], bad: bool, why: str) -> None:
    assert next_action(policy, "decode", available, bad_in_float32=bad).why == why
