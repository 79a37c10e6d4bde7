"""Fetches small files from the hub of Hugging Face (or HF_ENDPOINT), and only when a user asked for exactly that.

One plain request each. The hub's own download retries for half a minute, prints every try, tells the server about the machine,
and sends a token that was stored for another program.
"""

import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from halftone import __version__
from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.files.small_files import LARGEST, SmallFile, Unfit, unfit
from halftone.settings.atomic import write_atomically
from halftone.settings.disk import need_room, system_words

_HUB: Final = "https://huggingface.co"
_PATIENCE_S: Final = 10.0
"""For a connection, and for each next piece of what comes."""
_REASONS: Final = (
    (socket.gaierror, Words("the server was not found; this machine may be offline")),
    (ssl.SSLError, Words("the server's certificate could not be verified")),
    ((TimeoutError, ConnectionRefusedError), Words("the server does not answer")),
)
_CAME: Final[dict[Unfit, str]] = {
    "damaged": "what came is cut off, or is not a tokenizer",
    "other": "what came is the tokenizer of another model",
}

OnWay = Callable[[int, int], None]


def hub() -> str:
    """Where files are fetched from."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or _HUB


def fetch(file: SmallFile, on_way: OnWay = lambda _done, _whole: None) -> Path:
    """Download the file to its place. on_way: called with (bytes received, bytes of the whole).

    Raises HalftoneError fetch-refused, fetch-token, fetch-missing, fetch-failed, disk-full.
    """
    data = _downloaded(file, on_way)
    if why := unfit(data, file):
        raise _failed(file, Words(_CAME[why]))
    try:
        file.place.parent.mkdir(parents=True, exist_ok=True)
        need_room(file.place, file.place.parent, len(data))
        write_atomically(file.place, data)
    except OSError as error:
        raise _failed(file, system_words(error)) from error
    return file.place


def _downloaded(file: SmallFile, on_way: OnWay) -> bytes:
    """The server's answer; empty when it is larger than any such file."""
    from huggingface_hub import constants, errors, get_session

    if constants.HF_HUB_OFFLINE:
        raise _failed(file, Words("HF_HUB_OFFLINE is set"))
    if not _is_address(hub()):
        raise _failed(file, Words("HF_ENDPOINT is not a web address"))
    token = os.environ.get("HF_TOKEN", "").strip()  # no stored one: the files are public, and HF_ENDPOINT may be anybody's server
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise _failed(file, Words("HF_TOKEN contains invalid characters"), "fetch-token")
    url = f"{hub()}/{file.repository}/resolve/main/{file.path}"
    headers = {"User-Agent": f"halftone/{__version__}"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        with get_session().stream("GET", url, headers=headers, timeout=_PATIENCE_S) as answer:
            _check(file, answer.status_code, answer.headers, token)
            size = answer.headers.get("Content-Length", "")
            length = int(size) if re.fullmatch(r"[0-9]{1,12}", size) and not answer.headers.get("Content-Encoding") else 0
            data = bytearray()
            for piece in answer.iter_bytes() if length <= LARGEST else ():
                data += piece
                on_way(len(data), max(length or file.size, len(data)))
                if len(data) > LARGEST:
                    return b""
            return bytes(data)
    except errors.HTTPError as error:  # the base of all that the library of the hub raises for a connection
        raise _failed(file, _reason(error)) from error


def _check(file: SmallFile, status: int, headers: Mapping[str, str], token: str) -> None:
    """401: not signed in, or a wrong token; the hub answers the same for files with terms to accept."""
    source = f"{hub()}/{file.repository}"
    if status == 401 and token:
        raise _failed(file, Words("the token in HF_TOKEN is invalid or expired"), "fetch-token")
    if status == 401 and headers.get("X-Error-Code") != "GatedRepo":
        raise _failed(file, Words("it requires a token"), "fetch-token")
    if status in (401, 403):
        raise HalftoneError("fetch-refused", file=file.path, source=source)
    if status == 404:
        raise HalftoneError("fetch-missing", file=file.path, source=source)
    if status != 200:
        raise _failed(file, Words("the server answered {0}", (str(status),)))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0 and not set(url) & set(" \t\n")
        )
    except ValueError:
        return False


def _reason(error: BaseException) -> Words:
    """Why a connection failed, from the system's error below the library's."""
    cause: BaseException | None = error
    while cause is not None:
        if said := next((said for kinds, said in _REASONS if isinstance(cause, kinds)), None):
            return said
        cause = cause.__cause__ or cause.__context__
    return Words("the connection failed")


def _failed(file: SmallFile, detail: Words, code: ErrorCode = "fetch-failed") -> HalftoneError:
    return HalftoneError(code, file=file.path, source=f"{hub()}/{file.repository}", detail=detail)
