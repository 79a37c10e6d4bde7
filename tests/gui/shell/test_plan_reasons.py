"""Every reason that a plan can give is recognised, and stands in Chinese on the Chinese page."""

import re
from collections.abc import Iterator

import pytest
from tests.unit.health.test_planner import COMPONENTS, HEALTHY, HOT, STREAM, Setup, finding

from halftone.contract.plan import RESULT, result_of
from halftone.contract.request import Numerics
from halftone.contract.wording import Words
from halftone.gui.i18n import say, set_language
from halftone.health.explain import remembered
from halftone.health.planning.planner import with_layers

LAYERS = tuple(f"up_blocks.{index}.conv" for index in range(5))


def cases() -> Iterator[Setup]:
    yield Setup(HOT, groups=(STREAM,))
    yield Setup({**HOT, "conv_out": 1e5}, groups=(STREAM,))
    yield Setup({**HEALTHY, "mid": 9e4})
    yield Setup(dict.fromkeys(HEALTHY, 2e5))
    yield Setup(HEALTHY, findings=(finding("device-fault"),))
    yield Setup(HEALTHY, findings=tuple(finding("activation-overflow", "mid", name) for name in ("text_encoder", "vae")))
    yield Setup(HEALTHY, findings=(finding("activation-overflow", "mid", "unet"), finding("activation-overflow")))
    for numerics in (Numerics(math_attention_reduction=True), Numerics(attention_backend="math"), Numerics()):
        yield Setup(HEALTHY, findings=(finding("attention-overflow"),), numerics=numerics)
    sums = Numerics(fp16_accumulation=True, fp16_reduction=True, upcast_sampling=False)
    yield Setup(HEALTHY, findings=(finding("accumulation-overflow"), finding("underflow")), numerics=sums)


def reasons_given() -> set[Words]:
    plans = [plan for case in cases() for _, plan in case.plans()]
    plans += [with_layers(plans[0], {"vae": LAYERS[:count]}, 7, COMPONENTS, "float16") for count in (1, 2, 3, 5)]
    results = tuple(f"{name}{RESULT}" for name in LAYERS)
    plans += [with_layers(plans[0], {"vae": (*LAYERS[:1], *results[:count])}, 7, COMPONENTS, "float16") for count in (1, 2, 5)]
    scaled = tuple(result_of(name, 3) for name in LAYERS)
    plans += [with_layers(plans[0], {"vae": scaled[:count]}, 0, COMPONENTS, "float16") for count in (1, 2, 5)]
    given = {reason for plan in plans for reason in plan.reasons}
    return given | {remembered("unet", "rescale"), remembered("text_encoder_2", "float32-component")}


@pytest.fixture
def chinese(qapp: object) -> Iterator[None]:
    del qapp
    set_language("zh_CN")
    yield
    set_language("en")


def test_every_kind_of_reason_is_among_the_cases() -> None:
    given = " ".join(map(str, reasons_given()))
    kinds = (
        "powers of two", "run in FP32 until", "stay in FP32", "blocks)", "layers)", " and ", "whole model runs in",
        " runs in BF16",
        " runs in FP32", "sums run", "keeps its scores", "scores are computed",
        "Products accumulate", "Partial sums", "between model calls",
    )  # fmt: skip
    assert [words for words in kinds if words not in given] == []


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("words", sorted(reasons_given(), key=str), ids=str)
def test_every_reason_of_a_plan_is_translated(words: Words) -> None:
    said = say(words)
    assert not re.search(r"\b(?:and|the|in|is|are|runs?|blocks|layers|encoder|decoder)\b", said.lower()), said
