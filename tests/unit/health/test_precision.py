from dataclasses import dataclass

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, DeviceFacts, DTypeReport, ModelFacts, SelfTestReport
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import ALONE, Extras, Numerics
from halftone.contract.vocabulary import CureKind, DType, DTypeState, Precision
from halftone.contract.wording import Words
from halftone.health.precision import (
    AS_SET,
    Weights,
    auto_follows_model,
    choose_auto,
    follow_weights,
    granted_precision,
    granted_to,
    model_precision,
    resolve_precision,
    state_of,
    states,
)

DEVICE = DeviceFacts(id="cpu", backend="cpu", name="A processor")


def dtype(name: DType, state: DTypeState, speed: float | None = None) -> DTypeReport:
    return DTypeReport(dtype=name, state=state, reason=Words("Right."), speed=speed)


FULL = dtype("float32", "works", 1.0)


@pytest.mark.parametrize(
    ("half", "brain", "auto"),
    [
        (dtype("float16", "works", 2.4), dtype("bfloat16", "works", 2.4), "float16"),
        (dtype("float16", "works", 2.0), dtype("bfloat16", "works", 2.4), "bfloat16"),
        (dtype("float16", "wrong", 2.4), dtype("bfloat16", "works", 1.5), "bfloat16"),
        (dtype("float16", "slow", 0.1), dtype("bfloat16", "works", 3.0), "bfloat16"),
        (dtype("float16", "works", 2.0), dtype("bfloat16", "missing"), "float16"),
        (dtype("float16", "wrong"), dtype("bfloat16", "slow", 0.5), "float32"),
        (dtype("float16", "missing"), dtype("bfloat16", "missing"), "float32"),
    ],
)
def test_auto_takes_the_fastest_that_passed(half: DTypeReport, brain: DTypeReport, auto: DType) -> None:
    found, reason = choose_auto((half, brain, FULL))
    assert found == auto
    assert str(reason).endswith(".")


def test_the_reason_names_figures_and_what_was_turned_down() -> None:
    _, reason = choose_auto((dtype("float16", "slow", 0.1), dtype("bfloat16", "works", 2.44), FULL))
    assert str(reason) == ("BF16 passed every test and is about 2.4 × as fast as FP32, while FP16 is slower than FP32 here.")
    _, reason = choose_auto((dtype("float16", "slow", 0.99), dtype("bfloat16", "slow", None), FULL))
    assert str(reason) == "FP32, because FP16 is no faster than FP32 here and BF16 is no faster than FP32 here."


def report(auto: DType) -> SelfTestReport:
    return SelfTestReport(
        device=DEVICE, dtypes=(dtype("float16", "wrong", 2.0), FULL), tests=(), speeds=(), bits=(), effects=(), auto=auto,
        auto_reason=Words("Because."), measured_at="", seconds=1.0,
    )  # fmt: skip


def test_auto_without_a_measurement_is_float32() -> None:
    assert resolve_precision("auto", None, DEVICE) == (
        "float32",
        Words("FP32 until {0} is measured.", ("A processor",)),
    )


def test_auto_follows_the_self_test() -> None:
    assert resolve_precision("auto", report("bfloat16"), DEVICE) == ("bfloat16", Words("Because."))


def test_a_wish_is_granted_and_what_speaks_against_it_is_said() -> None:
    assert resolve_precision("float32", report("float32"), DEVICE) == ("float32", Words(AS_SET, ("FP32",)))
    found, reason = resolve_precision("float16", report("float32"), DEVICE)
    assert found == "float16"
    assert "faulty" in str(reason)


def test_what_the_device_has_not_is_refused_when_it_is_to_run() -> None:
    measured = msgspec.structs.replace(report("float32"), dtypes=(*report("float32").dtypes, dtype("bfloat16", "missing")))
    with pytest.raises(HalftoneError) as caught:
        granted_precision("bfloat16", measured, DEVICE)
    assert caught.value.code == "precision-missing"
    assert str(caught.value) == "A processor cannot compute in BF16. Use FP32."
    assert granted_precision("float16", measured, DEVICE)[0] == "float16", "faulty is a warning, not a refusal"
    assert granted_precision("bfloat16", None, DEVICE) == ("bfloat16", Words(AS_SET, ("BF16",)))


