"""Which of several cures is taken, and what is close enough to float32."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.helpers.engine_runs import Recorder, Steady

from halftone.contract.messages import Examine
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import CheckInputs, Numerics
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import relative_error
from halftone.engine.checks.examine import ALIKE
from halftone.engine.finding.tally import Tally, closest, picture_psnr
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.calls import Call

CASES = [
    ([], None, 0),
    ([(57.0, False)], 0, 1),
    ([(40.0, False), (57.0, False)], 0, 1),  # clearly the same: what changes more is not run
    ([(39.0, False), (57.0, False), (60.0, False)], 1, 2),
    ([(31.0, False), (36.0, False), (33.0, False)], 1, 3),  # none is clearly the same: the closest
    ([(33.0, False), (33.0, False)], 0, 2),  # as close: the one that changes less
    ([(25.0, True), (34.0, False)], 1, 2),
    ([(50.0, True), (34.0, False)], 1, 2),  # refused for something else
    ([(25.0, True), (28.0, True)], None, 2),
    ([(None, False), (57.0, False)], 0, 1),  # nothing to look at: as close as can be
]


@pytest.mark.parametrize(("given", "taken", "run"), CASES)
def test_the_first_that_is_clearly_the_same_else_the_closest(
    given: list[tuple[float | None, bool]], taken: int | None, run: int
) -> None:
    asked: list[Cure] = []

    def cures() -> Iterator[Cure]:
        for psnr, refused in given:
            refusal = Words("Its picture differs.") if refused else None
            asked.append(Cure(kind="upcast-region", plan=Plan(error=0.01), psnr=psnr, refusal=refusal))
            yield asked[-1]

    found = closest(cures())
    assert found is (None if taken is None else asked[taken])
    assert len(asked) == run


def test_one_that_is_not_finite_ends_the_search() -> None:
    held = Cure(kind="upcast-region", plan=Plan(error=0.01), psnr=32.0)
    bad = Cure(kind="upcast-region", plan=Plan(), refusal=Words("It gives NaN or infinity as well."))
    rest = iter([held, bad, held])
    assert closest(rest) is held
    assert next(rest) is held, "it was not asked for"


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


PARTS = {
    "one token": ((1, 512, 64), (0, 300)),
    "one ordinary token beside a large one": ((2, 77, 64), (1, 40)),
    "one corner of the latents": ((1, 16, 128, 128), (0, slice(None), slice(0, 4), slice(124, 128))),
    "one corner of one frame": ((1, 16, 5, 32, 32), (0, slice(None), 2, slice(0, 4), slice(0, 4))),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_broken_part_is_not_averaged_away(part: str) -> None:
    shape, place = PARTS[part]
    reference = _numbers(*shape)
    if "large" in part:
        reference[:, 0] *= 40
    rounded = reference + 0.01 * reference * _numbers(*shape)
    broken = rounded.clone()
    broken[place] = -broken[place]
    call = Call("transformer", "forward", (), {})
    for result, refused in ((rounded, False), (broken, True)):
        tally = Tally()
        tally.book(call, (result,), (reference,))
        assert (tally.refusal() is not None) == refused


def test_a_broken_corner_of_a_picture_is_not_averaged_away() -> None:
    picture = _numbers(3, 256, 256).sigmoid()
    broken = picture.clone()
    broken[:, :8, :8] = 0.0
    noisy = picture + 0.01 * _numbers(3, 256, 256)
    assert picture_psnr(noisy, picture) == pytest.approx(40, abs=0.5), "what is everywhere alike counts as before"
    assert picture_psnr(broken, picture) < ALIKE


def test_a_plan_that_breaks_one_token_is_refused(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    """Attention of a text encoder looks back, so the last place reaches no other."""
    last = "embeddings.position_embedding.weight[76:77]"
    plan = Plan(dtypes=dict.fromkeys(("text_encoder", "unet", "vae"), "float32"), rescale={"text_encoder": {last: 4}})
    inputs = CheckInputs(width=32, height=32)
    command = Examine(job="c", model=str(models["sd15"]), numerics=Numerics(precision="float32"), inputs=inputs, plan=plan)
    (cure,) = engine.examine(command, Recorder(), Steady()).cures
    assert (cure.plan.verified, cure.refusal is None) == (False, False)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e25])
def test_padding_and_huge_numbers_are_no_local_error(size: float) -> None:
    exact = torch.ones(1, 8, 4) * size
    exact[:, 3:] = 0.0
    found = exact.clone()
    found[:, 5] = 1e-9 * size
    assert relative_error(found, exact) < 1e-6
    found[:, 0] = 0.0
    assert relative_error(found, exact) > 0.2
