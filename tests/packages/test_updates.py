"""Updates of a package: only what its key signed for it, whole or not at all, and always something that starts."""

import base64
import http.server
import json
import os
import resource
import shutil
import ssl
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from installer import guard, places, versions
from installer.packaging import updates as maker
from installer.packaging.payload import Release
from installer.updates import manifest, sources, unpacking
from installer.updates.ed25519 import is_signed
from installer.updates.manifest import Manifest
from installer.updates.reasons import UpdateError
from installer.words import LaunchError
from tests.packages.updating import EPOCH, RUN, TARGET, Keys, Package, new_keys, new_package, program

pytestmark = [
    pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl, which signs"),
    pytest.mark.skipif(os.name == "nt", reason="the stubs are of Linux or macOS"),
]
REFERENCES = Path(__file__).parents[1] / "references" / "ed25519.json"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return new_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Package:
    return new_package(tmp_path_factory.mktemp("package"), keys)


@pytest.fixture
def package(first: Package, tmp_path: Path) -> Package:
    return first.copy(tmp_path)


@pytest.fixture(scope="module")
def twice(first: Package, tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The package after two updates, to 0.2.0 and 0.3.0."""
    made = first.copy(tmp_path_factory.mktemp("twice"))
    for version in ("0.2.0", "0.3.0"):
        made.updated(version)
    return made


def test_signatures_are_judged_as_openssl_judges_them() -> None:
    cases = json.loads(REFERENCES.read_text(encoding="utf-8"))["cases"]
    assert {one["what"] for one in cases} > {"as signed", "S plus the order"}
    for one in cases:
        message, signature, key = (bytes.fromhex(one[name]) for name in ("message", "signature", "key"))
        assert is_signed(message, signature, key) is one["valid"], one["what"]


def test_the_test_vectors_of_rfc_8032_are_valid() -> None:
    key = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
    signature = bytes.fromhex(
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    )
    assert is_signed(b"\xaf\x82", signature, key)
    assert not is_signed(b"\xaf\x83", signature, key)
    assert not is_signed(b"\xaf\x82", signature[:63], key)


@pytest.mark.parametrize(
    "point", ["01" + "00" * 31, "00" * 32, "00" * 31 + "80", "ec" + "ff" * 30 + "7f", "ed" + "ff" * 30 + "7f"]
)
def test_a_key_that_anything_fits_is_refused(point: str) -> None:
    """With a key of small order and S = 0, R = the neutral element would be the signature of one message in eight."""
    neutral = bytes.fromhex("01" + "00" * 31)
    assert not any(is_signed(bytes([number]), neutral + bytes(32), bytes.fromhex(point)) for number in range(64))


def test_an_update_is_installed_and_starts(package: Package) -> None:
    assert package.started() == "0.1.0"
    package.offer("0.2.0")
    done = package.update()
    assert (done.returncode, done.stderr) == (0, "")
    assert "Version 0.2.0 of 2023-11-14" in done.stdout
    assert "What 0.2.0 brings." in done.stdout
    assert "It needs no new environment." in done.stdout
    assert package.started() == "0.2.0"
    assert {path.name for path in package.versions.iterdir()} == {"0.2.0", "current", "update.lock"}
    assert [path.name for path in package.home.glob("env-*")] == ["env-00000001"]


def test_a_check_shows_what_would_change_and_writes_nothing(package: Package) -> None:
    made = package.offer("0.2.0")
    Path(made.archive).unlink()  # so it cannot have been read
    done = package.update("--check", "--json")
    found = json.loads(done.stdout)["found"]
    assert (found["version"], found["current"], found["environment"], found["notes"]) == (
        "0.2.0", "0.1.0", False, {"en": "What 0.2.0 brings."},
    )  # fmt: skip
    assert not package.versions.exists()
    command = package.command("--from", str(package.offers))
    done = subprocess.run(command, env=package.environ(), capture_output=True, text=True, check=False, input="n\n")
    assert "Nothing was changed." in done.stdout
    assert not package.versions.exists()


def test_one_older_version_is_kept(package: Package) -> None:
    for version in ("0.2.0", "0.3.0", "0.10.0"):
        package.updated(version)
        assert package.started() == version
    assert versions.kept(str(package.versions)) == ["0.10.0", "0.3.0"]


def test_a_version_that_runs_and_lost_its_record_is_not_removed(package: Package) -> None:
    package.updated("0.2.0")
    waits = "import sys; print('ready', flush=True); sys.stdin.read(); import halftone.deep.er"
    command = (sys.executable, str(package.root / "installer" / "launch.py"), "python", "-c", waits)
    with subprocess.Popen(command, env=package.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as window:
        assert window.stdout is not None
        assert window.stdout.readline() == b"ready\n"
        (package.versions / "0.2.0" / versions.RECORD).unlink()
        package.updated("0.3.0")
        window.communicate()
    assert window.returncode == 0
    assert package.started() == "0.3.0"


@pytest.mark.parametrize("harmed", ["app/halftone/deep/er.py", versions.RECORD])
def test_the_older_version_that_is_kept_is_whole(package: Package, harmed: str) -> None:
    for version in ("0.1.5", "0.2.0"):
        package.updated(version)
    (package.versions / "0.2.0" / harmed).unlink()
    package.updated("0.3.0")
    assert versions.kept(str(package.versions)) == ["0.3.0", "0.1.5"]
    (package.versions / "0.3.0" / "app/halftone/deep/er.py").unlink()
    assert json.loads(package.start().stdout)[0] == "0.1.5"


def test_nothing_is_kept_for_a_version_that_the_package_passed(package: Package, tmp_path: Path, keys: Keys) -> None:
    """The package became newer than the update, which never starts again."""
    lock = b"another==1.0\n"
    package.updated("0.2.0", {"installer/requirements.lock": lock}, environment="env-00000002")
    assert package.started() == "0.2.0"
    (tmp_path / "b").mkdir()
    newer = new_package(tmp_path / "b", keys, "0.3.0")._replace(home=package.home, offers=package.offers)
    root, environ = str(newer.root), newer.environ()
    assert versions.spared(str(package.home), str(package.home / "env-00000001"), root, environ) == set()
    newer.updated("0.4.0")
    assert versions.kept(str(package.versions)) == ["0.4.0"]
    assert [path.name for path in package.home.glob("env-*")] == ["env-00000001"]
    assert newer.started() == "0.4.0"


def test_a_version_that_is_in_use_is_not_removed(package: Package) -> None:
    package.updated("0.2.0")
    launcher = package.root / "installer" / "launch.py"
    waits = "import sys; print('ready', flush=True); sys.stdin.read()"
    command = (sys.executable, str(launcher), "python", "-c", waits)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=package.environ(), text=True, **pipes) as window:  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert window.stdout is not None
        assert window.stdout.readline() == "ready\n"
        package.updated("0.3.0")
        package.updated("0.4.0")
        assert versions.kept(str(package.versions)) == ["0.4.0", "0.3.0", "0.2.0"]
        window.communicate()
    package.updated("0.5.0")
    assert versions.kept(str(package.versions)) == ["0.5.0", "0.4.0"]


def test_the_bytecode_of_what_is_removed_goes_too(package: Package) -> None:
    """Packages keep it in one folder, by whole paths, as their own is never written to."""
    bytecode = package.home / "cache" / "bytecode"
    environ = package.environ() | {"PYTHONPYCACHEPREFIX": str(bytecode)}

    def run(*words: str) -> None:
        assert subprocess.run(words, env=environ, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0

    def compiled() -> set[str]:
        below = bytecode / package.versions.relative_to("/")
        return {path.name for path in below.iterdir()}

    for version in ("0.2.0", "0.3.0", "0.4.0"):
        package.offer(version)
        command = package.command("--from", str(package.offers), "--yes")
        run(command[0], *command[2:])
        run(sys.executable, str(package.root / "installer/launch.py"), "--version")
        assert version in compiled()
    assert compiled() == {"0.3.0", "0.4.0"}
    env = package.home / "env-00000002"
    (bytecode / env.relative_to("/")).mkdir(parents=True)
    env.mkdir()
    guards = "import sys; sys.path.insert(0, sys.argv[1]); from installer import guard; guard.sweep(sys.argv[2], None)"
    run(sys.executable, "-c", guards, str(package.root), str(package.home))
    assert not (bytecode / env.relative_to("/")).exists()


def test_a_newer_package_starts_itself(package: Package, tmp_path: Path, keys: Keys) -> None:
    package.updated("0.2.0")
    (tmp_path / "b").mkdir()
    newer = new_package(tmp_path / "b", keys, "0.3.0")._replace(home=package.home)
    assert json.loads(newer.start().stdout)[0] == "0.3.0"
    package.offer("0.2.5")
    assert newer._replace(offers=package.offers).refused() == ("older", ["0.2.5", "0.3.0"])


def flip(path: Path) -> None:
    """Another byte in the place of the last one, and the same length."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "app/halftone/deep/er.py").unlink(),
        lambda folder: flip(folder / "app/halftone/deep/er.py"),
        lambda folder: flip(folder / "resources/large.bin"),
        lambda folder: (folder / "installer/launch.py").write_text(""),
        lambda folder: (folder / versions.RECORD).unlink(),
        lambda folder: (folder / versions.RECORD).write_text("[]"),
        shutil.rmtree,
    ],
)
def test_a_damaged_version_gives_way_to_the_older_one_and_then_to_the_package(
    twice: Package, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    package = twice.copy(tmp_path)
    harm(package.versions / "0.3.0")
    done = package.start()
    assert json.loads(done.stdout)[0] == "0.2.0"
    assert "An update is damaged (0.3.0: " in done.stderr
    shutil.rmtree(package.versions / "0.2.0")
    done = package.start()
    assert json.loads(done.stdout)[0] == "0.1.0"
    assert "Halftone starts the package's own version" in done.stderr


def test_the_program_knows_that_it_runs_in_the_place_of_a_damaged_version(twice: Package, tmp_path: Path) -> None:
    package = twice.copy(tmp_path)
    words = ("python", "-c", "import os; print(os.environ.get('HALFTONE_DAMAGED'))")
    assert package.start(*words).stdout == "None\n"
    for version in ("0.3.0", "0.2.0"):
        (package.versions / version / "app/halftone/deep/er.py").unlink()
        assert package.start(*words).stdout == "0.3.0: app/halftone/deep/er.py\n"


def test_a_damaged_version_gives_way_where_nobody_reads_the_line(twice: Package, tmp_path: Path) -> None:
    """As with pythonw, which has no stderr."""
    package = twice.copy(tmp_path)
    (package.versions / "0.3.0" / "app/halftone/deep/er.py").unlink()
    command = ("sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, str(package.root / "installer/launch.py"), "--version")
    done = subprocess.run(
        command, env=package.environ(), stdout=subprocess.PIPE, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, json.loads(done.stdout)[0]) == (0, "0.2.0")


def test_the_same_version_again_mends_a_damaged_one(twice: Package, tmp_path: Path) -> None:
    package = twice.copy(tmp_path)
    flip(package.versions / "0.3.0" / "app/halftone/deep/er.py")
    package.updated("0.3.0")
    assert package.started() == "0.3.0"
    assert versions.kept(str(package.versions)) == ["0.3.0", "0.2.0"]


def test_a_file_that_was_only_touched_is_whole(twice: Package, tmp_path: Path) -> None:
    package = twice.copy(tmp_path)
    os.utime(package.versions / "0.3.0" / "app/halftone/__init__.py", (1, 1))
    assert package.started() == "0.3.0"


@pytest.mark.parametrize("text", ["", "../..", "env-00000001", "9.9.9.9.9", "\0", "0.2.0/../0.2.0", "\u00fc"])
def test_where_no_version_is_named_the_newest_starts_with_a_word(twice: Package, tmp_path: Path, text: str) -> None:
    package = twice.copy(tmp_path)
    (package.versions / places.POINTER).write_text(text, encoding="utf-8")
    done = package.start()
    assert json.loads(done.stdout)[0] == "0.3.0"
    assert done.stderr == "An update is damaged (current); Halftone starts version 0.3.0: update again.\n"
    package.offer("0.2.5")
    assert package.refused() == ("older", ["0.2.5", "0.3.0"])
    package.updated("0.3.0")
    assert package.started() == "0.3.0"


# --- refusals ----------------------------------------------------------------------------------------------------------------


def test_without_a_key_there_are_no_updates(package: Package) -> None:
    package.offer("0.2.0")
    shutil.copy(manifest.KEY_FILE, package.root / "installer/updates/update-key.txt")
    assert package.refused() == ("no-key", [])
    assert "This build has no update key" in package.update().stderr


def test_the_sources_are_not_updated(package: Package) -> None:
    package.offer("0.2.0")
    (package.root / places.PACKAGE_NOTE).unlink()
    assert package.refused() == ("not-packaged", [])


def test_older_and_present_versions_are_not_installed(package: Package) -> None:
    package.updated("0.3.0")
    package.offer("0.2.0")
    assert package.refused() == ("older", ["0.2.0", "0.3.0"])
    shutil.rmtree(package.versions / "0.3.0")
    assert package.refused() == ("older", ["0.2.0", "0.3.0"]), "damage is no way back to an old hole"
    package.updated("0.3.0")
    done = package.update()
    assert (done.returncode, done.stdout) == (0, "Version 0.3.0 is installed already; nothing was changed.\n")


def test_an_offer_that_became_older_while_it_was_shown_is_not_installed(package: Package) -> None:
    """The question waits, and meanwhile another update ends."""
    package.offer("0.2.0")
    command = package.command("--from", str(package.offers))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=package.environ(), text=True, **pipes) as asking:  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert asking.stdout is not None
        while not asking.stdout.readline().startswith("It needs no new environment"):
            pass
        package.updated("0.3.0")
        _, errors = asking.communicate("y\n")
    assert (asking.returncode, errors.strip()) == (1, str(UpdateError("older", "0.2.0", "0.3.0")))
    assert package.started() == "0.3.0"
    assert versions.kept(str(package.versions)) == ["0.3.0"]


def test_a_download_that_fails_leaves_the_same_version_that_lies_there(twice: Package, tmp_path: Path) -> None:
    package = twice.copy(tmp_path)
    (package.versions / places.POINTER).write_text("0.2.0", encoding="ascii")
    made = package.offer("0.3.0")
    Path(made.archive).write_bytes(b"x")
    assert package.refused()[0] == "wrong-size"
    assert versions.damage(str(package.versions / "0.3.0")) == ""
    assert package.started() == "0.2.0"


def test_another_platform_is_refused(package: Package) -> None:
    made = package.offer("0.2.0", target="windows-x86_64")
    assert package.refused(place=made.manifest) == ("other-platform", ["windows-x86_64", TARGET])
    assert package.refused()[0] == "unreachable", "the folder has none for this platform"


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (lambda data: data.replace(b"0.2.0", b"0.9.0"), "bad-signature"),
        (lambda data: data.replace(b"halftone-update 1 ", b"halftone-update 1 AAAA"), "bad-signature"),
        (lambda data: data.partition(b"\n")[2], "bad-manifest"),
        (lambda data: b"halftone-update 1 ?\n" + data.partition(b"\n")[2], "bad-manifest"),
        (lambda data: data[:-1], "bad-signature"),
        (lambda data: data[:0], "bad-manifest"),
        (lambda data: data + b" " * manifest.MOST_BYTES, "bad-manifest"),
    ],
)
def test_a_manifest_that_was_changed_is_refused(package: Package, harm: Callable[[bytes], bytes], code: str) -> None:
    path = Path(package.offer("0.2.0").manifest)
    path.write_bytes(harm(path.read_bytes()))
    assert package.refused()[0] == code
    assert package.started() == "0.1.0"


