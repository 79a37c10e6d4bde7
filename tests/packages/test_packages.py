"""What people double-click: built by one command, equal to the byte twice, and leaving nothing behind that was not there.

A whole Debian is used by `tests.packages.in_chroot`.
"""

import base64
import gzip
import hashlib
import json
import os
import plistlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, cast
from xml.etree import ElementTree

import pytest
import yaml
from installer import build, places, uvtool
from installer.packaging import __main__ as command
from installer.packaging import appimage, bill, debian, macos, payload, updates, wheel_cache
from installer.packaging.payload import Entry
from installer.places import Stamp
from installer.words import LaunchError
from tests.packages.releases import FIRST, below, needs

PROGRAM = "import json, sys; print(json.dumps([sys.argv[1:], sys.prefix, __file__, sys.pycache_prefix]))\n"
HOMES = (
    (
        "linux/halftone.sh",
        "${XDG_DATA_HOME:-$HOME/.local/share}/halftone-launcher/package",
        "~/.local/share/halftone-launcher/package",
    ),
    (
        "macos/Halftone",
        "$HOME/Library/Application Support/halftone-launcher/package",
        "~/Library/Application Support/halftone-launcher/package",
    ),
    ("windows/halftone.cmd", r"%LOCALAPPDATA%\halftone-launcher\package", r"%LOCALAPPDATA%\halftone-launcher\package"),
)
"""A starter, the folder of the environment in it, and that folder as the guide writes it."""
needs_posix = pytest.mark.skipif(os.name == "nt", reason="a starter of Linux or macOS")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The wheels of uv: those that were fetched into the checkout, else those that pip can fetch now."""
    kept = os.path.join(places.ROOT, "build", "wheels")
    folder = kept if os.path.isdir(kept) else str(tmp_path_factory.mktemp("wheels"))
    try:
        wheel_cache.fill(folder, ["linux-x86_64"])
    except LaunchError as error:
        pytest.skip(str(error))
    return folder


def test_the_pinned_wheels_are_of_the_uv_that_the_launcher_fetches() -> None:
    assert all(pin.file.startswith(f"uv-{uvtool.PINNED}-") for pin in wheel_cache.pins().values())
    targets = {target for kind in command.KINDS.values() for target in kind.targets}
    assert targets == set(wheel_cache.pins())


def test_a_wheel_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"is missing; no package was built"):
        wheel_cache.programs(str(tmp_path), "linux-x86_64")
    (tmp_path / wheel_cache.pins()["linux-x86_64"].file).write_bytes(b"another file")
    with pytest.raises(LaunchError, match=r"is not the file that was pinned .*no package was built"):
        wheel_cache.programs(str(tmp_path), "linux-x86_64")


def test_the_sources_of_a_package_are_those_that_are_committed_without_what_developers_need() -> None:
    names = set(payload.sources())
    assert {"app/halftone/__main__.py", "installer/launch.py", "resources/theme/tokens.json", "LICENSE"} <= names
    unwanted = ("tests/", ".ci", "installer/packaging/", "resources/pocket/training/")
    assert not [name for name in names if name.startswith(unwanted)]
    assert max(map(len, names)) < 120, "Windows ends paths at 260 characters, with the user's folder before"


def commit(folder: Path) -> None:
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a")):
        subprocess.run(("git", "-C", str(folder), *words), check=True)


def checkout(folder: Path, version: str) -> str:
    """A repository with one commit, whose release has this version."""
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "a.py").write_text("1\n", encoding="ascii")
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n', encoding="ascii")
    commit(folder)
    return str(folder)


@needs("git")
def test_a_release_is_what_was_committed(tmp_path: Path) -> None:
    root = checkout(tmp_path / "halftone", "0.3.0")
    (tmp_path / "halftone" / "app" / "mine.py").write_text("never added", encoding="ascii")
    made = payload.release({"SOURCE_DATE_EPOCH": "1700000000"}, root)
    assert (made.version, made.epoch, len(made.commit)) == ("0.3.0", 1_700_000_000, 40)
    file = tmp_path / "halftone" / "app" / "a.py"
    file.write_text("2\n", encoding="ascii")
    with pytest.raises(LaunchError, match=r"app/a\.py differs from the commit; nothing was built"):
        payload.release({}, root)
    file.unlink()
    with pytest.raises(LaunchError, match=r"app/a\.py differs from the commit; nothing was built"):
        payload.release({}, root)


@needs("git")
def test_a_version_that_no_start_could_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"“0\.2\.0rc1” of pyproject\.toml is not numbers with dots; nothing was built"):
        payload.release({}, checkout(tmp_path / "halftone", "0.2.0rc1"))


@needs("git")
def test_an_update_that_brings_a_new_key_is_signed_with_the_one_before_it(tmp_path: Path) -> None:
    old, new, other = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))
    file = tmp_path / "installer" / "updates" / "update-key.txt"
    file.parent.mkdir(parents=True)
    for line in (old, new):
        file.write_text(f"# A key.\n{line}\n", encoding="ascii")
        commit(tmp_path)
    root = str(tmp_path)
    updates.check_key(new, root=root)
    updates.check_key(old, new_key=True, root=root)
    with pytest.raises(LaunchError, match=r"not the one of installer/updates/update-key\.txt.*--new-key"):
        updates.check_key(old, root=root)
    for line in (new, other):
        with pytest.raises(LaunchError, match=r"is no earlier one of installer/updates/update-key\.txt; nothing was made"):
            updates.check_key(line, new_key=True, root=root)


def test_a_build_without_an_update_key_says_what_that_means(tmp_path: Path) -> None:
    file = tmp_path / "update-key.txt"
    file.write_text("# No key yet.\n", encoding="ascii")
    assert "will refuse every update" in command.key_warning(str(file))
    file.write_text(f"{base64.b64encode(bytes(32)).decode()}\n", encoding="ascii")
    assert command.key_warning(str(file)) == ""


def test_the_bill_names_every_package_of_the_lock_with_a_licence() -> None:
    written = json.loads(bill.written("0.1.0", 1_700_000_000, "linux-x86_64", "deb"))
    listed = {one["name"]: one for one in written["components"]}
    assert {name for name, _, _ in bill.locked()} <= set(listed)
    assert set(bill.licences()["packages"]) == {name for name, _, _ in bill.locked()}, "licences.toml is not that of the lock"
    assert all(re.fullmatch(r"[A-Za-z0-9.+() -]+", one["licenses"][0]["expression"]) for one in listed.values())
    assert (written["bomFormat"], written["specVersion"]) == ("CycloneDX", "1.6")
    image = json.loads(bill.written("0.1.0", 1_700_000_000, "linux-x86_64", "appimage"))
    assert [one["version"] for one in image["components"] if one["name"] == "AppImage runtime"] == [wheel_cache.RUNTIME_VERSION]
    assert "AppImage runtime" not in listed
    own = json.loads(bill.written("0.1.0", 1_700_000_000, "linux-x86_64", "appimage", "ab" * 32))
    (start,) = (one for one in own["components"] if one["name"] == "AppImage runtime")
    assert ("version" in start, start["hashes"][0]["content"]) == (False, "ab" * 32)
    assert image["serialNumber"] != written["serialNumber"]


@needs("dpkg-deb")
def test_a_debian_package_is_equal_to_the_byte_twice(tmp_path: Path) -> None:
    files = dict(list(payload.sources().items())[:200])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        debian.write_package(files, "amd64", FIRST, str(tmp_path / name / "halftone.deb"))
    assert (tmp_path / "a" / "halftone.deb").read_bytes() == (tmp_path / "b" / "halftone.deb").read_bytes()


@needs("mksquashfs")
def test_an_appimage_is_equal_to_the_byte_twice_and_needs_the_pinned_runtime(tmp_path: Path) -> None:
    files = dict(list(payload.sources().items())[:200])
    with pytest.raises(LaunchError, match=r"is missing; no AppImage was built"):
        appimage.runtime(str(tmp_path / "runtime"))
    (tmp_path / "runtime").write_bytes(b"\x7fELF1234AI\x02anything")
    with pytest.raises(LaunchError, match=r"is not the file that was pinned .*no AppImage was built"):
        appimage.runtime(str(tmp_path / "runtime"))
    compiled = hashlib.sha256((tmp_path / "runtime").read_bytes()).hexdigest()
    assert appimage.runtime(str(tmp_path / "runtime"), compiled).startswith(b"\x7fELF")
    made: list[bytes] = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "halftone.AppImage"
        appimage.write_appimage(files, b"\x7fELF....AI\x02", FIRST, str(path))
        made.append(path.read_bytes())
        assert os.access(path, os.X_OK)
    assert made[0] == made[1]
    assert made[0].startswith(b"\x7fELF")


@needs("dpkg-deb")
def test_the_debian_package_is_whole(cache: str, tmp_path: Path) -> None:
    # Packed loosely, which takes a tenth of the time, it is still small enough.
    path = Path(debian.build(cache, "linux-x86_64", FIRST, str(tmp_path), level=0))
    assert path.stat().st_size <= command.LARGEST
    tree = tmp_path / "tree"
    subprocess.run(("dpkg-deb", "-x", str(path), str(tree)), check=True)
    inside = tree / debian.PROGRAM
    assert json.loads((inside / places.PACKAGE_NOTE).read_text())["kind"] == "deb"
    assert uvtool.version_at(str(inside / "uv" / "uv")) == uvtool.version_of(f"uv {uvtool.PINNED}")
    fields = subprocess.run(("dpkg-deb", "-f", str(path)), capture_output=True, text=True, check=True).stdout
    assert "Architecture: amd64" in fields
    assert "libxcb-cursor0" in fields
    log = gzip.decompress((tree / "usr/share/doc/halftone/changelog.gz").read_bytes())
    assert log.startswith(b"halftone (0.1.0)")
    if shutil.which("lintian"):
        said = subprocess.run(("lintian", "--allow-root", str(path)), capture_output=True, text=True, check=False).stdout
        assert not [line for line in said.splitlines() if line.startswith("E:")]


def test_the_desktop_files_belong_together() -> None:
    files = debian.desktop_files(FIRST)
    info = ElementTree.fromstring(files[f"usr/share/metainfo/{debian.APP_ID}.metainfo.xml"].data)
    entry = files[f"usr/share/applications/{debian.APP_ID}.desktop"].data.decode()
    types = {node.attrib["type"] for node in ElementTree.fromstring(files[f"usr/share/mime/packages/{debian.APP_ID}.xml"].data)}
    assert info.findtext("launchable") == f"{debian.APP_ID}.desktop"
    assert set(re.search(r"^MimeType=(.*);$", entry, re.MULTILINE)[1].split(";")) == types  # pyright: ignore[reportOptionalSubscript]
    assert "@" not in files[f"usr/share/metainfo/{debian.APP_ID}.metainfo.xml"].data.decode()


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_the_guide_names_the_folder_and_the_command_of_each_package(language: str) -> None:
    guide = Path(places.ROOT, "resources", "guide", language)
    pages = {name: (guide / f"{name}.md").read_text(encoding="utf-8") for name in ("updates", "command-line", "health")}
    for name, setting, shown in HOMES:
        assert setting in Path(places.ROOT, "installer", "packaging", name).read_text(encoding="utf-8"), name
        assert f"`{shown}`" in pages["updates"], name
        assert f"`{shown}`" in pages["command-line"], name
    for path in (
        r"%LOCALAPPDATA%\Programs\Halftone\halftone.cmd",
        "Halftone.app/Contents/MacOS/Halftone",
        "--appimage-extract",
    ):
        assert path in pages["health"]


def test_the_flatpak_manifest_says_that_it_was_never_built() -> None:
    text = Path(places.ROOT, "installer/packaging/flatpak/org.halftone.Halftone.yml").read_text(encoding="utf-8")
    assert "UNBUILT" in text
    version = tomllib.loads(Path(places.ROOT, "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert yaml.safe_load(text)["modules"][0]["sources"][0]["path"] == f"../../../dist/halftone_{version}_amd64.deb"


class Installed(NamedTuple):
    """A program's folder with a stub for the program, and the folder of a ready environment."""

    program: Path
    home: Path


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    program, home = tmp_path / "mounted ü 1" / "halftone", tmp_path / "the environment's"
    left_out = shutil.ignore_patterns("__pycache__", "packaging")
    shutil.copytree(Path(places.ROOT, "installer"), program / "installer", ignore=left_out)
    (program / places.PACKAGE_NOTE).write_text("{}", encoding="ascii")
    package = program / "app" / "halftone"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="ascii")
    (package / "__main__.py").write_text(PROGRAM, encoding="ascii")
    env = home / "env-00000001"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    want = places.wanted(dev=False, folder=str(program / "installer"))
    places.write_stamp(str(env), Stamp(want.runtime, want.dev, build.base_python(str(env)), "9.9", "cpu"))
    places.make_current(str(home), str(env))
    return Installed(program, home)


