"""Every scheduler of diffusers with every family and every task, with few steps and with strengths at the edge.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.families.schedulers [--only WORDS ...] [--all] [--product]

Each family's tiny model is given each scheduler that diffusers calls compatible with its own, and those that Halftone offers
as samplers; with --all every scheduler class that can be built. With each it makes a picture of a prompt, of a picture and inside
a mask, as far as it can, is checked, and is used with a ControlNet or in two passes in turn. Steps and strengths take turns from
one scheduler and family to the next, so that each scheduler meets them all; with --product each family does. At last each
sampler that Halftone offers for the model itself makes a picture of every kind. A run ends in a picture, or in a sentence of
Halftone's own. Anything else is a fault, and so is the refusal of a sampler that is offered: exit code 1. Every refusal stands
below the table.
"""

import argparse
import gc
import inspect
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import diffusers
from diffusers import schedulers as known
from tests.bench.families.more import Fields, used_with
from tests.bench.families.plain import plain_pipeline
from tests.bench.families.run import PROMPT, mask, original, picture, save
from tests.bench.families.table import CASES, Case, Task
from tests.helpers.engine_runs import Recorder, Steady

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import Examine, Generate
from halftone.contract.request import CheckInputs, Numerics, PictureRequest, Start, split_sampler
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.stand_ins import put_stand_ins
from halftone.engine.sampling.samplers import is_flow
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe
from halftone.library.samplers import FLOW_METHODS, METHODS, check_sampler

STEPS: Final = (1, 2, 3)
STARTED: Final = ((1, 1.0), (2, 0.5), (3, 0.34), (4, None), (3, 1.0))
"""Steps and strength where there is a picture to start from; None: the pipeline's own strength, 0.3 or more."""
MORE: Final = ("ControlNet", "two passes")
_MADE: Final = ("clean", "recovered")


@dataclass(frozen=True)
class Run:
    """One thing that a model is asked for. task: None of a check; sampler: chosen among those that Halftone offers."""

    task: Task | None
    steps: int
    strength: float | None = None
    more: str = ""
    sampler: str | None = None

    def __str__(self) -> str:
        strength = "" if self.strength is None else f", strength {self.strength:g}"
        return f"{self.task or 'check'}, {self.steps} steps{strength}{', ' + self.more if self.more else ''}"


@dataclass
class Tally:
    """What became of the runs of one family. refused, faults: (scheduler, run, words); unbuilt: schedulers not made."""

    made: int = 0
    refused: list[tuple[str, Run, str]] = field(default_factory=list[tuple[str, Run, str]])
    unbuilt: list[str] = field(default_factory=list[str])
    faults: list[tuple[str, Run, str]] = field(default_factory=list[tuple[str, Run, str]])


def runs(case: Case, strengths: Collection[Task], more: Iterable[str]) -> list[Run]:
    """List everything that a family is asked for. strengths: tasks that take one; more: what its pipeline can be used with."""
    whole = [run for task in case.tasks for run in _of_task(task, strengths)]
    return [*whole, *(_with_more(case, what) for what in more), Run(None, 3)]


def _of_task(task: Task, strengths: Collection[Task]) -> list[Run]:
    return [Run(task, *started) for started in STARTED] if task in strengths else [Run(task, steps) for steps in STEPS]


def in_turn(case: Case, strengths: Collection[Task], more: Sequence[str], turn: int) -> list[Run]:
    """One run of each task, one with something more, and a check. turn: which steps and strength, and which thing more."""
    found = [(ways := _of_task(task, strengths))[turn % len(ways)] for task in case.tasks]
    found += [_with_more(case, more[turn % len(more)])] if more else []
    return [*found, Run(None, 3)]


def _with_more(case: Case, what: str) -> Run:
    return Run(case.tasks[0], 2 if case.tasks[0] == "text" else 4, more=what)


def classes(native: Any, *, every: bool) -> dict[str, dict[str, Any]]:
    """Names of scheduler classes to try in the place of a model's own, and what of their configuration is not the model's."""
    offered = {method.scheduler: method.options for method in (FLOW_METHODS if is_flow(native) else METHODS).values()}
    found = {type(native).__name__: {}, **{kind.__name__: {} for kind in _compatible(native)}, **offered}
    if every:
        found |= {name: {} for name in dir(known) if name.endswith("Scheduler") and name not in found}
    return found


def _compatible(native: Any) -> list[type[Any]]:
    return list(native.compatibles) if hasattr(native, "compatibles") else []


