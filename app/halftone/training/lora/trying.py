"""Test pictures with the current LoRA, made by the engine as any other: watched, cured, and reported when black."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import ErrorFacts, HalftoneError, JobCancelled
from halftone.contract.messages import AnyEvent, PictureReady, TestPicture
from halftone.contract.request import Lora, Numerics, PictureRequest
from halftone.contract.training import TrainConfig
from halftone.engine.making.chain import told_to_user
from halftone.engine.sampling.frames import thumbnail
from halftone.health.faults import first_line
from halftone.library.training_data.training_pictures import Size
from halftone.metadata.picture import output_error
from halftone.settings.picture_files import opened_picture
from halftone.settings.places import log_dir

TESTS: Final = "test pictures"
_SHOWN: Final = 24
"""How many of the last pictures a resumed run reports."""
log = logging.getLogger(__name__)

Make = Callable[[PictureRequest, Emit], object]


class Unhurried:
    """A job's flags while a test picture is made: "keep" drops the picture instead of showing it half made."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def cancelled(self) -> bool:
        return self._control.cancelled() or self._control.keep()

    def keep(self) -> bool:
        return False

    def check(self) -> None:
        """Raise JobCancelled if the job was cancelled, or shall keep what there is."""
        if self.cancelled():
            raise JobCancelled


class TestPictures:
    """make: what makes a picture of a request; prompt: what is asked for; size: of the picture."""

    __test__ = False

    def __init__(self, make: Make, config: TrainConfig, prompt: str, size: Size, folder: Path, emit: Emit) -> None:
        self._make = make
        self._config = config
        self._prompt = prompt
        self._size = size
        self._emit = emit
        self.move(folder)

    def move(self, folder: Path) -> None:
        """folder: of the run, from now on."""
        self._folder = folder / TESTS

    def tell_made(self, before: int) -> None:
        """Report the pictures in the folder from before this step, the oldest first."""
        known = [(path, step) for path in sorted(self._folder.glob("*.png")) if (step := _step_of(path)) is not None]
        for path, step in [one for one in known if one[1] < before][-_SHOWN:]:
            try:
                with opened_picture(path) as picture:
                    small = thumbnail(picture.convert("RGB"))
            except HalftoneError:
                log.info("%s cannot be read any more", path, exc_info=True)
                continue
            self._emit(TestPicture(step=step, path=str(path), prompt=self._prompt, seed=self._config.test_seed), small)

    def make(self, step: int, lora: Path) -> None:
        """Make the pictures with the LoRA of this file. Raises HalftoneError and JobCancelled."""
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise output_error(error, self._folder, 0) from error
        config, (width, height) = self._config, self._size
        self._emit(TestPicture(step=step, path="", prompt=self._prompt, seed=config.test_seed))
        request = PictureRequest(
            prompt=self._prompt,
            model=config.model,
            device=config.device,
            width=width,
            height=height,
            seed=config.test_seed,
            output=str(self._folder / f"{step:06}.png"),
            overwrite=True,
            loras=(Lora(path=str(lora)),),
            draws=False,
            numerics=Numerics(precision=config.precision),
        )
        self._make(request, lambda event, blob=b"": self._tell(step, event, blob))

    def tell_none(self, step: int, error: Exception) -> None:
        """Why there is none after this step."""
        log.warning("no test picture after step %d: %s", step, error)
        facts = told_to_user(error) or ErrorFacts(code="internal", facts={"detail": first_line(error), "log": str(log_dir())})
        self._emit(TestPicture(step=step, path="", prompt=self._prompt, seed=self._config.test_seed, error=facts))

    def _tell(self, step: int, event: AnyEvent, blob: bytes) -> None:
        """Report, of a picture's events, the picture."""
        if isinstance(event, PictureReady):
            facts, small = event.facts, blob[: event.thumbnail_size]
            black = facts.black or not facts.finite or facts.state == "not-recovered"
            seed = self._config.test_seed
            self._emit(TestPicture(step=step, path=facts.path, prompt=self._prompt, seed=seed, black=black), small)


def _step_of(path: Path) -> int | None:
    """The step in the name of a test picture."""
    return int(path.stem) if path.stem.isdecimal() else None
