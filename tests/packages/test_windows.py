"""The Windows package under wine: what it installs and removes, and what it refuses."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from installer import places
from installer.packaging import windows
from installer.packaging.payload import Entry
from tests.packages.releases import FIRST, SECOND, below, needs


class Wine(NamedTuple):
    """A Windows of its own in a folder."""

    prefix: Path

    def run(self, line: str, status: int = 0) -> None:
        """Run a command line as it is, in C:\\: NSIS takes the rest of it, spaces included, as the folder after /D=. Returns when
        the last program has ended, and the registry is on the disk.
        """
        environ = {
            **os.environ,
            "WINEPREFIX": str(self.prefix),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe=",
        }
        environ["LC_ALL"] = "C.UTF-8"
        script = self.prefix / "line.bat"
        script.write_text(f"@echo off\ncd /d C:\\\n{line}\n", encoding="cp437", newline="\r\n")
        command = ("wine", "cmd", "/c", f"Z:{script}".replace("/", "\\"))
        # A server that does not linger for three seconds after the last program.
        subprocess.run(("wineserver", "-p0"), env=environ, check=False, timeout=60)
        done = subprocess.run(command, env=environ, check=False, capture_output=True, timeout=170)
        subprocess.run(("wineserver", "-w"), env=environ, check=False, timeout=60)
        assert done.returncode == status, line

    def registry(self) -> dict[str, list[str]]:
        """Key -> values of the user's part, without times and what Wine itself counts."""
        found: dict[str, list[str]] = {}
        key = ""
        for line in (self.prefix / "user.reg").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("["):
                key = line.partition("]")[0][1:]
                found[key] = []
            elif line and not line.startswith(("#", ";;", "WINE")):
                found[key].append(line)
        return found


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wine]:
    system = Wine(tmp_path_factory.mktemp("wine"))
    system.run("wineboot -i")
    yield system
    environ = {**os.environ, "WINEPREFIX": str(system.prefix)}
    subprocess.run(("wineserver", "-k"), env=environ, check=False, timeout=60)


def windows_path(path: Path) -> str:
    return f"Z:{path}".replace("/", "\\")


@needs("makensis", "wine", "wineserver")
def test_windows_installs_upgrades_and_uninstalls_by_its_own_list(wine: Wine, tmp_path: Path) -> None:
    old = {"app/old.py": Entry(b"old"), "app/deep/er/kept.py": Entry(b"1"), "LICENSE": Entry(b"licence"), "a$b.txt": Entry(b"$")}
    new = {"app/new.py": Entry(b"new"), "app/deep/er/kept.py": Entry(b"2"), "LICENSE": Entry(b"licence"), "a$b.txt": Entry(b"$")}
    setups = [tmp_path / "old.exe", tmp_path / "new.exe"]
    for files, made, path in ((old, FIRST, setups[0]), (new, SECOND, setups[1])):
        windows.write_installer(files, made, str(path))
    before = wine.registry()
    folder, target = r"C:\Programme ü\Half tone", wine.prefix / "drive_c" / "Programme ü" / "Half tone"
    wine.run(f"{windows_path(setups[0])} /S /D={folder}")
    brought = {"halftone.cmd", "halftone.ico", "uninstall.exe"}
    assert {name for name in below(target) if (target / name).is_file()} == {*old, *brought}
    installed = wine.registry()
    assert any("Uninstall" in key and "Halftone" in key for key in installed)
    types = [values for key, values in installed.items() if key.endswith((".safetensors", ".gguf"))]
    assert not [one for values in types for one in values if one.startswith("@=")], "it became the default"
    for place in ("mine.txt", "app/mine.txt"):
        (target / place).write_text("the user's", encoding="ascii")
    wine.run(f"{windows_path(setups[1])} /S")
    files = {name for name in below(target) if (target / name).is_file()}
    assert files == {*new, *brought, "mine.txt", "app/mine.txt"}
    assert (target / "app/deep/er/kept.py").read_bytes() == b"2"
    assert not (wine.prefix / "drive_c" / "older.exe").exists(), "the older uninstaller was copied to the root of the drive"
    wine.run(f'"{folder}\\uninstall.exe" /S')
    assert {name for name in below(target) if (target / name).is_file()} == {"mine.txt", "app/mine.txt"}
    assert {key: values for key, values in wine.registry().items() if values != before.get(key, [])} == {}


