"""A training from its first step to its file: steps under the guard, pauses, answers, saves, test pictures."""

import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from halftone.contract.engine import Emit, TrainControl
from halftone.contract.errors import ErrorFacts, HalftoneError, JobCancelled
from halftone.contract.messages import Decide, TrainBegins, TrainCaught, TrainHeld, TrainSaved, TrainStep, TrainUnsaved
from halftone.contract.training import Caught, TrainConfig, TrainReport
from halftone.engine.basics.tensors import DTYPES
from halftone.health.training.training_remedies import useful
from halftone.measure.randomness import undisturbed
from halftone.training.guard import StepReport, TrainingGuard, TrainingStopped
from halftone.training.guard.cures import holder_of
from halftone.training.lora.batches import Fed, draw
from halftone.training.lora.curve import Curve
from halftone.training.lora.files import STATE, lora_bytes, write, write_somewhere
from halftone.training.lora.network import changes_nothing, checkpoint, is_finite, put_lora, put_weights, weights_of
from halftone.training.lora.optimizers import new_optimizer, new_schedule
from halftone.training.lora.order import Batch, Order
from halftone.training.lora.prepare import Prepared
from halftone.training.lora.state import (
    Note,
    State,
    groups_of,
    moments_of,
    packed,
    put_groups,
    put_moments,
    put_schedule,
    schedule_note,
)
from halftone.training.lora.steps import Stepper, Unguarded
from halftone.training.lora.trying import TestPictures

_WAIT: Final = 0.05
_TRY_AGAIN: Final = 10
"""Steps after which a save that failed is tried again."""

log = logging.getLogger(__name__)


