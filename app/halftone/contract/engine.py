"""What the worker asks of an engine, as types only. The real one is `halftone.engine.service`; tests script another."""

from typing import Protocol

from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    GenerateReport,
    MemoryFacts,
    ModelFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.messages import AnyEvent, Decide, Examine, Generate, Load, Repair, SelfTest, Train, Upscale
from halftone.contract.training import TrainReport


class Emit(Protocol):
    """Sends an event of the running job; seq and job are filled in by the runner."""

    def __call__(self, event: AnyEvent, blob: bytes = b"") -> None: ...


class Control(Protocol):
    """Looked at between steps."""

    def cancelled(self) -> bool: ...

    def keep(self) -> bool: ...

    def check(self) -> None:
        """Raise JobCancelled if the job was cancelled."""
        ...


class TrainControl(Control, Protocol):
    """That of a training."""

    def held(self) -> bool:
        """It pauses while this is so."""
        ...

    def choice(self) -> Decide | None:
        """The oldest answer to its guard that was not taken yet."""
        ...


class Engine(Protocol):
    """Raises HalftoneError for anything a user can be told, JobCancelled when `control` says so.

    The runner sends JobStarted and JobEnded, MemoryChanged, and ModelChanged where `load` or `unload` sent none.
    """

    def devices(self) -> tuple[DeviceFacts, ...]: ...

    def self_test(self, command: SelfTest, emit: Emit, control: Control) -> SelfTestReport: ...

    def examine(self, command: Examine, emit: Emit, control: Control) -> CheckReport: ...

    def generate(self, command: Generate, emit: Emit, control: Control) -> GenerateReport: ...

    def repair(self, command: Repair, emit: Emit, control: Control) -> RepairReport: ...

    def upscale(self, command: Upscale, emit: Emit, control: Control) -> GenerateReport: ...

    def train(self, command: Train, emit: Emit, control: TrainControl) -> TrainReport: ...

    def load(self, command: Load, emit: Emit) -> ModelFacts: ...

    def unload(self) -> None: ...

    def memory(self) -> MemoryFacts | None: ...
