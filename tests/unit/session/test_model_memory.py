"""The selected model is loaded while nothing else is to be done; the user can have its memory back."""

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.cards import TwoCards
from tests.helpers.sessions import Desk

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import Generate, Load, ModelChanged, Refused, Unload
from halftone.contract.request import PictureRequest
from halftone.library.models import POCKET
from halftone.session.events import Warming
from halftone.session.models.model_memory import worth_loading
from halftone.session.reducer import apply
from halftone.session.state import AppState, Job

IDLE = AppState(worker="ready", device=samples.CPU, self_test=samples.self_test_report())
JOB = Job(id="a", command=Generate(job="a", request=PictureRequest(prompt="a")), title="a")


@pytest.mark.parametrize(
    ("changes", "worth"),
    [
        ({}, True),
        ({"worker": "starting"}, False),
        ({"device": None}, False),
        ({"self_test": None}, False),
        ({"jobs": (JOB,)}, False),
        ({"warming": "another"}, False),
        ({"loaded": samples.POCKET, "loaded_device": samples.CPU.id}, False),
        ({"loaded": samples.POCKET, "loaded_device": "cuda:0"}, True),
        ({"loaded": msgspec.structs.replace(samples.POCKET, id="/other"), "loaded_device": samples.CPU.id}, True),
        ({"device": msgspec.structs.replace(samples.CPU, memory_total=samples.POCKET.size_bytes)}, False),
    ],
)
def test_a_model_is_loaded_only_when_nothing_else_is_to_be_done(changes: dict[str, object], worth: bool) -> None:
    state = AppState(**{**{name: getattr(IDLE, name) for name in ("worker", "device", "self_test")}, **changes})  # pyright: ignore[reportArgumentType]
    assert worth_loading(state, samples.POCKET) is worth


def test_no_model_is_no_reason_to_load() -> None:
    assert not worth_loading(IDLE, None)


def test_a_model_that_is_loaded_early_or_cannot_be_is_no_longer_warming() -> None:
    warming = apply(IDLE, Warming(model="Pocket (demo)"))
    assert apply(warming, ModelChanged(model=samples.POCKET, device="cpu")).warming == ""
    refused = apply(warming, Refused(command="Load", error=ErrorFacts(code="out-of-memory")))
    assert (refused.warming, refused.worker, refused.notices) == ("", "ready", ())


@pytest.fixture
def desk() -> Desk:
    return Desk(early=True)


def loads(desk: Desk) -> list[str]:
    return [command.model for command in desk.link.sent if isinstance(command, Load)]


def test_the_model_in_use_is_loaded_once_and_not_again_after_its_memory_was_freed(desk: Desk) -> None:
    desk.clock.pass_by(2)
    assert loads(desk) == [POCKET]
    assert desk.session.state.warming == "Pocket (demo)"
    desk.link.say(ModelChanged(model=desk.model, device=samples.CPU.id))
    desk.session.memory.free()
    assert desk.link.sent[-1] == Unload()
    desk.link.say(ModelChanged(model=None))
    desk.clock.pass_by(2)
    assert loads(desk) == [POCKET], "what the user freed stays free"
    desk.session.models.select(POCKET)
    desk.clock.pass_by(2)
    assert loads(desk) == [POCKET, POCKET]


def test_a_job_goes_before_an_early_load(desk: Desk) -> None:
    desk.session.queue.generate(PictureRequest(prompt="a"))
    assert isinstance(desk.link.sent[-1], Generate)
    desk.clock.pass_by(2)
    assert loads(desk) == []
    desk.session.memory.free()
    assert isinstance(desk.link.sent[-1], Generate), "the running job keeps its model"


def test_the_memory_of_all_gpus_is_freed_but_not_that_of_a_running_job() -> None:
    desk = TwoCards()
    desk.ask(2)
    desk.own.say(ModelChanged(model=samples.POCKET, device="cuda:0"))
    desk.other.say(ModelChanged(model=samples.POCKET, device="cuda:1"))
    desk.own.ends()
    desk.session.memory.free()
    assert [type(link.sent[-1]) for link in (desk.own, desk.other)] == [Unload, Generate]
    desk.other.ends()
    desk.session.memory.free()
    assert [type(link.sent[-1]) for link in (desk.own, desk.other)] == [Unload, Unload]
