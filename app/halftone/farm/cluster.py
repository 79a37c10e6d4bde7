"""The farm on Ray Core, which only this module imports. Ray puts an actor on each node and carries bytes; it repeats nothing."""

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.wording import Words
from halftone.farm.copying import Piece
from halftone.farm.node import Node
from halftone.farm.prints import ModelPrint
from halftone.farm.ray_process import FOLDER, RESOURCE, THREADS, FormerRay, RayProcess
from halftone.farm.talk import NodeFacts, NodeGoneError, NodePort, Task, Told, read_facts
from halftone.farm.tokens import environment
from halftone.settings.places import data_dir
from halftone.settings.private import private_folder

LOOPBACK: Final = "127.0.0.1"
_OPTIONS: Final = "HALFTONE_FARM_WORKER_OPTIONS"
_ANY: Final = "0.0.0.0"
"""Every address of this machine: none that a node could use."""
_REACH_SECONDS: Final = 10.0
_START_SECONDS: Final = 120.0
_LEFT_SECONDS: Final = 2.0
_ASKED_TO_END: Final = 1
"""EXPECTED_TERMINATION of Ray's NodeDeathInfo (src/ray/protobuf/common.proto)."""

log = logging.getLogger(__name__)


class StartStopped(Exception):  # noqa: N818 - it is no error: the user asked for it
    """The user stopped the farm before Ray was there."""


