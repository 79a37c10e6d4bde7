"""An upscale job: finished pictures made larger by a model, each a new file beside the old one, with what it was made of."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import torch
from PIL import Image

from halftone.contract.engine import Control, Emit
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, GenerateReport, PictureFacts, SelfTestReport
from halftone.contract.limits import SIZE_RANGE
from halftone.contract.messages import PhaseChanged, PictureReady, PictureSaving
from halftone.contract.plan import Plan
from halftone.contract.request import Upscaled, UpscaleRequest
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.making.made_with import made_with
from halftone.engine.making.saving import write_frames
from halftone.engine.making.upscale import COMPONENT, Enlarged, Upscaler, enlarge, load_upscaler
from halftone.engine.sampling.frames import thumbnail
from halftone.health.faults import first_line, is_out_of_memory
from halftone.health.precision import granted_precision
from halftone.measure.pictures import is_dark, is_flat
from halftone.metadata.picture import PICTURES, Texts, ending_for, free_name
from halftone.metadata.start_images import picture_size, read_beside, read_picture
from halftone.metadata.upscaled import upscaled_texts


class Enlarging:
    """One upscale job. make_room: gives memory back, False where there is none to give."""

    def __init__(
        self,
        request: UpscaleRequest,
        device: DeviceFacts,
        tested: SelfTestReport | None,
        emit: Emit,
        control: Control,
        make_room: Callable[[], bool],
    ) -> None:
        """Raises upscaler-*, value-out-of-range, image-unreadable before anything is computed."""
        self._request = request
        self._device = device
        self._emit = emit
        self._control = control
        self._make_room = make_room
        dtype, _ = granted_precision(request.precision, tested, device)
        self._dtype: DType = dtype
        emit(PhaseChanged(phase="upscale"))
        self._upscaler = self._loaded()
        for picture in request.pictures:
            self._check_size(picture)

    def run(self) -> GenerateReport:
        """All pictures. Raises HalftoneError, of what was made before it nothing is lost; JobCancelled."""
        started = time.perf_counter()
        made = tuple(self._one(index, Path(picture)) for index, picture in enumerate(self._request.pictures))
        events = tuple(event for picture in made for event in picture.events)
        seconds = time.perf_counter() - started
        return GenerateReport(images=made, plan=Plan(), events=events, seconds=seconds, seconds_per_step=None)

    def _loaded(self) -> Upscaler:
        """Once more without what else is in memory, where that ended. Raises out-of-memory."""
        while True:
            try:
                return load_upscaler(self._request.upscaler, torch.device(self._device.id))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if not self._make_room():
                    raise HalftoneError("out-of-memory", detail=first_line(error)) from error

    def _check_size(self, picture: str) -> None:
        low, high = SIZE_RANGE
        for pixels in picture_size(picture):
            if pixels * self._upscaler.scale > high:
                name = Words("The size of {0}, {1} times larger,", (Path(picture).name, str(self._upscaler.scale)))
                raise HalftoneError("value-out-of-range", name=name, value=pixels * self._upscaler.scale, low=low, high=high)

    def _one(self, index: int, source: Path) -> PictureFacts:
        started = time.perf_counter()
        result = self._enlarged(read_picture(str(source)), source.name)
        pixels = np.asarray(result.image)
        how = Upscaled(source=str(source), upscaler=self._request.upscaler, scale=self._upscaler.scale)
        facts = PictureFacts(
            path="",
            seed=0,
            index=index,
            width=result.image.width,
            height=result.image.height,
            state="recovered" if result.events else "clean",
            dtypes={COMPONENT: result.dtype},
            black=is_flat(pixels),
            finite=True,
            dark=is_dark(pixels) and not is_flat(pixels),
            room_bits=None,
            seconds=time.perf_counter() - started,
            steps=0,
            events=result.events,
            upscaled=how,
        )
        self._emit(PhaseChanged(phase="save"))
        saving = self._request.saving
        texts = (
            upscaled_texts(source, facts, made_with(self._device.id), ai_label=saving.ai_label)
            if saving.save_metadata
            else Texts()
        )
        ending = ending_for(saving.picture_format, result.image.size, texts.parameters)
        alpha, profile = read_beside(str(source))  # which no upscale model reads
        if alpha is not None:
            pixels = np.dstack([pixels, np.asarray(alpha.resize(result.image.size, Image.Resampling.LANCZOS))])
        small = thumbnail(result.image)

        def texts_for(path: Path) -> Texts:
            self._emit(PictureSaving(facts=msgspec.structs.replace(facts, path=str(path))), small)
            return texts

        place, quality = self._place(source, ending), saving.picture_quality
        path = write_frames([pixels], None, *place, texts_for, overwrite=False, quality=quality, profile=profile)
        facts = msgspec.structs.replace(facts, path=str(path))
        self._emit(PictureReady(facts=facts, thumbnail_size=len(small)), small)
        return facts

    def _enlarged(self, picture: Image.Image, name: str) -> Enlarged:
        """Enlarge by the model; once more without the other models in memory, where memory ended."""

        def told(done: int, total: int) -> None:
            self._emit(PhaseChanged(phase="upscale", done=done, total=total, detail=name))

        try:
            return enlarge(picture, self._upscaler, self._dtype, self._control.check, told)
        except HalftoneError as error:
            if error.code != "out-of-memory" or not self._make_room():
                raise
        return enlarge(picture, self._upscaler, self._dtype, self._control.check, told)

    def _place(self, source: Path, ending: str) -> tuple[Path, Path]:
        """(file to write, name to number where that is taken). ending: of a name that the user did not choose."""
        output = None if self._request.output is None else Path(self._request.output)
        if output is not None and not output.is_dir() and output.suffix.lower() in PICTURES:
            return output, output
        named = (output or source.parent) / f"{source.stem}-{self._upscaler.scale}x{ending}"
        return (free_name(named) if os.path.lexists(named) else named), named
