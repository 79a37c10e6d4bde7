"""Memory that is told before a picture beside what the card in software counts, for every family and way of offloading.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.families.memory [--only WORDS ...] [--ways WORDS ...]
        [--peaks | --pictures]

The networks are broad (`broad`): tens of megabytes. The card counts every tensor on it, rounded up to 512 bytes as CUDA's
allocator does, and leaves the arithmetic of large tensors out: what is counted is the same with it and without (`set_idle`).

"1.05": a limit of 1.05 times what was told, in the same way: the picture is made in that way, without a shortage.
"0.6": a limit of 0.6 times what was told, with everything left to Halftone: the way in which the picture was made then.
--peaks: what is told and the peak alone.
--pictures: the arithmetic is done, and both pictures are compared with the one that had all the memory (minutes for a family).

Exit code 1 where what is told is not within 10 % of the peak, or a limit of 1.05 did not hold.
"""

import argparse
import gc
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from tests.accelerator import card
from tests.bench.families.broad import WORDS, edge, save_broad
from tests.bench.families.run import mask, picture
from tests.bench.families.table import CASES, Case
from tests.helpers.engine_runs import Recorder, Steady, pixels

from halftone.contract.facts import GenerateReport, PictureFacts
from halftone.contract.messages import Generate
from halftone.contract.request import Numerics, OptionValue, PictureRequest
from halftone.engine.service import DiffusersEngine
from halftone.health.forecasts.memory_forecast import Way, tiles
from halftone.health.forecasts.picture_memory import Next, forecast
from halftone.library.families.networks import networks_of
from halftone.library.models import describe

NEAR: Final = 0.1
ENOUGH: Final = 1.05
TOO_LITTLE: Final = 0.6
UNLIMITED: Final = 1 << 40
PLAIN: Final = Way()
WAYS: Final[tuple[Way, ...]] = (PLAIN, Way("none", tiled=True), Way("model"), Way("group"), Way("sequential"))


@dataclass
class Cell:
    """What was told of one family in one way, and what was seen: bytes. enough: the limit of 1.05 held; then: how the picture was
    made with 0.6; same: decibels of both from the picture that had all the memory.
    """

    told: int
    peak: int
    enough: bool = True
    then: str = ""
    same: list[float] = field(default_factory=list[float])

    @property
    def ratio(self) -> float:
        return self.told / self.peak

    @property
    def ok(self) -> bool:
        return abs(self.ratio - 1) <= NEAR and self.enough


class Rig:
    """One broad model on the card. idle: large tensors are not computed; limited: pictures are made within limits too."""

    def __init__(self, case: Case, folder: Path, *, idle: bool, limited: bool = True) -> None:
        self.extension = card.install()
        self.case = case
        self.idle = idle
        self.limited = limited
        self.model = save_broad(case, folder / (case.folder or case.name))
        self.folder = folder
        self.engine = DiffusersEngine()

    def request(self, way: Way | None) -> PictureRequest:
        """None: everything is left to Halftone."""
        size, task = edge(self.case), self.case.tasks[0]
        numerics = Numerics(precision="float16", nan_check="off" if self.idle else "every-step")
        if way is not None:
            numerics = Numerics(
                precision="float16",
                offload=way.offload,
                vae_tiling="always" if way.tiled else "never",
                nan_check=numerics.nan_check,
            )
        return PictureRequest(
            prompt="a red sun",
            model=str(self.model),
            width=size,
            height=size,
            steps=2 if task == "text" or self.case.frames else 4,
            seed=5,
            guidance=describe(str(self.model)).default_guidance,
            num_frames=self.case.frames,
            image=None if task == "text" else str(picture(self.folder / "given.png", size)),
            mask=str(mask(self.folder / "mask.png", size)) if task == "mask" else None,
            options=self._options(size),
            numerics=numerics,
        )

    def _options(self, size: int) -> dict[str, OptionValue]:
        own = dict(self.case.options)
        if "max_area" in own:  # what it brings every picture to
            own["max_area"] = size * size
        return own | (WORDS if self.case.family == "Sana" else {})

    @property
    def tiles(self) -> bool:
        """Whether its decoder makes tiles."""
        return tiles(networks_of(describe(str(self.model))))

    def told(self, way: Way) -> int:
        """What the window tells before the picture."""
        facts = describe(str(self.model))
        found = forecast(networks_of(facts), Next(self.request(way), facts, "float16", "card"), None)
        assert found is not None
        return found.peak

    def make(self, way: Way | None, limit: int = UNLIMITED) -> tuple[PictureFacts, GenerateReport]:
        self.extension.set_limit(0, limit)
        self.extension.set_idle(self.idle)
        try:
            report = self.engine.generate(Generate(job="g", request=self.request(way)), Recorder(), Steady())
        finally:
            self.extension.set_limit(0, UNLIMITED)
            self.extension.set_idle(False)
        return report.images[0], report

    def cell(self, way: Way) -> Cell:
        facts, report = self.make(way)
        assert facts.peak_memory is not None
        cell = Cell(self.told(way), facts.peak_memory)
        if not self.limited:
            return cell
        held, again = self.make(way, round(ENOUGH * cell.told))
        cell.enough = not held.shortages and bool(held.path)
        less, last = self.make(None, round(TOO_LITTLE * cell.told))
        cell.then = how(less)
        if not self.idle:
            cell.same = [decibels(report, one) for one in (again, last) if one.images[0].path]
        return cell


