"""The finished pictures that the program knows, frozen."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest
from halftone.session.pictures.picture_time import Pictures

_LEARNT: Final = 120
"""Pictures of the history that times are learnt from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """A finished picture with the request that makes it again. thumbnail, failed: files in memory, of one that this session made;
    failed: what the failing precision gave. whole: made from its first step on: of one that was resumed, only the rest was timed.
    """

    facts: PictureFacts
    request: PictureRequest
    made_at: datetime
    thumbnail: bytes = b""
    failed: bytes = b""
    whole: bool = True

    @property
    def key(self) -> str:
        """Names the picture, whether it is a file or not."""
        return self.facts.path or f"unsaved {self.facts.seed} {self.facts.index}"

    @property
    def is_file(self) -> bool:
        return bool(self.facts.path)


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureHistory:
    """known: by their paths, newest first, with those that were moved to the bin; listed: paths of those that are shown, newest
    first; newest: the highest number on the list that was read; read: whether it was read; unread: whether that failed; shown:
    key of the one that is looked at; latest: what this session made last, a file or not; timed: those that tell the time of the
    next one.
    """

    known: Mapping[str, Made] = field(default_factory=dict[str, Made])
    listed: tuple[str, ...] = ()
    newest: int = 0
    read: bool = False
    unread: bool = False
    shown: str = ""
    latest: Made | None = None
    timed: Pictures = field(default_factory=Pictures)

    @cached_property
    def pictures(self) -> tuple[Made, ...]:
        """Those that are shown, newest first."""
        return tuple(self.known[path] for path in self.listed)

    @property
    def looked_at(self) -> Made | None:
        """The picture that is shown, a file or not; None where it is not known any more."""
        unsaved = self.latest if self.latest is not None and self.latest.key == self.shown else None
        return self.known.get(self.shown) or unsaved

    @cached_property
    def prompts(self) -> tuple[str, ...]:
        """What the listed pictures were asked for with, each once, newest first."""
        return tuple(dict.fromkeys(prompt for made in self.pictures if (prompt := made.request.prompt.strip())))

    @cached_property
    def newest_by(self) -> Mapping[str, str]:
        """Model -> path of the newest picture that it made."""
        return {self.known[path].request.model: path for path in reversed(self.listed)}

    @cached_property
    def newest_with(self) -> Mapping[str, str]:
        """Model, or file that was used beside it -> path of the newest picture that was made with it."""
        beside = {file: path for path in reversed(self.listed) for file in _files(self.known[path].request)}
        return {**beside, **self.newest_by}


def _files(request: PictureRequest) -> tuple[str, ...]:
    """The LoRAs and the VAE of a request."""
    return (*(lora.path for lora in request.loras), *((request.vae,) if request.vae else ()))


def _by_path(found: Iterable[Made]) -> dict[str, Made]:
    return {made.facts.path: made for made in found}


def _timed(history: PictureHistory, found: Iterable[Made]) -> Pictures:
    """found: newest first."""
    whole = [made for made in islice(found, _LEARNT) if made.whole and made.facts.upscaled is None]
    return history.timed.with_made((made.facts, made.request) for made in reversed(whole)) if whole else history.timed


def with_list(history: PictureHistory, found: Iterable[Made], newest: int, before: Mapping[str, Made]) -> PictureHistory:
    """The history once all of the list was read. Pictures of this session keep what they know. before: those that were known when
    the reading began.
    """
    listed = {path: history.known.get(path, made) for path, made in _by_path(found).items()}
    meanwhile = {path: made for path, made in history.known.items() if path not in before and path not in listed}
    shown = meanwhile | listed
    return replace(
        history,
        known=shown | {path: made for path, made in history.known.items() if path not in shown},
        listed=tuple(shown),
        newest=max(history.newest, newest),
        read=True,
        unread=False,
        timed=_timed(history, shown.values()),
    )


def with_new(history: PictureHistory, found: Iterable[Made], newest: int) -> PictureHistory:
    """The history with what was added to the list since it was read; only pictures of other programs are new."""
    new = {path: made for path, made in _by_path(found).items() if path not in history.known}
    newest = max(history.newest, newest)
    if not new:
        return history if newest == history.newest else replace(history, newest=newest)
    listed = (*new, *history.listed)
    return replace(history, known={**new, **history.known}, listed=listed, newest=newest, timed=_timed(history, new.values()))


def with_made(history: PictureHistory, made: Made) -> PictureHistory:
    """The history with a picture that this session made."""
    if not made.is_file:
        return replace(history, latest=made)
    path = made.facts.path
    listed = (path, *(other for other in history.listed if other != path))
    known = {path: made, **history.known} | {path: made}
    return replace(history, known=known, listed=listed, latest=made)


def without(history: PictureHistory, paths: Collection[str]) -> PictureHistory:
    """Return the history without pictures that were moved to the bin, from where they may come back."""
    return replace(history, listed=tuple(path for path in history.listed if path not in paths))


def with_times(history: PictureHistory, *pictures: tuple[PictureFacts, PictureRequest]) -> PictureHistory:
    """The history with pictures that tell how long the next one takes."""
    return replace(history, timed=history.timed.with_made(pictures))