def test_a_manifest_of_another_key_is_refused(package: Package, tmp_path: Path) -> None:
    package._replace(keys=new_keys(tmp_path)).offer("0.2.0")
    assert package.refused()[0] == "bad-signature"


GOOD = Manifest("0.2.0", "2026-01-01", TARGET, {"en": "new"}, "a.zip", 10, "0" * 64, 10, 1, "0" * 64, "3.11")


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1"}, {"version": "1.0rc1"}, {"version": "01.0"}, {"version": 2}, {"archive": "../a.zip"},
        {"archive": "a/b.zip"}, {"archive": ""}, {"size": 0}, {"size": -1}, {"size": True}, {"size": manifest.MOST_ARCHIVE + 1},
        {"unpacked": manifest.MOST_UNPACKED + 1}, {"files": manifest.MOST_FILES + 1}, {"sha256": "0" * 63}, {"date": "today"},
        {"notes": ["new"]}, {"notes": {"en": 1}}, {"lock": None}, {"python": "2.7"}, {"target": "../x"},
    ],
)  # fmt: skip
def test_a_signed_manifest_is_still_read_strictly(keys: Keys, change: dict[str, object]) -> None:
    key = base64.b64decode(keys.line)
    assert manifest.verified(maker.signed(GOOD, keys.private), "it", key) == GOOD
    bad = GOOD._replace(**change)
    with pytest.raises(UpdateError) as raised:
        maker.signed(bad, keys.private)
    assert (raised.value.code, raised.value.values[1]) == ("bad-manifest", next(iter(change)))


