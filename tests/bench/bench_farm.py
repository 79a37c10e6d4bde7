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

from halftone.contract.messages import Generate
from halftone.contract.request import PictureRequest
from halftone.farm.ledger import Ledger, Wanted
from halftone.farm.placing import place, settle
from halftone.farm.states import Job

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


def together(folder: Path) -> None:
    alone: list[float] = []
    for count, which in ((2, 0), (2, 1), (2, None)):
        asyncio.run(_made(folder / f"run {which}", count, which, alone))
    one, other, both = alone
    sys.stdout.write(f"node 1: {one:.2f}, node 2: {other:.2f}, both: {both:.2f} pictures a second\n")
    sys.stdout.write(f"efficiency: {both / (one + other):.2f} of the sum, {both / max(one, other):.2f} times the faster one\n")


async def _made(folder: Path, count: int, which: int | None, rates: list[float]) -> None:
    """Pictures a second of one of the nodes, or of all, from the first picture on: loading is not counted."""
    folder.mkdir()
    with Ledger(folder / "ledger.sqlite") as ledger:
        async with nodes(count) as there:
            used = {name: one for number, (name, one) in enumerate(there.items()) if which in (None, number)}
            for one in used.values():
                await one.node.describe()
            submit(ledger, lines(folder, 2 * count, steps=4))
            await until_over(head(ledger, used, record=False, most=1), PATIENCE_SECONDS)
            more = folder / "more"
            more.mkdir()
            text = lines(more, PICTURES * len(used), width=128, height=128, steps=8).read_text(encoding="utf-8")
            (more / "jobs.jsonl").write_text(text.replace('"key": "j', '"key": "m'), encoding="utf-8")
            submit(ledger, more / "jobs.jsonl")
            began = time.perf_counter()
            await until_over(head(ledger, used, record=False), PATIENCE_SECONDS)
            rates.append(PICTURES * len(used) / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
