"""Runs the local interface with a session of its own, until it is stopped."""

import asyncio
import signal
from collections.abc import Callable

from halftone.contract.messages import AnyEvent
from halftone.serve.interface import Interface
from halftone.serve.server import Server
from halftone.session.ports import Ports
from halftone.session.session import Session
from halftone.session.workers.headless import LoopClock, LoopCommands, LoopExecutor, LoopLink
from halftone.settings.store import Settings


def serve(settings: Settings, secret: str, port: int, ready: Callable[[str], object], *options: str) -> None:
    """Serve until Ctrl+C or a signal to end. ready: gets the address; options: of the worker. Raises OSError as `Server`."""
    asyncio.run(_serve(settings, secret, port, ready, *options))


async def _serve(settings: Settings, secret: str, port: int, ready: Callable[[str], object], *options: str) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    link, commands, executor = LoopLink(loop, *options), LoopCommands(loop), LoopExecutor(loop)
    heard: list[Callable[[AnyEvent, bytes], object]] = []
    others: list[LoopLink] = []

    def make_link(hear: Callable[[AnyEvent, bytes], object]) -> LoopLink:
        others.append(LoopLink(loop, *options, arrived=hear))
        return others[-1]

    session = Session(
        link,
        Ports(executor, LoopClock(loop), commands),
        settings,
        early=True,
        heard=lambda event, blob: [hear(event, blob) for hear in heard],
        read_only=True,  # a window that is open writes them
        make_link=make_link,
    )
    link.arrived = session.arrived
    interface = Interface(session, loop.call_soon_threadsafe)
    heard.append(interface.hear)
    server = Server(interface, secret, port)
    _on_signals(loop, over.set)
    session.start()
    server.start()
    ready(server.address)
    try:
        await over.wait()
    finally:
        server.stop()
        session.stop()
        for one in (link, *others):
            await one.closed()
        await commands.closed()
        executor.close()


def _on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
    """Stop on Ctrl+C and on the system's signals to end; Windows has no handlers of the loop."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))