@needs("makensis", "wine", "wineserver")
def test_windows_takes_no_folder_that_holds_files_of_the_user(wine: Wine, tmp_path: Path) -> None:
    setup = tmp_path / "setup.exe"
    windows.write_installer({"README.md": Entry(b"Halftone")}, FIRST, str(setup))
    target = wine.prefix / "drive_c" / "AI"
    target.mkdir()
    (target / "README.md").write_text("notes of ten years", encoding="ascii")
    before = wine.registry()
    wine.run(rf"{windows_path(setup)} /S /D=C:\AI", status=2)
    assert below(target) == {"README.md"}
    assert (target / "README.md").read_text(encoding="ascii") == "notes of ten years"
    assert wine.registry() == before


def hold(folder: Path, held: str) -> str:
    """Lines that hold a file open for some seconds, as Windows does with a program that runs, and go on once it is held."""
    head = "Unicode true\nTarget amd64-unicode\nSilentInstall silent\nRequestExecutionLevel user\nOutFile holder.exe\n"
    script = f'{head}Section\nFileOpen $0 "{held}" a\nFileOpen $1 "C:\\held" w\nFileClose $1\nSleep 6000\nSectionEnd\n'
    (folder / "holder.nsi").write_text(script, encoding="ascii")
    subprocess.run(("makensis", "-V1", "holder.nsi"), cwd=folder, check=True)
    return f"del C:\\held\nstart {windows_path(folder / 'holder.exe')}\n:wait\nif not exist C:\\held goto wait"


@needs("makensis", "wine", "wineserver")
def test_a_windows_install_that_fails_says_so_and_can_be_repeated(wine: Wine, tmp_path: Path) -> None:
    setups = [tmp_path / "old.exe", tmp_path / "new.exe"]
    for name, made, path in (("app/old.py", FIRST, setups[0]), ("app/new.py", SECOND, setups[1])):
        windows.write_installer({name: Entry(b"1"), "LICENSE": Entry(b"licence")}, made, str(path))
    old, new = (windows_path(path) for path in setups)
    target = wine.prefix / "drive_c" / "H"
    before = wine.registry()
    wine.run(rf"{old} /S /D=C:\H")
    whole = below(target)
    (home,) = wine.prefix.glob("drive_c/users/*/AppData/Local")
    env = home / "halftone-launcher" / "package" / "env-00000001"
    env.mkdir(parents=True)
    (env / places.IN_USE).touch()
    places.make_current(str(env.parent), str(env))
    running = rf"$LOCALAPPDATA\halftone-launcher\package\env-00000001\{places.IN_USE}"
    wine.run("\n".join((hold(tmp_path, running), f"{new} /S")), status=2)
    assert below(target) == whole, "a Halftone that runs keeps its files"
    wine.run("\n".join((hold(tmp_path, r"C:\H\app\old.py"), f"{new} /S")), status=2)
    assert below(target) >= {"app/old.py", "uninstall.exe"}, "what is in use can be uninstalled later"
    (target / "app/new.py").mkdir()  # Nothing can be written there, as where another program holds the file.
    wine.run(f"{new} /S", status=2)
    assert not any("DisplayVersion" in value for values in wine.registry().values() for value in values)
    (target / "app/new.py").rmdir()
    wine.run(f"{new} /S")
    assert below(target) == whole - {"app/old.py"} | {"app/new.py"}
    wine.run(r"C:\H\uninstall.exe /S")
    assert not target.exists()
    assert {key: values for key, values in wine.registry().items() if values != before.get(key, [])} == {}
