"""Finds an update, and installs it so that a kill at any moment leaves a version that starts.

The new version is unpacked into a folder of its own and checks itself there. Its record makes it a version, and the one small
file `current`, replaced as a whole, makes it the version in use. What was in use before stays as the older version.
"""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import IO, Any, Final, NamedTuple, cast

from installer import guard, places, versions
from installer.desk import WHILE_INPUT
from installer.runner import StoppedError, end
from installer.updates import sources
from installer.updates.manifest import Manifest, judge, public_key, verified
from installer.updates.reasons import UpdateError
from installer.updates.unpacking import unpack
from installer.versions import RECORD, Row

_LOCK: Final = "update.lock"
_SPARE: Final = 50_000_000
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LIMIT: Final = 900.0
"""Seconds of a self-check: it imports everything, which a slow disk makes long."""


class Here(NamedTuple):
    """root: the program's folder that runs; own: the package's version; folder: of the versions; home: of the environments."""

    root: str
    target: str
    own: str
    folder: str
    home: str
    environ: Mapping[str, str]

    @property
    def current(self) -> str:
        """The name of the version that an update made current, "" where it is none or older than the package."""
        name = versions.newest(self.folder)
        return name if (versions.numbers(name) or ()) > (versions.numbers(self.own) or ()) else ""

    @property
    def damaged(self) -> str:
        """The first damaged file of the current version, "" for none. The one that names it counts."""
        if versions.is_lost(self.folder):
            return places.POINTER
        return versions.damage(os.path.join(self.folder, self.current)) if self.current else ""


class Found(NamedTuple):
    """environment: a new one has to be built."""

    manifest: Manifest
    source: sources.Source
    environment: bool


class Hearer(NamedTuple):
    """stage: "download", "unpack", "environment", "self-check" or "switch"; progress: bytes done and in all; line: a set-up's."""

    stage: Callable[[str], object]
    progress: Callable[[int, int], object]
    line: Callable[[str], object]


def here(environ: Mapping[str, str], root: str = places.ROOT) -> Here:
    """Raises UpdateError where this is no package."""
    package = versions.note(versions.package(root, environ))
    if "target" not in package or versions.numbers(package.get("version", "")) is None:
        raise UpdateError("not-packaged")
    folder = versions.folder(environ)
    if folder is None:
        raise UpdateError("no-home")
    return Here(root, package["target"], package["version"], folder, os.path.dirname(folder), environ)


def look(place: Here, words: str, key: bytes | None = None) -> Found:
    """Read the manifest and nothing else. Raises UpdateError where it is no update for this package."""
    key = public_key() if key is None else key
    source = sources.source_of(words, place.target)
    manifest = verified(sources.read_manifest(source), source.manifest, key)
    judge(manifest, place.target, place.current or place.own, whole=not place.damaged)
    return Found(manifest, source, not _environments(place, manifest.lock))


def _environments(place: Here, lock: str) -> list[str]:
    return versions.environments(place.home, places.Wanted(lock, "")) if os.path.isdir(place.home) else []


def install(place: Here, found: Found, hearer: Hearer) -> None:
    """Raises UpdateError, StoppedError. After every error the version that was in use is in use."""
    version = found.manifest.version
    path = os.path.join(place.folder, version)
    try:
        os.makedirs(place.folder, exist_ok=True)
        with _alone(place.folder):
            before = place.current
            _install(place, found, path, hearer)
            _tidy(place, {version, _older(place, before, version)})
    except OSError as error:
        raise _unwritten(error, path) from error
    except StoppedError:
        if not _is_in(place, version):
            raise  # Else it came when only tidying was left, which the next update does.


def _is_in(place: Here, version: str) -> bool:
    """Whether it is the version that starts next time."""
    return versions.pointed(place.folder) == version and not versions.damage(os.path.join(place.folder, version))


def _unwritten(error: OSError, path: str) -> UpdateError:
    if error.errno in _FULL:
        return UpdateError("disk-full", path)
    return UpdateError("not-written", str(error.filename or path), error.strerror or str(error))


