"""What scripts ask of a session whose worker dies."""

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.cards import TwoCards
from tests.helpers.sessions import Desk

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import AnyEvent, Generate, JobEnded, Keep, PictureReady, PreviewReady, WorkerLost
from halftone.serve.interface import Interface


def _asked(work: Callable[[], dict[str, Any]]) -> "Future[dict[str, Any]]":
    """Ask on a thread, as a request does."""
    answer: Future[dict[str, Any]] = Future()
    threading.Thread(target=lambda: answer.set_result(work()), daemon=True).start()
    return answer


def test_what_a_script_asked_for_stays_its_own_after_a_death(tmp_path: Path) -> None:
    calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
    heard: list[Callable[[AnyEvent, bytes], object]] = []
    desk = Desk(heard=lambda event, blob: [hear(event, blob) for hear in heard])
    interface = Interface(desk.session, calls.put)
    heard.append(interface.hear)

    def serve(done: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not done():
            assert time.monotonic() < end
            desk.settle()
            while not calls.empty():
                calls.get()()
            time.sleep(0.01)

    def sent() -> str:
        command = desk.link.sent[-1]
        assert isinstance(command, Generate)
        return command.job

    def ready(index: int) -> None:
        path = tmp_path / f"{index}.png"
        path.write_bytes(samples.png())
        facts = msgspec.structs.replace(samples.picture_facts(str(path), seed=7 + index), index=0)
        desk.link.say(PictureReady(job=sent(), facts=facts, thumbnail_size=0))

    body = json.dumps({"prompt": "sun", "seed": 7, "batch_size": 2, "steps": 4}).encode()
    answer = _asked(lambda: interface.text_to_image(body))
    serve(lambda: bool(desk.link.sent))
    first = sent()
    ready(0)
    desk.link.say(WorkerLost(exit_code=None, signal="SIGKILL", log="a.log"))
    desk.link.say(JobEnded(job=first, outcome="failed", error=ErrorFacts(code="worker-lost", facts={"cause": "x", "log": ""})))
    desk.settle()
    desk.link.start()
    serve(lambda: sent() != first)
    desk.link.say(PreviewReady(job=sent(), width=1, height=1, step=1), b"abc")
    progress = _asked(lambda: interface.progress(with_picture=True))
    serve(progress.done)
    assert progress.result()["state"]["job"] == "sun"
    assert progress.result()["current_image"] is not None
    stop = _asked(interface.interrupt)
    serve(stop.done)
    again = desk.link.sent.pop()
    assert isinstance(again, Keep)
    ready(1)
    desk.link.say(JobEnded(job=sent(), outcome="done"))
    serve(answer.done)
    assert json.loads(answer.result()["info"])["all_seeds"] == [7, 8]
    assert len(answer.result()["images"]) == 2


@pytest.mark.parametrize(
    ("asked", "sampler", "options"),
    [
        ({"sampler_name": "DPM++ 2M"}, "DPM++ 2M Karras", {"noise_source": 1}),
        ({"sampler_name": "Euler a", "scheduler": "Automatic"}, "Euler a Normal", {"noise_source": 1}),
        ({"sampler_name": "Euler a", "scheduler": "Beta"}, "Euler a Beta", {"noise_source": 1}),
        ({"override_settings": {"randn_source": "CPU"}}, None, {}),
    ],
)
def test_what_is_left_out_is_as_in_a1111(
    tmp_path: Path, asked: dict[str, Any], sampler: str | None, options: dict[str, int]
) -> None:
    made = tmp_path / "a.png"
    made.write_bytes(samples.png())
    calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
    heard: list[Callable[[AnyEvent, bytes], object]] = []
    desk = Desk(heard=lambda event, blob: [hear(event, blob) for hear in heard])
    interface = Interface(desk.session, calls.put)
    heard.append(interface.hear)
    answer = _asked(lambda: interface.text_to_image(json.dumps({"prompt": "sun"} | asked).encode()))
    end = time.monotonic() + 10
    while not answer.done():
        assert time.monotonic() < end
        desk.settle()
        while not calls.empty():
            calls.get()()
        if desk.link.sent and isinstance(command := desk.link.sent.pop(), Generate):
            assert (command.request.sampler, command.request.options) == (sampler, options)
            desk.link.say(PictureReady(job=command.job, facts=samples.picture_facts(str(made)), thumbnail_size=0))
            desk.link.say(JobEnded(job=command.job, outcome="done"))
        time.sleep(0.01)
    assert len(answer.result()["images"]) == 1


def test_a_picture_on_another_card_is_seen_and_stopped() -> None:
    calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
    heard: list[Callable[[AnyEvent, bytes], object]] = []
    desk = TwoCards(heard=lambda event, blob: [hear(event, blob) for hear in heard])
    interface = Interface(desk.session, calls.put)
    heard.append(interface.hear)

    def answer(asked: "Future[dict[str, Any]]", done: Callable[[], bool]) -> dict[str, Any]:
        end = time.monotonic() + 10
        while not done():
            assert time.monotonic() < end
            desk.settle()
            with contextlib.suppress(queue.Empty):
                calls.get(timeout=0.01)()
        return asked.result() if asked.done() else {}

    def progress() -> dict[str, Any]:
        asked = _asked(lambda: interface.progress(with_picture=True))
        return answer(asked, asked.done)

    pictures: list[Future[dict[str, Any]]] = []
    for word in ("sun", "moon"):
        body = json.dumps({"prompt": word, "steps": 4}).encode()
        pictures.append(_asked(lambda body=body: interface.text_to_image(body)))
        answer(pictures[-1], lambda: len(desk.session.state.begun) == len(pictures))
    first, second = (link.last() for link in (desk.own, desk.other))
    assert (first.request.prompt, second.request.prompt) == ("sun", "moon")
    desk.own.say(PreviewReady(job=first.job, width=1, height=1, step=1), b"abc")
    shown = progress()["current_image"]
    desk.other.say(PreviewReady(job=second.job, width=1, height=1, step=1), b"xyz")
    assert progress()["current_image"] == shown
    made = msgspec.structs.replace(samples.picture_facts("", seed=7), index=0)
    desk.own.say(PictureReady(job=first.job, facts=made, thumbnail_size=0))
    desk.own.ends()
    answer(pictures[0], pictures[0].done)
    left = progress()
    assert left["state"]["job"] == "moon"
    assert left["current_image"] not in (None, shown)
    stop = _asked(interface.interrupt)
    answer(stop, stop.done)
    assert desk.other.last(Keep).job == second.job
    desk.other.say(PictureReady(job=second.job, facts=made, thumbnail_size=0))
    desk.other.ends()
    answer(pictures[1], pictures[1].done)
    assert progress()["current_image"] is None
