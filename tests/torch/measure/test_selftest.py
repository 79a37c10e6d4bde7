import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import torch

from halftone.contract.errors import JobCancelled
from halftone.contract.facts import DeviceFacts, OperationResult, SelfTestReport, SpeedResult
from halftone.contract.request import Numerics
from halftone.contract.wording import Words
from halftone.measure import cases as table
from halftone.measure.cases import Case, cases_for, tolerance
from halftone.measure.denoiser import STEPS, Sizes, operations, step_of
from halftone.measure.devices import find_device
from halftone.measure.effects import measure_effects
from halftone.measure.modes import MODES, in_turns, modes_for, seconds_of, switched
from halftone.measure.selftest import check_casting, compare, judge_dtype, rounded, run_case, run_self_test

MODE = {mode.name: mode for mode in MODES}
CPU = find_device("cpu")


def result(outcome: str = "right", *, mode: str = "float16", operation: str = "matmul", size: str = "2 × 2") -> OperationResult:
    return OperationResult(
        mode=mode, operation=operation, size=Words(size), outcome=outcome, expected=1.0, got=1.0, error=0.0, tolerance=0.1,
        seconds=0.1,
    )  # fmt: skip


def speed(mode: str, seconds: float, operation: str = "matmul") -> SpeedResult:
    return SpeedResult(mode=mode, operation=operation, tflops=1.0, seconds=seconds)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture(scope="module")
def report() -> tuple[SelfTestReport, list[tuple[OperationResult, int, int]]]:
    seen: list[tuple[OperationResult, int, int]] = []
    found = run_self_test(CPU, lambda *one: seen.append(one), lambda: None)
    return found, seen


def test_the_processor_is_measured_in_full(report: tuple[SelfTestReport, list[tuple[OperationResult, int, int]]]) -> None:
    found, seen = report
    assert [d.dtype for d in found.dtypes] == ["float16", "bfloat16", "float32"]
    assert found.dtypes[2].state == "works"
    assert found.auto in ("float16", "bfloat16", "float32")
    assert str(found.auto_reason).endswith(".")
    assert [done for _, done, _ in seen] == list(range(1, len(found.tests) + 1))
    assert {total for _, _, total in seen} == {len(found.tests)}
    assert {t.mode for t in found.tests} == {"float32", "float16", "bfloat16"}
    assert {b.mode for b in found.bits} == {"float32", "float16", "bfloat16"}
    assert {s.operation for s in found.speeds} == {"unet-step", "transformer-step"}, "what is judged is also shown"
    for judged in found.dtypes:
        own = [t for t in found.tests if t.mode == judged.dtype]
        assert f"{len(own)} tests passed" in str(judged.reason), "as many as the window shows"


def test_all_numbers_in_the_report_are_finite(report: tuple[SelfTestReport, list[tuple[OperationResult, int, int]]]) -> None:
    text = msgspec.json.encode(report[0]).decode()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert msgspec.json.decode(text, type=SelfTestReport) == report[0]


def test_every_setting_has_an_effect_or_a_reason(
    report: tuple[SelfTestReport, list[tuple[OperationResult, int, int]]],
) -> None:
    effects = report[0].effects
    assert {e.setting for e in effects} == set(Numerics.__struct_fields__)
    assert len({(e.setting, e.value, e.dtype) for e in effects}) == len(effects)
    for effect in effects:
        assert (effect.note is None) == (effect.time_ratio is not None)
        assert effect.time_ratio is None or effect.time_ratio > 0
    notes = {(e.setting, str(e.note)) for e in effects}
    assert ("fp16_accumulation", "Only on NVIDIA cards.") in notes
    tf32 = next(e for e in effects if e.setting == "tf32")
    assert tf32.note in (None, Words("Changes nothing on this device.")), "measured on a processor, too"


def test_each_look_at_the_latents_has_its_price(report: tuple[SelfTestReport, list[tuple[OperationResult, int, int]]]) -> None:
    for dtype in ("float16", "bfloat16", "float32"):
        found = {e.value: e.time_ratio for e in report[0].effects if (e.setting, e.dtype) == ("nan_check", dtype)}
        assert found["off"] is not None
        assert found["at-end"] is not None
        assert 0 < found["off"] < found["at-end"] < 1