class Training:
    """folder: of the run; file: the finished LoRA; state: to resume from; tests: test pictures; move: to another folder."""

    def __init__(
        self,
        config: TrainConfig,
        prepared: Prepared,
        folder: Path,
        file: Path,
        state: State | None,
        emit: Emit,
        control: TrainControl,
        tests: TestPictures,
        move: Callable[[str], tuple[Path, Path]],
    ) -> None:
        self._config = config
        self._on = prepared
        self._folder = folder
        self._file = file
        self._emit = emit
        self._control = control
        self._tests = tests
        self._move = move
        self._lora = put_lora(prepared.network, prepared.base, rank=config.rank, alpha=config.alpha, seed=config.seed)
        if config.checkpointing:
            checkpoint(prepared.network)
        self._optimizer = new_optimizer(config, self._lora.trained.values())
        self._schedule = new_schedule(config, self._optimizer)
        scales = prepared.dtype == "float16" and config.loss_scale == "auto"
        self._scaler = torch.amp.GradScaler(prepared.device.type) if scales else None
        self._generator = torch.Generator().manual_seed(config.seed)
        usable = {picture.name: picture for picture in prepared.encoded.pictures if not picture.problem}
        self._order = Order(usable, config.batch, config.repeats, self._generator)
        self._caught: list[Caught] = []
        self._losses: deque[float] = deque(maxlen=max(1, config.steps // 10))
        self._out: list[str] = []
        self._curve = Curve()
        self._before = 0.0
        if state is not None:
            self._take(state)
        self._guard = self._new_guard()
        if state is not None:
            self._guard.go_on(state.note.step, state.note.cures)
        self._first = self._guard.steps + 1
        self._started = time.perf_counter()
        self._unsaved = False
        self._saved = self._guard.steps
        self._begun = self._drawn()

    def run(self, memory: int | None = None) -> TrainReport:
        """Raises JobCancelled."""
        self._emit(
            TrainBegins(
                config=self._config,
                pictures=self._on.encoded.pictures,
                omens=tuple(useful(omen, self._config) for omen in self._guard.omens),
                dtype=self._on.dtype,
                folder=str(self._folder),
                first=self._first,
                parameters=self._lora.size,
                memory=memory,
                caught=tuple(self._caught),
                wider=self._on.wider,
            ),
            self._curve.packed(),
        )
        self._tests.tell_made(self._first)
        try:
            while self._guard.steps < self._config.steps and not self._ends():
                if not self._step():
                    break
            return self._finish()
        except JobCancelled:
            raise
        except Exception as error:
            if not (isinstance(error, HalftoneError) and error.code == "train-bad-numbers"):  # there is nothing good to save
                self._rescue()
            raise
        finally:
            self._guard.remove()

    # --- one step ----------------------------------------------------------------------------------

    def _step(self) -> bool:
        """False: the answer to a stop was to end."""
        began, rate = time.perf_counter(), self._rate()
        self._begun = self._drawn()
        try:
            report, loss = self._until_applied()
        except TrainingStopped as stopped:
            return self._decided(stopped.caught)
        seconds = time.perf_counter() - began
        step = self._guard.steps if report.applied else self._guard.steps + 1
        if report.applied:
            self._curve.note(step, loss, report.norm)
            if math.isfinite(loss):
                self._losses.append(loss)
        self._emit(
            TrainStep(
                step=step,
                steps=self._config.steps,
                loss=loss,
                norm=report.norm,
                rate=rate,
                scale=report.scale,
                seconds=seconds,
                applied=report.applied,
            )
        )
        if report.applied:
            self._after(step)
        return True

    def _until_applied(self) -> tuple[StepReport, float]:
        """All batches of one step of the optimizer, or up to one that is left out; the mean of their losses."""
        losses: list[float] = []
        while True:
            self._control.check()
            fed = draw(self._on, self._order, self._config, self._generator)
            report = self._guard.step(lambda fed=fed: self._loss(fed), items=fed.names)
            losses.append(report.loss)
            if report.applied or any(one.did == "skipped" for one in report.caught) or len(losses) >= 2 * self._config.accumulate:
                return report, sum(losses) / len(losses)

    def _loss(self, fed: Fed) -> torch.Tensor:
        objective, narrow = self._on.objective, DTYPES[self._on.dtype]
        noisy = objective.noisy(fed.clean, fed.noise, fed.time).to(narrow)
        mixed = narrow != torch.float32
        with torch.autocast(self._on.device.type, narrow) if mixed else contextlib.nullcontext():
            said = self._on.base.predict(self._on.network, noisy, fed.time, fed.told, fed.size)
        return objective.loss(said, fed.clean, fed.noise, fed.time)

    def _after(self, step: int) -> None:
        every, last = self._config.save_every, step == self._config.steps
        again = self._unsaved and step % _TRY_AGAIN == 0
        if not last and (again or (every and step % every == 0)):
            self._save(step)
        if self._config.test_every and step % self._config.test_every == 0 and not self._control.keep():
            self._make_test(step)

    # --- pauses and answers ------------------------------------------------------------------------

    def _ends(self) -> bool:
        """Whether to stop and keep. Waits here while the training is held."""
        self._control.check()
        if self._control.held():
            self._emit(TrainHeld(on=True, step=self._guard.steps))
            while self._control.held() and not self._control.keep():
                self._control.check()
                time.sleep(_WAIT)
            self._emit(TrainHeld(on=False, step=self._guard.steps))
        while (told := self._control.choice()) is not None:
            if not self._heeded(told, None):
                return True
        return self._control.keep()

    def _decided(self, caught: Caught) -> bool:
        """Wait for the answer to a stop. False: the training ends with what it has."""
        while True:
            self._control.check()
            if self._control.keep():
                return False
            told = self._control.choice()
            if told is not None:
                goes_on = self._heeded(told, caught)
                if told.choice != "save-in":
                    return goes_on
            time.sleep(_WAIT)

    def _heeded(self, told: Decide, caught: Caught | None) -> bool:
        caught = caught or next(reversed(self._caught), None)
        match told.choice:
            case "stop":
                return False
            case "save-in":
                self._save_in(told.folder)
            case "leave-out":
                for name in [told.picture] if told.picture else list(caught.items if caught else ()):
                    self._leave_out(name)
            case "float32-block" if caught is not None and caught.watched == "activations":
                self._guard.go_on(self._guard.steps, [("float32-block", holder_of(caught.name))])
            case _:
                pass  # the cures stay in force
        return True

    def _leave_out(self, name: str) -> None:
        """The last picture stays: without one nothing could be trained."""
        if name in self._order.pictures and len(self._order.pictures) > 1:
            self._order.without(name)
            self._out.append(name)

    def _tell(self, caught: Caught) -> None:
        self._caught.append(caught)
        self._emit(TrainCaught(caught=caught, asks=caught.did == "stopped"))

    # --- saving ------------------------------------------------------------------------------------

    def _save(self, step: int) -> None:
        """Write the state, then the LoRA: the state can be resumed. A failed write is reported and tried again later."""
        path = self._folder / f"{self._file.stem}-{step:06}.safetensors"
        lora = self._lora_bytes(step)
        try:
            write(self._folder / STATE, packed(self._state(step)), private=True)
            write(path, lora)
        except HalftoneError as error:
            self._unsaved = True
            log.warning("step %d was not saved: %s", step, error)
            self._emit(TrainUnsaved(step=step, error=error.as_facts()))
            return
        self._unsaved, self._saved = False, step
        self._emit(TrainSaved(step=step, path=str(path), folder=str(self._folder)))

    def _rescue(self) -> None:
        """An error ends the training: what was learnt since the last save is saved, if it can be, as of the last whole step."""
        step, left, drawn = self._begun
        if step == self._guard.steps:  # what a step that came to nothing drew is drawn again
            self._order.left = left
            self._generator.set_state(drawn)
        if self._guard.steps > self._saved and is_finite(self._lora.trained):
            try:
                self._save(self._guard.steps)
            except Exception:  # of a lost device, say: what ended the training is what is told
                log.warning("step %d could not be saved after an error", self._guard.steps, exc_info=True)

    def _drawn(self) -> tuple[int, list[Batch], torch.Tensor]:
        """Steps so far, and what was drawn for the next ones."""
        return self._guard.steps, list(self._order.left), self._generator.get_state()

    def _save_in(self, output: str) -> None:
        """Continue in another folder from now on, written at once; where that fails, report it and change nothing."""
        step = self._guard.steps
        try:
            self._folder, self._file = self._move(output)
        except HalftoneError as error:
            self._emit(TrainUnsaved(step=step, error=error.as_facts()))
            return
        self._tests.move(self._folder)
        self._save(step)

    def _finish(self) -> TrainReport:
        step = self._guard.steps
        path, folder, why = ("", "", None) if changes_nothing(self._lora) else self._save_whole(step)
        return TrainReport(
            name=self._config.name,
            path=path,
            folder=folder,
            steps=step,
            steps_wanted=self._config.steps,
            loss=sum(self._losses) / len(self._losses) if self._losses else math.nan,
            seconds=self._seconds(),
            caught=tuple(self._caught),
            cures=tuple(cure for cure, _ in self._guard.cures),
            dtype=self._on.dtype,
            not_kept=why,
            guarded=self._config.guard != "off",
            bad_losses=self._curve.bad if self._config.guard == "off" else 0,
            wider=self._on.wider,
        )

    def _save_whole(self, step: int) -> tuple[str, str, ErrorFacts | None]:
        """Return the path of the LoRA, the folder of the run, and why not all lies there (None where it does)."""
        path, why = write_somewhere(self._file, self._lora_bytes(step))
        try:
            write(self._folder / STATE, packed(self._state(step)), private=True)
        except HalftoneError as error:
            why = why or error.as_facts()
        self._emit(TrainSaved(step=step, path=str(path), folder=str(self._folder)))
        return str(path), str(self._folder), why

    def _lora_bytes(self, step: int) -> bytes:
        """Raises HalftoneError train-bad-numbers: what nobody watched may have broken, and no use is left in it."""
        if not is_finite(self._lora.trained):
            raise HalftoneError("train-bad-numbers", step=str(step))
        return lora_bytes(self._lora, self._on.base, self._on.model, self._config, step, self._on.dtype)

    def _state(self, step: int) -> State:
        names: dict[torch.Tensor, str] = {parameter: name for name, parameter in self._lora.trained.items()}
        note = Note(
            step=step,
            model=self._on.model.fingerprint,
            dtype=self._on.dtype,
            left=list(self._order.left),
            out=self._out,
            groups=groups_of(self._optimizer),
            schedule=schedule_note(self._schedule),
            scaler=None if self._scaler is None else self._scaler.state_dict(),
            cures=list(self._guard.cures),
            caught=self._caught,
            losses=list(self._losses),
            seconds=self._seconds(),
        )
        moments = moments_of(self._optimizer, names)
        drawn = self._generator.get_state()
        return State(note=note, weights=weights_of(self._lora), moments=moments, generator=drawn, curve=self._curve.tensor())

    def _take(self, state: State) -> None:
        note = state.note
        put_weights(self._lora, state.weights)
        put_groups(self._optimizer, note.groups)
        put_moments(self._optimizer, self._lora.trained, state.moments)
        put_schedule(self._schedule, note.schedule)
        if self._scaler is not None and note.scaler:
            self._scaler.load_state_dict(note.scaler)
        self._generator.set_state(state.generator)
        self._order.left = list(note.left)
        for name in note.out:
            self._leave_out(name)
        self._caught = list(note.caught)
        self._losses.extend(note.losses)
        self._curve.take(state.curve)
        self._before = note.seconds

    # --- small things ------------------------------------------------------------------------------

    def _new_guard(self) -> Stepper:
        config, clip = self._config, self._config.clip or None
        if config.guard == "off":
            network = self._on.network
            return Unguarded(network, self._optimizer, self._schedule, self._scaler, clip=clip, accumulate=config.accumulate)
        return TrainingGuard(
            self._on.network,
            self._optimizer,
            scaler=self._scaler,
            scheduler=self._schedule,
            clip=clip,
            accumulate=config.accumulate,
            stop_after=config.stop_after,
            all_used=True,
            tell=self._tell,
        )

    def _make_test(self, step: int) -> None:
        path = self._folder / f".{self._file.stem}-test.safetensors"
        try:
            write(path, self._lora_bytes(step))
            with undisturbed(self._on.device):
                self._tests.make(step, path)
        except JobCancelled:  # told to keep what there is, it has no time for a picture
            self._control.check()
        except Exception as error:  # noqa: BLE001 - whatever a picture fails of, the training does not end with it
            self._tests.tell_none(step, error)
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _rate(self) -> float:
        group: dict[str, Any] = self._optimizer.param_groups[0]
        return float(group["lr"]) * float(group.get("d", 1.0))

    def _seconds(self) -> float:
        return self._before + time.perf_counter() - self._started
