"""`halftone update`: says what would change, asks, installs. With --json for the window, which shows the same."""

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Final

from installer import runner
from installer.updates import install
from installer.updates.install import Found, Hearer, Here
from installer.updates.reasons import UpdateError

SCHEMA: Final = 1
_PAUSE: Final = 0.1
"""Seconds between two reports of progress."""
STAGES: Final = {
    "download": "Downloading the update",
    "unpack": "Unpacking it",
    "environment": "Building its environment",
    "self-check": "Checking the new version",
    "switch": "Switching to it",
}


def arguments(words: list[str]) -> argparse.Namespace:
    about = (
        "Install a newer version of this package, from a place that you name. Halftone looks for updates only when you ask it to."
    )
    parser = argparse.ArgumentParser(prog="halftone update", description=about)
    parser.add_argument("--check", action="store_true", help="only say what would change")
    parser.add_argument("--from", dest="place", default="", metavar="PLACE", help="a folder, a file or an HTTPS address")
    parser.add_argument("--yes", action="store_true", help="install without asking")
    parser.add_argument("--json", action="store_true", help="print an object; nothing is asked, and installed with --yes only")
    parser.add_argument("--progress", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--agreed", default="", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main(words: list[str], environ: Mapping[str, str] = os.environ) -> int:
    """Exit code: 0 done, 1 refused or stopped."""
    asked = arguments(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A console in an old code page cannot show every note.
    runner.stop_on_signals()
    try:
        return _run(asked, environ)
    except UpdateError as error:
        return _refused(error, as_json=asked.json)
    except runner.StoppedError:
        _refused(UpdateError("stopped"), as_json=asked.json)
        return 130
    finally:
        runner.signals_as_before()


def _run(asked: argparse.Namespace, environ: Mapping[str, str]) -> int:
    place = install.here(environ)
    try:
        found = install.look(place, asked.place)
    except UpdateError as error:
        if error.code != "installed":
            raise
        return _up_to_date(place, error, as_json=asked.json)
    if asked.agreed not in ("", found.manifest.sha256):
        raise UpdateError("changed", found.source.manifest)
    wanted = asked.yes and not asked.check
    if not asked.json:
        _tell(place, found)
        wanted = not asked.check and (asked.yes or _agreed())
    if wanted:
        install.install(place, found, as_lines() if asked.progress else silent() if asked.json else as_words(found))
    if asked.json:
        _put({"found": described(place, found), "installed": wanted})
    elif wanted:
        _say(f"Version {found.manifest.version} is installed and will start next time. The current version is kept.")
    return 0


def described(place: Here, found: Found) -> dict[str, object]:
    """What the window shows before anything is fetched."""
    manifest = found.manifest
    return {
        "version": manifest.version,
        "current": place.current or place.own,
        "damaged": place.damaged,
        "date": manifest.date,
        "notes": dict(manifest.notes),
        "size": manifest.size,
        "unpacked": manifest.unpacked,
        "environment": found.environment,
        "source": found.source.manifest,
        "agreed": manifest.sha256,
    }


def _tell(place: Here, found: Found) -> None:
    manifest = found.manifest
    _say(f"Version {manifest.version} of {manifest.date}, from {found.source.manifest}. Current: {place.current or place.own}.")
    if note := manifest.notes.get("en", ""):
        _say(note.rstrip())
    way = "Download" if found.source.remote else "To copy"
    _say(f"{way}: {manifest.size / 1e6:.1f} MB; on the disk: {manifest.unpacked / 1e6:.1f} MB.")
    if found.environment:
        _say("A new environment will be built; this downloads packages.")
    else:
        _say("It needs no new environment.")


def _say(text: str, end: str = "\n") -> None:
    """Print, as long as there is a reader: the end of one such as `head` is none of the update."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _agreed() -> bool:
    _say("Install it? [y/N]: ", end="")
    agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not agreed:
        _say("Nothing was changed.")
    return agreed


def _up_to_date(place: Here, error: UpdateError, *, as_json: bool) -> int:
    if as_json:
        _put({"found": None, "current": place.current or place.own, "installed": False})
    else:
        _say(str(error))
    return 0


def _refused(error: UpdateError, *, as_json: bool) -> int:
    if as_json:
        _put({"error": {"code": error.code, "values": list(error.values), "message": str(error)}})
    sys.stderr.write(f"{error}\n")
    return 1


def _put(content: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps({"schema": SCHEMA, **content}) + "\n")
    sys.stdout.flush()


def as_lines() -> Hearer:
    """For the window: an object a line, on stderr."""
    stage, last = "", 0.0

    def say(**content: object) -> None:
        sys.stderr.write(json.dumps({"stage": stage, **content}) + "\n")
        sys.stderr.flush()

    def begin(name: str) -> None:
        nonlocal stage
        stage = name
        say()

    def progress(done: int, total: int) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= _PAUSE:
            last = time.monotonic()
            say(done=done, total=total)

    return Hearer(begin, progress, lambda line: say(line=line))


def silent() -> Hearer:
    return Hearer(lambda _name: None, lambda _done, _total: None, lambda _line: None)


def as_words(found: Found) -> Hearer:
    """For a person: a line a stage, and what a set-up prints."""
    words = STAGES if found.source.remote else {**STAGES, "download": "Copying the update"}
    return Hearer(
        lambda name: _say(f"{words[name]} …"),
        lambda _done, _total: None,
        lambda line: _say(f"  {line}"),
    )