def called(way: Way) -> str:
    return "tiles" if way.tiled else way.offload


def how(facts: PictureFacts) -> str:
    """The way in which a picture was made."""
    if not facts.path:
        return "stopped"
    return (
        f"{facts.offload}{' in tiles' if facts.tiled else ''}{f', {len(facts.shortages)} shortages' if facts.shortages else ''}"
    )


def decibels(one: GenerateReport, other: GenerateReport) -> float:
    off = float(((pixels(one).astype(np.float64) - pixels(other)) ** 2).mean())
    return float("inf") if off == 0 else 10 * float(np.log10(255**2 / off))


def rows(rig: Rig, ways: Sequence[Way]) -> Iterator[tuple[str, bool]]:
    """A line for each way that its decoder has."""
    case = rig.case
    for way in ways:
        if way.tiled and not rig.tiles:
            continue
        name = f"{case.name} | {way.offload}{' in tiles' if way.tiled else ''}"
        try:
            cell = rig.cell(way)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a row of the table
            frame = traceback.extract_tb(error.__traceback__)[-1]
            yield f"{name} | failed: {type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}: {error}", False
            return
        same = "".join(f" | {value:.0f} dB" for value in cell.same)
        limits = f" | 1.05: {'runs' if cell.enough else 'NO'} | 0.6: {cell.then}{same}" if rig.limited else ""
        yield f"{name} | told {cell.told / 1e6:.1f} MB | peak {cell.peak / 1e6:.1f} MB | {cell.ratio:.2f}{limits}", cell.ok


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="families whose names hold one of these")
    names = [called(way) for way in WAYS]
    parser.add_argument("--ways", nargs="+", default=names, choices=names, help="how the model is offloaded, or decoded")
    parser.add_argument("--pictures", action="store_true", help="compute the pictures and compare them")
    parser.add_argument("--peaks", action="store_true", help="no limits")
    asked = parser.parse_args(words)
    wanted = [word.lower() for word in asked.only]
    ways = [way for way in WAYS if called(way) in asked.ways]
    failed = 0
    warnings.simplefilter("ignore")
    for case in CASES:
        if case.refused or not case.tasks or (wanted and not any(word in case.name.lower() for word in wanted)):
            continue
        with tempfile.TemporaryDirectory(prefix="halftone-memory-") as folder:
            os.environ["HALFTONE_DATA"] = folder
            rig = Rig(case, Path(folder), idle=not asked.pictures, limited=not asked.peaks)
            for line, ok in rows(rig, ways):
                failed += not ok
                sys.stdout.write(f"{line}{'' if ok else ' | NOT MET'}\n")
                sys.stdout.flush()
        gc.collect()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
