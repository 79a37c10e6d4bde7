"""One family through the engine: recognised, loaded, checked, and two steps of everything that it can do."""

import shutil
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import diffusers
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.bench.families.more import MORE, Fields, used_with
from tests.bench.families.plain import compared
from tests.bench.families.table import TASKS, Case, Task
from tests.helpers import tiny
from tests.helpers.engine_runs import Recorder, Steady
from tests.helpers.headers import header_of, write_sparse

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import Examine, Generate, Load
from halftone.contract.request import CheckInputs, Numerics, PictureRequest
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe
from halftone.measure.pictures import is_flat

PROMPT: Final = "a red sun"
PLAIN: Final[dict[str, Task]] = {f"{task} as diffusers": task for task in TASKS}
"""Column -> what is compared with a plain call."""
COLUMNS: Final = ("recognised", "loaded", "checked", *TASKS, *PLAIN, *MORE)


@dataclass(frozen=True)
class Cell:
    """What became of one thing that a family was to do. ok: None where there is nothing to do."""

    ok: bool | None
    said: str


NOTHING: Final = Cell(None, "—")


def run(case: Case, folder: Path, columns: tuple[str, ...] = COLUMNS) -> dict[str, Cell]:
    """Every column; what fails is told and stops nothing but what needs it."""
    made = _tried(lambda: (save(case, folder / (case.folder or case.name)), "")[1])
    if not made.ok:
        return dict.fromkeys(columns, Cell(False, f"not built: {made.said}"))
    model = folder / (case.folder or case.name)
    engine = DiffusersEngine()
    given = (picture(folder / "given.png", case.size), mask(folder / "mask.png", case.size))
    ways: dict[str, Callable[[], str]] = {
        "recognised": lambda: recognised(case, model, folder / "published"),
        "loaded": lambda: loaded(case, engine, model),
        "checked": lambda: checked(case, engine, model),
        **{task: lambda task=task: drawn(case, engine, model, task, given) for task in case.tasks},
        **{
            column: lambda task=task: compared(PROMPT, case, engine, model, original(model), task, given)
            for column, task in PLAIN.items()
            if task in case.tasks
        },
        **{what: lambda what=what: with_more(case, engine, model, what, given) for what in MORE},
    }
    if case.refused:
        ways = {column: ways[column] for column in ("recognised", "loaded")}
    return {column: _tried(ways[column]) if column in ways else NOTHING for column in columns}


def save(case: Case, target: Path, seed: int = 0) -> Path:
    """The tiny model in float32, with weights drawn from the seed."""
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = case.build()
        for part in pipe.components.values():
            if isinstance(part, torch.nn.Module):
                tiny.liven(part)
        pipe.save_pretrained(target)
    shutil.copytree(target, original(target))
    case.amend(target)
    return target


def original(target: Path) -> Path:
    """The folder as diffusers saved it."""
    return target.parent / f"{target.name} plain"


def recognised(case: Case, model: Path, beside: Path) -> str:
    """Family, base and prediction; the base where needed with the published network's shapes. Raises AssertionError."""
    facts = describe(str(model))
    told = describe(str(with_published(case, model, beside))) if case.published else facts
    wanted = ("diffusers", case.family, case.base or case.family, case.prediction)
    found = (facts.format, facts.family, told.base, facts.prediction)
    if case.refused:
        wanted, found = wanted[:2], found[:2]
    assert found == wanted, f"taken for {', '.join(found)}; it is {', '.join(wanted)}"
    return f"{facts.base}" if not case.published else f"{told.base} (published shapes)"


def with_published(case: Case, model: Path, target: Path) -> Path:
    """The same folder, with a denoiser of the published shapes that takes no room on the disk."""
    assert case.published is not None
    part, kind, config = case.published
    target = target / model.name
    shutil.copytree(model, target, dirs_exist_ok=True)
    with torch.device("meta"):
        state = getattr(diffusers, kind)(**config).state_dict()
    header = header_of({name: tuple(value.shape) for name, value in state.items()})
    write_sparse(target / part / "diffusion_pytorch_model.safetensors", header)
    return target