def test_what_depends_on_the_precision_is_measured_in_each(
    report: tuple[SelfTestReport, list[tuple[OperationResult, int, int]]],
) -> None:
    for setting, value in (("vae_float32", "always"), ("upcast_cross_attention", "always"), ("upcast_sampling", "false")):
        found = {e.dtype: e for e in report[0].effects if (e.setting, e.value) == (setting, value)}
        assert found.keys() == {"float16", "bfloat16", "float32"}
        assert found["float16"].time_ratio is not None
        assert found["bfloat16"].time_ratio is not None
        assert str(found["float32"].note) == "Everything runs in FP32 here.", "said only of FP32"


def test_float32_on_the_processor_has_no_finding_near_the_limit(
    report: tuple[SelfTestReport, list[tuple[OperationResult, int, int]]],
) -> None:
    wrong = [t for t in report[0].tests if t.mode == "float32" and t.outcome != "right"]
    assert wrong == []


def test_it_can_be_cancelled_between_tests() -> None:
    seen: list[OperationResult] = []

    def check() -> None:
        if len(seen) == 3:
            raise JobCancelled

    with pytest.raises(JobCancelled):
        run_self_test(CPU, lambda found, _done, _total: seen.append(found), check)
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("expected", "got", "outcome", "error"),
    [
        (tensor(1, 2, 4), tensor(1, 2, 4), "right", 0.0),
        (tensor(1, 2, 4), tensor(1, 2, 4.02), "right", 0.005),
        (tensor(1, 2, 4), tensor(1, 2.4, 4), "wrong", 0.1),
        (tensor(1, 2, 4), tensor(0, 0, 0), "zeros", 1.0),
        (tensor(1, 2, 4, 0), tensor(0, 0, 4, 0), "zeros", 0.5),
        (tensor(1, 2, 4), tensor(1, math.nan, 4), "nonfinite", math.inf),
        (tensor(1, 2, 4), tensor(1, 2, -math.inf), "nonfinite", math.inf),
        (tensor(0, 0), tensor(0, 0), "right", 0.0),
    ],
)
def test_outcomes(expected: torch.Tensor, got: torch.Tensor, outcome: str, error: float) -> None:
    found, _, size = compare(expected, got, 0.01)
    assert found == outcome
    assert size == pytest.approx(error)


def test_a_bad_number_outside_the_sample_is_seen() -> None:
    assert compare(tensor(1), tensor(1), 0.1, whole_finite=False)[0] == "nonfinite"


def broken(run: Callable[..., torch.Tensor]) -> Case:
    return Case("matmul", Words("4 × 4"), lambda g, _m: (torch.randn(4, 4, generator=g),), run)


def fails_on_half(error: Exception) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float16:
            raise error
        return x

    return run


def test_an_operation_that_is_not_there_is_missing() -> None:
    found = run_case(broken(fails_on_half(RuntimeError("\"addmm\" not implemented for 'Half'"))), MODE["float16"], "cpu")
    assert (found.outcome, found.got, found.error) == ("missing", None, None)


@pytest.mark.logs("odd driver")
def test_an_odd_driver_is_no_crash_but_a_fault() -> None:
    found = run_case(broken(fails_on_half(RuntimeError("odd driver"))), MODE["float16"], "cpu")
    assert found.outcome == "wrong"


def test_a_lost_device_is_no_wrong_result() -> None:
    lost = RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA")
    with pytest.raises(RuntimeError, match=r"^matmul, 4 × 4 in float16: CUDA error: an illegal memory access was encountered$"):
        run_case(broken(fails_on_half(lost)), MODE["float16"], "cpu")


def test_an_operation_that_gives_zeros_is_caught() -> None:
    run = broken(lambda x: x * 0 if x.dtype == torch.float16 else x)
    assert run_case(run, MODE["float16"], "cpu").outcome == "zeros"
    assert run_case(run, MODE["bfloat16"], "cpu").outcome == "right"


