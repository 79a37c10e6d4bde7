"""Makes updates: an archive of the program for a platform, and the manifest, signed by OpenSSL with a key from elsewhere."""

import base64
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from installer import launch, places
from installer.packaging.payload import Entry, Release, git, payload, write_zip
from installer.updates.manifest import CONTEXT, HEAD, KEY_FILE, Manifest, public_key, verified, written
from installer.updates.sources import manifest_name
from installer.words import LaunchError

_PEM_END: Final = 32
"""The last bytes of a public Ed25519 key in DER are the key itself (RFC 8410)."""
LANGUAGES: Final = ("en", "zh_CN")


class Made(NamedTuple):
    manifest: str
    archive: str


def _openssl(*words: str) -> bytes:
    """Raises LaunchError."""
    try:
        return subprocess.run(("openssl", *words), capture_output=True, check=True).stdout
    except FileNotFoundError as error:
        raise LaunchError("Signing needs openssl; nothing was made: install it and start again.") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip().splitlines()
        raise LaunchError(f"openssl {words[0]} failed ({said[0] if said else error.returncode}); nothing was made.") from error


def key_line(key: str) -> str:
    """The line for `update-key.txt` of a private key in PEM. Raises LaunchError."""
    if not key or not os.path.isfile(key):
        make = "openssl genpkey -algorithm ed25519 -out KEY.pem"
        raise LaunchError(
            f"The private key {key or '(none given)'} is not there; nothing was made: give its path with --key. "
            f"“{make}” makes one; keep it outside of the repository."
        )
    if os.path.realpath(key).startswith(os.path.join(os.path.realpath(places.ROOT), "")):
        raise LaunchError(f"The private key {key} lies in the repository; nothing was made: move it out and start again.")
    der = _openssl("pkey", "-in", key, "-pubout", "-outform", "DER")
    if len(der) != 44:
        raise LaunchError(f"{key} is not an Ed25519 key; nothing was made: make one with openssl genpkey -algorithm ed25519.")
    return base64.b64encode(der[-_PEM_END:]).decode()


def _signature(message: bytes, key: str) -> bytes:
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "message")
        with open(path, "wb") as file:
            file.write(message)
        return _openssl("pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", path)


def signed(manifest: Manifest, key: str) -> bytes:
    """The bytes of the manifest's file, for any key. Raises UpdateError where no version could read what is signed."""
    body = written(manifest)
    public = base64.b64decode(key_line(key))
    data = HEAD + base64.b64encode(_signature(CONTEXT + body, key)) + b"\n" + body
    verified(data, "the manifest", public)
    return data


def notes(paths: Mapping[str, str]) -> dict[str, str]:
    """Language -> what is new, from a file each. Raises LaunchError."""
    found: dict[str, str] = {}
    for language, path in paths.items():
        try:
            with open(path, encoding="utf-8") as file:
                found[language] = file.read().strip()
        except OSError as error:
            raise LaunchError(f"{path} could not be read ({error.strerror}); nothing was made.") from error
    return found


def check_key(line: str, new_key: bool = False, root: str = places.ROOT) -> None:
    """Refuse the line of a key that the versions in use do not trust. new_key: the checkout holds a new key, which the update
    brings; it is signed with the one before. Raises LaunchError, CalledProcessError.
    """
    name = os.path.relpath(KEY_FILE, places.ROOT).replace(os.sep, "/")
    is_present = base64.b64decode(line) == public_key(os.path.join(root, name))
    if new_key and (is_present or not git("log", "-1", "--format=%h", f"-S{line}", "--", name, root=root)):
        raise LaunchError(f"The key is no earlier one of {name}; nothing was made: sign with the key that this one replaces.")
    if not new_key and not is_present:
        raise LaunchError(
            f"The key is not the one of {name}; nothing was made: use the key of this build, or --new-key where this update "
            "replaces the key that it is signed with."
        )


def build(cache: str, target: str, made: Release, folder: str, key: str, said: Mapping[str, str], new_key: bool = False) -> Made:
    """Write archive and manifest for a platform. said: as `notes`; new_key: as `check_key`. Raises LaunchError."""
    check_key(key_line(key), new_key)
    return write(payload(cache, target, "update", made), target, made, folder, key, said)


def write(files: Mapping[str, Entry], target: str, made: Release, folder: str, key: str, said: Mapping[str, str]) -> Made:
    """Write the update that consists of these files of the program's folder. Raises LaunchError."""
    key_line(key)
    os.makedirs(folder, exist_ok=True)
    archive = os.path.join(folder, f"halftone-{made.version}-{target}.zip")
    write_zip(files, archive, made.epoch)
    with open(archive, "rb") as file:
        data = file.read()
    manifest = Manifest(
        version=made.version,
        date=f"{datetime.fromtimestamp(made.epoch, UTC):%Y-%m-%d}",
        target=target,
        notes=dict(said),
        archive=os.path.basename(archive),
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        unpacked=sum(len(entry.data) for entry in files.values()),
        files=len(files),
        lock=_lock(files),
        python=f"{launch.NEEDED[0]}.{launch.NEEDED[1]}",
    )
    path = os.path.join(folder, manifest_name(target))
    with open(path, "wb") as file:
        file.write(signed(manifest, key))
    return Made(path, archive)


def _lock(files: Mapping[str, Entry]) -> str:
    total = hashlib.sha256()
    for name in places.RUNTIME_FILES:
        total.update(files[f"installer/{name}"].data.replace(b"\r\n", b"\n"))
    return total.hexdigest()
