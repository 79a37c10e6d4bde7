import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.facts import LayerPeak
from halftone.contract.vocabulary import FLOAT_LIMITS, DType
from halftone.health.planning.rescaling import (
    SMALLEST_PEAK,
    RescaleGroup,
    bits_over,
    choose_shifts,
    deviations,
    exponents,
    peaks_after,
)

LIMIT = FLOAT_LIMITS["float16"]
BOUND = LIMIT / 8


def group(name: str, *, wide: bool = False, grow: bool = True, shared: str | None = None) -> RescaleGroup:
    return RescaleGroup(
        component="vae",
        name=name,
        shrink=(f"{name}.a.weight", f"{name}.a.bias"),
        grow=(shared or f"{name}.b.weight",) if grow else (),
        modules=(f"{name}.a", f"{name}.act"),
        wide=wide,
    )


def layer(module: str, peak: float) -> LayerPeak:
    return LayerPeak(component="vae", module=module, kind="Conv2d", peak=peak)


def choose(
    groups: list[RescaleGroup], layers: list[LayerPeak], dtype: DType, tensors: dict[str, dict[str, float]] | None = None
) -> dict[str, dict[str, int]]:
    return exponents(groups, choose_shifts(groups, layers, dtype, tensors=tensors))


peaks = st.floats(min_value=0, max_value=1e9, allow_nan=False)
stored = st.floats(min_value=1e-6, max_value=1e3)


@st.composite
def models(draw: st.DrawFn) -> tuple[list[RescaleGroup], list[LayerPeak], dict[str, dict[str, float]]]:
    """Groups, some of them sharing the tensor they grow or the module they shrink, with peaks and stored values."""
    names = [f"g{i}" for i in range(draw(st.integers(1, 5)))]
    groups = [
        group(n, wide=draw(st.booleans()), grow=draw(st.booleans()), shared=draw(st.sampled_from([None, "g0.a.weight"])))
        for n in names
    ]
    layers = [layer(m, draw(peaks)) for g in groups for m in g.modules]
    tensors = {t: draw(stored) for g in groups for t in (*g.shrink, *g.grow)}
    return groups, layers, {"vae": tensors}


@given(peak=st.floats(min_value=1e-30, max_value=1e30), margin=st.floats(min_value=0, max_value=6))
def test_bits_over_is_the_smallest_shift_that_is_enough(peak: float, margin: float) -> None:
    k = bits_over(peak, LIMIT, margin)
    bound = LIMIT * 2.0**-margin
    assert peak * 2.0**-k <= bound
    assert k == 0 or peak * 2.0 ** (1 - k) > bound


@given(models())
def test_stored_values_stay_inside_the_format(
    model: tuple[list[RescaleGroup], list[LayerPeak], dict[str, dict[str, float]]],
) -> None:
    groups, layers, tensors = model
    found = choose(groups, layers, "float16", tensors=tensors)
    for name, exponent in found.get("vae", {}).items():
        before, after = tensors["vae"][name], tensors["vae"][name] * 2.0**exponent
        assert exponent != 0
        assert after <= LIMIT or exponent < 0
        if not name.endswith("bias") and before >= SMALLEST_PEAK["float16"]:
            assert after >= SMALLEST_PEAK["float16"] or exponent > 0


@given(models())
def test_groups_with_room_are_left_alone(
    model: tuple[list[RescaleGroup], list[LayerPeak], dict[str, dict[str, float]]],
) -> None:
    groups, layers, tensors = model
    shifts = choose_shifts(groups, layers, "float16", tensors=tensors)
    by_module = {found.module: found.peak for found in layers}
    for found, k in zip(groups, shifts, strict=True):
        assert k >= 0
        if all(by_module[m] <= BOUND for m in found.modules):
            assert k == 0


@given(st.lists(st.tuples(peaks, peaks), min_size=1, max_size=5))
def test_without_limits_on_stored_values_every_peak_gets_its_room_by_the_smallest_shift(
    pairs: list[tuple[float, float]],
) -> None:
    groups = [group(f"g{i}") for i in range(len(pairs))]
    layers = [layer(m, p) for g, pair in zip(groups, pairs, strict=True) for m, p in zip(g.modules, pair, strict=True)]
    shifts = choose_shifts(groups, layers, "float16")
    after = peaks_after(groups, shifts, layers)
    assert all(peak <= BOUND for peak in after.values())
    for pair, k in zip(pairs, shifts, strict=True):
        assert k == bits_over(max(pair), LIMIT, 3.0)


def _after(tensors: dict[str, dict[str, float]], found: dict[str, dict[str, int]]) -> dict[str, dict[str, float]]:
    return {c: {name: value * 2.0 ** found.get(c, {}).get(name, 0) for name, value in own.items()} for c, own in tensors.items()}


@given(models())
def test_a_group_that_moves_comes_below_the_limit_with_all_its_modules(
    model: tuple[list[RescaleGroup], list[LayerPeak], dict[str, dict[str, float]]],
) -> None:
    groups, layers, tensors = model
    shifts = choose_shifts(groups, layers, "float16", tensors=tensors)
    after = peaks_after(groups, shifts, layers)
    for found, k in zip(groups, shifts, strict=True):
        assert k == 0 or all(after["vae", module] <= LIMIT for module in found.modules)