def test_a_newer_python_is_asked_for_where_it_is_needed() -> None:
    with pytest.raises(UpdateError, match=r"needs Python 3\.99"):
        manifest.judge(GOOD._replace(python="3.99"), TARGET, "0.1.0", whole=True)


def test_an_archive_that_was_changed_is_refused(package: Package) -> None:
    path = Path(package.offer("0.2.0").archive)
    whole = path.read_bytes()
    for data, code in ((whole[:-1], "wrong-size"), (whole + b"x", "wrong-size"), (whole[:-1] + b"x", "wrong-hash")):
        path.write_bytes(data)
        assert package.refused()[0] == code
    path.unlink()
    assert package.refused()[0] == "unreachable"
    assert not [one.name for one in package.versions.iterdir() if one.name != "update.lock"]


@pytest.mark.parametrize(
    "place",
    [
        "http://localhost/",
        "ftp://localhost/",
        "https:///x",
        "https://[::1/x",
        "https://h:x/",
        "https://\u00fc..example/",
        "/nowhere/at/all",
        " ",
    ],
)
def test_a_place_that_is_none_is_refused(package: Package, place: str) -> None:
    assert package.refused(place=place)[0] == ("no-source" if place == " " else "bad-address")


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that stand there twice
        for member, data in members:
            info = zipfile.ZipInfo(member) if isinstance(member, str) else member
            if isinstance(member, str):
                info.external_attr = 0o100644 << 16
            archive.writestr(info, data)
    with zipfile.ZipFile(path) as archive:
        return archive.infolist()


