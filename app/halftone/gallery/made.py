"""Lists pictures as soon as each one is saved, so that none is lost when the program ends."""

import logging
import sqlite3

import msgspec

from halftone.contract.facts import PictureFacts
from halftone.contract.messages import AnyCommand, AnyEvent, Generate, JobEnded, PictureReady, PictureSaving, Upscale
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.gallery.history import History


def made_as(source: PictureFacts, larger: PictureFacts) -> PictureFacts:
    """The larger picture with the seeds and words of its source."""
    kept = {name: getattr(source, name) for name in ("seed", "variation_seed", "prompt", "negative", "loras")}
    return msgspec.structs.replace(larger, **kept)


log = logging.getLogger(__name__)


def list_made(request: PictureRequest | UpscaleRequest, facts: PictureFacts, thumbnail: bytes, job: str = "") -> None:
    """List a saved picture that is a file and not enlarged from an unlisted one. job: the one that makes it, where the picture is
    yet to be saved. Raises OSError and sqlite3.Error.
    """
    if not facts.path:
        return
    with History() as history:
        if isinstance(request, UpscaleRequest):
            source = history.find(facts.upscaled.source) if facts.upscaled is not None else None
            if source is None:
                return
            facts, request = made_as(source.facts, facts), source.request
        if job:
            history.expect(job, facts, request, thumbnail)
        else:
            history.add(facts, request, thumbnail)


class Recorder:
    """Lists the pictures of a process' jobs. Failures are logged."""

    def __init__(self) -> None:
        self._requests: dict[str, PictureRequest | UpscaleRequest] = {}

    def expect(self, command: AnyCommand) -> None:
        """Remember a job's request."""
        if isinstance(command, Generate | Upscale):
            self._requests[command.job] = command.request

    def hear(self, event: AnyEvent, blob: bytes) -> None:
        """List a picture, before others receive the event."""
        if isinstance(event, JobEnded):
            self._requests.pop(event.job or "", None)
        request = self._requests.get(event.job or "")
        if request is None or not isinstance(event, PictureReady | PictureSaving):
            return
        saving = isinstance(event, PictureSaving)
        thumbnail = blob if saving else blob[: event.thumbnail_size]
        try:
            list_made(request, event.facts, thumbnail, (event.job or "") if saving else "")
        except (OSError, sqlite3.Error) as error:
            log.warning("The history could not be kept: %s", error)
