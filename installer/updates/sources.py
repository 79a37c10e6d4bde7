"""Where an update comes from: a folder or a file that the user chose, or an HTTPS address. Read when asked, never by itself."""

import hashlib
import http.client
import io
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import IO, Final, NamedTuple

from installer.updates.manifest import MOST_BYTES, Manifest
from installer.updates.reasons import UpdateError

SUFFIX: Final = ".update"
_CHUNK: Final = 1 << 18
_TIMEOUT: Final = 30.0
_TROUBLES: Final = (OSError, http.client.HTTPException, ValueError)


def manifest_name(target: str) -> str:
    return f"halftone-{target}{SUFFIX}"


class Source(NamedTuple):
    """manifest: the address or the path of the manifest; remote: it is an address."""

    manifest: str
    remote: bool

    def beside(self, name: str) -> str:
        """A file in the same folder."""
        if self.remote:
            address = urllib.parse.urlsplit(self.manifest)
            folder = address.path.rpartition("/")[0]
            # A query may hold what lets the reader in, so it goes with both files.
            return urllib.parse.urlunsplit(address._replace(path=f"{folder}/{urllib.parse.quote(name)}", fragment=""))
        return os.path.join(os.path.dirname(self.manifest), name)


def source_of(words: str, target: str) -> Source:
    """Understand what the user gave: a folder is looked into for the manifest of this platform. Raises UpdateError."""
    words = words.strip()
    if not words:
        raise UpdateError("no-source")
    if "://" in words:
        address = _address(words)
        if not address.path.endswith(SUFFIX):
            address = address._replace(path=address.path.rstrip("/") + "/" + manifest_name(target))
        return Source(urllib.parse.urlunsplit(address), remote=True)
    path = os.path.abspath(os.path.expanduser(words))
    if os.path.isdir(path):
        return Source(os.path.join(path, manifest_name(target)), remote=False)
    if not os.path.isfile(path):
        raise UpdateError("bad-address", words)
    return Source(path, remote=False)


def _address(words: str) -> urllib.parse.SplitResult:
    """An HTTPS address in ASCII, as it goes over the network. Raises UpdateError."""
    try:
        address = urllib.parse.urlsplit(words)
        if "@" in address.netloc:
            raise UpdateError("password")
        netloc, port = address.netloc, address.port
        if address.scheme != "https" or not address.hostname:
            raise UpdateError("bad-address", words)
        if not netloc.isascii():
            netloc = address.hostname.encode("idna").decode() + (f":{port}" if port else "")
    except ValueError as error:
        raise UpdateError("bad-address", words) from error
    path, query = (urllib.parse.quote(part, safe="/%:@!$&'()*+,;=?~") for part in (address.path, address.query))
    return address._replace(netloc=netloc, path=path, query=query)


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never to an address without encryption."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError("it redirects to an address without HTTPS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(place: str, remote: bool) -> IO[bytes]:
    if not remote:
        return open(place, "rb")
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    opener = urllib.request.build_opener(_HttpsOnly, secure)
    request = urllib.request.Request(place, headers={"User-Agent": "Halftone", "Accept-Encoding": "identity"})
    return opener.open(request, timeout=_TIMEOUT)


def reason(error: BaseException) -> str:
    """What went wrong in a few words."""
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner) or type(inner).__name__


def read_manifest(source: Source) -> bytes:
    """Raises UpdateError."""
    try:
        with _open(source.manifest, source.remote) as file:
            data = file.read(MOST_BYTES + 1)
    except _TROUBLES as error:
        raise UpdateError("unreachable", source.manifest, reason(error)) from error
    if len(data) > MOST_BYTES:
        raise UpdateError("bad-manifest", source.manifest, "too long")
    return data


def copy_archive(source: Source, manifest: Manifest, path: str, progress: Callable[[int, int], object]) -> None:
    """Copy the archive, also one that is a file here: what was checked must be what is unpacked.

    No byte more than the manifest says is written. Raises UpdateError, and OSError where the copy cannot be written.
    """
    place = source.beside(manifest.archive)
    found, done = hashlib.sha256(), 0
    try:
        stream = _open(place, source.remote)
    except _TROUBLES as error:
        raise UpdateError("unreachable", place, reason(error)) from error
    with stream, open(path, "wb") as file:
        while data := _read(stream, place):
            done += len(data)
            if done > manifest.size:
                break
            found.update(data)
            file.write(data)
            progress(done, manifest.size)
    if done != manifest.size:
        raise UpdateError("wrong-size", place, str(manifest.size))
    if found.hexdigest() != manifest.sha256:
        raise UpdateError("wrong-hash", place)


def _read(stream: IO[bytes] | io.BufferedIOBase, place: str) -> bytes:
    try:
        return stream.read(_CHUNK)
    except _TROUBLES as error:
        raise UpdateError("unreachable", place, reason(error)) from error