def loaded(case: Case, engine: DiffusersEngine, model: Path) -> str:
    """Raises what the engine raises, or AssertionError where it should have refused."""
    started = time.perf_counter()
    try:
        facts: ModelFacts = engine.load(Load(model=str(model), numerics=Numerics(precision="float16")), Recorder())
    except HalftoneError as error:
        if case.refused and case.refused in str(error) and error.code == "model-cannot-run":
            return "refused: " + str(error).replace(str(model), "MODEL")
        raise
    assert not case.refused, "not refused, though it makes no picture alone"
    assert facts.pipeline
    return _seconds(started)


def checked(case: Case, engine: DiffusersEngine, model: Path) -> str:
    """A quick check for float16 finds a sound model healthy. Raises AssertionError with what it found else."""
    started = time.perf_counter()
    inputs = CheckInputs(width=case.size, height=case.size, num_frames=case.frames, options=case.options)
    command = Examine(job="c", model=str(model), depth="quick", numerics=Numerics(precision="float16"), inputs=inputs)
    report = engine.examine(command, Recorder(), Steady())
    found = [f"{one.code} {one.component}.{one.module}" for one in report.findings]
    wanted = ("tight", ["tight transformer."]) if case.tight else ("healthy", [])
    assert (report.verdict, found) == wanted, f"{report.verdict}: {'; '.join(found)}"
    idle = tuple(name for name, facts in report.components.items() if not facts.modules)
    assert idle == case.idle, f"nothing was seen of {', '.join(idle)}"
    return f"{_seconds(started)}, tight: {case.tight}" if case.tight else _seconds(started)


def with_more(case: Case, engine: DiffusersEngine, model: Path, what: str, given: tuple[Path, Path]) -> str:
    """The same with what its pipeline can be used with: another picture than without. Raises AssertionError."""
    (folder := model.parent / what).mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = used_with(what, model, folder, given[0])
    if more is None or not case.tasks:
        return NOTHING.said
    task = case.tasks[0]
    drawn(case, engine, model, task, given)
    before = _pixels(model, task)
    said = drawn(case, engine, model, task, given, more)
    after = _pixels(model, task)
    assert before.shape != after.shape or (before != after).any(), "it changes nothing"
    return said


def drawn(
    case: Case, engine: DiffusersEngine, model: Path, task: Task, given: tuple[Path, Path], more: Fields | None = None
) -> str:
    """Two steps or more in float16: finite, not flat. more: fields of the request. Raises AssertionError."""
    started = time.perf_counter()
    request = PictureRequest(
        prompt=PROMPT,
        model=str(model),
        width=case.size,
        height=case.size,
        steps=2 if task == "text" or case.frames else 4,
        seed=5,
        num_frames=case.frames,
        image=None if task == "text" else str(given[0]),
        mask=str(given[1]) if task == "mask" else None,
        output=str(_output(model, task)),
        overwrite=True,
        options=case.options,
        numerics=Numerics(precision="float16"),
        **(more or {}),
    )
    report = engine.generate(Generate(job="g", request=request), Recorder(), Steady())
    facts = report.images[0]
    assert (facts.finite, facts.state) == (True, "clean"), f"{facts.state}: {[event.kind for event in facts.events]}"
    assert not is_flat(_pixels(model, task)), "the picture is flat"
    return _seconds(started)


def _output(model: Path, task: Task) -> Path:
    return model.parent / f"{model.name}-{task}.png"


def _pixels(model: Path, task: Task) -> NDArray[np.uint8]:
    with Image.open(_output(model, task)) as image:
        return np.asarray(image.convert("RGB"))


def picture(path: Path, size: int) -> Path:
    """Soft colours, as a photograph has."""
    small = np.random.default_rng(0).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(small).resize((size, size), Image.Resampling.BICUBIC).save(path)
    return path


def mask(path: Path, size: int) -> Path:
    """White, where something new is to be, in the lower left half."""
    Image.fromarray(np.tri(size, dtype=np.uint8) * 255).save(path)
    return path


def _tried(way: Callable[[], str]) -> Cell:
    try:
        return Cell(True, way())
    except HalftoneError as error:
        return Cell(False, f"{error.code}: {error}")
    except AssertionError as error:
        return Cell(False, str(error) or "an assertion in a library")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a cell of the table
        frame = traceback.extract_tb(error.__traceback__)[-1]
        lines: list[Any] = str(error).strip().splitlines() or [""]
        return Cell(False, f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}: {lines[0]}")


def _seconds(started: float) -> str:
    return f"{time.perf_counter() - started:.1f} s"
