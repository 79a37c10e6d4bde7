"""Opens a run: a new one with a folder of its own, or a stopped one with the state it resumes from."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import Train
from halftone.contract.training import TrainConfig, TrainPicture, WiderType
from halftone.contract.vocabulary import POCKET
from halftone.contract.wording import Words
from halftone.library.training_data.training_pictures import read_pictures, reading_of, shapes_for, usable
from halftone.library.training_data.training_runs import RUNNING
from halftone.settings.folders import claimed
from halftone.training.lora.encoding import content_hash
from halftone.training.lora.files import STATE, Run, check_same, check_steps, new_folder, read_run, write_run
from halftone.training.lora.network import is_finite
from halftone.training.lora.state import State, read_state


@dataclass(frozen=True)
class Opened:
    """run: as it was begun; folder: of the run; file: that the finished LoRA is to become; state: None before the first save."""

    config: TrainConfig
    pictures: tuple[TrainPicture, ...]
    folder: Path
    file: Path
    state: State | None
    run: Run
    new: bool

    @contextmanager
    def alone(self) -> Generator[None]:
        """Two processes that write one run would mix them. Raises HalftoneError train-running."""
        try:
            with claimed(self.folder / RUNNING) as alone:
                if not alone:
                    raise HalftoneError("train-running", folder=str(self.folder))
                yield
        finally:
            with suppress(OSError):  # one that was left empty could not go while the claim lay in it
                self.folder.rmdir()

    @contextmanager
    def kept_if_begun(self) -> Generator[None]:
        """A new run that is refused or cancelled, or fails, before its first step leaves nothing behind."""
        try:
            yield
        except Exception:
            if self.new:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @contextmanager
    def kept_if_saved(self) -> Generator[None]:
        """A new run that is cancelled, or ends, before it saved anything leaves nothing behind."""
        try:
            yield
        except JobCancelled:
            self._remove_unsaved()
            raise
        self._remove_unsaved()

    def _remove_unsaved(self) -> None:
        if self.new and not list(self.folder.glob("*.safetensors")):
            shutil.rmtree(self.folder, ignore_errors=True)

    def noted(self, wider: WiderType | None) -> "Opened":
        """Write what is decided before the first step: the number of steps, and for a new run why it does not compute in the type
        asked for.

        Raises HalftoneError output-* and disk-full.
        """
        config = msgspec.structs.replace(self.run.config, steps=self.config.steps)
        run = msgspec.structs.replace(self.run, config=config, wider=wider if self.new else self.run.wider)
        if run != self.run:
            write_run(self.folder, run)
        return replace(self, run=run)

    def moved(self, output: str) -> tuple[Path, Path]:
        """(folder of the run, its LoRA) moved so that it can be resumed there. Raises HalftoneError output-* and disk-full."""
        config = msgspec.structs.replace(self.config, output=output)
        folder, file = new_folder(config)
        try:
            write_run(folder, msgspec.structs.replace(self.run, config=config, file=file.name))
        except HalftoneError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder, file


def open_run(command: Train, model: ModelFacts) -> Opened:
    """Raises HalftoneError train-no-folder, train-no-pictures, train-none-readable, train-no-run, train-other-run,
    train-pictures-changed, train-state-unreadable, train-state-broken, output-* and disk-full.
    """
    return _new(command.config, model) if command.resume is None else _broken_off(command.config, Path(command.resume), model)


def _new(config: TrainConfig, model: ModelFacts) -> Opened:
    pictures = read_pictures(config, shapes_for(config, model), reading_of(model))
    good = usable(config.pictures, pictures)
    folder, file = new_folder(config)
    config = msgspec.structs.replace(config, model=_from_anywhere(config.model))
    run = Run(config=config, model=model.fingerprint, pictures=_hashes(config, good), file=file.name)
    write_run(folder, run)
    return Opened(config, pictures, folder, file, None, run, new=True)


def _from_anywhere(model: str) -> str:
    """A path that is the same wherever the run is gone on from; a model that is named as it is."""
    path = Path(model).expanduser()
    return str(path.absolute()) if model != POCKET and os.path.exists(path) else model


def _broken_off(config: TrainConfig, folder: Path, model: ModelFacts) -> Opened:
    """A stopped run with the pictures that it began with; new ones in their folder would change what follows. The LoRA takes the
    folder's name: a copied or renamed run does not overwrite another's LoRA.
    """
    folder = folder.expanduser().absolute()
    run = read_run(folder)
    check_same(run, config, folder)
    state = read_state(folder / STATE) if os.path.exists(folder / STATE) else None
    check_steps(0 if state is None else state.note.step, config, folder)
    if model.fingerprint != run.model or (state is not None and state.note.model != run.model):
        detail = Words("it was started on another model than {0}, or the model was changed", (model.name,))
        raise HalftoneError("train-other-run", folder=str(folder), detail=detail)
    if state is not None and not is_finite(state.weights):
        raise HalftoneError("train-state-broken", path=str(folder / STATE))
    found = read_pictures(config, shapes_for(config, model), reading_of(model))
    pictures = tuple(picture for picture in found if picture.name in run.pictures)
    now = _hashes(config, [picture for picture in pictures if not picture.problem])
    changed = next((name for name, was in run.pictures.items() if now.get(name) != was), None)
    if changed is not None:
        raise HalftoneError("train-pictures-changed", name=changed, folder=str(folder))
    return Opened(config, pictures, folder, folder.parent / f"{folder.name}.safetensors", state, run, new=False)


def _hashes(config: TrainConfig, pictures: tuple[TrainPicture, ...] | list[TrainPicture]) -> dict[str, str]:
    """Hashes of the contents of each file and its caption."""
    root = Path(config.pictures).expanduser()
    return {picture.name: f"{content_hash(root / picture.name)} {picture.caption}" for picture in pictures}