def member(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


@pytest.mark.parametrize(
    "name",
    [
        "../x", "a/../../x", "/etc/x", "a//b", "./a", "a/.", "C:/x", "a\\b", "..\\x", "con", "a/NUL.txt", "x.", "x ", "a/b:c",
        "a\nb", "x" * 200, versions.RECORD,
    ],
)  # fmt: skip
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.zip"
    infos = zipped(path, ("fine.py", b"1"), (name, b"2"))
    with pytest.raises(UpdateError, match="a name that"):
        unpacking.check(infos, GOOD._replace(files=2, unpacked=2))
    with pytest.raises(UpdateError):
        unpacking.unpack(str(path), GOOD._replace(files=2, unpacked=2), str(tmp_path / "out"), lambda _done, _all: None)
    assert [one.name for one in tmp_path.iterdir()] == ["a.zip"], "nothing was written, not even the good file"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ((member("a", 0o120777),), "a link"),
        ((member("a", 0o010644),), "not an ordinary file"),
        ((member("a/", 0o040755),), "not an ordinary file"),
        (("a.py", "a.py"), "twice"),
        (("a.py", "A.PY"), "twice"),
        (("ü", "u\N{COMBINING DIAERESIS}"), "twice"),
        (("a", "a/b"), "both a file and a folder"),
        (("a/b", "A"), "both a file and a folder"),
    ],
)
def test_what_is_no_plain_file_of_one_name_is_refused(
    tmp_path: Path, members: tuple[str | zipfile.ZipInfo, ...], why: str
) -> None:
    infos = zipped(tmp_path / "a.zip", *((one, b"1") for one in members))
    with pytest.raises(UpdateError, match=why):
        unpacking.check(infos, GOOD._replace(files=len(infos), unpacked=len(infos)))


