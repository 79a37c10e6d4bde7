"""The end of a picture: written with its receipt, or its latents kept and told why not."""

import logging
import time
from pathlib import Path

import msgspec
import torch
from PIL import Image

from halftone.contract.engine import Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import PhaseChanged, PictureReady
from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest, ResolvedRequest
from halftone.engine.frames import Pixels, thumbnail, to_pixels
from halftone.engine.latents import DECODER_INPUT
from halftone.engine.picture import Picture
from halftone.engine.saving import keep_if_possible, write_picture
from halftone.metadata.parameters import a1111_text, receipt_json
from halftone.metadata.picture import next_name, numbered, output_error
from halftone.settings.places import pictures_dir

log = logging.getLogger(__name__)


class Delivery:
    """Where the pictures of one job go. pictures: what was handed over so far; unsaved: why the first picture that could not be
    written was not.
    """

    def __init__(self, request: PictureRequest, model: str, emit: Emit) -> None:
        self._request = request
        self._model = model
        self._emit = emit
        self.pictures: list[PictureFacts] = []
        self.unsaved: HalftoneError | None = None

    def save(
        self,
        now: Picture,
        facts: PictureFacts,
        pixels: Pixels,
        latents: torch.Tensor | None,
        resolved: ResolvedRequest,
        plan: Plan,
    ) -> None:
        """latents: what was decoded; kept if the picture cannot be written. resolved, plan: for the receipt."""
        self._emit(PhaseChanged(phase="save"))
        image = Image.fromarray(pixels)
        facts = msgspec.structs.replace(facts, seconds=time.perf_counter() - now.started)

        def texts(path: Path) -> tuple[str, str]:
            there = msgspec.structs.replace(facts, path=str(path))
            made = msgspec.structs.replace(resolved, width=there.width, height=there.height, seed=there.seed)
            return a1111_text(made, there), receipt_json(made, there, plan)

        try:
            path = write_picture(image, *self._path(now), texts, overwrite=self._request.overwrite)
            facts = msgspec.structs.replace(facts, path=str(path))
        except HalftoneError as error:
            facts = self._not_written(facts, latents, error)
        self._hand_over(facts, thumbnail(image), now.failed)

    def give_up(self, now: Picture, facts: PictureFacts, failed: torch.Tensor | None) -> None:
        """A picture that could not be finished: keep what is good on disk, say what happened."""
        path: Path | None = None
        if now.last_good is not None:
            path = keep_if_possible(now.last_good, now.stage, now.seed, self._model)
        if path is not None and now.stage != DECODER_INPUT:
            log.info("the last sound step is kept in %s", path)
            path = None  # nothing can be decoded from it: the picture is made again from its seed
        self._hand_over(msgspec.structs.replace(facts, latents=None if path is None else str(path)), b"", failed)

    def _not_written(self, facts: PictureFacts, latents: torch.Tensor | None, error: HalftoneError) -> PictureFacts:
        """The rest of the batch is made all the same; the job ends with the first such error, which names the kept latents."""
        log.error("picture %d was not saved: %s", facts.index, error)
        file = self._request.resume_latents
        if file is None and latents is not None:
            path = keep_if_possible(latents, DECODER_INPUT, facts.seed, self._model)
            file = None if path is None else str(path)
        if self.unsaved is None:
            self.unsaved = error
            if file is not None:
                error.facts["latents"] = file
                error.details = f"{error.details}\nThe latents are kept in {file}.".strip()
        return msgspec.structs.replace(facts, latents=file)

    def _path(self, now: Picture) -> tuple[Path, Path]:
        """The file for this picture, and the name to number if it is taken."""
        output = self._request.output
        try:
            folder = pictures_dir() if output is None else Path(output).expanduser()
            if output is None or folder.is_dir():
                named = next_name(folder, now.seed)
                return named, named
        except OSError as error:
            raise output_error(error, Path(error.filename or "."), 0) from error
        return (folder, folder) if self._request.batch == 1 else (numbered(folder, now.index), folder)

    def _hand_over(self, facts: PictureFacts, small: bytes, failed: torch.Tensor | None) -> None:
        bad = b"" if failed is None else thumbnail(Image.fromarray(to_pixels(failed)))
        self.pictures.append(facts)
        self._emit(PictureReady(facts=facts, thumbnail_size=len(small), failed_size=len(bad)), small + bad)
