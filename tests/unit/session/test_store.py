"""Who hears what of the state, and when."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers import samples

from halftone.session.events import DeviceChosen, Making, Noted, OwnEvent, Paused
from halftone.session.state import AppState, Notice
from halftone.session.store import Store


def whole(state: AppState) -> AppState:
    return state


def paused(state: AppState) -> bool:
    return state.paused


def making(state: AppState) -> bool:
    return state.making


@pytest.mark.parametrize(
    ("select", "events", "heard"),
    [
        (paused, [Paused(on=True)], [True]),
        (paused, [Paused(on=False)], []),
        (paused, [Paused(on=True), Paused(on=True), Paused(on=False)], [True, False]),
        (paused, [Making(on=True), Noted(kind="copied")], []),
        (lambda state: (state.paused, state.making), [Paused(on=True), Making(on=True)], [(True, False), (True, True)]),
        (lambda state: state.device, [DeviceChosen(device=samples.CPU), DeviceChosen(device=samples.CPU)], [samples.CPU]),
        (lambda state: [state.paused], [Making(on=True), Paused(on=True)], [[True]]),  # equal though not the same
    ],
)
def test_a_slice_is_heard_when_it_changed(select: Callable[[AppState], Any], events: list[OwnEvent], heard: list[Any]) -> None:
    store, found = Store(), list[Any]()
    store.subscribe(select, found.append)
    for event in events:
        store.take(event)
    assert found == heard


def test_nothing_is_heard_after_the_end_of_a_subscription() -> None:
    store, found = Store(), list[bool]()
    end = store.subscribe(paused, found.append)
    store.take(Paused(on=True))
    end()
    end()
    store.take(Paused(on=False))
    assert found == [True]


def test_who_is_unsubscribed_by_another_hears_nothing() -> None:
    store, found = Store(), list[bool]()
    store.subscribe(paused, lambda _on: end())
    end = store.subscribe(paused, found.append)
    store.take(Paused(on=True))
    assert found == []


def test_who_subscribes_while_others_hear_hears_the_next_change() -> None:
    store, found = Store(), list[bool]()
    store.subscribe(making, lambda _on: store.subscribe(paused, found.append))
    store.take(Making(on=True))
    assert found == []
    store.take(Paused(on=True))
    assert found == [True]


def test_all_hear_a_whole_state_in_the_order_of_subscribing() -> None:
    store, found = Store(), list[tuple[str, bool, bool]]()

    def follow(on: bool) -> None:
        found.append(("first", on, store.state.making))
        store.take(Making(on=on))
        found.append(("taken", store.state.paused, store.state.making))  # the state follows at once, the hearing afterwards

    store.subscribe(paused, follow)
    store.subscribe(making, lambda on: found.append(("second", store.state.paused, on)))
    store.take(Paused(on=True))
    assert found == [("first", True, False), ("taken", True, True), ("second", True, True)]


def test_who_has_heard_hears_again_of_what_was_taken_meanwhile() -> None:
    store, found = Store(), list[str]()
    store.subscribe(whole, lambda state: found.append(f"early {state.paused} {state.making}"))
    store.subscribe(paused, lambda on: store.take(Making(on=on)))
    store.subscribe(whole, lambda state: found.append(f"late {state.paused} {state.making}"))
    store.take(Paused(on=True))
    assert found == ["early True False", "late True True", "early True True"]


def test_a_listener_that_fails_does_not_stop_the_next_event() -> None:
    store, found = Store(), list[bool]()

    def fail(_on: bool) -> None:
        raise ValueError("no")

    end = store.subscribe(paused, fail)
    store.subscribe(paused, found.append)
    with pytest.raises(ValueError, match="no"):
        store.take(Paused(on=True))
    assert store.state.paused
    end()
    store.take(Making(on=True))
    assert found == [True]


def test_each_message_is_heard_once_even_when_several_come_together() -> None:
    store, found = Store(), list[Notice]()
    store.subscribe(paused, lambda _on: [store.take(Noted(kind="copied")), store.take(Noted(kind="saved"))])
    store.take(Noted(kind="deleted"))
    store.on_notice(found.append)
    store.take(Paused(on=True))
    assert [notice.kind for notice in found] == ["copied", "saved"]
