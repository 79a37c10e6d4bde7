"""A package with a stub for the program, a ready environment, and updates for it that a key of the test signs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from installer import build, places, versions
from installer.packaging import updates
from installer.packaging.payload import Entry, Release
from installer.places import Stamp

TARGET = "linux-x86_64"
EPOCH = 1_700_000_000
NOTHING: Final[Mapping[str, bytes | None]] = MappingProxyType({})
_PROGRAM = "import json, halftone; print(json.dumps([halftone.__version__, __file__]))\n"
RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from installer.updates.command import main; sys.exit(main(sys.argv[1:]))"


def program(version: str, more: Mapping[str, bytes | None] = NOTHING, target: str = TARGET) -> dict[str, Entry]:
    """The files of a program's folder; None leaves one out. The launcher is the real one."""
    files = {
        "app/halftone/__init__.py": f'__version__ = "{version}"\n'.encode(),
        "app/halftone/__main__.py": _PROGRAM.encode(),
        "app/halftone/deep/__init__.py": b"",
        "app/halftone/deep/er.py": b"NUMBER = 1\n",
        "resources/large.bin": bytes(range(256)) * 8192,
        places.PACKAGE_NOTE: json.dumps({"kind": "test", "target": target, "version": version}).encode(),
    }
    for path in sorted(Path(places.ROOT, "installer").rglob("*")):
        name = path.relative_to(places.ROOT).as_posix()
        if path.is_file() and "__pycache__" not in name and not name.startswith("installer/packaging/"):
            files[name] = path.read_bytes()
    files |= {name: data for name, data in more.items() if data is not None}
    return {name: Entry(data, runs=name == "uv/uv") for name, data in sorted(files.items()) if more.get(name, b"") is not None}


class Keys(NamedTuple):
    """private: the path of its PEM; line: the public one as the build holds it."""

    private: str
    line: str


def new_keys(folder: Path) -> Keys:
    path = folder / "key.pem"
    subprocess.run(("openssl", "genpkey", "-algorithm", "ed25519", "-out", str(path)), check=True, capture_output=True)
    return Keys(str(path), updates.key_line(str(path)))


class Package(NamedTuple):
    """root: the program's folder of the package; home: HALFTONE_HOME; offers: a folder with updates."""

    root: Path
    home: Path
    offers: Path
    keys: Keys

    @property
    def versions(self) -> Path:
        return self.home / versions.FOLDER

    def offer(self, version: str, more: Mapping[str, bytes | None] = NOTHING, target: str = TARGET) -> updates.Made:
        """Make an update that holds these files, or others for those in `more`."""
        key = f"# a key of the test\n{self.keys.line}\n".encode()
        files = program(version, {"installer/updates/update-key.txt": key, **more}, target)
        made = Release(version, EPOCH, "a" * 40)
        return updates.write(files, target, made, str(self.offers), self.keys.private, {"en": f"What {version} brings."})

    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HALFTONE"))}
        return kept | {"HALFTONE_HOME": str(self.home)}

    def start(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Start the package as its starter does."""
        command = (sys.executable, str(self.root / "installer" / "launch.py"), *(words or ("--version",)))
        return subprocess.run(command, env=self.environ(), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    def started(self) -> str:
        """The version that starts, which must say nothing on stderr."""
        done = self.start()
        assert (done.returncode, done.stderr) == (0, "")
        version, file = json.loads(done.stdout)
        place = self.root if version == "0.1.0" else self.versions / version
        assert file.startswith(str(place))
        return version

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-I", "-c", RUN, str(self.root), *words]

    def update(self, *words: str, place: str | Path | None = None) -> "subprocess.CompletedProcess[str]":
        command = self.command("--from", str(place or self.offers), "--yes", *words)
        return subprocess.run(command, env=self.environ(), capture_output=True, text=True, check=False)

    def updated(self, version: str, more: Mapping[str, bytes | None] = NOTHING, environment: str = "") -> None:
        """environment: one with this name is there already for its locked packages."""
        lock = json.loads(Path(self.offer(version, more).manifest).read_bytes().partition(b"\n")[2])["lock"]
        if environment:
            self.add_environment(environment, lock)
        done = self.update()
        assert (done.returncode, done.stderr) == (0, ""), done.stdout

    def add_environment(self, name: str, lock: str) -> None:
        env = self.home / name
        shutil.copytree(self.home / "env-00000001", env, symlinks=True)
        stamp = places.read_stamp(str(env))
        assert stamp is not None
        places.write_stamp(str(env), stamp._replace(runtime=lock))

    def refused(self, *words: str, place: str | Path | None = None) -> tuple[str, list[str]]:
        """Code and values of the refusal."""
        done = self.update("--json", *words, place=place)
        assert done.returncode == 1, done.stdout + done.stderr
        error: dict[str, Any] = json.loads(done.stdout)["error"]
        assert done.stderr.strip() == error["message"]
        return error["code"], error["values"]

    def copy(self, folder: Path) -> "Package":
        """The same in another folder."""
        made = self._replace(**{name: folder / getattr(self, name).name for name in ("root", "home", "offers")})
        for name in ("root", "home", "offers"):
            shutil.copytree(getattr(self, name), getattr(made, name), symlinks=True)
        return made


def new_package(folder: Path, keys: Keys, version: str = "0.1.0") -> Package:
    made = Package(folder / "program ü", folder / "the user's home", folder / "offers", keys)
    key = keys.line.encode()
    for name, entry in program(version, {"installer/updates/update-key.txt": key}).items():
        path = made.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(entry.data)
    env = made.home / "env-00000001"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    want = places.wanted(dev=False, folder=str(made.root / "installer"))
    (env / places.IN_USE).touch()
    places.write_stamp(str(env), Stamp(want.runtime, want.dev, build.base_python(str(env)), "9.9", "cpu"))
    places.make_current(str(made.home), str(env))
    made.offers.mkdir()
    return made
