"""An engine that saves pictures as the real one does, each with its seed inside, and takes a moment for each. Without torch.

`python -m halftone.worker --engine tests.helpers.painter:make`
"""

import time
from pathlib import Path

from msgspec.structs import replace
from tests.helpers import samples
from tests.helpers.scripted import ScriptedEngine

from halftone.contract.engine import Control, Emit
from halftone.contract.facts import GenerateReport, PictureFacts
from halftone.contract.messages import Generate, JobStarted, PhaseChanged, PictureReady, PictureSaving, StepDone
from halftone.metadata.parameters import write_parameters
from halftone.metadata.picture import save_picture
from halftone.settings.places import pictures_dir

_STEPS = 4
_STEP_SECONDS = 0.02


class PaintingEngine(ScriptedEngine):
    """Makes the pictures of a batch one by one."""

    def generate(self, command: Generate, emit: Emit, control: Control) -> GenerateReport:
        emit(JobStarted(kind="generate", plan=samples.PLAIN))
        request, seed = command.request, command.request.seed or 0
        made = [self._one(seed + index, index, emit, control) for index in range(request.batch)]
        return GenerateReport(images=tuple(made), plan=samples.PLAIN, events=(), seconds=0.1, seconds_per_step=0.02)

    def _one(self, seed: int, index: int, emit: Emit, control: Control) -> PictureFacts:
        from PIL import Image

        for step in range(1, _STEPS + 1):
            control.check()
            time.sleep(_STEP_SECONDS)
            emit(StepDone(step=step, steps=_STEPS, peak=1.0, finite=True, seconds=_STEP_SECONDS, picture=index + 1))
        emit(PhaseChanged(phase="save"))
        small = samples.png()
        path = _free(pictures_dir(), seed)
        facts = replace(samples.picture_facts(str(path), seed=seed), index=index)
        emit(PictureSaving(facts=facts), small)
        text = write_parameters("a red sun", "", {"Steps": str(_STEPS), "Seed": str(seed), "Size": "64x64"})
        save_picture(Image.new("RGB", (64, 64), (seed % 256, 9, 9)), path, text, "{}")
        emit(PictureReady(facts=facts, thumbnail_size=len(small)), small)
        return facts


def _free(folder: Path, seed: int) -> Path:
    """A name in the folder that nothing has, numbered as the real engine's."""
    return folder / f"{len(list(folder.glob('*.png'))) + 1:05d}-{seed}.png"


def make() -> PaintingEngine:
    return PaintingEngine()