def start(starter: Path, home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HALFTONE", "APPIMAGE"))}
    environ |= {"HALFTONE_HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"}
    return subprocess.run((str(starter), *words), env=environ, capture_output=True, text=True, check=False)


@needs_posix
def test_the_starter_of_debian_writes_nothing_in_the_programs_folder(installed: Installed, tmp_path: Path) -> None:
    starter = tmp_path / "halftone"
    starter.write_bytes(debian.template("halftone.sh", FIRST, PROGRAM=f'"{installed.program}"', STARTER="halftone"))
    starter.chmod(0o755)
    before = below(installed.program)
    done = start(starter, installed.home, "check", "a b")
    words, prefix, file, cached = json.loads(done.stdout)
    assert words == ["check", "a b"]
    assert prefix == str(installed.home / "env-00000001")
    assert file.startswith(str(installed.program))
    assert below(installed.program) == before
    assert cached == str(installed.home / "cache" / "bytecode")


@needs_posix
def test_a_program_that_is_mounted_elsewhere_keeps_its_environment_and_its_bytecode(installed: Installed, tmp_path: Path) -> None:
    tree = tmp_path / "AppDir"
    inside = tree / appimage.PROGRAM
    inside.parent.mkdir(parents=True)
    installed.program.rename(inside)
    starter = appimage.starter(FIRST)
    (tree / "AppRun").write_bytes(starter)
    (tree / "AppRun").chmod(0o755)
    cache = installed.home / "cache" / "bytecode"
    (cache / "appimage-0.0.9-old").mkdir(parents=True)
    seen: list[tuple[str, str, dict[str, int]]] = []
    for name in (".mount_1", ".mount_2 ü"):
        tree = tree.rename(tmp_path / name)
        done = start(tree / "AppRun", installed.home, "--version")
        _, prefix, file, _ = json.loads(done.stdout)
        (kept,) = cache.glob("appimage-*")
        compiled = {str(path.relative_to(kept)): path.stat().st_mtime_ns for path in kept.rglob("*.pyc")}
        assert len(compiled) > 5
        seen.append((prefix, str(Path(file).relative_to(tree)), compiled))
    assert seen[0] == seen[1], "the second mount uses the bytecode of the first"
    links = [path for path in cache.rglob("*") if path.is_symlink()]
    assert [path.name for path in links] == [".mount_2 ü"], "what is no longer mounted leaves nothing"


@needs_posix
@pytest.mark.parametrize("word", ["test", "shortcut"])
def test_what_only_the_sources_have_is_refused(installed: Installed, word: str) -> None:
    command = (sys.executable, str(installed.program / "installer" / "launch.py"), word)
    environ = {**os.environ, "HALFTONE_HOME": str(installed.home)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"Halftone's “{word}” is part of its sources" in done.stderr


def bundle(installed: Installed, folder: Path, **changed: bytes) -> Path:
    """A bundle of macOS with the stub; returns its starter. uv is a stand-in here that names this Python: the real one is a
    program for macOS.
    """
    inside = "Halftone.app/Contents/Resources/halftone"
    names = [name for name in below(installed.program) if (installed.program / name).is_file()]
    files = {f"{inside}/{name}": Entry(changed.get(Path(name).stem, (installed.program / name).read_bytes())) for name in names}
    files[f"{inside}/uv/uv"] = Entry(f"#!/bin/sh\necho '{sys.executable}'\n".encode(), runs=True)
    path = folder / "halftone.zip"
    macos.write_bundle(files, FIRST, str(path))
    tree = folder / "Applications ü"
    with zipfile.ZipFile(path) as archive:
        for one in archive.infolist():
            (tree / archive.extract(one, tree)).chmod(one.external_attr >> 16 & 0o777)
    return tree / "Halftone.app" / "Contents" / "MacOS" / "Halftone"


@needs_posix
def test_the_bundle_keeps_its_rights_and_finds_its_python(installed: Installed, tmp_path: Path) -> None:
    starter = bundle(installed, tmp_path)
    contents = starter.parent.parent
    properties = cast("dict[str, Any]", plistlib.loads((contents / "Info.plist").read_bytes()))
    assert os.access(starter, os.X_OK)
    assert not os.access(contents / "Resources" / "halftone" / "installer" / "launch.py", os.X_OK)
    assert (properties["CFBundleExecutable"], properties["CFBundleShortVersionString"]) == ("Halftone", "0.1.0")
    done = start(starter, installed.home, "--version")
    assert json.loads(done.stdout)[1] == str(installed.home / "env-00000001")


@needs_posix
@pytest.mark.parametrize("lock", [{}, {"requirements": b"another==1\n"}])
def test_the_bundle_shows_a_set_up_in_a_terminal(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: dict[str, bytes]
) -> None:
    """A bundle with other packages than the environment has is set up as well."""
    (tmp_path / "open").write_text('#!/bin/sh\necho "opened $*"\n', encoding="ascii")
    (tmp_path / "open").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (installed.home / "env-00000001" / "qt-ok").touch()
    starter = bundle(installed, tmp_path, **lock)
    said = start(starter, installed.home).stdout
    if lock:
        assert said == f"opened -a Terminal {starter.parent.parent}/Resources/halftone/first-start.command\n"
    else:
        assert json.loads(said)[1] == str(installed.home / "env-00000001")