@pytest.mark.parametrize("mode", ["float32", "float16", "bfloat16"])
def test_casting_on_the_processor_is_right_bit_by_bit(mode: str) -> None:
    assert check_casting(MODE[mode], "cpu").outcome == "right"


def test_the_reference_of_casting_agrees_with_known_values() -> None:
    values = np.array([65519, 65520, 1 + 2**-11, 1 + 3 * 2**-11, 2**-25, 3e-8], np.float32)
    assert rounded(values, "float16").tolist() == [
        65504.0,
        math.inf,
        1.0,
        1 + 2**-9,
        0.0,
        2.0**-24,
    ]
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, math.nan], np.float32)
    assert rounded(values, "bfloat16")[:2].tolist() == [1.0, 1 + 2**-6]


def test_a_core_failure_makes_a_type_wrong_and_names_it() -> None:
    tests = [result(), result("nonfinite", operation="convolution", size="3 × 3"), result("zeros")]
    found = judge_dtype("float16", tests, [])
    assert found.state == "wrong"
    assert found.failing == tests[1]
    assert str(found.reason) == "Convolution (3 × 3) gives NaN or infinity."


def test_failures_near_the_limit_are_notes() -> None:
    tests = [result(), result("nonfinite", operation="near-limit", size="RMS norm"), result("zeros", operation="tiny-values")]
    found = judge_dtype("float16", tests, [speed("float32", 1.0), speed("float16", 0.5)])
    assert found.state == "works"
    assert found.speed == 2.0
    assert str(found.reason) == "1 of 3 tests passed; failed: near the limit: RMS norm, tiny values: 2 × 2."


def test_slow_is_judged_over_all_timed_operations() -> None:
    speeds = [
        speed("float32", 1.0),
        speed("float16", 0.5),
        speed("float32", 1.0, "convolution"),
        speed("float16", 9.0, "convolution"),
    ]
    found = judge_dtype("float16", [result()], speeds)
    assert found.state == "slow"
    assert found.speed == pytest.approx(2 / 9.5), "one figure, the one that judges"
    assert str(found.reason) == "A denoiser step takes about 4.8 × the time of FP32. 1 test passed."


@pytest.mark.parametrize(("step", "said"), [("unet-step", "A UNet step"), ("transformer-step", "A transformer step")])
def test_a_network_that_judges_alone_is_named(step: str, said: str) -> None:
    speeds = [speed("float32", 9.0), speed("bfloat16", 1.0), speed("float32", 1.0, step), speed("bfloat16", 2.0, step)]
    found = judge_dtype("bfloat16", [result(mode="bfloat16")], speeds)
    assert (found.state, str(found.reason)) == ("slow", f"{said} takes about 2.0 × the time of FP32. 1 test passed.")


def test_a_difference_that_the_runs_themselves_show_is_none() -> None:
    rounds = [msgspec.structs.replace(speed("float32", 1.0), runs=(1.0, 1.2, 0.9)), speed("float16", 0.9)]
    found = judge_dtype("float16", [result()], [rounds[0], msgspec.structs.replace(rounds[1], runs=(0.9, 1.3, 0.8))])
    assert (found.state, str(found.reason)) == ("slow", "A denoiser step takes about as long as in FP32. 1 test passed.")
    assert found.speed is not None
    assert found.spread is not None
    assert abs(found.speed - 1) < found.spread


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("mode", ["float16", "bfloat16"])
def test_a_denoiser_step_gives_the_same_in_every_type(name: str, mode: str) -> None:
    sizes = Sizes(channels=32, edge=8, width=64, tokens=16)
    with torch.no_grad():
        full, narrow = (step_of(name, MODE[one], "cpu", sizes)().float() for one in ("float32", mode))
    assert float((narrow - full).norm() / full.norm()) < 0.02
    assert operations(name, sizes) > 0


