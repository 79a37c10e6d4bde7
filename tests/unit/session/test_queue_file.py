"""What is left of a queue whose window or worker was killed."""

from dataclasses import replace as changed

import msgspec
import pytest
from msgspec.structs import replace
from tests.helpers import samples

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Examine, Generate, Upscale
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.session.pictures.grid import Cell, Grid, Variable, axis_of, parsed, planned
from halftone.session.pictures.queue_file import kept_queue, left_of, rest, restored_queue
from halftone.session.state import AppState, Endless, Job, LeftQueue, Sheet, renewed

REQUEST = PictureRequest(prompt="a red sun", seed=100, batch=4)


def facts(index: int, seed: int, variation: int | None = None) -> PictureFacts:
    return replace(samples.picture_facts("/p/a.png", seed=seed), index=index, variation_seed=variation)


def job(name: str = "a", request: PictureRequest = REQUEST, **more: object) -> Job:
    return changed(Job(id=name, command=Generate(job=name, request=request), title=request.prompt), **more)


@pytest.mark.parametrize(
    ("request_", "last", "left"),
    [
        (REQUEST, facts(0, 100), (3, 101, None)),
        (REQUEST, facts(2, 102), (1, 103, None)),
        (replace(REQUEST, seed=None), facts(1, 7001), (2, 7002, None)),
        (replace(REQUEST, variation_strength=0.2), facts(1, 100, 51), (2, 100, 52)),
        (REQUEST, facts(0, 2**64 - 1), (3, 0, None)),
        (replace(REQUEST, variation_strength=0.2), facts(1, 100, 2**64 - 1), (2, 100, 0)),
    ],
)
def test_a_batch_goes_on_after_its_last_picture(
    request_: PictureRequest, last: PictureFacts, left: tuple[int, int, int | None]
) -> None:
    command = rest(Generate(job="a", request=request_), last)
    assert isinstance(command, Generate)
    assert (command.request.batch, command.request.seed, command.request.variation_seed) == left


def test_nothing_is_left_after_the_last_picture() -> None:
    assert rest(Generate(job="a", request=REQUEST), facts(3, 103)) is None
    larger = Upscale(job="u", request=UpscaleRequest(pictures=("/a", "/b"), upscaler="/m"))
    left = rest(larger, facts(0, 0))
    assert isinstance(left, Upscale)
    assert left.request.pictures == ("/b",)
    assert rest(larger, facts(1, 0)) is None


def test_an_entry_follows_its_pictures_through_all_its_ids() -> None:
    """The file may be older than the last change of the queue."""
    made = {"a": facts(1, 101), "a-1": facts(0, 102)}
    left = left_of(job(), made.get)
    assert isinstance(left, Job)
    assert (left.id, left.key, left.life) == ("a-2", "a", 2)
    assert isinstance(left.command, Generate)
    assert left.command == Generate(job="a-2", request=replace(REQUEST, batch=1, seed=103))
    assert left_of(job(), {**made, "a-2": facts(0, 103)}.get) is None
    assert left_of(job(), {}.get) == job(), "an id without a picture is used again"


def small_grid() -> Grid:
    steps = Variable("steps", "Steps", "int", (1, 1000))
    return planned(replace(REQUEST, seed=5), [axis_of(steps, parsed("1-3", steps))])


def test_a_grid_goes_on_with_its_next_picture() -> None:
    grid = small_grid()
    entry = job("g", grid.requests[0], grid=grid)
    left = left_of(entry, {"g": facts(0, 5)}.get)
    assert isinstance(left, Job)
    assert left.grid is not None
    assert (left.id, len(left.grid.cells)) == ("g-1", 1)
    assert left.command == Generate(job="g-1", request=grid.requests[1])
    whole = left_of(entry, {name: facts(0, 5) for name in ("g", "g-1", "g-2")}.get)
    assert isinstance(whole, Sheet)
    assert len(whole.grid.cells) == 3


def test_the_file_keeps_all_that_can_go_on() -> None:
    check = Job(id="x", command=Examine(job="x", model="pocket"), title="Pocket")
    grid = small_grid()
    sheet = Sheet(key="s", title="t", grid=grid.with_cell(Cell(facts(0, 5))))
    jobs = (job(started=1.0), job("b", stopping="cancel", started=None), check, job("g", grid.requests[0], grid=grid))
    state = AppState(
        jobs=jobs,
        endless=Endless(request=replace(REQUEST, seed=None), upscaler="/up/4x.pth"),
        sheets=(sheet,),
        left=LeftQueue(jobs=(job("l"),)),
    )
    left, sheets = restored_queue(kept_queue(state), {"a": facts(0, 100)}.get)
    assert [one.id for one in left.jobs] == ["l", "a-1", "g"]
    assert left.endless == state.endless
    assert sheets == (sheet,)
    assert left.pictures == 4 + 3 + 3
    assert all(not one.running for one in left.jobs)


def test_an_empty_queue_is_no_file_and_a_damaged_one_costs_only_what_is_damaged() -> None:
    assert kept_queue(AppState()) == b""
    assert restored_queue(b"", {}.get) == (LeftQueue(), ())
    assert restored_queue(b"\x00{", {}.get) == (LeftQueue(), ())
    data = msgspec.json.decode(kept_queue(AppState(jobs=(job(), job("b")))))
    data["jobs"][0]["command"]["request"]["of-a-newer-version"] = 1
    left, _ = restored_queue(msgspec.json.encode(data), {}.get)
    assert [one.id for one in left.jobs] == ["b"]


def test_renewing_keeps_the_entry() -> None:
    first = job(deaths=1)
    second = renewed(renewed(first, first.command), first.command)
    assert (second.id, second.key, second.command.job, second.deaths) == ("a-2", "a", "a-2", 1)


def test_the_upscale_model_of_an_entry_is_kept() -> None:
    larger = Upscale(job="u", request=UpscaleRequest(pictures=("/a",), upscaler="/up/4x.safetensors"))
    entry, then = job(upscaler="/up/4x.safetensors"), Job(id="u", command=larger, title="a.png", chained=True)
    assert renewed(entry, entry.command).upscaler == entry.upscaler
    assert renewed(then, larger).chained
    left, _sheets = restored_queue(kept_queue(AppState(jobs=(entry, then))), {}.get)
    assert left.jobs == (entry, then)
