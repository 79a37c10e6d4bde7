"""Runs the real engine on tiny models and records what it says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.tiny import load_tiny

from halftone.contract.facts import CheckReport, GenerateReport
from halftone.contract.messages import AnyEvent, Examine, Generate, JobEnded
from halftone.contract.request import CheckInputs, Numerics, OptionValue, PictureRequest
from halftone.contract.vocabulary import Depth, Precision
from halftone.contract.wire import event_reader, pack
from halftone.engine.checks.fragile import exponents_up, scale_parameters
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.engine.service import DiffusersEngine

Kind = TypeVar("Kind")

OPTIONS: dict[str, dict[str, OptionValue]] = {
    "sd15": {},
    "sdxl": {},
    "sd3": {"max_sequence_length": 64},
    "sana": {"max_sequence_length": 64, "use_resolution_binning": False},
}


class Steady:
    """A control that lets the job run; `stop_after` steps it cancels, `keep_after` steps it asks to keep."""

    def __init__(self, keep_after: int | None = None) -> None:
        self.steps = 0
        self._keep_after = keep_after

    def cancelled(self) -> bool:
        return False

    def keep(self) -> bool:
        self.steps += 1
        return self._keep_after is not None and self.steps >= self._keep_after

    def check(self) -> None:
        return


class Meddler(Steady):
    """Does something once while the first picture is made."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        super().__init__()
        self._meddle: Callable[[], object] | None = meddle

    def keep(self) -> bool:
        if self._meddle is not None:
            self._meddle()
            self._meddle = None
        return False


@dataclass
class Recorder:
    """Every event with its blob, after it went over the wire as it would to the window."""

    events: list[tuple[AnyEvent, bytes]] = field(default_factory=list[tuple[AnyEvent, bytes]])

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None:
        event_reader().feed(pack(event, blob))
        self.events.append((event, blob))

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event, _ in self.events if isinstance(event, kind)]


def generate(
    engine: DiffusersEngine, model: Path, precision: Precision = "float32", *, family: str = "", **changes: Any
) -> tuple[GenerateReport, Recorder]:
    """Three steps at 32 x 32. family: whose options it is given, as the model's folder is named if empty. changes: fields of
    PictureRequest, or of Numerics; control and emit.
    """
    numerics = {name: changes.pop(name) for name in list(changes) if name in Numerics.__struct_fields__}
    control = changes.pop("control", Steady())
    emit: Recorder = changes.pop("emit", None) or Recorder()
    fields: dict[str, Any] = {"width": 32, "height": 32, "steps": 3, "seed": 5, "options": _options(family, model), **changes}
    request = PictureRequest(
        prompt=fields.pop("prompt", "a red sun"), model=str(model), numerics=Numerics(precision=precision, **numerics), **fields
    )
    report = engine.generate(Generate(job="g", request=request), emit, control)
    emit(JobEnded(job="g", outcome="done", report=report))
    return report, emit


def check(
    engine: DiffusersEngine,
    model: Path,
    precision: Precision = "float16",
    *,
    family: str = "",
    depth: Depth = "quick",
    **inputs: Any,
) -> tuple[CheckReport, Recorder]:
    emit = Recorder()
    numerics = {name: inputs.pop(name) for name in list(inputs) if name in Numerics.__struct_fields__}
    given = CheckInputs(width=32, height=32, options=_options(family, model), **inputs)
    settings = Numerics(precision=precision, **numerics)
    command = Examine(job="c", model=str(model), depth=depth, numerics=settings, inputs=given)
    report = engine.examine(command, emit, Steady())
    emit(JobEnded(job="c", outcome="done", report=report))
    return report, emit


def _options(family: str, model: Path) -> dict[str, OptionValue]:
    return OPTIONS.get(family or model.name, OPTIONS["sd15"])


def pixels(report: GenerateReport, index: int = 0) -> NDArray[np.uint8]:
    with Image.open(report.images[index].path) as image:
        return np.asarray(image)


def faulty_copy(source: Path, target: Path, component: str, group: str, k: int) -> Path:
    """A model with one rescale group (its name holds `group`) scaled up by 2**k: the same function, larger numbers."""
    pipe = load_tiny(source)
    module = getattr(pipe, component)
    found = next(candidate for candidate in rescale_groups(component, module) if group in candidate.name)
    scale_parameters(module, exponents_up(found, k))
    pipe.save_pretrained(target)
    return target
