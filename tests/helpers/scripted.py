"""An engine that plays a script: the one fake of the tests, standing where torch would be.

In a process of its own: `python -m halftone.worker --engine tests.helpers.scripted:make`, with the repository root in PYTHONPATH
and the script as JSON in HALFTONE_SCRIPT (`environment(script)` gives both).

A script maps a job id, or a command's name in small letters ("generate", "load", …), or "*" to the actions it plays. A job
without actions of its own plays what its command usually does (`usual`).
"""

import ctypes
import errno
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from tests.helpers import samples
from tests.helpers.silence import Going, silent

from halftone.contract.engine import Control, Emit, TrainControl
from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import Fact, HalftoneError
from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    GenerateReport,
    GuardEvent,
    MemoryFacts,
    ModelFacts,
    PictureFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.messages import (
    AnyEvent,
    Examine,
    FindingMade,
    Generate,
    JobStarted,
    LayersMeasured,
    Load,
    ModelChanged,
    PhaseChanged,
    PictureReady,
    PlanChanged,
    PreviewReady,
    Repair,
    SelfTest,
    StepDone,
    TestDone,
    Train,
    Upscale,
)
from halftone.contract.request import Upscaled
from halftone.contract.training import TrainReport
from halftone.contract.vocabulary import ReceiptState
from halftone.library.records import SelfTests

VARIABLE = "HALFTONE_SCRIPT"
ENGINE = "tests.helpers.scripted:make"
ROOT = Path(__file__).resolve().parents[2]
_LOOK_SECONDS = 0.005
"""How often a waiting action looks whether its file is there."""


class Action(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of all actions."""


class Say(Action, frozen=True, kw_only=True, tag=True):
    """Emit this event, with a blob of so many bytes."""

    event: AnyEvent
    blob_bytes: int = 0


class Steps(Action, frozen=True, kw_only=True, tag=True):
    """Denoising steps, as the real loop reports them. At step `nan_at` the latents go bad and the plan changes.

    wait_each: a folder; step k waits for the file `k` in it (`heed` False: without looking at Cancel meanwhile).
    preview_size: pixels of a side, 0 for no previews; check: look at Cancel and Keep between steps.
    """

    steps: int = 4
    nan_at: int | None = None
    preview_size: int = 8
    check: bool = True
    wait_each: str | None = None


class Picture(Action, frozen=True, kw_only=True, tag=True):
    """Write a small PNG and say so; of a picture that was given up, or waits for an answer, there is no file.

    path: None for the request's output, or a name in the pictures folder. kept: the file of one that is not recovered.
    events: what the sentinel did, besides what the steps before tell.
    """

    path: str | None = None
    state: ReceiptState = "clean"
    kept: bool = False
    events: tuple[GuardEvent, ...] = ()
    stopped_of: int | None = None


class Wait(Action, frozen=True, kw_only=True, tag=True):
    """Until the file exists. heed: look at Cancel while waiting."""

    path: str
    heed: bool = True


class Touch(Action, frozen=True, kw_only=True, tag=True):
    """Make the file: tells the test that the script is here."""

    path: str


class Hang(Action, frozen=True, kw_only=True, tag=True):
    """For ever, deaf to Cancel. hold_gil: not even other Python threads run."""

    hold_gil: bool = False


class Fail(Action, frozen=True, kw_only=True, tag=True):
    """Raise HalftoneError."""

    code: ErrorCode
    facts: dict[str, Fact] = {}


class Throw(Action, frozen=True, kw_only=True, tag=True):
    """Raise what a library might raise."""

    kind: Literal["value-error", "memory-error", "full-disk", "runtime-error", "system-exit", "keyboard-interrupt"]
    text: str = "scripted"


class Crash(Action, frozen=True, kw_only=True, tag=True):
    """End the process without a word."""

    how: Literal["exit", "kill", "segfault", "abort"]
    code: int = 3


class Print(Action, frozen=True, kw_only=True, tag=True):
    """Garbage on stdout: from Python, from native code (the descriptor), from a child process."""

    text: str
    where: Literal["python", "descriptor", "child"] = "python"


AnyAction = Say | Steps | Picture | Wait | Touch | Hang | Fail | Throw | Crash | Print
Script = dict[str, list[AnyAction]]


def environment(script: Mapping[str, Sequence[AnyAction]], base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a worker that plays the script."""
    variables = dict(os.environ if base is None else base)
    variables[VARIABLE] = msgspec.json.encode(script).decode()
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [variables.get("PYTHONPATH")])])
    return variables


