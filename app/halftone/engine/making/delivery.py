"""The end of a picture: written with its receipt, or its latents kept and the reason reported."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import torch
from PIL import Image

from halftone.contract.engine import Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.messages import PhaseChanged, PictureReady, PictureSaving
from halftone.contract.request import PictureRequest, ResolvedRequest
from halftone.engine.inputs.memory import once_more
from halftone.engine.making.made_with import made_with
from halftone.engine.making.outcome import Finished, Outcome, Stopped
from halftone.engine.making.picture import Picture
from halftone.engine.making.saving import write_frames
from halftone.engine.sampling.film import Film, Reported
from halftone.engine.sampling.frames import thumbnail, to_pixels
from halftone.engine.sampling.latents import forget_latents, keep_if_possible
from halftone.engine.sampling.unfinished import Loop, NotKeptError
from halftone.health.pictures.unfinished_pictures import Kept
from halftone.library.prompts.drawn_prompts import fixed
from halftone.library.videos import video_format
from halftone.metadata.parameters import a1111_text, model_name, receipt_json
from halftone.metadata.picture import VIDEOS, Texts, free_name, numbered, output_error
from halftone.metadata.source_type import source_type
from halftone.settings.file_names import Named, place_of
from halftone.settings.places import pictures_dir

log = logging.getLogger(__name__)

_TOLD: Final = 100


class Delivery:
    """Where the pictures of one job go. pictures: delivered so far; unsaved: the first error of writing; unfinished: what the
    picture continues from, where steps were left; given: as by `given_files`.
    """

    def __init__(
        self, request: PictureRequest, model: ModelFacts, emit: Emit, unfinished: Kept | None, given: dict[str, str]
    ) -> None:
        self._request = request
        self._unfinished = unfinished
        self._given = given
        self._model = model
        self.emit = emit
        self.pictures: list[PictureFacts] = []
        self.unsaved: HalftoneError | None = None

    def save(self, made: Finished) -> None:
        """Write the picture and report it, then delete the kept latents it was decoded from if it is sound.

        Every step that needs memory is repeated by itself, and none after the file exists, which would write a second one.
        """
        self.emit(PhaseChanged(phase="save"))
        film, now, saving = made.film, made.now, self._request.saving
        facts = msgspec.structs.replace(made.facts, seconds=time.perf_counter() - now.started)

        asked = msgspec.structs.replace(_alone(made.resolved, facts), batch=made.resolved.batch)
        if not asked.start.keeps_size:
            width, height = facts.first_size
            asked = msgspec.structs.replace(asked, width=width, height=height)

        def texts(path: Path) -> Texts:
            there = msgspec.structs.replace(facts, path=str(path))
            self.emit(PictureSaving(facts=there), previews[0])
            if not saving.save_metadata:
                return Texts()
            source = source_type(asked) if saving.ai_label else ""
            text = a1111_text(asked, there, distilled=self._model.pipeline.startswith("Flux"))
            return Texts(text, receipt_json(asked, there, made.plan, made_with(asked.device)), source)

        def write() -> Path:
            ending = f".{video_format(self._request)}" if len(film) > 1 else f".{saving.picture_format}"
            frames, places = Reported(film, self._told), self._path(asked, now, ending)
            overwrite = self._request.overwrite
            return write_frames(frames, facts.fps, *places, texts, overwrite=overwrite, quality=saving.picture_quality)

        previews = once_more(lambda: _previews(film, now.failed))
        try:
            path = once_more(write)
            facts = msgspec.structs.replace(facts, path=str(path))
            if self._request.resume_latents is not None and facts.state in ("clean", "recovered"):
                forget_latents(Path(self._request.resume_latents))
        except HalftoneError as error:
            # the rest of the batch is made all the same; the job ends with the first such error, which names the kept latents
            log.error("picture %d was not saved: %s", facts.index, error)
            file = self._keep(made.latents, replace(made, facts=facts))
            if self.unsaved is None:
                self.unsaved = error
                if file is not None:
                    error.facts["latents"] = file
                    error.details = f"{error.details}\nThe latents are kept in {file}.".strip()
            facts = msgspec.structs.replace(facts, latents=file)
        self._hand_over(facts, *previews)

    @property
    def is_still(self) -> bool:
        """Whether the file that was asked for holds one picture and no more."""
        output = self._request.output
        return output is not None and not Path(output).expanduser().is_dir() and Path(output).suffix.lower() not in VIDEOS

    def _told(self, frame: int, frames: int) -> None:
        """How far the writing of a video is, about a hundred times."""
        if frames > 1 and (frame == frames or frame * _TOLD // frames != (frame - 1) * _TOLD // frames):
            self.emit(PhaseChanged(phase="save", done=frame, total=frames))

    def give_up(self, left: Stopped) -> None:
        """Keep the latents of a failed decode, or of the last good step, and report what happened.

        What the picture continued from stays until that is written, and where nothing new came of it.
        """
        previews = once_more(lambda: _previews(None, left.failed))
        self._hand_over(self._left(left), *previews)

    def _left(self, left: Stopped) -> PictureFacts:
        """Add the file of the kept, unfinished picture."""
        now = left.now
        if now.decoder_input is None and now.good is not None:
            good = now.good
            told = msgspec.structs.replace(left.facts, kept_step=good.step - good.began + 1)
            return self._keep_unfinished(lambda: left.loop(good), replace(left, facts=told))
        if now.decoder_input is None and self._unfinished is not None:
            return self._as_before(left.facts)
        return msgspec.structs.replace(left.facts, latents=self._keep(now.decoder_input, left))

    def handed(self) -> dict[str, torch.Tensor]:
        """What the pass at hand was given by the one before, to be kept with its steps."""
        return {}

    def _keep_unfinished(self, state: Callable[[], Loop | None], left: Outcome) -> PictureFacts:
        """Keep a state with all that the later steps need, or nothing: a sampler's latents are not yet what a decoder takes."""
        record = msgspec.structs.replace(self._record(left), asked=fixed(self._request, left.facts))
        try:
            path = once_more(lambda: keep_if_possible(state(), record, self.handed()))
        except NotKeptError as error:
            log.info("the state of the steps cannot be kept: %s", error)
            path, left = None, replace(left, facts=msgspec.structs.replace(left.facts, not_kept=True))
        if path is None:
            return self._as_before(msgspec.structs.replace(left.facts, kept_step=None))
        return msgspec.structs.replace(left.facts, latents=self._replaced(path))

    def _as_before(self, facts: PictureFacts) -> PictureFacts:
        """Restore what the picture continued from, if it did."""
        if self._unfinished is None:
            return facts
        return msgspec.structs.replace(facts, latents=self._request.resume_latents, kept_step=self._unfinished.picture.kept_step)

    def _keep(self, latents: torch.Tensor | None, of: Outcome) -> str | None:
        """The file with the latents of this picture: the one they came from, else a new one."""
        old = self._request.resume_latents
        if latents is None or (old is not None and self._unfinished is None):
            return old
        path = once_more(lambda: keep_if_possible(latents, self._record(of)))
        return old if path is None else self._replaced(path)

    def _replaced(self, path: Path) -> str:
        """A new file is there: the one that the picture went on from goes."""
        if self._request.resume_latents is not None:
            forget_latents(Path(self._request.resume_latents))
        return str(path)

    def _record(self, of: Outcome) -> Kept:
        alone, path, version = _alone(of.resolved, of.facts), self._model.path, self._model.fingerprint
        return Kept(request=alone, picture=of.facts, plan=of.plan, path=path, fingerprint=version, given=self._given)

    def _path(self, asked: ResolvedRequest, now: Picture, ending: str) -> tuple[Path, Path]:
        """The file for this picture, and the name to number if it is taken. ending: of a name that is not given."""
        output = self._request.output
        try:
            folder = pictures_dir() if output is None else Path(output).expanduser()
            if output is None or folder.is_dir():
                named = place_of(self._request.saving.file_names, _named(asked), folder, ending)
                named.parent.mkdir(parents=True, exist_ok=True)
                return (free_name(named) if os.path.lexists(named) else named), named
        except OSError as error:
            raise output_error(error, Path(error.filename or "."), 0) from error
        return (folder, folder) if self._request.batch == 1 else (numbered(folder, now.index), folder)

    def _hand_over(self, facts: PictureFacts, small: bytes, bad: bytes) -> None:
        self.pictures.append(facts)
        self.emit(PictureReady(facts=facts, thumbnail_size=len(small), failed_size=len(bad)), small + bad)


def _named(asked: ResolvedRequest) -> Named:
    """What a pattern of file names can name of this picture, now."""
    return Named(
        seed=asked.seed,
        prompt=asked.prompt,
        model=model_name(asked.model),
        sampler=asked.sampler,
        steps=asked.steps,
        guidance=asked.guidance,
        width=asked.width,
        height=asked.height,
        moment=datetime.now().astimezone(),
    )


def _previews(film: Film | None, failed: torch.Tensor | None) -> tuple[bytes, bytes]:
    """Thumbnails (PNG) of the first frame and of the floats that the failing precision gave; empty where there is none."""
    small = b"" if film is None else thumbnail(Image.fromarray(film[0]))
    return small, b"" if failed is None else thumbnail(Image.fromarray(to_pixels(failed)))


def _alone(resolved: ResolvedRequest, facts: PictureFacts) -> ResolvedRequest:
    """What was resolved for this picture of the batch."""
    return msgspec.structs.replace(resolved, seed=facts.seed, variation_seed=facts.variation_seed or 0, batch=1)