@given(models())
def test_what_was_rescaled_needs_no_rescaling(
    model: tuple[list[RescaleGroup], list[LayerPeak], dict[str, dict[str, float]]],
) -> None:
    groups, layers, tensors = model
    shifts = choose_shifts(groups, layers, "float16", tensors=tensors)
    peaks = peaks_after(groups, shifts, layers)
    again = [layer(found.module, peaks["vae", found.module]) for found in layers]
    assert choose(groups, again, "float16", tensors=_after(tensors, exponents(groups, shifts))) == {}


@given(models())
def test_along_a_group_what_shrinks_and_what_grows_cancel(
    model: tuple[list[RescaleGroup], list[LayerPeak], dict[str, dict[str, float]]],
) -> None:
    """Each tensor carries the shifts of the groups that grow it, less those of the groups that shrink it."""
    groups, layers, tensors = model
    shifts = choose_shifts(groups, layers, "float16", tensors=tensors)
    found = exponents(groups, shifts).get("vae", {})
    pairs = list(zip(groups, shifts, strict=True))
    for tensor in tensors["vae"]:
        grown = sum(k for own, k in pairs if tensor in own.grow)
        shrunk = sum(k for own, k in pairs if tensor in own.shrink)
        assert found.get(tensor, 0) == grown - shrunk


def test_a_shift_that_cannot_reach_the_limit_is_not_made() -> None:
    tensors = {"vae": {"g.a.weight": 0.01, "g.b.weight": 1.0}}
    assert choose([group("g")], [layer("g.a", 1e9)], "float16", tensors=tensors) == {}


def test_a_shift_that_reaches_the_limit_but_not_the_margin_is_made_as_far_as_it_goes() -> None:
    tensors = {"vae": {"g.a.weight": 4 * SMALLEST_PEAK["float16"], "g.b.weight": 1.0}}
    found = choose([group("g")], [layer("g.a", LIMIT * 2)], "float16", tensors=tensors)
    assert found["vae"]["g.a.weight"] == -2


def test_a_tiny_bias_does_not_stop_a_group() -> None:
    tensors = {"vae": {"g.a.weight": 1.0, "g.a.bias": 1e-4, "g.b.weight": 1.0}}
    found = choose([group("g")], [layer("g.a", LIMIT * 2)], "float16", tensors=tensors)
    assert found == {"vae": {"g.a.weight": -4, "g.a.bias": -4, "g.b.weight": 4}}


def test_a_neighbour_that_moves_makes_room_for_one_that_could_not() -> None:
    """g1 grows the tensor that g0 shrinks, and comes first because the other is wide."""
    groups = [group("g0", wide=True), group("g1", shared="g0.a.weight")]
    tensors = {"vae": {"g0.a.weight": 1000.0, "g0.b.weight": 1e-3, "g1.a.weight": 100.0}}
    shifts = choose_shifts(groups, [layer("g0.a", LIMIT * 2**10), layer("g1.a", LIMIT * 2**10)], "float16", tensors=tensors)
    assert shifts == [13, 13]


def test_a_stored_value_above_the_limit_is_brought_to_it() -> None:
    tensors = {"vae": {"g.a.weight": 3 * LIMIT, "g.b.weight": 1.0}}
    found = choose([group("g")], [layer("g.a", 1.0)], "float16", tensors=tensors)
    assert found["vae"]["g.a.weight"] == -2


def test_exponents_of_a_tensor_in_two_groups_add_up_and_vanish_when_they_cancel() -> None:
    groups = [group("g0"), group("g1", shared="g0.a.weight")]
    assert exponents(groups, [2, 3])["vae"]["g0.a.weight"] == 1
    assert "g0.a.weight" not in exponents(groups, [2, 2])["vae"]


def test_epsilons_shrink_by_twice_as_much() -> None:
    """A variance is a square."""
    groups = [
        RescaleGroup("vae", "stream", ("conv.weight",), (), ("conv",), epsilons=("norm.eps",)),
        RescaleGroup("vae", "more", ("late.bias",), (), ("late",), epsilons=("norm.eps",)),
    ]
    assert exponents(groups, [3, 2]) == {"vae": {"conv.weight": -3, "norm.eps": -10, "late.bias": -2}}


def test_what_was_measured_of_each_group_adds_up() -> None:
    groups = [
        RescaleGroup("vae", "exact", ("a.weight",), (), ("a",)),
        RescaleGroup("vae", "near", ("b.weight",), (), ("b",), deviation=0.002),
        RescaleGroup("vae", "nearer", ("c.weight",), (), ("c",), deviation=0.001),
        RescaleGroup("unet", "unused", ("d.weight",), (), ("d",), deviation=0.5),
    ]
    assert deviations(groups, [4, 4, 4, 0]) == {"vae": pytest.approx(0.003)}
    assert deviations(groups, [4, 0, 0, 0]) == {}


def test_a_module_in_two_groups_is_shrunk_by_the_one_that_is_not_wide() -> None:
    streams = [
        RescaleGroup("vae", "stream", ("m.weight",), (), ("m",), wide=True),
        RescaleGroup("vae", "pair", ("m.weight",), ("n.weight",), ("m",)),
    ]
    assert choose_shifts(streams, [layer("m", LIMIT)], "float16") == [0, 3]


def test_what_is_not_finite_in_the_range_pass_is_no_matter_of_scale() -> None:
    assert choose([group("g")], [layer("g.a", math.inf), layer("g.act", math.nan)], "float16") == {}


def test_bfloat16_needs_nothing_for_what_float16_cannot_hold() -> None:
    assert choose([group("g")], [layer("g.a", 1e9)], "bfloat16") == {}