def test_runs_are_made_in_turns_and_as_many_of_each() -> None:
    order: list[str] = []
    taken = in_turns([lambda: order.append("a"), lambda: order.append("b")], "cpu", rounds=4)
    assert order == ["a", "b"] * 5, "one of each to warm up"
    assert [len(runs) for runs in taken] == [4, 4]
    assert len(in_turns([lambda: None], "cpu", least=2, budget=0.0)[0]) == 2


def test_what_cannot_run_is_missing() -> None:
    assert judge_dtype("bfloat16", [result("missing", mode="bfloat16")], []).state == "missing"
    assert judge_dtype("bfloat16", [], []).state == "missing"


def test_settings_that_share_a_type_do_not_judge_it() -> None:
    tests = [result(), result("wrong", mode="float16-sums")]
    assert judge_dtype("float16", tests, []).state == "works"


@pytest.mark.parametrize(
    ("backend", "capability", "modes"),
    [
        ("cpu", None, ["float32", "float16", "bfloat16"]),
        ("mps", None, ["float32", "float16", "bfloat16"]),
        ("rocm", "9.0", ["float32", "float16", "bfloat16"]),
        ("cuda", "6.1", ["float32", "float16", "bfloat16"]),
        ("cuda", "7.5", ["float32", "float16", "float16-sums", "bfloat16"]),
        ("cuda", "9.0", ["float32", "tf32", "float16", "float16-sums", "bfloat16"]),
    ],
)
def test_modes_of_a_device(backend: str, capability: str | None, modes: list[str]) -> None:
    device = DeviceFacts(id=backend, backend=backend, name="x", capability=capability)
    assert [mode.name for mode in modes_for(device)] == modes


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_table_is_complete_and_its_entries_are_told_apart(kind: str) -> None:
    cases = cases_for(kind)
    assert len({(c.operation, c.size) for c in cases}) == len(cases)
    assert {c.operation for c in cases} >= {
        "matmul", "convolution", "attention", "group-norm", "layer-norm", "softmax", "functions", "long-sums", "near-limit",
        "tiny-values",
    }  # fmt: skip
    assert all((c.cut is None) == (c.pick is None) for c in cases)


def test_a_sample_of_a_large_result_is_the_result_of_the_sample() -> None:
    small = {"matmul": (40, 30, 20), "attention": (1, 2, 40, 8), "convolution": (1, 12, 6, 3)}
    for case in (
        table._matmul(*small["matmul"], sample=8),
        table._attend(*small["attention"], sample=8),
        table._convolution(*small["convolution"], sample=4),
    ):
        found = run_case(case, MODE["float32"], "cpu")
        assert found.outcome == "right"


def test_tolerances_grow_with_the_format() -> None:
    case = next(c for c in cases_for("cpu") if c.operation == "matmul")
    sizes = [tolerance(case, MODE[name]) for name in ("float32", "tf32", "float16", "bfloat16", "float16-sums")]
    assert sizes == [1e-4, 2.0**-8, 2.0**-8, 2.0**-5, 0.1]
    assert {tolerance(c, MODE["float16-sums"]) for c in cases_for("cpu") if c.operation.startswith("attention")} == {0.1}


def test_switches_are_put_back_and_missing_ones_left_out() -> None:
    class Owner:
        here = 1

    owner = Owner()
    with switched([(owner, "here", 2), (owner, "gone", 3)]):
        assert owner.here == 2
        assert not hasattr(owner, "gone")
    assert owner.here == 1


def test_a_long_run_is_timed_once_and_a_short_one_often() -> None:
    runs: list[int] = []
    seconds = seconds_of(lambda: runs.append(1), "cpu", rounds=4)
    assert len(runs) == 5
    assert seconds > 0


@pytest.mark.logs("effects of .* could not be measured")
def test_a_device_that_fails_while_it_is_timed_has_reasons_instead_of_effects() -> None:
    """This torch has no kernels for the device: every copy to it fails."""
    odd = DeviceFacts(id="vulkan", backend="odd", name="An odd device")
    effects = measure_effects(odd, "float32", [], lambda: None)
    assert {e.setting for e in effects} == set(Numerics.__struct_fields__)
    assert ("precision", "Could not be measured on this device.") in {(e.setting, str(e.note)) for e in effects}