def given_scheduler(model: Path, target: Path, name: str, options: dict[str, Any]) -> Path | None:
    """A copy of the model's folder, its files linked, with another scheduler; None for a class that cannot be built."""
    config = json.loads((model / "scheduler" / "scheduler_config.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = getattr(diffusers, name, None) or getattr(known, name)
            scheduler = made.from_config({key: value for key, value in config.items() if key != "_class_name"}, **options)
        except (ImportError, TypeError, ValueError, AttributeError, NotImplementedError):
            return None
        shutil.copytree(model, target, copy_function=os.link)
        shutil.rmtree(target / "scheduler")
        scheduler.save_pretrained(target / "scheduler")
    index = json.loads((target / "model_index.json").read_text())
    (target / "model_index.json").unlink()  # a link to the model's own
    (target / "model_index.json").write_text(json.dumps(index | {"scheduler": ["diffusers", name]}))
    return target


@dataclass(frozen=True)
class Bench:
    """One family's tiny model, and what it is given."""

    case: Case
    folder: Path
    model: Path
    given: tuple[Path, Path]
    used: dict[str, Fields]
    strengths: Collection[Task] = ()

    def swept(self, *, every: bool, turn: int | None) -> Iterator[tuple[str, Run, str, str]]:
        """(scheduler, run, outcome, words); outcome: made, refused or fault. turn: of the first scheduler; None: all runs."""
        with warnings.catch_warnings(), quiet_libraries():
            warnings.simplefilter("ignore")
            for place, (name, options) in enumerate(classes(self._native(), every=every).items()):
                model = given_scheduler(self.model, self.folder / name / self.model.name, name, options)
                if model is None:
                    yield name, Run(None, 0), "unbuilt", ""
                    continue
                engine = DiffusersEngine()
                for run in self._wanted(None if turn is None else turn + place):
                    yield name, run, *self.outcome(engine, model, run)

        yield from self.offered()

    def offered(self) -> Iterator[tuple[str, Run, str, str]]:
        """Run every sampler that is offered for the model with every task; to refuse one of them is a fault."""
        facts, engine = describe(str(self.model)), DiffusersEngine()
        for name in dict.fromkeys(split_sampler(name)[0] for name in facts.samplers):
            for task in self.case.tasks:
                run = Run(task, 2 if task == "text" else 4, sampler=name)
                if fits(facts, name, image=task != "text"):
                    outcome, words = self.outcome(engine, self.model, run)
                    yield name, run, "fault" if outcome == "refused" else outcome, f"offered, but {words}"

    def _wanted(self, turn: int | None) -> list[Run]:
        more = list(self.used)
        if turn is None:
            return runs(self.case, self.strengths, more)
        return in_turn(self.case, self.strengths, more, turn)

    def _native(self) -> Any:
        config = json.loads((self.model / "scheduler" / "scheduler_config.json").read_text())
        return getattr(diffusers, config["_class_name"]).from_config(config)

    def outcome(self, engine: DiffusersEngine, model: Path, run: Run) -> tuple[str, str]:
        try:
            state = self._check(engine, model, run) if run.task is None else self._picture(engine, model, run)
        except HalftoneError as error:
            return "refused", f"{error.code}: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the table is made to find
            frame = traceback.extract_tb(error.__traceback__)[-1]
            words = (str(error).strip().splitlines() or [""])[0]
            return "fault", f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}: {words}"
        return ("made", state) if state in _MADE else ("fault", f"the picture is {state}")

    def _check(self, engine: DiffusersEngine, model: Path, run: Run) -> str:
        case = self.case
        inputs = CheckInputs(width=case.size, height=case.size, steps=run.steps, num_frames=case.frames, options=case.options)
        engine.examine(Examine(job="c", model=str(model), numerics=_numerics(), inputs=inputs), Recorder(), Steady())
        return "clean"

    def _picture(self, engine: DiffusersEngine, model: Path, run: Run) -> str:
        case = self.case
        request = PictureRequest(
            prompt=PROMPT,
            model=str(model),
            width=case.size,
            height=case.size,
            steps=run.steps,
            seed=5,
            num_frames=case.frames,
            image=None if run.task == "text" else str(self.given[0]),
            mask=str(self.given[1]) if run.task == "mask" else None,
            start=Start(strength=run.strength),
            sampler=run.sampler,
            output=str(self.folder / "made.png"),
            overwrite=True,
            options=case.options,
            numerics=_numerics(),
            **self.used.get(run.more, {}),
        )
        return engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0].state


