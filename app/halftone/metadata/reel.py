"""A picture of one frame at a time, so that Pillow's writers need not hold all of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image


class Reel(Image.Image):
    """frames: (height, width, 3) bytes, each read when it is needed."""

    def __init__(self, frames: Sequence[NDArray[np.uint8]]) -> None:
        super().__init__()
        first = Image.fromarray(frames[0])
        self.im = first.im
        self._mode, self._size = first.mode, first.size
        self.n_frames = len(frames)
        self._frames = frames
        self._now = 0

    def tell(self) -> int:
        return self._now

    def seek(self, frame: int) -> None:
        if frame != self._now:
            self._now = frame
            self.paste(Image.fromarray(self._frames[frame]), (0, 0))
