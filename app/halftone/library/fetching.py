"""Fetches small files from the hub that Hugging Face (or HF_ENDPOINT) runs, and only when a user asked for exactly that.

One plain request each, not the hub's own download: that tries for half a minute, prints every try, tells the server about the
machine, and sends a token that was stored for another program.
"""

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from halftone import __version__
from halftone.contract.errors import HalftoneError
from halftone.library.small_files import LARGEST, SmallFile, unfit
from halftone.settings.atomic import write_atomically
from halftone.settings.disk import need_room

_HUB: Final = "https://huggingface.co"
_PATIENCE_S: Final = 10.0
"""For a connection, and for each next piece of what comes."""
_REASONS: Final = (
    (socket.gaierror, "this machine does not find the server, and may be offline"),
    (ssl.SSLError, "the server's certificate could not be verified"),
    ((TimeoutError, ConnectionRefusedError), "the server does not answer"),
)


def hub() -> str:
    """Where files are fetched from."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or _HUB


def fetch(file: SmallFile) -> Path:
    """Its place, once it is there. Raises HalftoneError fetch-refused, fetch-missing, fetch-failed, disk-full."""
    data = _downloaded(file)
    if why := unfit(data):
        raise _failed(file, f"what came {why}")
    try:
        file.place.parent.mkdir(parents=True, exist_ok=True)
        need_room(file.place, file.place.parent, len(data))
        write_atomically(file.place, data)
    except OSError as error:
        raise _failed(file, error.strerror or "it cannot be written") from error
    return file.place


def _downloaded(file: SmallFile) -> bytes:
    """What the server gives; empty when it is larger than any such file."""
    from huggingface_hub import constants, errors, get_session

    if constants.HF_HUB_OFFLINE:
        raise _failed(file, "HF_HUB_OFFLINE is set")
    if not _is_address(hub()):
        raise _failed(file, "HF_ENDPOINT is not a web address")
    url = f"{hub()}/{file.repository}/resolve/main/{file.path}"
    try:
        with get_session().stream("GET", url, headers=_headers(), timeout=_PATIENCE_S) as answer:
            _check(file, answer.status_code)
            return _whole(answer.iter_bytes())
    except errors.HTTPError as error:  # the base of all that the library of the hub raises for a connection
        raise _failed(file, _reason(error)) from error


def _headers() -> dict[str, str]:
    """A token only where the user gave one in HF_TOKEN: the files are public, and HF_ENDPOINT may be anybody's server."""
    token = os.environ.get("HF_TOKEN", "").strip()
    return {"User-Agent": f"halftone/{__version__}"} | ({"Authorization": f"Bearer {token}"} if token else {})


def _check(file: SmallFile, status: int) -> None:
    source = f"{hub()}/{file.repository}"
    if status in (401, 403):  # 401: also a repository that is not there, or not shown to all
        raise HalftoneError("fetch-refused", file=file.path, source=source)
    if status == 404:
        raise HalftoneError("fetch-missing", file=file.path, source=source)
    if status != 200:
        raise _failed(file, f"the server answered {status}")


def _whole(pieces: Iterator[bytes]) -> bytes:
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LARGEST:
            return b""
    return bytes(data)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0 and not set(url) & set(" \t\n")
        )
    except ValueError:
        return False


def _reason(error: BaseException) -> str:
    """Why a connection failed, from what the system said below the library's own words."""
    cause: BaseException | None = error
    while cause is not None:
        if said := next((said for kinds, said in _REASONS if isinstance(cause, kinds)), ""):
            return said
        cause = cause.__cause__ or cause.__context__
    return "the connection failed"


def _failed(file: SmallFile, detail: str) -> HalftoneError:
    return HalftoneError("fetch-failed", file=file.path, source=f"{hub()}/{file.repository}", detail=detail)
