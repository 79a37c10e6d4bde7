"""In which type a LoRA is trained, and what is said where it is not the one that was asked for."""

import math

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.facts import Finding
from halftone.contract.plan import Plan
from halftone.contract.training import WiderType
from halftone.contract.vocabulary import DType, DTypeState, FindingCode
from halftone.health.training.training_sentences import wider_words
from halftone.health.training.training_types import trained_type, wider_type

BLOCK = "mid_block.attentions.0"
RESCALED = Plan(dtypes={"unet": "float16"}, rescale={"unet": {f"{BLOCK}.proj_in.weight": -2}})
WIDE_BLOCK = Plan(dtypes={"unet": "float16"}, upcast={"unet": (BLOCK,)})
WIDE = Plan(dtypes={"unet": "float32"})


@pytest.mark.parametrize(
    ("plan", "asked", "bfloat16", "used"),
    [
        (Plan(), "float16", "works", "float16"),
        (Plan(dtypes={"unet": "float16", "vae": "float32"}, upcast={"vae": ("decoder",)}), "float16", "works", "float16"),
        (RESCALED, "float16", "works", "bfloat16"),
        (RESCALED, "float16", "slow", "float32"),
        (WIDE_BLOCK, "float16", None, "float32"),
        (WIDE, "float16", "works", "float32"),
        (WIDE, "bfloat16", "works", "float32"),
        (Plan(upcast={"unet": (BLOCK,)}), "bfloat16", "works", "bfloat16"),
    ],
)
def test_the_type_that_needs_no_cure(plan: Plan, asked: DType, bfloat16: DTypeState | None, used: DType) -> None:
    assert trained_type(plan, "unet", asked, bfloat16) == used


def finding(code: FindingCode = "activation-overflow", component: str = "unet", module: str = BLOCK) -> Finding:
    return Finding(code=code, component=component, module=module, dtype="float16", peak=91_300.0, limit=65_504.0)


CHECKED = WiderType(asked="float16", used="float32", name=f"unet.{BLOCK}", source="check", peak=91_300.0, limit=65_504.0)
LEARNT = WiderType(asked="float16", used="float32", name=f"unet.{BLOCK}", source="picture")


@pytest.mark.parametrize(
    ("plan", "findings", "said"),
    [
        (WIDE_BLOCK, (finding(),), CHECKED),
        (WIDE_BLOCK, (finding("tight", module="conv_in"), finding()), CHECKED),  # what is tight is not the cause
        (WIDE_BLOCK, (finding(component="vae"),), LEARNT),
        (WIDE_BLOCK, (), LEARNT),
        (WIDE_BLOCK, None, LEARNT),
        (RESCALED, None, msgspec.structs.replace(LEARNT, name=f"unet.{BLOCK}.proj_in")),
        (WIDE, None, msgspec.structs.replace(LEARNT, name="unet")),
    ],
)
def test_the_layer_that_keeps_it_out(plan: Plan, findings: tuple[Finding, ...] | None, said: WiderType) -> None:
    report = None if findings is None else msgspec.structs.replace(samples.check_report(), findings=findings)
    assert wider_type(plan, "unet", "float16", "float32", report) == said
    assert wider_type(plan, "unet", "float16", "float16", report) is None


def test_what_is_said() -> None:
    layer = "UNet, mid block, first attention layer"
    assert wider_words(CHECKED).text() == (
        f"Trains in FP32, not FP16: {layer} reaches 91\u202f300, above the FP16 limit of 65\u202f504. "
        "Its cure is for pictures only."
    )
    tight = msgspec.structs.replace(CHECKED, peak=20_000.0)
    assert wider_words(tight).text() == (
        f"Trains in FP32, not FP16: {layer} reaches 20\u202f000, close to the FP16 limit of 65\u202f504. "
        "Its cure is for pictures only."
    )
    endless = msgspec.structs.replace(CHECKED, peak=math.inf)
    assert ", above the FP16 limit of" in wider_words(endless).text()
    unmeasured = msgspec.structs.replace(CHECKED, peak=None)
    assert "FP16: in the check, UNet" in wider_words(unmeasured).text()
    assert wider_words(LEARNT).text() == (
        f"Trains in FP32, not FP16: in a picture, {layer} needed a cure in FP16, which is for pictures only."
    )
    whole = WiderType(asked="bfloat16", used="float32", name="unet", source="picture")
    assert wider_words(whole).text().startswith("Trains in FP32, not BF16: in a picture, UNet needed a cure in BF16,")
