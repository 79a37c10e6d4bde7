"""Which of several cures is taken."""

from collections.abc import Iterator

import pytest

from halftone.contract.plan import Cure, Plan
from halftone.engine.finding.tally import closest

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
            refusal = "Its picture differs." if refused else None
            asked.append(Cure(kind="upcast-region", plan=Plan(error=0.01), psnr=psnr, refusal=refusal))
            yield asked[-1]

    found = closest(cures())
    assert found is (None if taken is None else asked[taken])
    assert len(asked) == run


def test_one_that_is_not_finite_ends_the_search() -> None:
    held = Cure(kind="upcast-region", plan=Plan(error=0.01), psnr=32.0)
    bad = Cure(kind="upcast-region", plan=Plan(), refusal="It gives bad numbers as well.")
    rest = iter([held, bad, held])
    assert closest(rest) is held
    assert next(rest) is held, "it was not asked for"
