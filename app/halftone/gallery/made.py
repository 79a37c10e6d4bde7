"""Pictures are put on the list as soon as each one is saved, so that whatever ends the program later loses none of them."""

import logging
import sqlite3

import msgspec

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import AnyCommand, AnyEvent, Generate, JobEnded, PictureReady, Upscale
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.gallery.history import History


def made_as(source: PictureFacts, larger: PictureFacts) -> PictureFacts:
    """With the seeds and words of the picture that it was."""
    kept = {name: getattr(source, name) for name in ("seed", "variation_seed", "prompt", "negative", "loras")}
    return msgspec.structs.replace(larger, **kept)


def list_larger(history: History, larger: PictureFacts, thumbnail: bytes) -> bool:
    """Put it on the list; False where its source is not there, for nobody knows how that was made. Raises sqlite3.Error."""
    source = None if larger.upscaled is None else history.find(larger.upscaled.source)
    if source is None:
        return False
    history.add(made_as(source.facts, larger), source.request, thumbnail)
    return True


log = logging.getLogger(__name__)


def list_made(request: PictureRequest | UpscaleRequest, facts: PictureFacts, thumbnail: bytes) -> None:
    """Put a picture that was just saved on the list; nothing where it is no file. Raises OSError and sqlite3.Error."""
    if not facts.path:
        return
    with History() as history:
        if isinstance(request, UpscaleRequest):
            list_larger(history, facts, thumbnail)
        else:
            history.add(facts, request, thumbnail)


class Recorder:
    """Lists the pictures of the jobs of a process. A failure is logged: a picture is worth more than its entry."""

    def __init__(self) -> None:
        self._requests: dict[str, PictureRequest | UpscaleRequest] = {}

    def expect(self, command: AnyCommand) -> None:
        """Remember what a job was asked for."""
        if isinstance(command, Generate | Upscale):
            self._requests[command.job] = command.request

    def hear(self, event: AnyEvent, blob: bytes) -> None:
        """List a picture, before anybody else hears of it."""
        if isinstance(event, JobEnded):
            self._requests.pop(event.job or "", None)
        request = self._requests.get(event.job or "")
        if not isinstance(event, PictureReady) or request is None:
            return
        try:
            list_made(request, event.facts, blob[: event.thumbnail_size])
        except (OSError, sqlite3.Error) as error:
            log.warning("The history could not be kept: %s", error)