class Cluster:
    """Ray on the head. address: of this machine for other nodes; works: whether the head is a node, too; stopping: looked at
    while it starts. No other head of this user may run. Enter it to start; raises HalftoneError farm-start, and StartStopped.
    """

    def __init__(
        self,
        token: Path,
        address: str = LOOPBACK,
        port: int = 0,
        *,
        works: bool = True,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._token = token
        self._host = address
        self._former = FormerRay(private_folder(data_dir() / "farm") / "ray")
        self._former.end()  # it may still have the port
        self._port = free_port(address, port)
        self._works = works
        self._stopping = stopping
        self._folder = Path(tempfile.mkdtemp(prefix=FOLDER, dir="/tmp"))  # Ray's sockets need a short path
        self._process: RayProcess | None = None
        self._ports: dict[str, _RayNode] = {}

    @property
    def address(self) -> str:
        """What `join` needs."""
        return f"{self._host}:{self._port}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException as error:
            self._leave(keep_log=isinstance(error, HalftoneError))
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _start(self) -> None:
        loopback = self._host == LOOPBACK
        arguments = (
            "--head",
            f"--node-ip-address={self._host}",
            f"--port={self._port}",
            "--include-dashboard=false",
            f"--temp-dir={self._folder}",
        )
        self._former.keep(self._folder)
        self._process = RayProcess(arguments, self._token, loopback=loopback, works=self._works)
        until = time.monotonic() + _START_SECONDS
        while not answers(self.address):
            self._check_stop()
            if self._process.ended() is not None or time.monotonic() > until:
                raise HalftoneError(
                    "farm-start", detail=self._process.said() or Words("Ray ended without a word"), log=str(self._process.log)
                )
            time.sleep(0.1)
        os.environ.update({name: value for name, value in environment(self._token, loopback=loopback).items() if "RAY_" in name})
        import ray  # pyright: ignore[reportMissingImports]

        while True:
            try:
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
            except (ConnectionError, RuntimeError) as error:  # the head's own node is not there yet
                if self._process.ended() is not None or time.monotonic() > until:
                    raise HalftoneError("farm-start", detail=str(error), log=str(self._process.log)) from error
                self._check_stop()
                time.sleep(0.5)
            else:
                self._check_stop()
                return

    def _check_stop(self) -> None:
        if self._stopping():
            raise StartStopped

    def _leave(self, *, keep_log: bool = False) -> None:
        if (ray := sys.modules.get("ray")) is not None:
            ray.shutdown()
        if self._process is not None:
            self._process.leave(keep_log=keep_log)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._former.forget()

    async def nodes(self) -> Mapping[str, NodePort]:
        """The nodes that live; an actor is started on each new one, and where the last one ended."""
        import ray  # pyright: ignore[reportMissingImports]

        known: list[dict[str, Any]] = await asyncio.to_thread(ray.nodes)
        alive = [one["NodeID"] for one in known if one["Alive"] and one["Resources"].get(RESOURCE)]
        for name in alive:
            if name not in self._ports or self._ports[name].ended:
                self._ports[name] = _RayNode(name)
        return {name: self._ports[name] for name in alive}

    async def close_nodes(self) -> None:
        """End the workers of all nodes."""
        for port in self._ports.values():
            with contextlib.suppress(NodeGoneError):
                await port.close()


class _RayNode:
    """A node behind an actor of Ray. Nothing is repeated: the ledger alone says what is done again. ended: whether the actor's
    process is gone.
    """

    def __init__(self, name: str) -> None:
        import ray  # pyright: ignore[reportMissingImports]
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # pyright: ignore[reportMissingImports]

        made: Any = ray.remote(NodeActor)
        here = NodeAffinitySchedulingStrategy(node_id=name, soft=False)
        self.name = name
        self.ended = False
        self._actor: Any = made.options(
            num_cpus=0, max_restarts=0, max_task_retries=0, max_concurrency=16, resources={RESOURCE: 1}, scheduling_strategy=here
        ).remote()

    async def _call(self, method: str, *arguments: object) -> bytes:
        from ray.exceptions import RayActorError, RayError  # pyright: ignore[reportMissingImports]

        try:
            return await getattr(self._actor, method).remote(*arguments)
        except RayError as error:
            self.ended = self.ended or isinstance(error, RayActorError)
            log.info("node %s: %s", self.name, error)
            raise NodeGoneError(left=await asyncio.to_thread(_left, self.name)) from error

    async def describe(self) -> NodeFacts:
        return read_facts(await self._call("describe"))

    async def weigh(self, card: str, tasks: tuple[Task, ...]) -> tuple[ErrorFacts | None, ...]:
        answer = await self._call("weigh", card, msgspec.msgpack.encode(tasks))
        return msgspec.msgpack.decode(answer, type=tuple[ErrorFacts | None, ...])

    async def begin(self, card: str, tasks: tuple[Task, ...]) -> None:
        await self._call("begin", card, msgspec.msgpack.encode(tasks))

    async def take(self, seconds: float) -> tuple[Told, ...]:
        return msgspec.msgpack.decode(await self._call("take", seconds), type=tuple[Told, ...])

    async def cancel(self, names: tuple[str, ...]) -> None:
        await self._call("cancel", list(names))

    async def lacks(self, model: ModelPrint) -> bool:
        return msgspec.msgpack.decode(await self._call("lacks", msgspec.msgpack.encode(model)), type=bool)

    async def receive(self, piece: Piece) -> ErrorFacts | None:
        return msgspec.msgpack.decode(await self._call("receive", msgspec.msgpack.encode(piece)), type=ErrorFacts | None)

    async def close(self) -> None:
        await self._call("close")


def _left(name: str) -> bool:
    """Whether a node that does not answer was asked to end, by Ctrl+C for instance: then it said so before."""
    import ray  # pyright: ignore[reportMissingImports]

    until = time.monotonic() + _LEFT_SECONDS
    while True:
        known: list[dict[str, Any]] = ray.nodes()
        gone = next((one for one in known if one["NodeID"] == name and not one["Alive"]), None)
        if gone is not None or time.monotonic() > until:
            return gone is not None and gone.get("DeathReason") == _ASKED_TO_END
        time.sleep(0.1)


class NodeActor:
    """The node's end of `_RayNode`: runs in a process that Ray starts. Its worker processes end with it."""

    def __init__(self) -> None:
        threads = os.environ.get(THREADS, "")
        os.environ.pop("OMP_NUM_THREADS", None)
        if threads:
            os.environ["OMP_NUM_THREADS"] = threads
        self._node: Node | None = None

    async def _there(self) -> Node:
        if self._node is None:
            self._node = Node(*os.environ.get(_OPTIONS, "").split())
        return self._node

    async def describe(self) -> bytes:
        return msgspec.msgpack.encode(await (await self._there()).describe())

    async def weigh(self, card: str, tasks: bytes) -> bytes:
        node = await self._there()
        return msgspec.msgpack.encode(await node.weigh(card, msgspec.msgpack.decode(tasks, type=tuple[Task, ...])))

    async def begin(self, card: str, tasks: bytes) -> bytes:
        node = await self._there()
        await node.begin(card, msgspec.msgpack.decode(tasks, type=tuple[Task, ...]))
        return b""

    async def take(self, seconds: float) -> bytes:
        return msgspec.msgpack.encode(await (await self._there()).take(seconds))

    async def cancel(self, names: list[str]) -> bytes:
        await (await self._there()).cancel(tuple(names))
        return b""

    async def lacks(self, model: bytes) -> bytes:
        node = await self._there()
        return msgspec.msgpack.encode(await node.lacks(msgspec.msgpack.decode(model, type=ModelPrint)))

    async def receive(self, piece: bytes) -> bytes:
        node = await self._there()
        return msgspec.msgpack.encode(await node.receive(msgspec.msgpack.decode(piece, type=Piece)))

    async def close(self) -> bytes:
        await (await self._there()).close()
        return b""


def check_head(address: str) -> None:
    """Raise HalftoneError setting-bad-value for an address that no other machine's head has, and farm-no-head."""
    host, _, port = address.rpartition(":")
    allowed: Words | None = None
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        allowed = Words("the address that the head shows, such as {0}", ("192.0.2.1:6379",))
    elif host in (LOOPBACK, "localhost", "::1"):  # the head serves this machine's cards itself
        allowed = Words("the address of a head that was started with --address")
    if allowed is not None:
        raise HalftoneError("setting-bad-value", name="ADDRESS:PORT", value=address, allowed=allowed)
    if not answers(address, _REACH_SECONDS):
        raise HalftoneError("farm-no-head", address=address)


def join(address: str, token: Path) -> RayProcess:
    """Start a node of a farm on this machine. address: as `check_head` lets it pass."""
    return RayProcess((f"--address={address}",), token, loopback=False, works=True)


def free_port(host: str, port: int) -> int:
    """This port, or any that is free where it is 0. Raises HalftoneError where nothing can listen: Ray would wait in vain."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Ray does: connections that ended need not be waited for
        try:
            if host == _ANY:
                raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = Words("another program listens on port {0}; choose another one with --port", (str(port),))
                raise HalftoneError("farm-not-possible", detail=why) from error
            if error.errno == errno.EACCES:
                why = Words("you may not use port {0}; choose one above 1023 with --port", (str(port),))
                raise HalftoneError("farm-not-possible", detail=why) from error
            allowed = Words("an address of this machine")
            raise HalftoneError("setting-bad-value", name="--address", value=host, allowed=allowed) from error
        return probe.getsockname()[1]


def answers(address: str, seconds: float = 1.0) -> bool:
    """Whether anything listens at ADDRESS:PORT."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=seconds):
            return True
    except OSError:
        return False
