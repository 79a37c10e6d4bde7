"""Runs the head until it is stopped or has nothing left to do, and joins other machines to it."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.farm.cluster import LOOPBACK, Cluster, StartStopped, answers, check_head, join
from halftone.farm.head import Head
from halftone.farm.ledger import Ledger, head_mark
from halftone.farm.placing import settle, unsound
from halftone.farm.ray_process import check_ray
from halftone.farm.states import Again, Gone
from halftone.farm.tokens import given_token, token_file
from halftone.settings.folders import claimed

_LOOK_SECONDS: Final = 0.2
_SIGNALS: Final = tuple(one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP"))
"""What asks a head or a node to end; Windows lacks the last."""


class Settled(NamedTuple):
    """there: files that were about to appear and did; lost: those that did not, and leases of the head that ended, all of which
    wait again; again: jobs that are tried again; remade: finished ones that are made again; taken: keys of those that are not,
    as an open job has their output; unsound: files of finished jobs that are gone or changed, and are not made again.
    """

    there: int
    lost: int
    again: int
    remade: int
    taken: tuple[str, ...]
    unsound: tuple[str, ...]


def run_head(
    ready: Callable[[str, Path], object], address: str = LOOPBACK, port: int = 0, *, works: bool = True, until_over: bool = False
) -> int | None:
    """Run the head; the signal that ended it, if one did. ready: gets the address for `join` and the token's file. Raises
    HalftoneError farm-*, output-*, disk-full.
    """
    check_ray()
    with claimed(head_mark()) as free:
        if not free:
            raise HalftoneError("farm-not-possible", detail=Words("a head of this user runs already"))
        return asyncio.run(_run_head(ready, address, port, works=works, until_over=until_over))


async def _run_head(
    ready: Callable[[str, Path], object], address: str, port: int, *, works: bool, until_over: bool
) -> int | None:
    token, stop = token_file(), Stop()
    with (
        stop.by_signals(),
        Ledger() as ledger,
        contextlib.suppress(StartStopped),
        Cluster(token, address, port, works=works, stopping=lambda: stop.asked is not None) as cluster,
    ):
        stop.listen()  # Ray puts a handler of its own there
        head = Head(ledger, cluster.nodes)
        loop = asyncio.get_running_loop()
        stop.call(lambda: loop.call_soon_threadsafe(head.stopping.set))
        ready(cluster.address, token)
        try:
            await head.run(until_over=until_over)
        finally:
            await cluster.close_nodes()
    return stop.asked


class Stop:
    """Whether a signal asked for the end, and which. Use it in the main thread."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._then: Callable[[], object] | None = None

    def call(self, then: Callable[[], object]) -> None:
        """Call this at the signal; now, where it came already."""
        self._then = then
        if self.asked is not None:
            then()

    def listen(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._hear)

    @contextlib.contextmanager
    def by_signals(self) -> Generator[None]:
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, _frame: object) -> None:
        self.asked = number
        if self._then is not None:
            self._then()


class NodeSays(NamedTuple):
    """What a node shows its user: it tries to join; it is in the farm; the head is gone, and the node waits for it."""

    joining: Callable[[], object]
    joined: Callable[[], object]
    lost: Callable[[], object]


def run_node(address: str, token: str | None, says: NodeSays) -> None:
    """Be a node until it is stopped; a head that ends and comes back is joined again. Raises HalftoneError farm-*, and
    setting-bad-value.
    """
    check_ray()
    path, stop = given_token(token), Stop()
    with stop.by_signals():
        check_head(address)
        while stop.asked is None:
            says.joining()
            _serve_as_node(address, path, stop, says)
            if stop.asked is None:
                says.lost()
            while stop.asked is None and not answers(address):
                time.sleep(_LOOK_SECONDS)


def _serve_as_node(address: str, token: Path, stop: "Stop", says: NodeSays) -> None:
    """Be a node until it is stopped or the head is gone. Raises HalftoneError farm-* where it did not come in."""
    process, was_up, lost = join(address, token), False, False
    try:
        stop.call(process.end)
        while process.ended() is None:
            if not was_up and process.is_up():
                was_up = True
                says.joined()
            time.sleep(_LOOK_SECONDS)
        was_up, said = was_up or process.is_up(), process.said()
        lost = stop.asked is None and not was_up
    finally:
        process.leave(keep_log=lost)
    if lost and ("authentication" in said.lower() or "token" in said.lower()):
        process.log.unlink(missing_ok=True)
        raise HalftoneError("farm-token", details=said, path=str(token))
    if lost:
        raise HalftoneError("farm-start", details=said, detail=Words("this node never reached the head"), log=str(process.log))


def settled(*, again: bool, remake: bool) -> Settled:
    """Rebuild what a head that ended left half done. again: also try what failed, was cancelled or was set aside; remake: also
    make finished files again that are gone or changed.

    Where a head runs, it has done the first itself.
    """
    with claimed(head_mark()) as free, Ledger() as ledger:
        there, lost = settle(ledger) if free else (0, 0)
        lost += ledger.forget_leases() if free else 0
        bad = unsound(ledger)
        ended = (job.key for job in ledger.in_state("failed", "aside", "cancelled"))
        tried, taken = ledger.try_again(ended, Again()) if again else ((), ())
        remade, held = ledger.try_again((job.key for job in bad), Gone()) if remake else ((), ())
        left = tuple(job.place or job.output for job in bad if job.key not in remade)
        return Settled(there, lost, len(tried), len(remade), taken + held, left)
