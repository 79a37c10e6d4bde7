"""The frames of a decode, one of a picture, many of a video: turned into bytes when they are asked for, and judged one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from halftone.engine.basics.tensors import tensors_in
from halftone.engine.sampling.frames import Pixels, fitted, frames_in, to_pixels
from halftone.engine.sampling.hooks import Decoded, is_finite
from halftone.measure.pictures import flat_tiles, is_dark, is_flat

Flatness = Literal["flat", "flat-tiles"]


@dataclass(frozen=True)
class Seen:
    """flat, broken: frames, from 1, of one colour, or not finite; dark: all are almost black."""

    width: int
    height: int
    frames: int
    flat: tuple[int, ...]
    broken: tuple[int, ...]
    dark: bool


class Film(Sequence[Pixels]):
    """frames: (frames, channels, height, width) in [0, 1]; as a sequence, (height, width, 3) bytes of each."""

    def __init__(self, frames: Sequence[torch.Tensor]) -> None:
        self._frames = list(frames)
        self._judged: dict[int, tuple[bool, bool, bool]] = {}
        self._latest: tuple[int, Pixels] | None = None

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: int) -> Pixels:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices
        if self._latest is None or self._latest[0] != index:
            self._latest = (index, to_pixels(self._frames[index]))
        return self._latest[1]

    def put(self, first: int, frames: Sequence[torch.Tensor]) -> None:
        """Frames in the place of those from `first` on, in the size of the film."""
        for index, frame in enumerate(frames, first):
            self._frames[index] = fitted(frame, self.size)
            self._judged.pop(index, None)
        self._latest = None

    def first(self) -> "Film":
        return Film(self._frames[:1])

    def fit(self, size: tuple[int, int]) -> None:
        """Bring all frames to a (height, width)."""
        self._frames = [fitted(frame, size) for frame in self._frames]
        self._judged.clear()
        self._latest = None

    @property
    def size(self) -> tuple[int, ...]:
        """(height, width)."""
        return tuple(self._frames[0].shape[-2:])

    def is_flat(self, index: int) -> bool:
        return self._judge(index)[0]

    def seen(self) -> Seen:
        judged = [self._judge(index) for index in range(len(self))]
        height, width = self.size
        return Seen(
            width=width,
            height=height,
            frames=len(self),
            flat=tuple(number for number, (flat, _, _) in enumerate(judged, 1) if flat),
            broken=tuple(number for number, (_, broken, _) in enumerate(judged, 1) if broken),
            dark=all(dark and not flat for flat, _, dark in judged),
        )

    def _judge(self, index: int) -> tuple[bool, bool, bool]:
        """Flat, broken, dark; a frame is turned into bytes once for it."""
        if index not in self._judged:
            pixels = self[index]
            self._judged[index] = (is_flat(pixels), not is_finite(self._frames[index]), is_dark(pixels))
        return self._judged[index]


class Reported(Sequence[Pixels]):
    """A film that reports when a frame is taken."""

    def __init__(self, film: Film, report: Callable[[int, int], None]) -> None:
        self._film = film
        self._report = report

    def __len__(self) -> int:
        return len(self._film)

    def __getitem__(self, index: int) -> Pixels:  # pyright: ignore[reportIncompatibleMethodOverride] - no slices
        self._report(index + 1, len(self))
        return self._film[index]


@dataclass(frozen=True)
class Part:
    """One call of the decoder and the frames that it gave, from `first` on."""

    decoded: Decoded
    first: int

    @property
    def indices(self) -> range:
        return range(self.first, self.first + self.decoded.frames)


def parts_of(film: Film, decodes: Sequence[Decoded], component: str) -> list[Part]:
    """Which call of a component gave which frames; none where the numbers do not add up. A picture's is the last."""
    own = [decoded for decoded in decodes if decoded.call.component == component]
    if len(film) == 1:
        own = own[-1:]
    elif any(decoded.size != film.size for decoded in own):
        return []
    if sum(decoded.frames for decoded in own) != len(film):
        return []
    starts = [sum(earlier.frames for earlier in own[:index]) for index in range(len(own))]
    return [Part(decoded, first) for decoded, first in zip(own, starts, strict=True)]


def flat_frames(film: Film, part: Part) -> dict[int, Flatness]:
    """Frames of a part, from 0, of one colour, or in flat tiles over latents that are not. A picture that the pipeline scaled is
    judged as it was decoded: its tiles no longer match their latents.
    """
    found: dict[int, Flatness] = {}
    scaled = part.decoded.picture is not None and part.decoded.size != film.size
    seen = Film(frames_in(part.decoded.picture)) if scaled and part.decoded.picture is not None else film
    for index in part.indices:
        kind = flatness(seen[index], part.decoded.latents, index - part.first, part.decoded.frames)
        if kind is not None:
            found[index] = kind
    return found


def flat_in(result: object, part: Part) -> set[int]:
    """The film's numbers of flat frames in a repeated part."""
    frames = frames_in(next(tensors_in(result)))
    kinds = [flatness(to_pixels(frame), part.decoded.latents, index, len(frames)) for index, frame in enumerate(frames)]
    return {part.first + index for index, kind in enumerate(kinds) if kind is not None}


def flatness(pixels: Pixels, latents: torch.Tensor | None, frame: int = 0, frames: int = 1) -> Flatness | None:
    """Whether a frame is of one colour, or in tiles over latents that are not; None for a picture.

    latents: what was decoded, (pictures, channels, height, width), or (1, channels, frames, height, width); None if unknown.
    frame: which of `frames` it is, from 0.
    """
    if is_flat(pixels):
        return "flat"
    if latents is None or latents.dim() not in (4, 5):
        return None
    held = latents if latents.dim() == 4 else latents[0].transpose(0, 1)
    own = held[latent_frame(frame, frames, len(held))]
    return "flat-tiles" if flat_tiles(pixels, own.float().cpu().numpy()) else None


def latent_frame(frame: int, frames: int, latents: int) -> int:
    """The latent frame of a frame. Causal decoders make one frame of the first and several of each later (Wan 4, LTX 8)."""
    if latents > 1 and (frames - 1) % (latents - 1) == 0:
        return -(-frame * (latents - 1) // (frames - 1)) if frames > 1 else 0
    return frame * latents // frames


def worst(frames: Sequence[torch.Tensor]) -> torch.Tensor:
    """The first frame that is not finite, else the first."""
    return next((frame for frame in frames if not is_finite(frame)), frames[0])
