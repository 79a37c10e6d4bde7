"""Holds the state; every change of it is one event through `apply`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from halftone.contract.messages import AnyEvent
from halftone.session.events import OwnEvent
from halftone.session.reducer import apply
from halftone.session.state import AppState, Notice

T = TypeVar("T")


@dataclass(eq=False)
class _Subscription:
    select: Callable[[AppState], Any]
    hear: Callable[[Any], object]
    last: Any
    active: bool = True


class Store:
    """Subscribers hear of a state that is whole, in the order in which they subscribed.

    An event taken while they hear changes the state at once. Those who have yet to hear get the new value only, and those who
    have heard an older one hear again.
    """

    def __init__(self, state: AppState | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.state = state or AppState()
        self._now = now
        self._subscriptions: list[_Subscription] = []
        self._telling = False

    def take(self, event: AnyEvent | OwnEvent) -> None:
        """One step of the state."""
        self.state = apply(self.state, event, self._now())
        if self._telling:
            return
        self._telling = True
        try:
            seen = None
            while seen is not self.state:
                seen = self.state
                for one in tuple(self._subscriptions):
                    self._tell(one)
        finally:
            self._telling = False

    def subscribe(self, select: Callable[[AppState], T], hear: Callable[[T], object]) -> Callable[[], None]:
        """Call `hear` with what `select` finds whenever that has changed. Returns what ends the subscription."""
        one = _Subscription(select, hear, select(self.state))
        self._subscriptions.append(one)

        def unsubscribe() -> None:
            one.active = False
            if one in self._subscriptions:
                self._subscriptions.remove(one)

        return unsubscribe

    def on_notice(self, hear: Callable[[Notice], object]) -> Callable[[], None]:
        """Call `hear` with each new message for the user, once."""
        heard = self.state.next_notice

        def look(next_notice: int) -> None:
            nonlocal heard
            fresh = [notice for notice in self.state.notices if heard <= notice.number]
            heard = next_notice
            for notice in fresh:
                hear(notice)

        return self.subscribe(lambda state: state.next_notice, look)

    def _tell(self, one: _Subscription) -> None:
        found = one.select(self.state)
        if one.active and found is not one.last and found != one.last:
            one.last = found
            one.hear(found)