def fits(facts: ModelFacts, sampler: str, *, image: bool) -> bool:
    """Tell whether Halftone offers a sampler for a model's task."""
    try:
        check_sampler(facts, sampler, image=image)
    except HalftoneError:
        return False
    return True


def _numerics() -> Numerics:
    return Numerics(precision="float32")


def bench_of(case: Case, folder: Path, more: Iterable[str] = MORE) -> Bench:
    """The family's model, saved, with a picture, a mask and what it can be used with. more: of these."""
    model = save(case, folder / (case.folder or case.name))
    put_stand_ins(model)  # for what the libraries cannot read without torchvision
    given = (picture(folder / "given.png", case.size), mask(folder / "mask.png", case.size))
    used: dict[str, Fields] = {}
    for what in more:
        (own := folder / what).mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fields = used_with(what, model, own, given[0])
            except AssertionError as error:  # what diffusers can and Halftone cannot: the bench of families shows it
                sys.stderr.write(f"without {what}: {case.name}: {error}\n")
                continue
        if fields is not None:
            used[what] = fields
    parts = case.parts(model)
    strengths: list[Task] = [
        task for task in case.tasks if task != "text" and takes_strength(plain_pipeline(original(model), task, parts))
    ]
    return Bench(case, folder, model, given, used, strengths)


def takes_strength(pipe: Any) -> bool:
    """Tell whether a plain pipeline of diffusers knows a strength."""
    return "strength" in inspect.signature(pipe.__call__).parameters


def swept(case: Case, folder: Path, *, every: bool, turn: int | None) -> Tally:
    """What became of all runs of a family."""
    tally = Tally()
    for name, run, outcome, words in bench_of(case, folder).swept(every=every, turn=turn):
        if outcome == "made":
            tally.made += 1
        elif outcome == "unbuilt":
            tally.unbuilt.append(name)
        else:
            sys.stderr.write(f"{outcome}: {case.name}, {name}, {run}: {words}\n")
            (tally.refused if outcome == "refused" else tally.faults).append((name, run, words))
    return tally


def row(name: str, tally: Tally) -> str:
    """A line of the table."""
    return f"{name:32} {tally.made:4} {len(tally.refused):7} {len(tally.faults):6} {len(tally.unbuilt):9}"


def whole(tallies: Iterable[Tally]) -> Tally:
    """Add up tallies."""
    found = Tally()
    for tally in tallies:
        found.made += tally.made
        found.refused += tally.refused
        found.faults += tally.faults
        found.unbuilt += tally.unbuilt
    return found


def lines(found: dict[str, Tally]) -> Iterator[str]:
    """The table, then what was refused, counted by its words, and every fault."""
    yield f"{'family':32} made refused faults not built"
    yield from (row(name, tally) for name, tally in found.items())
    yield row("all", whole(found.values()))
    for name, tally in found.items():
        if tally.unbuilt:
            yield f"not built, {name}: {', '.join(tally.unbuilt)}"
        counted = Counter(words for _, _, words in tally.refused)
        where = {words: (scheduler, run) for scheduler, run, words in tally.refused}
        for words, count in counted.items():
            yield f"refused, {name}, {count} times, such as {where[words][0]}, {where[words][1]}: {words}"
    for name, tally in found.items():
        for scheduler, run, words in tally.faults:
            yield f"FAULT, {name}, {scheduler}, {run}: {words}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="families whose names hold one of these")
    parser.add_argument("--all", action="store_true", help="every scheduler class of diffusers that can be built")
    parser.add_argument("--product", action="store_true", help="every scheduler of a family with all steps and strengths")
    given = parser.parse_args(words)
    gc.freeze()  # the libraries' own objects: a model that is given back is looked for among the rest
    wanted = [word.lower() for word in given.only]
    found: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(prefix="halftone-schedulers-") as folder:
        os.environ.setdefault("HALFTONE_DATA", folder)
        for number, case in enumerate(CASES):
            if case.refused or (wanted and not any(word in case.name.lower() for word in wanted)):
                continue
            sys.stderr.write(f"{case.name} …\n")
            (own := Path(folder) / str(number)).mkdir()
            found[case.name] = swept(case, own, every=given.all, turn=None if given.product else number)
            sys.stderr.write(f"{row(case.name, found[case.name])}, {time.process_time():.0f} s of processor time so far\n")
            shutil.rmtree(own)
    sys.stdout.write("\n".join(lines(found)) + "\n")
    return int(any(tally.faults for tally in found.values()))


if __name__ == "__main__":
    sys.exit(main())
