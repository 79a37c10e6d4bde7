"""Which card a waiting job goes to."""

from halftone.health.planning.placement import Seat, place

SMALL, LARGE, OWN = Seat("cuda:1", "sdxl", 8), Seat("cuda:2", "", 24), Seat("", "sd", 12)
NEEDS = {"sd": 4, "sdxl": 10, "flux": 20, "huge": 40}


def fits(job: str, seat: Seat) -> bool:
    return seat.free is None or NEEDS[job] <= seat.free


def placed(jobs: tuple[str, ...], *seats: Seat) -> tuple[str, str] | None:
    found = place(jobs, seats, fits, lambda job: job)
    return None if found is None else (found[0], found[1].card)


def test_the_card_that_has_the_model_takes_it() -> None:
    assert placed(("sd",), LARGE, SMALL, OWN) == ("sd", "")
    assert placed(("sdxl",), Seat("cuda:1", "", 12), Seat("cuda:2", "sdxl", 24)) == ("sdxl", "cuda:2")


def test_else_the_smallest_that_is_large_enough() -> None:
    assert placed(("sdxl",), LARGE, SMALL, OWN) == ("sdxl", "")
    assert placed(("flux", "sd"), LARGE, SMALL, OWN) == ("flux", "cuda:2")


def test_the_device_in_use_comes_before_an_equal_card() -> None:
    assert placed(("sd",), Seat("cuda:1", "", 8), Seat("", "", 8)) == ("sd", "")


def test_a_job_that_fits_no_free_card_lets_others_go_first() -> None:
    assert placed(("flux", "sd"), SMALL) == ("sd", "cuda:1")


def test_nothing_starts_where_nothing_fits_or_nothing_is_free() -> None:
    assert placed(("huge",), LARGE, SMALL, OWN) is None
    assert placed(("sd",)) is None
    assert placed((), OWN) is None


def test_a_card_of_unknown_size_is_taken_last() -> None:
    assert placed(("sd",), Seat("cuda:1"), LARGE) == ("sd", "cuda:2")
