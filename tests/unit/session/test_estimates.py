"""Whether the next picture fits the memory, and what is asked about it."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers import samples
from tests.helpers.sessions import Desk

from halftone.contract.facts import MemoryFacts, ModelFacts
from halftone.contract.messages import MemoryChanged
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import DType
from halftone.health.forecasts.memory_forecast import Fit, Way
from halftone.health.forecasts.picture_memory import Forecast
from halftone.library.families.networks import known_networks
from halftone.library.models import POCKET, describe
from halftone.session.events import Replaced
from halftone.session.pictures import estimates
from halftone.session.pictures.draft import EMPTY
from halftone.session.pictures.grid import axis_of, parsed, planned, variables
from halftone.session.pictures.history import with_times
from halftone.session.pictures.memory_estimate import Shortage, memory_estimate, shortage
from halftone.session.pictures.picture_time import Shape, next_shape

SHAPE = Shape(128, 128, 20)


def found(fit: Fit | None, *, free: int | None = 8, largest: tuple[int, int] | None = None) -> Forecast:
    return Forecast(peak=9, pictures=0, way=Way(), free=free, fit=fit, largest=largest)


@pytest.mark.parametrize(
    ("known", "short"),
    [
        (None, None),
        (found("fits"), None),
        (found("tight"), None),
        (found(None, free=None), None),
        (found("no"), Shortage(SHAPE, 9, 8, None)),
        (found("no", largest=(64, 96)), Shortage(SHAPE, 9, 8, Shape(64, 96, 20))),
    ],
)
def test_what_does_not_fit_is_a_shortage(known: Forecast | None, short: Shortage | None) -> None:
    assert shortage(SHAPE, known) == short


@pytest.mark.parametrize(("total", "fit"), [(10**11, "fits"), (10**8, "no")])
def test_a_request_fits_or_not_without_a_window(total: int, fit: Fit) -> None:
    model = describe(POCKET)
    request = PictureRequest(prompt="a sun", model=POCKET, width=1024, height=1024)
    memory = MemoryFacts(total=total, own=0, others=0)
    told = memory_estimate((request, model, "float32"), samples.CPU, known_networks(model), memory)
    assert told is not None
    assert told.fit == fit
    assert memory_estimate((request, model, "float32"), samples.CPU, (), memory) is None


def test_networks_are_read_for_the_selected_model_and_what_is_used_with_it() -> None:
    desk = Desk()
    session = desk.session
    request = PictureRequest(prompt="a sun", model=POCKET)
    assert session.state.networks.networks
    desk.link.say(MemoryChanged(memory=MemoryFacts(total=10**11, own=0, others=0)))
    told = session.estimates.memory(request)
    assert told is not None
    assert told.fit == "fits"
    session.drafting.edit(vae="/other.safetensors")
    assert session.estimates.memory(request) is None, "nothing is known of the other decoder yet"
    session.drafting.edit(vae=None)
    desk.settle()
    assert session.estimates.memory(request) == told


def test_the_user_is_asked_about_a_size_once() -> None:
    desk = Desk()
    made = desk.session.estimates
    made.accept(SHAPE, "float32")
    made.accept(SHAPE._replace(width=64), "float16")
    desk.session.drafting.edit(vae="/other.safetensors")
    assert desk.session.state.networks.accepted == {(SHAPE, "float32"), (SHAPE._replace(width=64), "float16")}


@pytest.mark.parametrize(("hires_on", "shape"), [(False, Shape(128, 96, 20)), (True, Shape(256, 192, 20, 128 * 96 * 20))])
def test_the_shape_of_the_next_picture_is_that_of_its_last_pass(hires_on: bool, shape: Shape) -> None:
    assert next_shape(replace(EMPTY, hires_on=hires_on), None, (128, 96)) == shape


def grid(*axes: tuple[str, str]) -> tuple[PictureRequest, ...]:
    """The requests of a grid of pictures that are too large."""
    base = PictureRequest(prompt="a sun", model=POCKET, width=2048, height=1024, seed=1)
    known = {one.name: one for one in variables(base)}
    return planned(base, [axis_of(known[name], parsed(values, known[name])) for name, values in axes]).requests


@pytest.mark.parametrize(
    ("axes", "count"),
    [
        ((("guidance", "4-8"), ("steps", "10-20"), ("seed", "1-5")), 1),
        ((("guidance", "1, 4, 8"), ("seed", "1-5")), 2),
        ((("width", "1024, 2048"), ("sampler", "Euler, DPM++ 2M")), 2),
    ],
)
def test_the_memory_of_a_grid_is_computed_once_for_pictures_that_need_the_same(
    monkeypatch: pytest.MonkeyPatch, axes: tuple[tuple[str, str], ...], count: int
) -> None:
    desk = Desk()
    desk.link.say(MemoryChanged(memory=MemoryFacts(total=10**8, own=0, others=0)))
    requests, computed = grid(*axes), list[PictureRequest]()

    def noted(picture: tuple[PictureRequest, ModelFacts, DType], *rest: Any) -> Forecast | None:
        computed.append(picture[0])
        return memory_estimate(picture, *rest)

    alone = [desk.session.estimates.shortage((request,)) for request in requests]
    monkeypatch.setattr(estimates, "memory_estimate", noted)
    assert desk.session.estimates.shortage(requests) == max(filter(None, alone), key=lambda one: one[0].needed)
    assert len(computed) == count


def test_the_time_of_a_grid_is_that_of_all_its_pictures() -> None:
    desk = Desk()
    facts = samples.picture_facts("/a.png")
    dtype = desk.session.estimates.dtype()
    request = PictureRequest(prompt="a sun", model=POCKET, numerics=Numerics(precision=dtype))
    history = with_times(desk.session.state.history, (facts, request))
    desk.session.store.take(Replaced(part=history))
    requests = grid(("steps", "10, 20, 40"), ("seed", "1-3"))
    alone = [desk.session.estimates.seconds((request,)) for request in requests]
    assert None not in alone
    assert desk.session.estimates.seconds(requests) == pytest.approx(sum(filter(None, alone)))
