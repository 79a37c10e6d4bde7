"""Places the parts of a model for a check: offloaded where they do not fit, as for a picture."""

import logging
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts
from halftone.contract.messages import Examine
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import NAMES
from halftone.engine.inputs.memory import Room, free_after, free_bytes, is_too_large
from halftone.engine.inputs.video_inputs import expected_frames
from halftone.engine.inputs.wanted import Inputs
from halftone.engine.loading.load import Loaded
from halftone.health.faults import first_line, forget_frames, is_out_of_memory
from halftone.health.forecasts.activations import Size
from halftone.health.forecasts.memory_forecast import in_blocks
from halftone.measure.devices import memory

log = logging.getLogger(__name__)

Found = TypeVar("Found")


class CheckRoom:
    """pictures: what the check makes; reasons: for the placement, once it is settled."""

    def __init__(self, loaded: Loaded, device: DeviceFacts, command: Examine, pictures: Iterable[Inputs]) -> None:
        self._loaded = loaded
        # the weights that are checked are as wide as they run, and tiles would have other peaks than the whole
        numerics = msgspec.structs.replace(command.numerics, vae_tiling="never", fp8_storage=False)
        request = PictureRequest(prompt="", loras=command.inputs.loras, numerics=numerics, options=command.inputs.options)
        native = loaded.facts.native_width, loaded.facts.native_height
        sizes = (
            Size(one.width or native[0], one.height or native[1], expected_frames(loaded.pipe, one.num_frames))
            for one in pictures
        )
        size = max(sizes, key=lambda one: one.pixels)
        self._room = Room(loaded, device, request, size, guided=True, dtypes={}, networks=loaded.networks)
        free, on_cpu = free_bytes(loaded), loaded.device.type == "cpu"
        self.in_blocks = in_blocks(loaded.sizes, free, on_cpu=on_cpu) | loaded.streams
        """Components that are never whole in another type than they are stored in."""
        self.reasons: tuple[Words, ...] = ()
        self.is_last = False
        """Whether what runs now has no cheaper way left."""

    def fits_wide(self) -> bool:
        """Whether all weights that are brought whole into float32 find room on the device."""
        facts = memory(str(self._loaded.device))
        whole = sum(size for name, size in self._loaded.sizes.items() if name not in self.in_blocks)
        return 4 * whole < 0.9 * (facts.total - facts.others)

    def settle(self, dtype: DType, place: Callable[[], object], free: int | None = None) -> None:
        """Choose what is offloaded while the model runs in dtype, and place it so. free: bytes on the device; None: as it is."""
        stored = {name: NAMES[self._loaded.stored[name]] for name in self.in_blocks}
        self._room = replace(self._room, dtypes={**dict.fromkeys(self._loaded.modules, dtype), **stored})
        begun_again = bool(self._room.tried)
        room = free_bytes(self._loaded) if free is None else free
        self.reasons = self._room.bring(place) if begun_again else self._room.settle(room, place)

    def run(self, work: Callable[[], Found], narrower: Callable[[], bool] = lambda: False) -> Found:
        """Run the work; where memory ends, repeat it in the next cheaper way, and with the last one once more. narrower: lets the
        work itself take less, where no more of the model can be offloaded.
        """
        self.is_last = False
        while True:
            try:
                return work()
            except (RuntimeError, MemoryError, HalftoneError) as error:
                if self.is_last or not (is_out_of_memory(error) or is_too_large(error)):
                    raise
                log.info("the memory ended in a check: %s", first_line(error))
                free_after(error)
                self.is_last = not (self._room.offload_more() or narrower())
            self.reasons = self._room.reasons()


@contextmanager
def memory_told(model: str) -> Generator[None]:
    """What a check or a repair can do with less differs from what a picture can. Raises HalftoneError check-no-memory."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        trace, detail = "".join(traceback.format_exception(error)), first_line(error)
        forget_frames(error)  # they hold what filled the device
        raise HalftoneError("check-no-memory", trace, model=model, detail=detail) from error