def test_an_archive_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    path, out = tmp_path / "a.zip", tmp_path / "out"
    infos = zipped(path, ("a", b"12345"), ("b", b"1"))
    with pytest.raises(UpdateError, match="it holds 2 files and not 1"):
        unpacking.check(infos, GOOD._replace(files=1, unpacked=6))
    with pytest.raises(UpdateError, match="unpacks to 6 bytes and not 10"):
        unpacking.check(infos, GOOD._replace(files=2))
    # The size of "b" in both headers says 1, and its data is more.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b", b"1" * 100_000)
    data = bytearray(path.read_bytes())
    for at in (22, data.rindex(b"PK\x01\x02") + 24):
        data[at : at + 4] = (1).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UpdateError):
        unpacking.unpack(str(path), GOOD._replace(files=1, unpacked=1), str(out), lambda _done, _all: None)
    assert sum(one.stat().st_size for one in out.rglob("*")) <= 1


def test_an_archive_of_another_version_than_its_manifest_says_is_refused(package: Package) -> None:
    note = json.dumps({"kind": "test", "target": TARGET, "version": "0.9.0"}).encode()
    package.offer("0.2.0", {places.PACKAGE_NOTE: note})
    assert package.refused()[0] == "bad-archive"
    assert not (package.versions / "0.2.0").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"app/halftone/deep/er.py": b"def broken(:\n"}, "halftone.deep.er does not load: SyntaxError"),
        ({"app/halftone/broken.py": b"raise SystemExit(0)\n"}, "exit status 0"),
        ({"app/halftone/__init__.py": b'__version__ = "0.1.9"\n'}, "it calls itself version 0.1.9"),
        ({"resources/large.bin": None}, "its folder resources is missing"),
        ({"installer/start.py": b"def start(words):\n    return 0\n"}, "exit status 0"),
    ],
)
def test_a_version_that_fails_its_self_check_is_removed(package: Package, change: dict[str, bytes | None], why: str) -> None:
    package.updated("0.2.0")
    package.offer("0.3.0", change)
    code, values = package.refused()
    assert (code, values[0]) == ("self-check", "0.3.0")
    assert why in values[1]
    assert package.started() == "0.2.0"
    assert versions.kept(str(package.versions)) == ["0.2.0"]
    assert not (package.versions / "0.3.0").exists()


def test_what_a_module_prints_at_its_end_does_not_refuse_a_good_version(package: Package) -> None:
    prints = b"import atexit\nprint('{\"loading\": 1}')\natexit.register(print, 'goodbye')\natexit.register(print, '[]')\n"
    package.offer("0.2.0", {"app/halftone/deep/er.py": prints})
    done = package.update()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert package.started() == "0.2.0"