def make() -> "ScriptedEngine":
    """The engine for the script of the environment."""
    return ScriptedEngine(msgspec.json.decode(os.environ.get(VARIABLE, "{}"), type=Script))


def usual(kind: str) -> list[AnyAction]:
    """What a command does when all is well."""
    loading = Say(event=PhaseChanged(phase="load", done=5_000_000, total=5_000_000))
    match kind:
        case "generate":
            known = Say(event=JobStarted(kind="generate", plan=samples.PLAIN))
            return [
                loading,
                known,
                Say(event=PhaseChanged(phase="encode")),
                Steps(),
                Say(event=PhaseChanged(phase="decode")),
                Picture(),
            ]
        case "examine":
            measured = LayersMeasured(layers=samples.LAYERS, done=4, total=4)
            return [loading, Say(event=PhaseChanged(phase="range", done=1, total=3)), Say(event=measured)]
        case "selftest":
            return [Say(event=TestDone(result=samples.operation(), done=1, total=1))]
        case "upscale":
            return [Say(event=PhaseChanged(phase="upscale", done=done, total=2)) for done in (1, 2)]
        case "train":
            return [loading, *(Say(event=event) for event in samples.training())]
        case "repair":
            return [loading, Say(event=PhaseChanged(phase="write", done=1, total=1))]
        case _:
            return []


class ScriptedEngine:
    """Implements `halftone.contract.engine.Engine`."""

    def __init__(self, script: Mapping[str, Sequence[AnyAction]] | None = None) -> None:
        self._script = dict(script or {})
        self._loaded = 0

    def devices(self) -> tuple[DeviceFacts, ...]:
        self._play("devices", "devices", silent, Going(), None)
        return (samples.CPU,)

    def self_test(self, command: SelfTest, emit: Emit, control: Control) -> SelfTestReport:
        self._play(command.job, "selftest", emit, control, None)
        return SelfTests().keep(samples.self_test_report())

    def examine(self, command: Examine, emit: Emit, control: Control) -> CheckReport:
        self._play(command.job, "examine", emit, control, None)
        fragile = "fragile" in command.model
        if fragile:
            emit(FindingMade(finding=samples.OVERFLOW))
        return samples.check_report(msgspec.structs.replace(samples.POCKET, id=command.model), fragile=fragile)

    def generate(self, command: Generate, emit: Emit, control: Control) -> GenerateReport:
        pictures = self._play(command.job, "generate", emit, control, command)
        self._loaded = 5_000_000
        events = tuple(event for picture in pictures for event in picture.events)
        return GenerateReport(images=tuple(pictures), plan=samples.PLAIN, events=events, seconds=1.25, seconds_per_step=0.25)

    def repair(self, command: Repair, emit: Emit, control: Control) -> RepairReport:
        self._play(command.job, "repair", emit, control, None)
        return samples.repair_report(command.output)

    def upscale(self, command: Upscale, emit: Emit, control: Control) -> GenerateReport:
        self._play(command.job, "upscale", emit, control, None)
        made: list[PictureFacts] = []
        for index, source in enumerate(command.request.pictures):
            path = Path(source).with_name(f"{Path(source).stem}-4x.png")
            path.write_bytes(samples.png(32, 32))
            how = Upscaled(source=source, upscaler=command.request.upscaler, scale=4)
            facts = msgspec.structs.replace(samples.picture_facts(str(path), seed=0), index=index, upscaled=how, steps=0)
            made.append(msgspec.structs.replace(facts, dtypes={"upscaler": "float32"}, room_bits=None, width=256, height=256))
            small = samples.png()
            emit(PictureReady(facts=made[-1], thumbnail_size=len(small)), small)
        return GenerateReport(images=tuple(made), plan=samples.PLAIN, events=(), seconds=0.5, seconds_per_step=None)

    def train(self, command: Train, emit: Emit, control: TrainControl) -> TrainReport:
        self._play(command.job, "train", emit, control, None)
        return samples.train_report(command.config)

    def load(self, command: Load, emit: Emit) -> ModelFacts:
        self._play("load", "load", emit, Going(), None)
        self._loaded = 5_000_000
        model = msgspec.structs.replace(samples.POCKET, id=command.model)
        emit(ModelChanged(model=model, device="cpu", seconds=0.5))
        return model

    def unload(self) -> None:
        self._play("unload", "unload", silent, Going(), None)
        self._loaded = 0

    def memory(self) -> MemoryFacts:
        return msgspec.structs.replace(samples.MEMORY, own=2**29 + self._loaded)

    def _play(self, job: str, kind: str, emit: Emit, control: Control, command: Generate | None) -> list[PictureFacts]:
        actions = self._script.get(job, self._script.get(kind, self._script.get("*", usual(kind))))
        player = _Player(emit, control, command)
        for action in actions:
            player.play(action)
        return player.pictures


