"""Runs the head until it is stopped or has nothing left to do, and joins other machines to it."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.farm.cluster import LOOPBACK, Cluster, check_ray, join
from halftone.farm.head import Head
from halftone.farm.ledger import Ledger, ledger_file
from halftone.farm.placing import settle, unsound
from halftone.farm.tokens import given_token, token_file
from halftone.settings.folders import claimed


class Settled(NamedTuple):
    """there: files that were about to appear and did; lost: those that did not, and leases of the head that ended, all of which
    wait again; again: jobs that are tried again; taken: keys of those that are not, as an open job has their output; unsound:
    files of finished jobs that are gone or changed.
    """

    there: int
    lost: int
    again: int
    taken: tuple[str, ...]
    unsound: tuple[str, ...]


def head_mark() -> Path:
    """A file that is claimed while a head of this user runs."""
    return ledger_file().with_name("head.open")


def run_head(
    ready: Callable[[str, Path], object], address: str = LOOPBACK, port: int = 0, *, works: bool = True, until_over: bool = False
) -> None:
    """Run the head. ready: gets the address for `join` and the token's file. Raises HalftoneError farm-*, output-*, disk-full."""
    check_ray()
    with claimed(head_mark()) as free:
        if not free:
            raise HalftoneError("farm-start", detail=Words("a head of this user runs already"), log=str(head_mark()))
        asyncio.run(_run_head(ready, address, port, works=works, until_over=until_over))


async def _run_head(ready: Callable[[str, Path], object], address: str, port: int, *, works: bool, until_over: bool) -> None:
    token = token_file()
    with Cluster(token, address, port, works=works) as cluster, Ledger() as ledger:
        head = Head(ledger, cluster.nodes)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, head.stopping.set)
        ready(cluster.address, token)
        try:
            await head.run(until_over=until_over)
        finally:
            await cluster.close_nodes()


def run_node(address: str, token: str | None, ready: Callable[[], object]) -> None:
    """Be a node until it is stopped, or the head is gone. Raises HalftoneError farm-*."""
    check_ray()
    process = join(address, given_token(token))
    stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True
        process.end()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        ready()
        process.wait()
        said = process.said()
    finally:
        process.leave()
        for number, handler in before.items():
            signal.signal(number, handler)
    if not stopped:
        if "authentication" in said.lower() or "token" in said.lower():
            raise HalftoneError("farm-token", details=said)
        raise HalftoneError("farm-start", detail=Words("this node lost the head, or never reached it"), log=address, details=said)


def settled(*, again: bool) -> Settled:
    """Rebuild what a head that ended left half done. again: also try what failed, was cancelled or was set aside.

    Where a head runs, it has done the first itself.
    """
    with claimed(head_mark()) as free, Ledger() as ledger:
        there, lost = settle(ledger) if free else (0, 0)
        lost += ledger.forget_leases() if free else 0
        tried, taken = ledger.try_again() if again else ((), ())
        return Settled(there, lost, len(tried), taken, unsound(ledger))