def test_a_self_check_that_hangs_and_prints_nothing_is_ended(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    from installer.updates import install
    from installer.updates.command import silent

    pid = package.home / "pid"
    waits = b"import os, time\nopen(os.environ['PID'], 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    package.offer("0.2.0", {"app/halftone/deep/er.py": waits})
    monkeypatch.setattr(install, "_LIMIT", 4.0)
    place = install.here(package.environ() | {"PID": str(pid)}, str(package.root))
    found = install.look(place, str(package.offers), base64.b64decode(package.keys.line))
    with pytest.raises(UpdateError, match="it did not end within 4 seconds"):
        install.install(place, found, silent())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert not (package.versions / "0.2.0").exists()
    assert package.started() == "0.1.0"


# --- the disk and others on it -----------------------------------------------------------------------------------------------


def test_two_updates_at_once(package: Package) -> None:
    waits = b"import os, time\nwhile not os.path.exists(os.environ['GO_ON']):\n    time.sleep(0.01)\n"
    package.offer("0.2.0", {"app/halftone/deep/er.py": waits})
    go_on = package.home / "go on"
    command = package.command("--from", str(package.offers), "--yes", "--json", "--progress")
    environ = package.environ() | {"GO_ON": str(go_on)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        while json.loads(first.stderr.readline())["stage"] != "self-check":
            pass
        assert package.refused() == ("busy", [])
        go_on.touch()
        assert json.loads(first.communicate()[0])["installed"] is True
    assert package.started() == "0.2.0"


def test_a_stopped_update_leaves_nothing_and_no_process(package: Package) -> None:
    waits = b"import os, time\nopen(os.environ['PID'], 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    package.offer("0.2.0", {"app/halftone/deep/er.py": waits})
    pid = package.home / "pid"
    command = package.command("--from", str(package.offers), "--yes", "--json", "--progress")
    environ = package.environ() | {"PID": str(pid)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as update:
        while not pid.exists() or not pid.read_text():
            assert update.poll() is None
        update.terminate()
        output = update.communicate()[0]
    assert update.returncode == 130
    assert json.loads(output)["error"]["code"] == "stopped"
    assert {one.name for one in package.versions.iterdir()} == {"update.lock"}
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_lock_that_cannot_be_opened_does_not_fail_an_update_that_is_in(package: Package) -> None:
    """A folder stands for the lock that root left after a set-up with sudo."""
    package.updated("0.2.0")
    (package.home / guard.LOCK).unlink(missing_ok=True)
    (package.home / guard.LOCK).mkdir()
    package.updated("0.3.0")
    assert package.started() == "0.3.0"


def test_an_update_does_not_wait_for_a_set_up(package: Package) -> None:
    import fcntl

    package.updated("0.2.0")
    with open(package.home / guard.LOCK, "a+b") as setting_up:
        fcntl.flock(setting_up, fcntl.LOCK_EX)
        package.offer("0.3.0")
        command = package.command("--from", str(package.offers), "--yes")
        assert subprocess.run(command, env=package.environ(), capture_output=True, check=False, timeout=60).returncode == 0
    assert package.started() == "0.3.0"


def test_a_stop_after_the_switch_comes_too_late(package: Package) -> None:
    """It comes when the archive is deleted, which is after the switch."""
    package.offer("0.2.0")
    stops = (
        "import os, signal, sys\n"
        "def watch(event, arguments):\n"
        "    if event == 'os.remove' and 'download-' in str(arguments[0]):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(watch)\n"
    )
    command = (sys.executable, "-I", "-c", stops + RUN, str(package.root), "--from", str(package.offers), "--yes")
    done = subprocess.run(command, env=package.environ(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Version 0.2.0 is installed" in done.stdout
    assert package.started() == "0.2.0"


def test_a_full_disk_leaves_the_version_in_use(package: Package) -> None:
    """No file may pass this length, which the system refuses as it refuses writing to a full disk."""
    package.updated("0.2.0")
    package.offer("0.3.0")
    command = package.command("--from", str(package.offers), "--yes", "--json")
    limit = len(program("0.3.0")["resources/large.bin"].data) // 2
    done = subprocess.run(
        command, env=package.environ(), capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    assert json.loads(done.stdout)["error"]["code"] == "disk-full", done.stderr
    assert package.started() == "0.2.0"
    assert versions.kept(str(package.versions)) == ["0.2.0"]
    assert not list(package.versions.glob("download-*"))


def test_too_little_space_is_said_before_anything_is_fetched(package: Package) -> None:
    from installer.updates import install

    free = shutil.disk_usage(package.home).free
    with pytest.raises(UpdateError, match=r"needs \d+ MB free .* nothing was changed"):
        install._need_space(str(package.home), free * 2)


def test_a_folder_that_cannot_be_written_to_is_said(package: Package, tmp_path: Path) -> None:
    package.offer("0.2.0")
    (package.home / versions.FOLDER).write_text("a file in its place", encoding="ascii")
    code, values = package.refused()
    assert (code, values[0]) == ("not-written", str(package.versions))
    assert package.started() == "0.1.0"


def test_a_damaged_version_that_is_in_use_is_not_replaced(package: Package) -> None:
    """A program that runs holds the mark of its version."""
    package.updated("0.2.0")
    (package.versions / "0.2.0" / "app/halftone/__init__.py").unlink()
    holder = os.open(package.versions / "0.2.0" / places.IN_USE, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(holder, fcntl.LOCK_SH)
        assert package.refused() == ("in-use", ["0.2.0"])
    finally:
        os.close(holder)
    assert package.update().returncode == 0


def test_a_changed_offer_is_not_installed(package: Package) -> None:
    package.offer("0.2.0")
    assert package.refused("--agreed", "0" * 64)[0] == "changed"


# --- over the network --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "manifest", "archive"),
    [
        ("https://h.example/u", "https://h.example/u/halftone-t-x.update", "https://h.example/u/a.zip"),
        ("https://h.example", "https://h.example/halftone-t-x.update", "https://h.example/a.zip"),
        ("https://h.example/u?key=a/b", "https://h.example/u/halftone-t-x.update?key=a/b", "https://h.example/u/a.zip?key=a/b"),
        ("https://h.example/o.update?k=1#x", "https://h.example/o.update?k=1#x", "https://h.example/a.zip?k=1"),
        ("https://h\u00f6st:8443/\u00fc b/%20", "https://xn--hst-sna:8443/%C3%BC%20b/%20/halftone-t-x.update",
         "https://xn--hst-sna:8443/%C3%BC%20b/%20/a.zip"),
        ("https://[::1]:1/u", "https://[::1]:1/u/halftone-t-x.update", "https://[::1]:1/u/a.zip"),
    ],
)  # fmt: skip
def test_both_files_of_an_address(words: str, manifest: str, archive: str) -> None:
    source = sources.source_of(words, "t-x")
    assert (source.manifest, source.beside("a.zip")) == (manifest, archive)


def test_a_password_in_an_address_is_refused_and_not_shown(package: Package) -> None:
    done = package.update("--json", place="https://me:secret@localhost:1/")
    assert json.loads(done.stdout)["error"]["code"] == "password"
    assert "secret" not in done.stdout + done.stderr


class Server(NamedTuple):
    """address: of the folder that it serves; certificate: to be trusted; asked: paths."""

    address: str
    certificate: Path
    asked: list[str]


@pytest.fixture
def server(package: Package, tmp_path: Path) -> Iterator[Server]:
    """An HTTPS server of the offers, with a certificate of its own; /plain/ redirects to HTTP."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "tls.pem"
    request = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    more = ("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate))
    subprocess.run((*request, *more), check=True, capture_output=True)
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words, directory=str(package.offers))

        def do_GET(self) -> None:
            asked.append(self.path)
            if self.path.startswith("/plain/"):
                self.send_response(302)
                self.send_header("Location", f"http://localhost:1{self.path}")
                self.end_headers()
            else:
                super().do_GET()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the library's name)
            pass

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that does not trust the certificate hangs up, which is what it should do."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Quiet(("127.0.0.1", 0), Handler) as served:
        served.socket = context.wrap_socket(served.socket, server_side=True)
        thread = threading.Thread(target=served.serve_forever, args=(0.05,))
        thread.start()
        yield Server(f"https://localhost:{served.server_address[1]}", certificate, asked)
        served.shutdown()
        thread.join()


def test_an_update_comes_over_https_and_only_when_it_is_asked_for(
    package: Package, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = package.offer("0.2.0")
    for proxy in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    assert package.refused(place=server.address)[0] == "unreachable", "the certificate is not trusted"
    assert server.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    package.started()
    assert server.asked == []
    assert package.update("--check", place=server.address).returncode == 0
    names = [f"/{Path(path).name}" for path in made]
    assert server.asked == names[:1], "a check reads the manifest alone"
    assert package.refused(place=f"{server.address}/plain")[0] == "unreachable"
    assert package.refused(place=f"{server.address}/none")[1][1] == "File not found"
    server.asked.clear()
    done = package.update(place=f"{server.address}{names[0]}")
    assert (done.returncode, done.stderr) == (0, "")
    assert server.asked == names
    assert package.started() == "0.2.0"


# --- environments ------------------------------------------------------------------------------------------------------------


def test_another_lock_is_said_and_its_failure_changes_nothing(package: Package) -> None:
    """The uv of the new version fails, so its environment cannot be built."""
    package.updated("0.2.0")
    uv = b"#!/bin/sh\ncase $1 in --version) echo uv 0.13.8;; *) echo No space left on device; exit 1;; esac\n"
    package.offer("0.3.0", {"installer/requirements.lock": b"another==1.0\n", "uv/uv": uv})
    assert json.loads(package.update("--check", "--json").stdout)["found"]["environment"] is True
    code, values = package.refused()
    assert (code, values[0]) == ("environment", "0.3.0")
    assert "because there is not enough space on the disk" in values[1]
    assert package.started() == "0.2.0"
    assert [path.name for path in package.home.glob("env-*")] == ["env-00000001"]


UV = f"""#!/bin/sh
case "$1" in
--version) echo uv 0.13.8;;
venv) for last in "$@"; do :; done; {sys.executable} -m venv --without-pip "$last";;
esac
""".encode()
VERIFY = b"""NO_CODE = 4
if __name__ == "__main__":
    print('{"torch": "9.9", "device": "cpu", "name": "x", "note": ""}')
"""
"""With them an environment is built at once: both do nothing but that."""


def test_an_environment_that_a_failed_update_built_gives_way(package: Package) -> None:
    package.updated("0.2.0")
    parts = {"installer/requirements.lock": b"another==1.0\n", "uv/uv": UV, "installer/verify.py": VERIFY}
    package.offer("0.3.0", {**parts, "app/halftone/broken.py": b"raise ValueError('x')\n"})
    assert package.refused()[0] == "self-check"
    assert [path.name for path in package.home.glob("env-*")] == ["env-00000001"]
    assert package.started() == "0.2.0"


def test_an_environment_that_was_set_up_meanwhile_stays(package: Package) -> None:
    """The update needs none of its own and fails; meanwhile the user runs the set-up again."""
    for name, data in (("uv/uv", UV), ("installer/verify.py", VERIFY)):
        path = package.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755)
    waits = b"import os, time\nwhile not os.path.exists(os.environ['GO_ON']):\n    time.sleep(0.01)\nraise ValueError('x')\n"
    package.offer("0.2.0", {"app/halftone/deep/er.py": waits})
    go_on = package.home / "go on"
    command = package.command("--from", str(package.offers), "--yes", "--json", "--progress")
    environ = package.environ() | {"GO_ON": str(go_on)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as update:
        assert update.stderr is not None
        while json.loads(update.stderr.readline())["stage"] != "self-check":
            pass
        assert package.start("setup").returncode == 0
        made = (package.home / places.POINTER).read_text(encoding="utf-8")
        go_on.touch()
        assert json.loads(update.communicate()[0])["error"]["code"] == "self-check"
    assert made != "env-00000001\n"
    assert (package.home / places.POINTER).read_text(encoding="utf-8") == made
    assert package.started() == "0.1.0"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_killed_update_ends_the_set_up_that_it_began(package: Package) -> None:
    """The kill cannot be heard, so the set-up watches its input, which ends with the update."""
    uv = b'#!/bin/sh\ncase $1 in --version) echo uv 0.13.8;; *) echo $$ > "$PID"; exec sleep 60;; esac\n'
    package.offer("0.2.0", {"installer/requirements.lock": b"another==1.0\n", "uv/uv": uv})
    pid = package.home / "pid"
    command = package.command("--from", str(package.offers), "--yes", "--json")
    with subprocess.Popen(command, env=package.environ() | {"PID": str(pid)}, stdout=subprocess.DEVNULL) as update:
        while not pid.exists() or not pid.read_text():
            assert update.poll() is None
        update.kill()
    number, end = int(pid.read_text()), time.monotonic() + 30
    while Path(f"/proc/{number}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{number}").exists()
    assert package.started() == "0.1.0"


def test_a_lock_whose_environment_is_there_builds_none(package: Package) -> None:
    """As after going back to the package: its environment and that of the update lie side by side."""
    lock = b"another==1.0\n"
    package.offer("0.2.0", {"installer/requirements.lock": lock})
    found = json.loads(Path(package.offers, f"halftone-{TARGET}.update").read_bytes().partition(b"\n")[2])
    package.add_environment("env-00000002", found["lock"])
    assert json.loads(package.update("--check", "--json").stdout)["found"]["environment"] is False
    assert package.update().returncode == 0
    assert package.started() == "0.2.0"
    assert {path.name for path in package.home.glob("env-*")} == {"env-00000001", "env-00000002"}, "the package needs its own"
    shutil.rmtree(package.versions / "0.2.0")
    assert json.loads(package.start().stdout)[0] == "0.1.0"


def test_without_an_environment_the_launcher_updates(package: Package) -> None:
    package.updated("0.2.0")
    shutil.rmtree(package.home / "env-00000001")
    package.offer("0.3.0")
    done = package.start("update", "--check", "--from", str(package.offers))
    assert "Version 0.3.0" in done.stdout, done.stderr
    assert "A new environment will be built" in done.stdout


def test_an_old_console_shows_what_it_can(package: Package) -> None:
    package.offer("0.2.0")
    command = package.command("--from", str(package.offers), "--yes")
    latin = package.environ() | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run((command[0], *command[2:]), env=latin, capture_output=True, encoding="latin-1", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Checking the new version ?" in done.stdout


def test_a_reader_that_leaves_does_not_end_the_update(package: Package) -> None:
    package.offer("0.2.0")
    command = package.command("--from", str(package.offers), "--yes")
    with subprocess.Popen(command, env=package.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as update:
        assert update.stdout is not None
        assert update.stderr is not None
        update.stdout.readline()
        update.stdout.close()
        assert update.stderr.read() == ""
    assert update.returncode == 0
    assert package.started() == "0.2.0"


def test_with_a_broken_environment_the_launcher_updates(package: Package) -> None:
    """It looks whole, but the program does not start in it."""
    package.updated("0.2.0")
    (package.versions / "0.2.0" / "app/halftone/__main__.py").write_text("import typer_that_is_gone\n", encoding="ascii")
    record = package.versions / "0.2.0" / versions.RECORD
    rows = json.loads(record.read_text(encoding="utf-8"))
    del rows["files"]["app/halftone/__main__.py"]  # so that the version itself is whole
    record.write_text(json.dumps(rows), encoding="utf-8")
    assert package.start().returncode == 1
    package.offer("0.3.0")
    for words in (("--from", str(package.offers)), (f"--from={package.offers}",)):
        done = package.start("update", "--check", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Version 0.3.0" in done.stdout
    assert package.start("update", "--yes", "--from", str(package.offers)).returncode == 0
    assert package.started() == "0.3.0"


# --- making them -------------------------------------------------------------------------------------------------------------


def test_an_update_is_equal_to_the_byte_twice(package: Package, tmp_path: Path, keys: Keys) -> None:
    made = [
        maker.write(program("0.2.0"), TARGET, Release("0.2.0", EPOCH, "a" * 40), str(tmp_path / name), keys.private, {})
        for name in "ab"
    ]
    for one, other in zip(*made, strict=True):
        assert Path(one).read_bytes() == Path(other).read_bytes()


def test_the_tool_says_what_it_lacks(tmp_path: Path, keys: Keys) -> None:
    with pytest.raises(LaunchError, match="openssl genpkey"):
        maker.key_line("")
    with pytest.raises(LaunchError, match="openssl pkey failed"):
        maker.key_line(str(_text(tmp_path)))
    rsa = tmp_path / "rsa.pem"
    subprocess.run(("openssl", "genrsa", "-out", str(rsa), "1024"), check=True, capture_output=True)
    with pytest.raises(LaunchError, match="is not an Ed25519 key"):
        maker.key_line(str(rsa))
    with pytest.raises(UpdateError, match="has no update key"):
        maker.build("", TARGET, Release("0.2.0", EPOCH, ""), str(tmp_path), keys.private, {})
    with pytest.raises(LaunchError, match="could not be read"):
        maker.notes({"en": str(tmp_path / "none.txt")})


def _text(folder: Path) -> Path:
    path = folder / "text.pem"
    path.write_text("no key", encoding="ascii")
    return path