def test_states_of_what_was_not_measured() -> None:
    assert state_of(None, "float16") is None
    assert states(report("float32")) == {"float16": "wrong", "float32": "works"}


def measured(half: DTypeReport, brain: DTypeReport) -> SelfTestReport:
    auto, reason = choose_auto((half, brain, FULL))
    return msgspec.structs.replace(report(auto), dtypes=(half, brain, FULL), auto_reason=reason)


@dataclass(frozen=True)
class Kind:
    """A kind of device: what the self-test finds there, and what Auto takes for a model without and with need of range."""

    name: str
    half: DTypeReport
    brain: DTypeReport
    plain: DType
    wide: DType

    @property
    def report(self) -> SelfTestReport:
        return measured(self.half, self.brain)


KINDS = (
    Kind("Ampere and newer", dtype("float16", "works", 2.4), dtype("bfloat16", "works", 2.3), "float16", "bfloat16"),
    Kind("RDNA 3", dtype("float16", "works", 2.1), dtype("bfloat16", "works", 1.7), "float16", "bfloat16"),
    Kind("Volta and Turing, BF16 emulated", dtype("float16", "works", 3.0), dtype("bfloat16", "slow", 0.6), "float16", "float16"),
    Kind("GTX 16 series", dtype("float16", "wrong", 1.9), dtype("bfloat16", "slow", 0.5), "float32", "float32"),
    Kind("Pascal", dtype("float16", "slow", 0.02), dtype("bfloat16", "missing"), "float32", "float32"),
    Kind("RDNA 1", dtype("float16", "wrong", 1.8), dtype("bfloat16", "slow", 0.7), "float32", "float32"),
    Kind("RDNA 2", dtype("float16", "works", 1.8), dtype("bfloat16", "slow", 0.7), "float16", "float16"),
    Kind("BF16 right but half as fast", dtype("float16", "works", 3.0), dtype("bfloat16", "works", 1.5), "float16", "float16"),
    Kind("BF16 faulty", dtype("float16", "works", 3.0), dtype("bfloat16", "wrong", 3.0), "float16", "float16"),
    Kind("Apple without BF16", dtype("float16", "works", 1.3), dtype("bfloat16", "missing"), "float16", "float16"),
    Kind("processor with AVX2", dtype("float16", "slow", 0.1), dtype("bfloat16", "slow", 0.3), "float32", "float32"),
    Kind("processor with AVX-512", dtype("float16", "slow", 0.2), dtype("bfloat16", "slow", 0.9), "float32", "float32"),
    Kind("processor with AMX", dtype("float16", "slow", 0.2), dtype("bfloat16", "works", 3.1), "bfloat16", "bfloat16"),
    Kind("processor with AMX in FP16", dtype("float16", "works", 3.0), dtype("bfloat16", "works", 3.1), "float16", "bfloat16"),
)
WEIGHTS = (
    (Weights("SDXL", "float16"), False),
    (Weights("SDXL", "float32"), False),
    (Weights("SDXL", "bfloat16"), True),
    (Weights("SDXL", "float8"), False),
    (Weights("SDXL", "q4_k"), False),
    (Weights("SD 3", "float16"), False),
    (Weights("FLUX", "bfloat16"), True),
    (Weights("FLUX", "float16"), True),
    (Weights("FLUX", "float32"), True),
    (Weights("FLUX", "float8"), True),
    (Weights("FLUX", "q4_k"), True),
    (Weights("Wan", "float16"), True),
    (Weights("Sana", "float16"), True),
    (Weights("CogVideoX", "float16"), False),
    (Weights("CogVideoX", "bfloat16"), True),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("weights", "wide"), WEIGHTS, ids=lambda value: " ".join(value[:2]) if isinstance(value, Weights) else ""
)
def test_auto_follows_device_and_weights(kind: Kind, weights: Weights, wide: bool) -> None:
    found, reason = follow_weights(kind.report, weights)
    assert found == (kind.wide if wide else kind.plain)
    assert str(reason).endswith(".")
    if wide and kind.plain == "float16":
        assert auto_follows_model(kind.report) == (kind.wide == "bfloat16")
    if not wide or kind.plain != "float16":
        assert reason == kind.report.auto_reason, "the model changes nothing"


