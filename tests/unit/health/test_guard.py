from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.words import CureKind, OnBlack
from halftone.health.guard import MAX_CURES, Where, next_action, next_plan, receipt_state

KINDS: tuple[CureKind, ...] = ("rescale", "setting", "upcast-region", "bfloat16", "float32-component", "float32-all")
policies = st.sampled_from(("recover", "quiet", "ask", "stop"))
places = st.sampled_from(("encode", "step", "decode"))
plans = st.lists(st.sampled_from(("none", *KINDS)), max_size=10)


@given(policies, places, plans, st.booleans(), st.booleans(), st.booleans())
def test_it_always_ends_and_never_repeats_a_failed_plan(
    policy: OnBlack, where: Where, available: list[CureKind], can_go_back: bool, bad: bool, approved: bool
) -> None:
    tried: list[CureKind] = []
    used: list[int] = []
    while True:
        action = next_action(policy, where, tried, available, can_go_back=can_go_back, bad_in_float32=bad, approved=approved)
        if action.kind != "cure":
            break
        assert action.index is not None
        assert action.cure is not None
        assert action.index not in used
        assert available[action.index] == action.cure
        used.append(action.index)
        tried.append(action.cure)
        assert len(tried) <= min(MAX_CURES, len(available))
    assert used == sorted(used)


@given(policies, places, plans)
def test_the_policy_is_honoured(policy: OnBlack, where: Where, available: list[CureKind]) -> None:
    action = next_action(policy, where, [], available)
    curable = any(kind != "none" for kind in available)
    expected = {"recover": "cure", "quiet": "cure", "ask": "ask", "stop": "stop"}[policy] if curable else "stop"
    assert action.kind == expected
    assert action.quiet == (action.kind == "cure" and policy == "quiet")


def test_words_of_the_action_say_where_it_happened() -> None:
    words = {where: next_action("recover", where, [], ["rescale"]).word for where in ("encode", "step", "decode")}
    assert words == {"encode": "encoded-again", "step": "went-back-one-step", "decode": "decoded-again"}


def test_bad_in_float32_is_not_cured() -> None:
    action = next_action("recover", "decode", [], KINDS, bad_in_float32=True)
    assert action.kind == "stop"
    assert "FP32" in action.reason


def test_without_a_sound_state_it_stops() -> None:
    assert next_action("recover", "step", [], KINDS, can_go_back=False).kind == "stop"


def test_once_approved_it_goes_on() -> None:
    assert next_action("ask", "decode", [], KINDS, approved=True).cure == "rescale"


def test_two_plans_of_a_kind_are_two_attempts() -> None:
    available: list[CureKind] = ["upcast-region", "upcast-region", "float32-all"]
    assert next_plan([], available) == 0
    assert next_plan(["upcast-region"], available) == 1
    assert next_plan(["upcast-region", "upcast-region"], available) == 2
    assert next_plan(["upcast-region", "upcast-region", "float32-all"], available) is None


def test_receipts() -> None:
    assert receipt_state(watched=True, recovered=False, asking=False, sound=True) == "clean"
    assert receipt_state(watched=True, recovered=True, asking=False, sound=True) == "recovered"
    assert receipt_state(watched=True, recovered=True, asking=False, sound=False) == "not-recovered"
    assert receipt_state(watched=False, recovered=False, asking=False, sound=True) == "unwatched"
    assert receipt_state(watched=True, recovered=False, asking=True, sound=False) == "asking"
