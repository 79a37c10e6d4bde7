"""The farm: leases and files a second at the head, and two nodes together against each of them alone, all within one run.

python tests/bench/bench_farm.py             # the ledger and the files alone, without torch
python tests/bench/bench_farm.py --nodes     # also two real nodes on this machine
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.helpers.farms import head, lines, nodes, submit, until_over

from halftone.contract.facts import GenerateReport
from halftone.contract.messages import AnyEvent, Generate, JobEnded, JobStarted
from halftone.contract.request import PictureRequest
from halftone.farm.ledger import Ledger, Wanted
from halftone.farm.node import Node
from halftone.farm.placing import place, settle
from halftone.farm.states import Job
from halftone.farm.talk import Task

JOBS = 10_000
LEASE = 32
PLACED = 500
PICTURES = 24
PATIENCE_SECONDS = 900.0
CARDS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", action="store_true")
    with tempfile.TemporaryDirectory() as folder:
        at_the_head(Path(folder))
        if parser.parse_args().nodes:
            together(Path(folder))


def at_the_head(folder: Path) -> None:
    """What limits a head however many cards there are."""
    picture = b"x" * 500_000
    wanted = [
        Wanted(
            Job(key=f"k{n}", user=f"user {n % 5}", kind="k", output=str(folder / f"k{n}.png")),
            Generate(job=f"k{n}", request=PictureRequest(prompt="a red sun", seed=n)),
            (),
        )
        for n in range(JOBS)
    ]
    with Ledger(folder / "bench.sqlite") as ledger:
        began = time.perf_counter()
        ledger.submit(wanted)
        told("jobs handed in", JOBS / (time.perf_counter() - began))
        began, leases = time.perf_counter(), []
        while (lease := ledger.lease(f"node {len(leases)}", "cuda:0", ("k",), LEASE, 60.0)) is not None:
            leases.append(lease)
        leased = len(leases) / (time.perf_counter() - began)
        told("leases", leased)
        began = time.perf_counter()
        for number in range(len(leases)):
            ledger.renew(f"node {number}", 60.0)
        told("nodes heard", len(leases) / (time.perf_counter() - began))
        jobs = [job for lease in leases for job in lease.jobs][:PLACED]
        began = time.perf_counter()
        for job in jobs:
            assert place(ledger, job.key, job.attempt, picture) is not None
        placed = PLACED / (time.perf_counter() - began)
        told("files of 0.5 MB, each on the disk before the next", placed)
        began = time.perf_counter()
        settle(ledger)
        back = ledger.forget_leases()
        sys.stdout.write(f"resume: {back} leased jobs wait again after {time.perf_counter() - began:.2f} s\n")
    slowest = CARDS / min(placed, leased * LEASE)
    sys.stdout.write(f"{CARDS} cards keep this head busy where a picture takes less than {slowest:.1f} s on a card\n")


def told(what: str, rate: float) -> None:
    sys.stdout.write(f"{what}: {rate:.0f} a second\n")


class Clocked(Node):
    """A node that knows when its worker computed. spans: from the first job's start to the last one's end; own: of that, what the
    worker needed by its own reports.
    """

    def __init__(self, *options: str, copies: Path | None = None) -> None:
        super().__init__(*options, copies=copies)
        self.clear()

    def clear(self) -> None:
        self.first = self.last = self.own = 0.0
        self.count = 0

    def _tell(self, task: Task, event: AnyEvent, blob: bytes = b"") -> None:
        now = time.perf_counter()
        if isinstance(event, JobStarted):
            self.first = self.first or now
        if isinstance(event, JobEnded) and isinstance(event.report, GenerateReport):
            self.last, self.own, self.count = now, self.own + event.report.seconds, self.count + 1
        super()._tell(task, event, blob)


def together(folder: Path) -> None:
    """Two nodes together, against each alone, and against their workers' own time in the same run."""
    rates: list[float] = []
    for which in (0, 1, None):
        nodes_there = asyncio.run(_made(folder / f"run {which}", which, rates))
        for node in nodes_there:
            busy = node.own / (node.last - node.first)
            sys.stdout.write(
                f"  {node.count} pictures of a node: its worker computed {busy:.0%} of the time between first and last\n"
            )
        if which is None:
            wall = sum(one.count for one in nodes_there) / rates[-1]
            own = sum(one.own for one in nodes_there) / (len(nodes_there) * wall)
            sys.stdout.write(f"efficiency: {own:.2f} of the two nodes' own speed while both live\n")
    one, other, both = rates
    sys.stdout.write(f"node 1: {one:.2f}, node 2: {other:.2f}, both: {both:.2f} pictures a second\n")
    sys.stdout.write(f"{both / (one + other):.2f} of the sum of each alone: less where both share one processor\n")


async def _made(folder: Path, which: int | None, rates: list[float]) -> list[Clocked]:
    """Pictures a second of one of the nodes, or of all, from the first picture on: loading is not counted. The nodes."""
    folder.mkdir()
    with Ledger(folder / "ledger.sqlite") as ledger:
        async with nodes(2, kind=Clocked) as there:
            used = {name: one for number, (name, one) in enumerate(there.items()) if which in (None, number)}
            for one in used.values():
                await one.node.describe()
            submit(ledger, lines(folder, 4 * len(used), steps=4))
            await until_over(head(ledger, used, record=False, most=1), PATIENCE_SECONDS)
            clocked = [one.node for one in used.values() if isinstance(one.node, Clocked)]
            for node in clocked:
                node.clear()
            more = folder / "more"
            more.mkdir()
            text = lines(more, PICTURES * len(used), width=128, height=128, steps=8).read_text(encoding="utf-8")
            (more / "jobs.jsonl").write_text(text.replace('"key": "j', '"key": "m'), encoding="utf-8")
            submit(ledger, more / "jobs.jsonl")
            began = time.perf_counter()
            await until_over(head(ledger, used, record=False), PATIENCE_SECONDS)
            rates.append(PICTURES * len(used) / (time.perf_counter() - began))
            return clocked


if __name__ == "__main__":
    main()
