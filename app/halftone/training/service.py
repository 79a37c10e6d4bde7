"""The engine with training: what the worker and the command line use."""

import traceback
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

import torch

from halftone.contract.engine import Emit, TrainControl
from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.messages import Generate, ModelChanged, Train
from halftone.contract.request import PictureRequest
from halftone.contract.training import TrainReport
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.torch_settings import attention_for
from halftone.engine.service import DiffusersEngine
from halftone.health.faults import first_line, forget_frames, is_out_of_memory
from halftone.health.training.training_memory import training_room
from halftone.library.training_data.training_checks import check_config, check_size
from halftone.measure.devices import find_device
from halftone.training.lora.files import CACHE
from halftone.training.lora.jobs import Opened, open_run
from halftone.training.lora.prepare import Prepared, model_for, prepare
from halftone.training.lora.run import Training
from halftone.training.lora.trying import TestPictures, Unhurried


class TrainingEngine(DiffusersEngine):
    """Everything that the engine does, and training."""

    def train(self, command: Train, emit: Emit, control: TrainControl) -> TrainReport:
        """Train a LoRA, or resume one. Raises HalftoneError and JobCancelled."""
        check_config(command.config)
        model, _ = model_for(command.config)
        if command.resume is None:
            check_size(command.config, model)
        opened = open_run(command, model)
        with opened.alone(), quiet_libraries(), _memory_told(), ExitStack() as around:
            with opened.kept_if_begun():
                around.enter_context(self._around_faults(opened.config.device))
                prepared = self._prepared(opened, emit, control)
                _check(control)
                opened = opened.noted(prepared.wider)
                prepared = replace(prepared, wider=opened.run.wider)
                self.unload()  # but for the denoiser, which is held here
                emit(ModelChanged(model=None))
                tests = self._tests(command.job, opened, prepared, emit, control)
                training = Training(
                    opened.config, prepared, opened.folder, opened.file, opened.state, emit, control, tests, opened.moved
                )
            room = training_room(opened.config, model, prepared.dtype, on_cpu=prepared.device.type == "cpu")
            with opened.kept_if_saved():
                return training.run(None if room is None else room.peak)

    def _around_faults(self, name: str) -> AbstractContextManager[object]:
        """Attention on the backends that the self-test found sound on this device; the copies heed it too."""
        device = find_device(name)
        self._tested(device)
        return attention_for("auto", torch.device(device.id))

    def _prepared(self, opened: Opened, emit: Emit, control: TrainControl) -> Prepared:
        config = opened.config
        model, _ = model_for(config)
        device = find_device(config.device)
        self.unload()  # what a plan, LoRAs or others changed in a model that is there is not what is to be trained
        loaded = self._ready(model, device, emit)
        return prepare(
            loaded,
            config,
            opened.pictures,
            opened.folder / CACHE,
            device,
            self._tested(device),
            emit,
            lambda: _check(control),
            None if opened.state is None else opened.state.note.dtype,
        )

    def _tests(self, job: str, opened: Opened, prepared: Prepared, emit: Emit, control: TrainControl) -> TestPictures:
        captions = prepared.encoded.captions
        first = next(picture for picture in prepared.encoded.pictures if not picture.problem)
        prompt = opened.config.test_prompt or captions[first.name] or opened.config.word

        def make(request: PictureRequest, tell: Emit) -> None:
            try:
                self.generate(Generate(job=job, request=request), tell, Unhurried(control))
            finally:
                self.unload()

        return TestPictures(make, opened.config, prompt, first.shape, opened.folder, emit)


@contextmanager
def _memory_told() -> Generator[None]:
    """What a training can do with less differs from what a picture can."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        forget_frames(error)  # they hold what filled the device
        raise HalftoneError("train-no-memory", "".join(traceback.format_exception(error)), detail=first_line(error)) from error


def _check(control: TrainControl) -> None:
    """Raise JobCancelled if the job was cancelled, or shall keep what it learnt, before it learnt anything."""
    control.check()
    if control.keep():
        raise JobCancelled