@contextlib.contextmanager
def _alone(folder: str) -> Generator[None]:
    with open(os.path.join(folder, _LOCK), "a+b") as file:
        if not guard.try_lock(file):
            raise UpdateError("busy")
        yield


def _install(place: Here, found: Found, path: str, hearer: Hearer) -> None:
    manifest = found.manifest
    # Again: since the offer was shown, another update may have ended.
    judge(manifest, place.target, place.current or place.own, whole=not place.damaged)
    _clear(place.folder)
    _need_space(place.folder, manifest.size + manifest.unpacked + _SPARE)
    if guard.in_use(path):
        raise UpdateError("in-use", manifest.version)
    archive = os.path.join(place.folder, f"download-{os.getpid()}.zip")
    try:
        hearer.stage("download")
        sources.copy_archive(found.source, manifest, archive, hearer.progress)
        # Not before the new one is here: a download that fails leaves what lies there.
        if os.path.lexists(path) and not _remove(path):
            raise UpdateError("in-use", manifest.version)
        _bring_in(place, manifest, archive, path, hearer)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(archive)


def _older(place: Here, before: str, version: str) -> str:
    """The one to keep beside this version, "" for none: that before it where it is whole, else the newest whole one."""
    own, new = versions.numbers(place.own) or (), versions.numbers(version) or ()
    for name in (before, *versions.kept(place.folder)):
        if own < (versions.numbers(name) or ()) < new and not versions.damage(os.path.join(place.folder, name)):
            return name
    return ""


def _bring_in(place: Here, manifest: Manifest, archive: str, path: str, hearer: Hearer) -> None:
    """Make a version of a verified archive, and make it current."""
    environment = places.current(place.home)
    try:
        hearer.stage("unpack")
        rows = unpack(archive, manifest, path, hearer.progress)
        _agree(path, manifest)
        if not _environments(place, manifest.lock):
            hearer.stage("environment")
            _build_environment(place, path, manifest.version, hearer)
        hearer.stage("self-check")
        _check_itself(place, path, manifest.version)
        hearer.stage("switch")
        _finish(path, rows)
        places.make_current(place.folder, path)
    except BaseException:
        if not _is_in(place, manifest.version):
            _remove(path)
            _give_back(place, environment)
        raise