def check(verdict: str, cure: CureKind | None = None, *, applied: bool = False) -> CheckReport:
    """In FP16, with this cure suggested."""
    dtypes: dict[str, DType] = {"unet": "float16", "vae": "bfloat16" if cure == "bfloat16" else "float16"}
    plan = Plan(dtypes=dtypes, verified=cure is not None)
    cures = () if cure is None else (Cure(kind=cure, plan=plan, suggested=True),)
    found = msgspec.structs.replace(samples.check_report(), precision="float16", plan=plan, cures=cures, applied=applied)
    return msgspec.structs.replace(found, verdict=verdict)


@pytest.mark.parametrize(
    ("stored", "found", "auto", "why"),
    [
        ("bfloat16", None, "bfloat16",
         "BF16, because this model is stored in BF16; it is about 2.3 × as fast as FP32 here (FP16 2.4 ×)."),
        ("bfloat16", check("healthy"), "float16",
         "FP16, because the check found enough headroom, although this model is stored in BF16."),
        ("bfloat16", check("tight"), "bfloat16", None),
        ("bfloat16", check("fixable", "rescale"), "bfloat16", None),
        ("bfloat16", check("fixable", "rescale", applied=True), "float16",
         "FP16, because its cure passed the check, although this model is stored in BF16."),
        ("bfloat16", check("broken"), "bfloat16", None),
        ("float16", check("healthy"), "float16", None),
        ("float16", check("tight"), "float16", None),
        ("float16", check("fixable", "rescale"), "float16", None),
        ("float16", check("fixable", "upcast-region"), "float16", None),
        ("float16", check("fixable", "bfloat16"), "bfloat16", None),
        ("float16", check("fixable", "bfloat16", applied=True), "float16", None),
        ("float32", check("fixable", "float32-all"), "bfloat16", None),
        ("float16", check("broken"), "float16", None),
    ],
)  # fmt: skip
def test_a_check_in_half_precision_decides_where_it_holds(
    stored: str, found: CheckReport | None, auto: DType, why: str | None
) -> None:
    given, reason = follow_weights(KINDS[0].report, Weights("SDXL", stored, found))
    assert given == auto
    assert why is None or str(reason) == why


def test_the_reason_names_what_stands_against_bfloat16() -> None:
    weights = Weights("FLUX", "q4_k")
    _, reason = follow_weights(KINDS[2].report, weights)
    assert str(reason) == "FP16, because BF16 is slower than FP32 here, although FLUX models are made for BF16."
    _, reason = follow_weights(KINDS[7].report, weights)
    assert str(reason) == "FP16, because BF16 is much slower than FP16 here, although FLUX models are made for BF16."


def model(**facts: object) -> ModelFacts:
    return msgspec.structs.replace(samples.POCKET, **facts)


def unread(*_: object) -> CheckReport | None:
    raise AssertionError("no check is read where it decides nothing")


def found_in(held: CheckReport, precision: Precision = "auto") -> DType:
    facts, numerics = model(stored_dtype="bfloat16"), Numerics(precision=precision)
    return model_precision(numerics, KINDS[0].report, held.device, facts, ALONE, lambda *_: held)[0]


def test_only_a_check_that_still_holds_decides() -> None:
    held = check("healthy")
    assert found_in(held) == "float16"
    assert found_in(msgspec.structs.replace(held, model=model(fingerprint="rewritten"))) == "bfloat16"
    assert found_in(held, "float32") == "float32"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.plain != "float16"], ids=lambda kind: kind.name)
def test_no_check_is_read_where_the_device_decides(kind: Kind) -> None:
    facts = model(stored_dtype="bfloat16")
    assert model_precision(Numerics(), kind.report, DEVICE, facts, ALONE, unread) == (kind.plain, kind.report.auto_reason)
    assert model_precision(Numerics(precision="float16"), KINDS[0].report, DEVICE, facts, ALONE, unread)[0] == "float16"
    assert model_precision(Numerics(), None, DEVICE, facts, ALONE, unread)[0] == "float32"


def test_the_denoiser_decides_not_what_takes_most_of_the_disk() -> None:
    facts = model(stored_dtype="float8", stored={"unet": "bfloat16", "text_encoder": "float8"})
    assert granted_to(Numerics(), KINDS[0].report, DEVICE, facts, ALONE)[0] == "bfloat16"
    missing = Extras(transformer="/no/such/file.gguf")
    assert granted_to(Numerics(), KINDS[0].report, DEVICE, facts, missing)[0] == "bfloat16"