class _Player:
    def __init__(self, emit: Emit, control: Control, command: Generate | None) -> None:
        self._emit = emit
        self._control = control
        self._command = command
        self._events: list[GuardEvent] = []
        self.pictures: list[PictureFacts] = []

    def play(self, action: AnyAction) -> None:
        match action:
            case Say():
                self._emit(action.event, bytes(action.blob_bytes))
            case Steps():
                self._denoise(action)
            case Picture():
                self._picture(action)
            case Wait():
                self._wait(Path(action.path), heed=action.heed)
            case Touch():
                Path(action.path).touch()
            case Fail():
                raise HalftoneError(action.code, "", **action.facts)
            case Throw():
                _throw(action)
            case Hang() | Crash() | Print():
                _misbehave(action)

    def _denoise(self, action: Steps) -> None:
        for step in range(1, action.steps + 1):
            if action.wait_each is not None:
                self._wait(Path(action.wait_each) / str(step), heed=False)
            if action.check:
                self._control.check()
                if self._control.keep():
                    return
            if step == action.nan_at:
                self._go_bad(step, action.steps)
            peak = 4.0 / step
            number = len(self.pictures) + 1
            self._emit(StepDone(step=step, steps=action.steps, peak=peak, finite=True, seconds=0.25, picture=number))
            if action.preview_size:
                size = action.preview_size
                self._emit(PreviewReady(step=step, width=size, height=size), bytes(size * size * 3))

    def _go_bad(self, step: int, steps: int) -> None:
        self._emit(StepDone(step=step, steps=steps, peak=None, finite=False, seconds=0.25))
        self._events.append(msgspec.structs.replace(samples.GUARDED, step=step, component="unet", action="went-back-one-step"))
        self._emit(FindingMade(finding=msgspec.structs.replace(samples.OVERFLOW, component="unet", step=step)))
        self._emit(PlanChanged(before=samples.PLAIN, after=samples.RESCALED))

    def _picture(self, action: Picture) -> None:
        path = Path(action.path or _output(self._command))
        thumbnail = samples.png()
        written = action.kept or action.state not in ("not-recovered", "asking")
        if written:
            path.write_bytes(samples.png(64, 64))
        state: ReceiptState = "recovered" if self._events and action.state == "clean" else action.state
        facts = samples.picture_facts(str(path) if written else "", state)
        facts = msgspec.structs.replace(facts, stopped_of=action.stopped_of)
        if self._events or action.events:
            facts = msgspec.structs.replace(facts, events=(*self._events, *action.events))
        failed = samples.png(colour=(0, 0, 0)) if state == "recovered" else b""
        self.pictures.append(facts)
        self._emit(PictureReady(facts=facts, thumbnail_size=len(thumbnail), failed_size=len(failed)), thumbnail + failed)

    def _wait(self, path: Path, *, heed: bool) -> None:
        never = threading.Event()
        while not path.exists():
            if heed:
                self._control.check()
            never.wait(_LOOK_SECONDS)


def _output(command: Generate | None) -> str:
    from halftone.settings import places

    output = command.request.output if command is not None else None
    if output is None:
        return str(places.pictures_dir() / f"{command.job if command is not None else 'picture'}.png")
    return str(Path(output) / "picture.png") if Path(output).is_dir() else output


def _throw(action: Throw) -> None:
    match action.kind:
        case "value-error":
            raise ValueError(action.text)
        case "memory-error":
            raise MemoryError
        case "full-disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        case "runtime-error":
            raise RuntimeError(action.text)
        case "system-exit":
            raise SystemExit(4)
        case "keyboard-interrupt":
            raise KeyboardInterrupt


def _misbehave(action: Hang | Crash | Print) -> None:
    match action:
        case Hang(hold_gil=True):
            ctypes.PyDLL(None).pause()
        case Hang():
            threading.Event().wait()
        case Crash(how="exit"):
            os._exit(action.code)
        case Crash(how="kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        case Crash(how="segfault"):
            faulthandler._sigsegv()  # pyright: ignore[reportAttributeAccessIssue] - made for tests
        case Crash():
            os.abort()
        case Print(where="python"):
            sys.stdout.write(action.text)
            sys.stdout.flush()
        case Print(where="descriptor"):
            os.write(1, action.text.encode())
        case Print():
            subprocess.run([sys.executable, "-c", f"print({action.text!r})"], check=True)