def _need_space(folder: str, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UpdateError("no-space", str(-(-needed // 1_000_000)), folder, str(free // 1_000_000))


def _agree(path: str, manifest: Manifest) -> None:
    """The manifest said to the user what the archive holds."""
    note = versions.note(path)
    if (note.get("version"), note.get("target")) != (manifest.version, manifest.target):
        raise UpdateError("bad-archive", "it holds another version than its manifest says")
    try:
        lock = places.wanted(dev=False, folder=os.path.join(path, "installer")).runtime
    except FileNotFoundError:
        lock = ""
    if lock != manifest.lock:
        raise UpdateError("bad-archive", "its locked packages are not those that its manifest says")


def _launch(place: Here, path: str, *words: str) -> "subprocess.Popen[bytes]":
    """Start the launcher of a version. Its input is open as long as this process lives."""
    package = versions.package(place.root, place.environ)
    environ = {**place.environ, versions.PACKAGE: package, "PYTHONDONTWRITEBYTECODE": "1"}
    # The interpreter under an environment: the new version may have to build one that does not stand on the present one.
    python = str(getattr(sys, "_base_executable", "") or sys.executable or "python3")
    command = (python, os.path.join(path, "installer", "launch.py"), *words)
    return subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _lines(process: "subprocess.Popen[bytes]", line: Callable[[str], object]) -> str:
    """Pass on what a process prints until it ends. Returns the last line."""
    last = ""
    output: IO[bytes] | None = process.stdout
    assert output is not None
    try:
        for data in output:
            text = data.decode("utf-8", "replace").strip()
            if text:
                last = text
                line(text)
        process.wait()
    finally:
        if process.poll() is None:
            end(process)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        output.close()
    return last


def _build_environment(place: Here, path: str, version: str, hearer: Hearer) -> None:
    process = _launch(place, path, "ready", WHILE_INPUT)
    last = _lines(process, hearer.line)
    if process.returncode != 0:
        raise UpdateError("environment", version, last or f"exit status {process.returncode}")


def _check_itself(place: Here, path: str, version: str) -> None:
    """Let the new version import all of itself, in a process of its own."""
    script = os.path.join(path, "installer", "updates", "selfcheck.py")
    process = _launch(place, path, "python", "-P", script, version)
    lines: list[str] = []
    late = threading.Event()

    def give_up() -> None:
        late.set()
        _end_all(process)

    timer = threading.Timer(_LIMIT, give_up)
    timer.start()
    try:
        last = _lines(process, lines.append)
    finally:
        timer.cancel()
        timer.join()
    if late.is_set():
        raise UpdateError("self-check", version, f"it did not end within {_LIMIT:.0f} seconds")
    said = _said(lines)
    if process.returncode != 0 or said.get("version") != version:
        raise UpdateError("self-check", version, said.get("problem") or last or f"exit status {process.returncode}")


def _end_all(process: "subprocess.Popen[bytes]") -> None:
    """On Windows the launcher waits for the program as its child, which would hold the output open."""
    if sys.platform == "win32":
        subprocess.run(("taskkill", "/F", "/T", "/PID", str(process.pid)), check=False, capture_output=True)
    process.kill()


def _said(lines: Sequence[str]) -> Mapping[str, Any]:
    """What the self-check says of itself. What it imports may print before and, at its end, after it."""
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and ("version" in found or "problem" in found):
            return cast("Mapping[str, Any]", found)
    return {}


def _finish(path: str, rows: Mapping[str, Row]) -> None:
    """Write the record: from now on the folder is a version."""
    with open(os.path.join(path, places.IN_USE), "w", encoding="ascii"):
        pass
    temporary = os.path.join(path, f"{RECORD}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump({"files": rows}, file)
        file.flush()
        os.fsync(file.fileno())
    if sys.platform != "win32":
        os.sync()
    os.replace(temporary, os.path.join(path, RECORD))


def _remove(path: str) -> bool:
    """Delete a version, its record first, so that an interruption leaves none that looks whole. False: it is in use."""
    if guard.in_use(path):
        return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(path, RECORD))
    guard.remove_tree(path)
    return not os.path.lexists(path)


def _clear(folder: str) -> None:
    """Delete what a killed update left. Called with the lock held. Names that are not of updates stay, and so does what runs."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if versions.numbers(name) and not os.path.exists(os.path.join(path, RECORD)) and not guard.in_use(path):
            guard.remove_tree(path)
        elif name.startswith(("download-", f"{places.POINTER}.")):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _tidy(place: Here, wanted: set[str]) -> None:
    """Delete versions that are neither current nor the one before, then environments that no version needs.

    The new version is in use by now, so whatever cannot be deleted stays for the next update.
    """
    for name in versions.kept(place.folder):
        if name not in wanted:
            with contextlib.suppress(OSError):
                _remove(os.path.join(place.folder, name))
    _sweep(place)


def _sweep(place: Here) -> None:
    """A set-up that runs holds the lock, for hours where the network is slow, and sweeps at its end itself."""
    with contextlib.suppress(OSError), open(os.path.join(place.home, guard.LOCK), "a+b") as file:
        if guard.try_lock(file):
            guard.sweep(place.home, places.current(place.home))


def _give_back(place: Here, environment: str | None) -> None:
    """Make the environment that was current so again, where the failed version had built its own.

    One that fits the version in use is not of this update: the user set it up meanwhile.
    """
    present = places.current(place.home)
    if environment is None or present in (None, environment) or places.read_stamp(environment) is None:
        return
    if not places.usable(present, places.wanted(dev=False, folder=os.path.join(place.root, "installer"))):
        places.make_current(place.home, environment)
        _sweep(place)
