"""Runs hostile code in the confined process, with files and listeners in its reach, and returns what came of each way out."""

import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from halftone.library.files.header import read_header
from halftone.session.models.confined import rewrite
from halftone.worker.confined.walls import Wall

MODULE = "tests.helpers.hostile_conversion"


class Attacked(NamedTuple):
    """tried: way -> what kept it in, or "escaped"; walls: what the process said that it could not do."""

    tried: dict[str, str]
    walls: frozenset[Wall]


def attack(folder: Path, *, free: bool = False, ways: Iterable[str] = ()) -> Attacked:
    """Try each way, or those named. free: without any confinement."""
    victim = folder / "victim"
    (victim / "made").mkdir(parents=True)
    (victim / "secret").write_text("mine")
    source = folder / "source.ckpt"
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(folder / "socket"))
        local.listen()
        said = {
            "source": str(source),
            "folder": str(victim),
            "port": str(port.getsockname()[1]),
            "socket": str(folder / "socket"),
            "library": "libanl.so.1",
            "parent": os.getpid(),
            "free": free,
            "ways": list(ways),
        }
        source.write_text(json.dumps(said))
        with source.open("rb") as opened:
            part = folder / "made.safetensors"
            ended = rewrite(opened, source, part, lambda _done, _all: None, MODULE)
    return Attacked(read_header(part).metadata, ended.walls)
